"""Random device selectors and devices, made from the declared functions, so that a new function is covered at once.

Most expressions are well typed; some are spoilt on purpose, and attributes are of any type, as they are on devices.
"""

import random
from typing import Any

from headrace.cel import types
from headrace.cel.declarations import Overload
from headrace.cel.environment import STORED
from headrace.cel.types import Type
from headrace.cel.unify import substitute

STRINGS = [
    "", "A100", "A", "gpu.example.com", "model", "é-x", "0", "1", "-5", "1.5", "true", "αβγ-42", "10.1.2.3", "fe80::1",
    "::ffff:1.2.3.4", "10.0.0.0/8", "10.1.2.3/16", "fe80::/10", "1.2.3", "1.2.3-rc.1+b", "v1.2", "01.2.3", "80Gi",
    "500m", "1.5Gi", "1e3", "0.1u", "x,y,z", "a b", "https://gpu.example.com:8443/v1?x=1&y=2#f", "/p%20q?a=1",
    "mailto:x@y", "https://[fe80::1]:80/", "2024-01-02T03:04:05Z", "2024-02-30T00:00:00Z", "1h30m", "-1.5s", "90s",
    "2023-12-31T23:59:59.5+02:00", "[a-z]+", "^A", "a|b", "(", "\\d+", "%s", "%d-%s", "%.2f", "%x", "2024-01-02",
    "YQ==", "b9fcd7a6-5a5f-4a1f-8b1d-1c2d3e4f5a6b", "UTC", "America/New_York", "+05:30", "my-name", "a.b",
    "example.com/Name", " pad ", "line\nbreak", "😀", "ß",
    "dns1123Label", "uuid", "99999999999999999999.0.0", "::1", "1:2:3:4:5:6:7:8",
]  # fmt: skip
INTEGERS = [0, 1, 2, 3, -1, 5, 7, 10, 64, 1000, 2**31, 2**63 - 1, -(2**63)]
DOUBLES = ["0.0", "1.0", "1.5", "-2.5", "1e3", "1e21", "1.0e-7", "9223372036854775807.0", "123456.789"]
DOMAINS = ["gpu.example.com", "resource.kubernetes.io", "other.example.com", "nope"]
NAMES = [
    "model", "driverVersion", "numaNode", "mig", "uuid", "index", "endpoint", "addr", "firmware", "missing", "zones",
    "ports", "serial",
]  # fmt: skip
CAPACITIES = ["memory", "cores", "bandwidth", "slots", "missing"]
INTERNAL = frozenset(
    {
        "@not_strictly_false",
        "@sortByAssociatedKeys",
        "cel.@mapInsert",
        "_[?_]",
        "_?._",
        "_?_:_",
        "_[_]",
        "or",
        "orValue",
    }
)
SIMPLE = [types.BOOL, types.INT, types.STRING, types.DOUBLE, types.UINT, types.QUANTITY, types.SEMVER, types.DYN,
          types.DURATION, types.TIMESTAMP, types.BYTES, types.IP, types.CIDR, types.URL]  # fmt: skip
OPERATORS = {
    "_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=",
    "_==_": "==", "_!=_": "!=", "_&&_": "&&", "_||_": "||", "@in": "in",
}  # fmt: skip


FROM_DEVICE = frozenset({types.BOOL, types.INT, types.STRING, types.QUANTITY, types.SEMVER})


def _calls(function: str, *texts: str) -> list[str]:
    return [f'{function}("{text}")' for text in texts]


LITERALS: dict[Type, list[str]] = {
    types.BOOL: ["true", "false", "device.allowMultipleAllocations", "has(device.attributes.x)"]
    + ['has((device.allowMultipleAllocations ? device.attributes : device.attributes)["gpu.example.com"].model)']
    + ['has(device.attributes[?"gpu.example.com"].model)', 'has(device.attributes["gpu.example.com"].?model.x)']
    + [f'has(device.attributes["gpu.example.com"].{name})' for name in NAMES[:4]]
    + [f'"{name}" in device.attributes["gpu.example.com"]' for name in NAMES[:4]],
    types.INT: [str(number) for number in INTEGERS],
    types.UINT: [f"{number}u" for number in (0, 1, 2, 5, 2**63, 2**64 - 1)],
    types.DOUBLE: [*DOUBLES, 'double("NaN")', 'double("Infinity")'],
    types.DURATION: _calls("duration", "1h", "1m30s", "0s", "-2.5s", "100ms", "9223372036s"),
    types.TIMESTAMP: [
        *_calls("timestamp", "2024-01-02T03:04:05Z", "2023-12-31T23:59:59.123+02:00", "9999-12-31T23:59:59Z"),
        "timestamp(0)",
    ],
    types.QUANTITY: _calls(
        "quantity", "80Gi", "1.5Gi", "500m", "1", "0", "-1", "1e3", "1000m", "2.0", "0.0000000001", "9Ei",
        "12345678901234567890123",
    ),
    types.SEMVER: _calls("semver", "1.2.3", "550.54.15", "1.2.3-rc.1", "1.2.3+b", "0.0.1", "1.2.3-1", "1.2.3-a.1"),
    types.IP: _calls("ip", "10.1.2.3", "fe80::1", "::1", "127.0.0.1", "224.0.0.1", "::", "2001:db8::1"),
    types.CIDR: _calls("cidr", "10.0.0.0/8", "10.1.2.3/16", "fe80::/10", "::/0", "192.168.1.0/24"),
    types.URL: _calls("url", "https://a.b:80/c?d=e&d=f", "/p", "http://u:p@h/x%2Fy", "https://[::1]/", "mailto:x"),
    types.FORMAT: [
        f"format.{name}()"
        for name in ("dns1123Label", "uuid", "date", "uri", "qualifiedName", "byte", "datetime", "labelValue")
    ],
}  # fmt: skip


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._scope: list[tuple[str, Type]] = []
        self._overloads: list[tuple[str, Overload]] = [
            (function.name, overload)
            for function in STORED.values()
            if function.name not in INTERNAL
            for overload in function.overloads.values()
            if not any(kind.name.startswith("kubernetes.authorization") for kind in overload.arguments)
        ]

    def expression(self) -> str:
        self._scope = []
        wanted = types.DYN if self._random.random() < 0.1 else types.BOOL
        return self._of(wanted, self._random.choice([1, 2, 2, 3, 3, 4, 5]))

    def _of(self, kind: Type, depth: int) -> str:
        pick = self._random.random()
        if pick < 0.015:
            kind = self._random.choice(SIMPLE)
        names = [name for name, known in self._scope if known == kind or pick < 0.02]
        if names and pick < 0.4:
            return self._random.choice(names)
        if depth <= 0 or pick < 0.12:
            return self._plain(kind)
        if pick < 0.31:
            return self._language(kind, depth, pick)
        made = self._macro(kind, depth) if pick < 0.45 else None
        return self._called(kind, depth) if made is None else made

    def _language(self, kind: Type, depth: int, pick: float) -> str:
        one, other = self._of(kind, depth - 1), self._of(kind, depth - 1)
        if pick < 0.19:
            return f"({self._of(types.BOOL, depth - 1)} ? {one} : {other})"
        if pick < 0.23:
            return self._bind(kind, depth)
        if pick < 0.28:
            return f"{self._optional(kind, depth)}.orValue({other})"
        if pick < 0.29:
            key = self._random.choice([types.INT, types.STRING, types.BOOL, types.UINT, types.DOUBLE])
            return f"{{{self._of(key, 0)}: {one}, {self._of(key, 0)}: {other}}}[dyn({self._of(key, 0)})]"
        return f"[{one}, {other}][{self._random.choice(['0', '1', '2', '-1', f'({self._of(types.INT, 0)})'])}]"

    def _bind(self, kind: Type, depth: int) -> str:
        bound = self._random.choice([*SIMPLE, types.list_of(types.STRING), types.list_of(types.INT)])
        name = self._random.choice(["a", "a", "b", "b", "x", "x", "device", "ip"])
        value = self._of(bound, depth - 1)
        if self._random.random() < 0.15:
            bound, value = types.list_of(types.INT), "[]"
        self._scope.append((name, bound))
        inner = self._of(kind, depth - 1)
        self._scope.pop()
        return f"cel.bind({name}, {value}, {inner})"

    def _optional(self, kind: Type, depth: int) -> str:
        match self._random.randrange(6):
            case 0:
                return f"optional.of({self._of(kind, depth - 1)})"
            case 1:
                return f'device.attributes["{self._domain()}"].?{self._random.choice(NAMES)}'
            case 2:
                return f"[{self._of(kind, depth - 1)}][?{self._random.choice(['0', '1'])}]"
            case 3:
                self._scope.append(("o", types.DYN))
                inner = self._of(kind, depth - 1)
                self._scope.pop()
                return f'device.?attributes["{self._domain()}"].?{self._random.choice(NAMES)}.optMap(o, {inner})'
            case 4:
                return f'{{"k": {self._of(kind, depth - 1)}}}[?{self._of(types.STRING, 0)}]'
            case _:
                return f"optional.none().or(optional.of({self._of(kind, depth - 1)}))"

    def _macro(self, kind: Type, depth: int) -> str | None:
        element = self._random.choice([types.INT, types.STRING, types.DYN, types.INT, types.DOUBLE, types.SEMVER])
        over = self._range(element, depth)
        name = self._random.choice(["x", "y"])
        if kind == types.BOOL:
            macro = self._random.choice(["all", "exists", "exists_one"])
            if self._random.random() < 0.25:
                inner = self._scoped([("i", types.INT), (name, element)], types.BOOL, depth)
                return f"{over}.{macro}(i, {name}, {inner})"
            return f"{over}.{macro}({name}, {self._scoped([(name, element)], types.BOOL, depth)})"
        if kind.kind == "list":
            inner_kind = kind.parameters[0]
            match self._random.randrange(5):
                case 0:
                    test = self._scoped([(name, inner_kind)], types.BOOL, depth)
                    return f"{self._range(inner_kind, depth)}.filter({name}, {test})"
                case 1:
                    test = self._scoped([(name, element)], types.BOOL, depth)
                    return f"{over}.map({name}, {test}, {self._scoped([(name, element)], inner_kind, depth)})"
                case 2:
                    inner = self._scoped([("i", types.INT), (name, element)], inner_kind, depth)
                    return f"{over}.transformList(i, {name}, {inner})"
                case 3:
                    inner = self._scoped([(name, inner_kind)], types.STRING, depth)
                    return f"{self._range(inner_kind, depth)}.sortBy({name}, {inner})"
            return f"{over}.map({name}, {self._scoped([(name, element)], inner_kind, depth)})"
        if kind.kind == "map":
            inner = self._scoped([("i", types.INT), (name, element)], kind.parameters[1], depth)
            return f"{over}.transformMap(i, {name}, {inner})"
        return None

    def _scoped(self, names: list[tuple[str, Type]], kind: Type, depth: int) -> str:
        self._scope.extend(names)
        made = self._of(kind, depth - 1)
        del self._scope[-len(names) :]
        return made

    def _range(self, element: Type, depth: int) -> str:
        pick = self._random.random()
        if pick < 0.15 and element == types.STRING:
            return f'device.attributes["{self._domain()}"]'
        if pick < 0.2:
            return f'device.attributes["{self._domain()}"].{self._random.choice(["zones", "ports", "versions"])}'
        if pick < 0.3 and element not in (types.BYTES, types.SEMVER):
            return f"{{{self._of(element, 0)}: {self._of(types.INT, 0)}}}"
        return self._list(element, depth - 1)

    def _list(self, element: Type, depth: int) -> str:
        return f"[{', '.join(self._element(element, depth) for _ in range(self._random.choice([0, 1, 2, 2, 3])))}]"

    def _element(self, element: Type, depth: int) -> str:
        return f"?{self._optional(element, depth)}" if self._random.random() < 0.03 else self._of(element, depth - 1)

    def _called(self, kind: Type, depth: int) -> str:
        fitting = []
        for name, overload in self._overloads:
            known = _match(overload.result, kind)
            if known is not None:
                fitting.append((name, overload, known))
        if not fitting:
            return self._plain(kind)
        names = sorted({name for name, _, _ in fitting})
        chosen = self._random.choice(names)
        name, overload, known = self._random.choice([each for each in fitting if each[0] == chosen])
        known = dict(known)
        for parameter in overload.parameters:
            known.setdefault(types.parameter(parameter), self._random.choice(SIMPLE))
        arguments = [self._of(substitute(known, each), depth - 1) for each in overload.arguments]
        if name in OPERATORS:
            return f"({arguments[0]} {OPERATORS[name]} {arguments[1]})"
        if name in ("!_", "-_"):
            return f"{name[0]}({arguments[0]})"
        if overload.member:
            return f"{self._receiver(arguments[0])}.{name}({', '.join(arguments[1:])})"
        return f"{name}({', '.join(arguments)})"

    def _receiver(self, text: str) -> str:
        return f"({text})" if text[0] in "-!" else text

    def _domain(self) -> str:
        return self._random.choice(DOMAINS) if self._random.random() < 0.12 else DOMAINS[0]

    def _attribute(self) -> str:
        name = self._random.choice(NAMES)
        match self._random.randrange(24):
            case 0 | 1 | 2:
                return f'device.attributes["{self._domain()}"]["{name}"]'
            case 3 | 4 | 5:
                return f"device.attributes[device.driver].{name}"
            case 6:
                return f'.device.attributes["{self._domain()}"].{name}'
            case 7:
                branches = f'device.attributes["{self._domain()}"] : device.attributes["{self._domain()}"]'
                return f"(device.allowMultipleAllocations ? {branches}).{name}"
            case 8:
                domain = f'device.allowMultipleAllocations ? "{self._domain()}" : "{self._domain()}"'
                return f"device.attributes[{domain}].{name}"
            case 9:
                return f'{{"{name}": device.driver}}["{self._random.choice(NAMES)}"]'
            case _:
                return f'device.attributes["{self._domain()}"].{name}'

    def _plain(self, kind: Type) -> str:
        choose = self._random.choice
        if kind in FROM_DEVICE and self._random.random() < 0.3:
            if kind == types.QUANTITY:
                return f'device.capacity["{self._domain()}"].{choose(CAPACITIES)}'
            return choose([self._attribute()] * 4 + ["device.driver"])
        if kind in LITERALS:
            return choose(LITERALS[kind])
        if kind == types.STRING:
            return quoted(choose(STRINGS))
        if kind == types.BYTES:
            return f"b{quoted(choose(STRINGS))}"
        if kind.kind in ("list", "map", "opaque", "type"):
            return self._container(kind)
        if kind.kind in ("dyn", "any", "parameter"):
            return self._attribute() if self._random.random() < 0.7 else f"dyn({self._of(choose(SIMPLE), 0)})"
        return "null"

    def _container(self, kind: Type) -> str:
        choose = self._random.choice
        if kind.kind == "list":
            return self._list(kind.parameters[0], 1)
        if kind.kind == "map":
            key = types.STRING if kind.parameters[0] == types.BYTES else kind.parameters[0]
            return f"{{{self._of(key, 0)}: {self._of(kind.parameters[1], 0)}}}"
        if kind.kind == "type":
            return choose(["int", "string", "bool", "type(1)", f"type({self._of(types.DYN, 0)})"])
        return choose(["optional.none()", f"optional.of({self._of(kind.parameters[0], 0)})"])

    def device(self) -> dict[str, Any]:
        driver = self._random.choice(DOMAINS[:3] + DOMAINS[:1] * 6)
        attributes: dict[str, Any] = {}
        for name in NAMES:
            if self._random.random() < 0.85 and name != "missing":
                attributes[name] = self._value(name)
        if self._random.random() < 0.5:
            attributes["resource.kubernetes.io/pcieRoot"] = {"string": "pci0000:01"}
        if self._random.random() < 0.5 and driver != "other.example.com":
            attributes["other.example.com/model"] = {"string": self._random.choice(STRINGS)}
        capacity = {
            name: {"value": self._random.choice(["80Gi", "1.5Gi", "500m", "108", "2500M", "0", "1k", "1000m", "2.0"])}
            for name in CAPACITIES[:4]
            if self._random.random() < 0.85
        }
        found: dict[str, Any] = {"driver": driver, "attributes": attributes, "capacity": capacity}
        if self._random.random() < 0.5:
            found["allowMultipleAllocations"] = self._random.random() < 0.5
        return found

    def _value(self, name: str) -> dict[str, Any]:
        choose = self._random.choice
        usual = {"model": "string", "driverVersion": "version", "numaNode": "int", "mig": "bool", "index": "int",
                 "firmware": "version", "zones": "strings", "ports": "ints"}.get(name, "string")  # fmt: skip
        kind = (
            usual
            if self._random.random() < 0.85
            else choose(["string", "int", "bool", "version", "strings", "versions"])
        )
        match kind:
            case "int":
                return {"int": choose(INTEGERS)}
            case "bool":
                return {"bool": choose([True, False])}
            case "version":
                return {"version": choose(["1.2.3", "550.54.15", "1.2.3-rc.1+build5", "0.0.1"])}
            case "strings":
                return {"strings": [choose(STRINGS) for _ in range(self._random.randrange(1, 4))]}
            case "ints":
                return {"ints": [choose(INTEGERS) for _ in range(self._random.randrange(1, 4))]}
            case "versions":
                return {"versions": [choose(["1.0.0", "2.0.0", "1.2.3-rc.1"]) for _ in range(2)]}
        return {"string": choose(STRINGS)}


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _match(declared: Type, wanted: Type) -> dict[Type, Type] | None:
    """What a result type's parameters must be for it to be the wanted type, or None where it never is."""
    if declared.kind == "parameter":
        return {declared: wanted}
    if (
        declared.kind != wanted.kind
        or declared.name != wanted.name
        or len(declared.parameters) != len(wanted.parameters)
    ):
        return None
    known: dict[Type, Type] = {}
    for one, other in zip(declared.parameters, wanted.parameters, strict=True):
        inner = _match(one, other)
        if inner is None:
            return None
        known.update(inner)
    return known
