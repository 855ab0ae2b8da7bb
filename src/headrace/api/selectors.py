"""Label and field selectors: what they mean, and the grammar that kubectl writes them in, with Kubernetes' errors.

Source: k8s.io/apimachinery/pkg/labels and pkg/fields.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.api.limits import SELECTOR_BYTES

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]


class BadSelector(ValueError):
    """The selector cannot be understood; the message says where and what would be right."""


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                number, bound = int64(value or ""), int64(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator == "gt" else number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none means everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        labels = labels or {}
        for requirement in self.requirements:  # noqa: SIM110 - runs for each object of a list: all() costs twice as much
            if not requirement.matches(labels):
                return False
        return True


def int64(text: str) -> int | None:
    """As Go's ParseInt(text, 10, 64) reads it, None where that refuses. (Python's int() takes more, such as `1_0`.)"""
    match = _INTEGER.fullmatch(text)
    found = int(match[1] + match[2]) if match else None
    return found if found is not None and -(2**63) <= found < 2**63 else None


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

NAME_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
PREFIX_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def qualified_name_errors(text: str) -> list[str]:
    """What is wrong with a label key, annotation key or resource name, in Kubernetes' words."""
    errors: list[str] = []
    prefix, slash, name = text.partition("/")
    if slash:
        if "/" in name:
            return [
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
                "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and "
                "'/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            if len(prefix) > 253:
                errors.append("prefix part must be no more than 253 bytes")
            if not _SUBDOMAIN.fullmatch(prefix):
                errors.append(f"prefix part {PREFIX_WORDS}")
    else:
        name = prefix
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        errors.append(NAME_WORDS)
    return errors


def label_value_errors(text: str) -> list[str]:
    errors = []
    if len(text) > 63:
        errors.append("must be no more than 63 bytes")
    if not _VALUE.fullmatch(text):
        errors.append(VALUE_WORDS)
    return errors


# ---------------------------------------------------------------------------------------------------------- grammar

_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
_WORD_OPERATORS = {"in", "notin"}


def parse_labels(text: str) -> Selector:
    """Read `app=web,tier notin (a, b),!old`. Raises BadSelector."""
    if len(text) > SELECTOR_BYTES:
        raise BadSelector(f"selector of {len(text)} characters: must have at most {SELECTOR_BYTES}")
    tokens = _tokens(text)
    requirements = []
    at = 0
    while tokens[at]:
        requirement, at = _requirement(tokens, at)
        requirements.append(requirement)
        if tokens[at] == ",":
            at += 1
            if not tokens[at] or tokens[at] in (",", ")"):
                raise BadSelector(f"found '{tokens[at]}', expected: identifier after ','")
        elif tokens[at]:
            raise BadSelector(f"found '{tokens[at]}', expected: ',' or 'end of string'")
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadSelector(f"unable to parse requirement: found '{text[at:]}'")
        tokens.append(found.group(1))
        at = found.end()
    # Two ends, so that one token of look-ahead is always there.
    return [*tokens, "", ""]


def _requirement(tokens: list[str], at: int) -> tuple[Requirement, int]:
    absent = tokens[at] == "!"
    at += absent
    key = tokens[at]
    if not key or key in ("=", "==", "!=", "(", ")", ",", "<", ">", "!"):
        raise BadSelector(f"unable to parse requirement: found '{key}', expected: identifier")
    _check_key(key)
    at += 1
    if absent:
        return Requirement(key, "!"), at
    operator = tokens[at]
    if operator in ("", ","):
        return Requirement(key, "exists"), at
    if operator in ("=", "==", "!=", "<", ">"):
        value, at = _single(tokens, at + 1)
        _check_value(key, value)
        if operator in ("<", ">"):
            if int64(value) is None:
                raise BadSelector(
                    f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return Requirement(key, "gt" if operator == ">" else "lt", (value,)), at
        return Requirement(key, "!=" if operator == "!=" else "=", (value,)), at
    if operator not in _WORD_OPERATORS:
        raise BadSelector(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    values, at = _set(tokens, at + 1, operator)
    for value in values:
        _check_value(key, value)
    return Requirement(key, "in" if operator == "in" else "notin", values), at


def _single(tokens: list[str], at: int) -> tuple[str, int]:
    if tokens[at] in ("", ","):
        return "", at
    if tokens[at] in ("=", "==", "!=", "(", ")", "<", ">", "!"):
        raise BadSelector(f"unable to parse requirement: found '{tokens[at]}', expected: identifier")
    return tokens[at], at + 1


def _set(tokens: list[str], at: int, operator: str) -> tuple[tuple[str, ...], int]:
    if tokens[at] != "(":
        raise BadSelector(f"unable to parse requirement: found '{tokens[at]}', expected: '('")
    at += 1
    values: list[str] = []
    expecting = True
    while tokens[at] != ")":
        token = tokens[at]
        if not token:
            raise BadSelector("unable to parse requirement: found '', expected: ',' or ')'")
        if token == ",":
            if expecting:
                values.append("")
            expecting = True
        elif not expecting or token in ("=", "==", "!=", "(", "<", ">", "!"):
            raise BadSelector(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
        else:
            values.append(token)
            expecting = False
        at += 1
    if expecting:
        values.append("")
    return tuple(sorted(set(values))), at + 1


def _check_key(key: str) -> None:
    errors = qualified_name_errors(key)
    if errors:
        raise BadSelector(f'unable to parse requirement: key: Invalid value: "{key}": {"; ".join(errors)}')


def _check_value(key: str, value: str) -> None:
    errors = label_value_errors(value)
    if errors:
        raise BadSelector(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {"; ".join(errors)}'
        )


# ------------------------------------------------------------------------------------------- selectors inside objects


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """A LabelSelector as objects hold it. Absent selects nothing, empty selects everything. Raises BadSelector."""
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    operators: dict[str, Operator] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for expression in selector.get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""))
        if operator is None:
            raise BadSelector(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        requirements.append(Requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ())))
    return Selector(tuple(requirements))


# ------------------------------------------------------------------------------------------------------------ fields


@dataclass(frozen=True, slots=True)
class FieldTerm:
    path: str
    equal: bool
    value: str


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    r"""Read `status.phase!=Failed,spec.nodeName=node-a`; `\,`, `\=` and `\\` are literal. Raises BadSelector."""
    if len(text) > SELECTOR_BYTES:
        raise BadSelector(f"selector of {len(text)} characters: must have at most {SELECTOR_BYTES}")
    return tuple(_field_term(term, text) for term in _split_terms(text) if term)


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:at])
            start = at + 1
    return [*terms, text[start:]]


def _field_term(term: str, whole: str) -> FieldTerm:
    for at in range(len(term)):
        for operator in ("!=", "==", "="):
            if term.startswith(operator, at):
                return FieldTerm(term[:at], operator != "!=", _unescaped(term[at + len(operator) :]))
    raise BadSelector(f"invalid selector: '{whole}'; can't understand '{term}'")


def _unescaped(value: str) -> str:
    result, escaped = [], False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise BadSelector(f"invalid field selector: invalid escape sequence: \\{character}")
            result.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise BadSelector(f"invalid field selector: unescaped character in value: {character}")
        else:
            result.append(character)
    if escaped:
        raise BadSelector("invalid field selector: invalid escape sequence: \\")
    return "".join(result)


def fields_match(terms: Sequence[FieldTerm], read: Callable[[str], str]) -> bool:
    """Whether all terms hold; `read` gives the value of a path, "" where it is absent."""
    return all((read(term.path) == term.value) is term.equal for term in terms)
