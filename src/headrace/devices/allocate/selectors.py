"""CEL selectors on devices: each expression is compiled once and asked once per distinct device content.

An answer is True, False or the text of a run-time error; asking never raises, since only the search may decide
whether Kubernetes would have met the error.
"""

from collections.abc import Hashable

import orjson

from headrace.cel.derived import DerivedAttribute, compile_derived_attribute
from headrace.cel.device import PreparedDevice, Selector, compile_selector, prepare_device, with_hint
from headrace.cel.errors import CompileError, EvaluationError
from headrace.devices.allocate.device import NO_FIELDS, Device

Answer = bool | str

ANSWERS_KEPT = 500_000
PREPARED_KEPT = 20_000
SELECTORS_KEPT = 10_000


class Selectors:
    """Compiled expressions and their answers. Kept for as long as the inventory; forgets everything when full."""

    def __init__(self) -> None:
        self._compiled: dict[str, Selector | CompileError] = {}
        self._prepared: dict[bytes, PreparedDevice] = {}
        self._by_content: dict[str, dict[bytes, Answer]] = {}
        self._by_projection: dict[str, dict[Hashable, Answer]] = {}
        self._derived: dict[str, DerivedAttribute | CompileError] = {}
        self._answers = 0

    def compiled(self, expression: str) -> Selector | CompileError:
        found = self._compiled.get(expression)
        if found is None:
            if len(self._compiled) >= SELECTORS_KEPT:
                self.forget()
            try:
                found = compile_selector(expression, "stored")
            except CompileError as error:
                found = error
            self._compiled[expression] = found
        return found

    def ask(self, selector: Selector, device: Device) -> Answer:
        """Whether the selector takes the device, or the run-time error with Kubernetes' hint."""
        known = self._by_content.get(selector.expression)
        if known is None:
            known = self._by_content[selector.expression] = {}
        content = device.content
        answer = known.get(content)
        if answer is None:
            if self._answers >= ANSWERS_KEPT:
                self.forget()
                known = self._by_content.setdefault(selector.expression, {})
            answer = known[content] = self._evaluate(selector, device)
            self._answers += 1
        return answer

    def _evaluate(self, selector: Selector, device: Device) -> Answer:
        known = self._by_projection.get(selector.expression)
        if known is None:
            known = self._by_projection[selector.expression] = {}
        key = _projection(selector, device) or selector.project(self.prepared(device))
        answer = known.get(key)
        if answer is None:
            answer = known[key] = self.evaluated(selector, device)
        return answer

    def evaluated(self, selector: Selector, device: Device) -> Answer:
        """The answer, found out now."""
        answer = None
        if device.is_readable:
            capacity = device.spec.get("capacity") or NO_FIELDS
            answer = selector.answer_published(device.slice.driver, device.attributes, capacity, device.is_shareable)
        if answer is None:
            answer = selector.answer(self.prepared(device))
        return with_hint(str(answer)) if isinstance(answer, EvaluationError) else answer

    def derived(self, expression: str) -> DerivedAttribute | CompileError:
        found = self._derived.get(expression)
        if found is None:
            if len(self._derived) >= SELECTORS_KEPT:
                self.forget()
            try:
                found = compile_derived_attribute(expression)
            except CompileError as error:
                found = error
            self._derived[expression] = found
        return found

    def prepared(self, device: Device) -> PreparedDevice:
        found = self._prepared.get(device.content)
        if found is None:
            if len(self._prepared) >= PREPARED_KEPT:
                self._prepared.clear()
            spec = device.spec
            found = self._prepared[device.content] = prepare_device(
                device.slice.driver,
                device.attributes,
                spec.get("capacity") or {},
                spec.get("allowMultipleAllocations"),
            )
        return found

    def forget(self) -> None:
        for kept in (self._compiled, self._prepared, self._by_content, self._by_projection, self._derived):
            kept.clear()
        self._answers = 0


def _projection(selector: Selector, device: Device) -> Hashable:
    """What the selector reads, straight from the JSON; None where the device has to be prepared to know."""
    if selector.singles is None or not device.is_readable:
        return None
    driver, key = device.slice.driver, list[Hashable]()
    attributes, capacity = device.attributes, device.spec.get("capacity") or NO_FIELDS
    for is_attribute, domain, name, full in selector.singles:
        published = attributes if is_attribute else capacity
        named = published.get(full)
        bare = published.get(name) if domain == driver else None
        for each in (named, bare):
            if each is None:
                key.append(None)
            elif is_attribute:
                key.append((*each.items(),) if len(each) == 1 else orjson.dumps(each))
            else:
                key.append(each["value"])
    return selector.expression, driver, device.is_shareable, *key
