"""Splits an expression's source into tokens (grammar: cel-go's CEL.g4). The longest token wins, as there."""

import re
from dataclasses import dataclass

from headrace.cel.errors import Issue

_HEX = "[0-9a-fA-F]"
_ESCAPE = rf"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX]{_HEX}{{2}}|u{_HEX}{{4}}|U{_HEX}{{8}})"""
_QUOTED = rf'''(?:"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\'|"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*')'''  # noqa: E501
_RAW = r'''(?:[rR]"""(?:.|\n)*?"""|[rR]\'\'\'(?:.|\n)*?\'\'\'|[rR]"[^"\n\r]*"|[rR]'[^'\n\r]*')'''
_TOKENS = (
    ("space", r"[\t \r\n\f]+|//[^\n]*"),
    ("double", r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?"),
    ("uint", rf"0x{_HEX}+[uU]|[0-9]+[uU]"),
    ("int", rf"0x{_HEX}+|[0-9]+"),
    ("bytes", rf"[bB](?:{_QUOTED}|{_RAW})"),
    ("string", rf"{_QUOTED}|{_RAW}"),
    ("name", r"[A-Za-z_][A-Za-z0-9_]*"),
    ("escaped", r"`[A-Za-z0-9_.\-/ ]+`"),
    ("mark", r"==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>]"),
)
_PATTERN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _TOKENS))
KEYWORDS = frozenset({"in", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is "mark" for punctuation and keywords, "end" at the end of the source."""

    kind: str
    text: str
    offset: int


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens and a complaint for each character that begins none."""
    found: list[Token] = []
    issues: list[Issue] = []
    offset = 0
    while offset < len(source):
        match = _PATTERN.match(source, offset)
        if match is None:
            text = _unreadable(source, offset)
            issues.append(Issue(offset, f"Syntax error: token recognition error at: '{text}'"))
            offset += len(text)
            continue
        kind = match.lastgroup or "space"
        if kind != "space":
            text = match.group()
            found.append(Token("mark" if text in KEYWORDS else kind, text, offset))
        offset = match.end()
    found.append(Token("end", "<EOF>", len(source)))
    return found, issues


def _unreadable(source: str, offset: int) -> str:
    """A string that does not end takes the rest of its line along, anything else is one character."""
    if source[offset] not in "\"'":
        return source[offset]
    return source[offset:].split("\n", 1)[0]
