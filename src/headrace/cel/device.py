"""Device selectors: compile an expression once, prepare a device once, then ask whether they match.

`compile_selector` raises CompileError; evaluating raises EvaluationError. Both carry Kubernetes' words
(k8s.io/dynamic-resource-allocation/cel).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from headrace.cel import counting, types
from headrace.cel.bounded import is_surely_within
from headrace.cel.call_costs import BRITTLE
from headrace.cel.checker import check
from headrace.cel.closures import compile_plan
from headrace.cel.environment import ADMISSION, ADMISSION_WITH_INCLUDES, STORED, Environment, Sizes
from headrace.cel.errors import CompileError, EvaluationError, compilation_failed
from headrace.cel.estimate import estimate
from headrace.cel.generated import generate
from headrace.cel.libraries.quantities import read_quantity
from headrace.cel.libraries.semvers import read_semver
from headrace.cel.parser import parse
from headrace.cel.plan import Plan, plan
from headrace.cel.reads import Column, columns
from headrace.cel.types import Type
from headrace.cel.validators import validate
from headrace.cel.values import MISSING, DefaultMap, Optional, QuantityValue, Semver, StringMap, Value, type_name

EnvironmentName = Literal["new", "new_list_attributes", "stored"]

EXPRESSION_BYTES = 10 * 1024
COST_LIMIT = 1_000_000
OFTEN = 64
TEXTS_KEPT = 8192  # of quantities and of versions, which many devices have in common
ATTRIBUTES, DRIVER_CHARACTERS, DOMAIN_CHARACTERS, NAME_CHARACTERS, VALUE_CHARACTERS = 32, 63, 63, 32, 64
_SCALARS = frozenset({"int", "bool", "string"})
_COMPARING = frozenset({"isGreaterThan", "isLessThan", "compareTo"})
_LOOKING = frozenset({"isInteger", "asInteger"})


def _environment(name: EnvironmentName) -> Environment:
    """`device` with attributes of type any where new objects are admitted, dyn otherwise."""
    attribute = types.ANY if name == "new" else types.DYN
    fields: dict[str, Type] = {
        "driver": types.STRING,
        "allowMultipleAllocations": types.BOOL,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
    names, domains = Sizes(NAME_CHARACTERS), Sizes(DOMAIN_CHARACTERS)
    attributes = Sizes(ATTRIBUTES, keys=names, items=Sizes(VALUE_CHARACTERS), any_field=True)
    capacity = Sizes(ATTRIBUTES, keys=names, items=Sizes(0))
    sizes = Sizes(
        0,
        {
            "driver": Sizes(DRIVER_CHARACTERS),
            "allowMultipleAllocations": Sizes(1),
            "attributes": Sizes(ATTRIBUTES, keys=domains, items=attributes),
            "capacity": Sizes(ATTRIBUTES, keys=domains, items=capacity),
        },
    )
    functions = {"new": ADMISSION, "new_list_attributes": ADMISSION_WITH_INCLUDES, "stored": STORED}[name]
    device = "kubernetes.DRADevice"
    return Environment({"device": Type("struct", device)}, functions, {device: fields}, {"device": sizes})


ENVIRONMENTS: dict[EnvironmentName, Environment] = {
    name: _environment(name) for name in ("new", "new_list_attributes", "stored")
}


def environment_of(name: EnvironmentName) -> Environment:
    """What expressions over a device may use."""
    return ENVIRONMENTS[name]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDevice:
    """A device's content in the evaluator's own values. Nothing changes it: keep it as long as the ResourceSlice lives.

    `error` is set where Kubernetes fails every evaluation on this device (an attribute that cannot be read).
    """

    driver: str
    allow_multiple_allocations: bool
    attributes: DefaultMap
    capacity: DefaultMap
    error: str | None = None
    root: StringMap = field(init=False)

    def __post_init__(self) -> None:
        root = StringMap(
            driver=self.driver,
            allowMultipleAllocations=self.allow_multiple_allocations,
            attributes=self.attributes,
            capacity=self.capacity,
        )
        object.__setattr__(self, "root", root)

    def with_own_quantities(self) -> StringMap:
        """The device for an evaluation that may change how its quantities are held."""
        capacity = DefaultMap()
        for domain, named in self.capacity.items():
            capacity[domain] = StringMap({name: QuantityValue(value.amount) for name, value in named.items()})
        return StringMap({**self.root, "capacity": capacity})


def prepare_device(
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]] | None,
    capacity: Mapping[str, Mapping[str, Any]] | None,
    allow_multiple_allocations: bool | None = None,
) -> PreparedDevice:
    """From resource.k8s.io/v1 JSON (`{"model": {"string": "A100"}}`, `{"memory": {"value": "80Gi"}}`).

    A name without a domain gets the driver's.
    """
    by_domain, wrong = _by_domain(driver, attributes or {}, _attribute)
    amounts, too = _by_domain(driver, capacity or {}, _amount)
    error = f"attribute {wrong}" if wrong else f"capacity {too}" if too else None
    return PreparedDevice(driver, bool(allow_multiple_allocations), by_domain, amounts, error)


def _by_domain(
    driver: str, published: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Value]
) -> tuple[DefaultMap, str]:
    """What can be read, and the first that cannot."""
    maps, wrong = DefaultMap(), ""
    for qualified, entry in published.items():
        value = read(entry)
        if isinstance(value, EvaluationError):
            wrong = wrong or f"{qualified}: {value}"
            continue
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = driver, qualified
        named = maps.get(domain)
        if named is None:
            named = maps[domain] = StringMap()
        named[name] = value
    return maps, wrong


@lru_cache(TEXTS_KEPT)
def _quantity(text: str) -> Value:
    return read_quantity(text.strip(), shared=True)


_version = lru_cache(TEXTS_KEPT)(read_semver)


def _amount(entry: Mapping[str, Any]) -> Value:
    return _quantity(str(entry["value"]))


def _attribute(attribute: Mapping[str, Any]) -> Value:
    """The one value of an attribute, lists first as the reference looks for them."""
    if len(attribute) == 1:
        ((name, value),) = attribute.items()
        if name in _SCALARS and value is not None:
            return value
        if name == "version" and value is not None:
            version = _version(value)
            return version if isinstance(version, Semver) else _unreadable(version)
    for name in ("ints", "bools", "strings"):
        if attribute.get(name) is not None:
            return list(attribute[name])
    if attribute.get("versions") is not None:
        versions = [_version(text) for text in attribute["versions"]]
        return next((_unreadable(each) for each in versions if not isinstance(each, Semver)), versions)
    for name in ("int", "bool", "string"):
        if attribute.get(name) is not None:
            return attribute[name]
    if attribute.get("version") is not None:
        version = _version(attribute["version"])
        return version if isinstance(version, Semver) else _unreadable(version)
    return EvaluationError("unsupported attribute value")


def _unreadable(error: EvaluationError) -> EvaluationError:
    return EvaluationError(f"parse semantic version: {error}")


class Code:
    """`run` takes a device's root and returns the value, or returns or raises the error it fails with.

    Closures are made at once; Python source takes ten times as long, so it waits until a selector is asked often.
    """

    __slots__ = ("_calls", "_closures", "_plan", "run")

    def __init__(self, planned: Plan) -> None:
        self._plan, self._calls = planned, 0
        self._closures = compile_plan(planned)
        self.run: Callable[[StringMap], Value] = self._first

    def _first(self, root: StringMap) -> Value:
        self._calls += 1
        if self._calls == OFTEN:
            self.run = generate(self._plan) or self._closures
        return self._closures(root)


# Whether it is an attribute (else a capacity), its domain, its name, and its full name.
Single = tuple[bool, str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A compiled selector. `max_cost` is the worst case, up to 2**64-1; `reads` is None where it needs all of it.

    `singles` are the single attributes and capacities it reads; None where it reads others than such.
    """

    expression: str
    environment: EnvironmentName
    output_type: str
    max_cost: int
    reads: frozenset[Column] | None
    singles: "tuple[Single, ...] | None"
    _plan: Plan
    _code: "Code | None"

    def project(self, device: PreparedDevice) -> Hashable:
        """A key of what the selector reads of this device: equal keys give equal answers, errors included."""
        if self.reads is None:
            return (device.error, _frozen(device.root))
        return (device.error, *(_column(device, column) for column in sorted(self.reads)))

    def matches(self, device: PreparedDevice) -> bool:
        """Whether the device is selected; raises EvaluationError."""
        answer = self.answer(device)
        if isinstance(answer, EvaluationError):
            raise EvaluationError(str(answer))
        return answer

    def answer(self, device: PreparedDevice) -> bool | EvaluationError:
        """The same, but an error is returned: raising one costs more than most evaluations."""
        if device.error is not None:
            return EvaluationError(device.error)
        if self._code is None:
            return _decided(self._counted(device)[0])
        return self._answer(self._code, device.root)

    def answer_published(
        self, driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any], is_shareable: bool
    ) -> bool | EvaluationError | None:
        """The same, straight from JSON that can be read throughout; None where the device has to be prepared for it."""
        if self._code is None or self.singles is None:
            return None
        root = _read_only(self.singles, driver, attributes, capacity, is_shareable)
        return None if root is None else self._answer(self._code, root)

    def _answer(self, code: "Code", root: StringMap) -> bool | EvaluationError:
        try:
            result = code.run(root)
        except EvaluationError as error:
            return error
        return result if result is True or result is False else _decided(result)

    def matches_with_cost(self, device: PreparedDevice) -> tuple[bool | EvaluationError, int | None]:
        """The answer (or the error that `matches` would raise) and what was spent; no cost where nothing ran."""
        if device.error is not None:
            return EvaluationError(device.error), None
        result, cost = self._counted(device)
        return _decided(result), cost

    def _counted(self, device: PreparedDevice) -> tuple[Value, int]:
        root = device.with_own_quantities() if _changes_quantities(self._plan) else device.root
        result, run = counting.evaluate(self._plan, [root], COST_LIMIT)
        return result, run.cost


def _singles(reads: frozenset[Column] | None) -> tuple[Single, ...] | None:
    if reads is None:
        return None
    found: list[Single] = []
    for column in sorted(reads):
        match column:
            case ("attributes" | "capacity" as kind, domain, name):
                found.append((kind == "attributes", domain, name, f"{domain}/{name}"))
            case ("driver",) | ("allowMultipleAllocations",):
                pass
            case _:
                return None
    return tuple(found)


def _read_only(
    singles: tuple[Single, ...], driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any], shared: bool
) -> StringMap | None:
    """The device with nothing but these; None where one of them is there twice, or cannot be read."""
    by_domain, amounts = DefaultMap(), DefaultMap()
    for is_attribute, domain, name, full in singles:
        published = attributes if is_attribute else capacity
        entry = published.get(full)
        if domain == driver and name in published:
            if entry is not None:
                return None
            entry = published[name]
        if entry is None:
            continue
        value = _attribute(entry) if is_attribute else _amount(entry)
        if isinstance(value, EvaluationError):
            return None
        maps = by_domain if is_attribute else amounts
        if domain not in maps:
            maps[domain] = StringMap()
        maps[domain][name] = value
    return StringMap(driver=driver, allowMultipleAllocations=shared, attributes=by_domain, capacity=amounts)


def _changes_quantities(planned: Plan) -> bool:
    """Whether comparing quantities could be seen: it may turn an integer one into one that is not."""
    return bool(planned.functions & _COMPARING and planned.functions & _LOOKING)


def _decided(result: Value) -> bool | EvaluationError:
    """The result as a bool; an error where it is one, or something else."""
    if result is True or result is False:
        return bool(result)
    if isinstance(result, EvaluationError):
        return result
    inner = result
    while type(inner) is Optional:
        inner = inner.value
    if inner is True or inner is False:
        return bool(inner)
    return EvaluationError(f"CEL result of type {type_name(result)} could not be converted to bool: {_not_bool(inner)}")


def _not_bool(value: Value) -> str:
    name = type_name(value)
    if value is MISSING:
        return "optional.none() dereference"
    if name == "string":
        return "unsupported native conversion from string to 'bool'"
    if name in ("int", "uint"):
        return f"unsupported type conversion from '{name}' to bool"
    if name == "type":
        return "type conversion not supported for 'type'"
    if name in ("double", "bytes"):
        return f"type conversion error from {name.capitalize()} to 'bool'"
    if name in ("list", "map"):
        return f"type conversion error from {name} to 'bool'"
    return f"type conversion error from '{name.rpartition('.')[2].replace('NamedFormat', 'Format')}' to 'bool'"


def _column(device: PreparedDevice, column: Column) -> Hashable:
    value: Value = device.root
    for name in column:
        value = value.get(name)
        if value is None:
            return None
    return _frozen(value)


def _frozen(value: Value) -> Hashable:
    """A hashable stand-in that tells apart what expressions can tell apart."""
    kind = type(value)
    if kind is QuantityValue:
        return ("quantity", value.amount)
    if kind is Semver:
        return ("semver", value.core, value.pre, value.build)
    if kind is list:
        return ("list", *map(_frozen, value))
    if kind is StringMap or kind is DefaultMap:
        return ("map", *sorted((key, _frozen(entry)) for key, entry in value.items()))
    return (kind.__name__, value)


def compile_selector(expression: str, environment: EnvironmentName = "stored") -> Selector:
    """Compile for evaluation ("stored") or for admission ("new", "new_list_attributes"); raises CompileError."""
    names = ENVIRONMENTS[environment]
    try:
        checked = check(expression, parse(expression, names.macros), names)
        issues = validate(checked)
        if issues:
            raise compilation_failed(expression, issues)
        output = checked.type(checked.root)
        unknown = types.ANY if environment == "new" else types.DYN
        if output not in (types.BOOL, unknown):
            raise CompileError(f"must evaluate to bool or the unknown type, not {output}")
        planned = plan(checked, names)
        cost = estimate(checked, names).high
        code = None
        odd = planned.detached or planned.functions & BRITTLE or _changes_quantities(planned)
        if not odd and (cost <= COST_LIMIT or is_surely_within(COST_LIMIT, checked, names, planned)):
            code = Code(planned)
        reads = columns(planned)
        return Selector(expression, environment, str(output), cost, reads, _singles(reads), planned, code)
    except RecursionError:
        raise CompileError("compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded") from None


def with_hint(message: str) -> str:
    """A run-time error's text as the scheduler shows it: a missing key gets Kubernetes' hint."""
    if "no such key:" not in message:
        return message
    return (
        f"{message}. consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )
