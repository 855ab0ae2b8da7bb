"""From source to tree, macros expanded. The grammar and its limits are cel-go's; the macro table says what expands.

`-5` is one literal, `--x` and `!!x` are x, chains of && and || become balanced trees: costs depend on all three.
"""

from collections.abc import Callable, Mapping

from headrace.cel.ast import (
    Call,
    Entry,
    Field,
    Ident,
    Invalid,
    ListNode,
    Literal,
    MapNode,
    Node,
    Numbering,
    Select,
    Struct,
    qualified_name,
)
from headrace.cel.errors import Issue, compilation_failed
from headrace.cel.lexer import Token, tokens
from headrace.cel.macros import Macro, MacroError, Maker
from headrace.cel.text import InvalidText, bytes_literal, string_literal
from headrace.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

NESTING = 250
SOURCE_CHARACTERS = 100_000
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_SUMS = {"+": "_+_", "-": "_-_"}
_RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "package", "namespace", "null", "return", "true", "var", "void", "while",
    }
)  # fmt: skip
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str, macros: Mapping[tuple[str, int, bool], Macro]) -> Node:
    """The tree of an expression; raises CompileError with every issue found."""
    if len(source) > SOURCE_CHARACTERS:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {SOURCE_CHARACTERS}"
        raise compilation_failed(source, [Issue(-1, message)])
    found, issues = tokens(source)
    parser = _Parser(found, macros, issues)
    node: Node = Invalid(0, 0)
    try:
        node = parser.whole()
    except _SyntaxError as error:
        issues.append(error.issue)
    except RecursionError:
        issues.append(_too_deep())
    if issues:
        raise compilation_failed(source, issues)
    return node


class _SyntaxError(Exception):
    def __init__(self, issue: Issue) -> None:
        self.issue = issue


def _too_deep() -> Issue:
    return Issue(-1, f"Internal error: expression recursion limit exceeded: {NESTING}")


class _Parser:
    def __init__(self, found: list[Token], macros: Mapping[tuple[str, int, bool], Macro], issues: list[Issue]) -> None:
        self._tokens = found
        self._at = 0
        self._macros = macros
        self._issues = issues
        self._numbers = Numbering()
        self._depth = {"expr": 0, "relation": 0, "calc": 0, "member": 0}

    def whole(self) -> Node:
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected("<EOF>")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _is(self, mark: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "mark" and token.text == mark

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, mark: str) -> Token | None:
        return self._take() if self._is(mark) else None

    def _expect(self, mark: str) -> Token:
        if self._token.kind == "end":
            raise _SyntaxError(Issue(self._token.offset, f"Syntax error: missing '{mark}' at '<EOF>'"))
        if not self._is(mark):
            raise self._unexpected(f"'{mark}'")
        return self._take()

    def _unexpected(self, wanted: str) -> _SyntaxError:
        token = self._token
        return _SyntaxError(Issue(token.offset, f"Syntax error: mismatched input '{token.text}' expecting {wanted}"))

    def _enter(self, rule: str, by: int = 1) -> None:
        self._depth[rule] += by
        if self._depth[rule] > NESTING:
            raise _SyntaxError(_too_deep())

    def _issue(self, offset: int, message: str) -> Node:
        self._issues.append(Issue(offset, message))
        return Invalid(self._numbers.take(), offset)

    def _call(self, offset: int, function: str, *arguments: Node) -> Node:
        return Call(self._numbers.take(), offset, function, None, list(arguments))

    def _expression(self) -> Node:
        self._enter("expr")
        node = self._logic("||", "_||_", lambda: self._logic("&&", "_&&_", self._relation))
        if question := self._accept("?"):
            yes = self._logic("||", "_||_", lambda: self._logic("&&", "_&&_", self._relation))
            self._expect(":")
            node = self._call(question.offset, "_?_:_", node, yes, self._expression())
        self._depth["expr"] -= 1
        return node

    def _logic(self, mark: str, function: str, operand: Callable[[], Node]) -> Node:
        terms, places = [operand()], []
        while token := self._accept(mark):
            places.append(token.offset)
            terms.append(operand())
        return self._balanced(function, terms, places, 0, len(places) - 1) if places else terms[0]

    def _balanced(self, function: str, terms: list[Node], places: list[int], low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balanced(function, terms, places, low, middle - 1)
        right = terms[middle + 1] if middle == high else self._balanced(function, terms, places, middle + 1, high)
        return self._call(places[middle], function, left, right)

    def _relation(self) -> Node:
        return self._chain("relation", _RELATIONS, self._sum)

    def _sum(self) -> Node:
        return self._chain("calc", _SUMS, lambda: self._chain("calc", _PRODUCTS, self._unary))

    def _chain(self, rule: str, operators: Mapping[str, str], operand: Callable[[], Node]) -> Node:
        node, length = operand(), 0
        while self._token.kind == "mark" and self._token.text in operators:
            token = self._take()
            self._enter(rule)
            length += 1
            node = self._call(token.offset, operators[token.text], node, operand())
        self._depth[rule] -= length
        return node

    def _unary(self) -> Node:
        for mark, function in (("!", "!_"), ("-", "-_")):
            if not self._is(mark) or (mark == "-" and self._tokens[self._at + 1].kind in ("int", "double")):
                continue
            first, count = self._take(), 1
            while self._accept(mark):
                count += 1
            node = self._member()
            return self._call(first.offset, function, node) if count % 2 else node
        return self._member()

    def _member(self) -> Node:
        node, length = self._primary(), 0
        while True:
            if dot := self._accept("."):
                optional = self._accept("?") is not None
                name = self._token
                if name.kind == "escaped":
                    return self._issue(name.offset, "unsupported syntax: '`'")
                if name.kind != "name":
                    raise self._unexpected("IDENTIFIER")
                self._take()
                opening = None if optional else self._accept("(")
                if opening:
                    node = self._method(opening.offset, name.text, node, self._arguments(")"))
                elif optional:
                    field = Literal(self._numbers.take(), name.offset, name.text)
                    node = self._call(dot.offset, "_?._", node, field)
                else:
                    node = Select(self._numbers.take(), dot.offset, node, name.text)
            elif bracket := self._accept("["):
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self._expression()
                self._expect("]")
                node = self._call(bracket.offset, function, node, index)
            elif self._is("{") and (message := qualified_name(node)) is not None:
                node = self._struct(message)
            else:
                self._depth["member"] -= length
                return node
            length += 1
            self._enter("member")

    def _primary(self) -> Node:
        token = self._token
        if token.kind != "mark":
            return self._named("") if token.kind == "name" else self._literal("")
        match token.text:
            case "(":
                self._take()
                node = self._expression()
                self._expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case ".":
                self._take()
                return self._named(".")
            case "-":
                self._take()
                return self._literal("-")
            case "true" | "false":
                self._take()
                return Literal(self._numbers.take(), token.offset, token.text == "true")
            case "null":
                self._take()
                return Literal(self._numbers.take(), token.offset, None)
        raise self._unexpected(_OPERAND)

    def _named(self, dot: str) -> Node:
        token = self._token
        if token.kind != "name":
            raise self._unexpected("IDENTIFIER")
        self._take()
        if token.text in _RESERVED:
            if self._accept("("):
                self._arguments(")")
            return self._issue(token.offset - len(dot), f"reserved identifier: {token.text}")
        if opening := self._accept("("):
            return self._method(opening.offset, dot + token.text, None, self._arguments(")"))
        return Ident(self._numbers.take(), token.offset, dot + token.text)

    def _literal(self, sign: str) -> Node:
        token = self._token
        text = sign + token.text
        offset = token.offset if not sign else self._tokens[self._at - 1].offset
        number = self._numbers.take()
        self._take()
        match token.kind:
            case "int":
                integer = int(text.replace("0x", "", 1), 16) if "0x" in text else int(text)
                return (
                    Literal(number, offset, integer)
                    if INT_MIN <= integer <= INT_MAX
                    else self._issue(offset, "invalid int literal")
                )
            case "uint" if not sign:
                integer = int(text[2:-1], 16) if text.startswith("0x") else int(text[:-1])
                return (
                    Literal(number, offset, Uint(integer))
                    if integer <= UINT_MAX
                    else self._issue(offset, "invalid uint literal")
                )
            case "double":
                value = float(text)
                return (
                    self._issue(offset, "invalid double literal")
                    if value in (float("inf"), float("-inf"))
                    else Literal(number, offset, value)
                )
            case "string" | "bytes" if not sign:
                try:
                    content = string_literal(text) if token.kind == "string" else bytes_literal(text[1:])
                except InvalidText as error:
                    return self._issue(offset, str(error))
                return Literal(number, offset, content)
        self._at -= 1
        raise self._unexpected(_OPERAND)

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        if not self._is(closing):
            found.append(self._expression())
            while self._accept(","):
                found.append(self._expression())
        self._expect(closing)
        return found

    def _list(self) -> Node:
        opening = self._take()
        number = self._numbers.take()
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._is(",") and not elements:
                self._take()
                break
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListNode(number, opening.offset, elements, frozenset(optional))

    def _map(self) -> Node:
        opening = self._take()
        number = self._numbers.take()
        entries: list[Entry] = []
        while not self._is("}"):
            if self._is(",") and not entries:
                self._take()
                break
            optional = self._accept("?") is not None
            key = self._expression()
            colon = self._expect(":")
            entries.append(Entry(self._numbers.take(), colon.offset, key, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return MapNode(number, opening.offset, entries)

    def _struct(self, name: str) -> Node:
        opening = self._take()
        fields: list[Field] = []
        while not self._is("}"):
            if self._is(",") and not fields:
                self._take()
                break
            optional = self._accept("?") is not None
            token = self._token
            if token.kind != "name":
                raise self._unexpected("IDENTIFIER")
            self._take()
            colon = self._expect(":")
            fields.append(Field(self._numbers.take(), colon.offset, token.text, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return Struct(self._numbers.take(), opening.offset, name, fields)

    def _method(self, offset: int, function: str, target: Node | None, arguments: list[Node]) -> Node:
        macro = self._macros.get((function, len(arguments), target is not None))
        if macro is not None:
            try:
                expanded = macro(Maker(self._numbers, offset), target, arguments)
            except MacroError as error:
                return self._issue(error.offset, error.message)
            if expanded is not None:
                return expanded
        return Call(self._numbers.take(), offset, function, target, arguments)
