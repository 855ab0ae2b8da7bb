"""Which form of an answer the Accept header asks for."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from headrace.apiserver.statuses import Failure

Form = Literal["json", "yaml", "table", "metadata", "discovery"]
_AS: dict[tuple[str, str, str], Form] = {
    ("Table", "v1", "meta.k8s.io"): "table",
    ("PartialObjectMetadata", "v1", "meta.k8s.io"): "metadata",
    ("PartialObjectMetadataList", "v1", "meta.k8s.io"): "metadata",
    ("APIGroupDiscoveryList", "v2", "apidiscovery.k8s.io"): "discovery",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The forms a client takes, best first."""

    forms: tuple[Form, ...]

    def among(self, offered: frozenset[Form]) -> Form:
        """The client's best form that is offered. Raises a 406 Failure."""
        for form in self.forms:
            if form in offered:
                return form
        raise Failure(
            406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml"
        )


@lru_cache(maxsize=256)
def accepted(header: str) -> Accepted:
    forms: list[Form] = []
    for entry in (header or "*/*").split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        named = dict(part.partition("=")[::2] for part in parameters)
        if "as" in named:
            form = _AS.get((named["as"], named.get("v", ""), named.get("g", "")))
            if form is not None and media == "application/json":
                forms.append(form)
        elif media in ("application/json", "application/*", "*/*"):
            forms.append("json")
        elif media in ("application/yaml", "application/x-yaml"):
            forms.append("yaml")
    return Accepted(tuple(forms))


OBJECTS: frozenset[Form] = frozenset({"json", "yaml", "table", "metadata"})
DISCOVERY: frozenset[Form] = frozenset({"json", "discovery"})
