"""The one exception of an allocation: an error in Kubernetes' words, which ends the attempt."""


class Failure(Exception):
    """`kind` is a short stable name of the fault; the text is what Kubernetes prints.

    A fatal failure ends the Pod's attempt on all nodes; one that is not fatal rules out its node alone.
    """

    def __init__(self, kind: str, text: str, *, fatal: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.fatal = fatal
