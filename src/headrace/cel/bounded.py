"""Whether an expression surely stays within the cost limit where Kubernetes' estimate knows no bound of a size.

The estimate takes what a call gives for boundless, so that `memory != quantity("1")` seems to cost too much. But
without calls that let texts and lists grow, no value is larger than all that the expression names, taken together.
"""

from headrace.cel.amounts import Range
from headrace.cel.ast import Call, Ident, Literal, Node, walk
from headrace.cel.checker import Checked
from headrace.cel.closures import quantified
from headrace.cel.environment import Environment
from headrace.cel.estimate import estimate
from headrace.cel.plan import Fold, Plan, Step

_LARGEST = 64  # of an attribute's text, of a number's, and of what is on a device in one place
_SLACK = 4
_GROWING = frozenset({"replace", "join", "format", "strings.quote", "lists.range", "flatten"})


def is_surely_within(limit: int, checked: Checked, environment: Environment, plan: Plan) -> bool:
    if plan.functions & _GROWING or _gathers(plan.root):
        return False
    largest = _LARGEST + sum(map(_named, walk(checked.root)))
    return estimate(checked, environment, Range(0, largest)).high <= limit // _SLACK


def _named(node: Node) -> int:
    match node:
        case Ident() | Call():
            return _LARGEST
        case Literal(value=str() | bytes() as text):
            return 4 * len(text)
        case _:
            return 0


def _gathers(step: Step) -> bool:
    """Whether a macro makes a value that could grow with each element, or names one that could be doubled."""
    return (isinstance(step, Fold) and quantified(step) is None) or any(map(_gathers, step.parts()))
