"""The strategy of objects of a custom kind, made from one version of its definition."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.api.objects import Object
from headrace.api.resting import Resting
from headrace.objects.crd import pruning, values
from headrace.objects.crd.structural import Schema, has_rules
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resizing import Rule

if TYPE_CHECKING:
    from headrace.objects.crd.judging import Judge

OWN = ("metadata", "status")


class CustomStrategy(Strategy):
    """Prunes, defaults and validates by the schema; the status is apart where the subresource is on."""

    counts_generations = True
    may_be_replaced_unseen = False

    def __init__(
        self, schema: Schema, *, has_status: bool, selectable: tuple[str, ...], rule: Rule | None = None
    ) -> None:
        """`rule` judges the spec beyond the schema; headrace's own kinds have one."""
        self.has_status = has_status
        self._schema = schema
        self._selectable = selectable
        self._rule = rule
        self._judge: Judge | None = None

    def prune(self, obj: Object) -> list[str]:
        """Drop what the schema does not know; the paths of what was dropped."""
        return pruning.prune(obj, self._schema)

    def default(self, obj: Object) -> None:
        pruning.default(obj, self._schema)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        self._validate(obj, errors)
        if self._rule is not None and not errors:
            self._rule(obj.get("spec") or {}, errors)

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        self.validate(obj, errors)

    def judging(self, subresource: str, obj: Object, old: Object | None, errors: FieldErrors) -> Resting[None] | None:
        return self._judged(obj, old, errors) if self._has_rules else None

    @cached_property
    def _validate(self) -> values.Validate:
        return values.compiled(_without_metadata(self._schema))

    @cached_property
    def _has_rules(self) -> bool:
        """A rule of our own says all that the schema's rules say, which are for homes that are not ours."""
        return self._rule is None and has_rules(self._schema)

    def _judged(self, obj: Object, old: Object | None, errors: FieldErrors) -> Resting[None]:
        # Not at the top: few kinds have rules, and CEL would be a fifth of what a start reads.
        from headrace.objects.crd import judging

        if self._judge is None:
            self._judge = yield from judging.judge_of(self._schema)
        if self._judge is not None:
            yield from judging.judge(self._judge, obj, old, errors)

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj.pop("status", None)

    def prepare_status(self, obj: Object, old: Object) -> None:
        managed = obj["metadata"].get("managedFields")
        obj["metadata"] = dict(old["metadata"])
        if managed is not None:
            obj["metadata"]["managedFields"] = managed
        for part in (obj.keys() | old.keys()) - {"status", "metadata"}:
            keep(obj, old, part)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        return self._counted(obj) != self._counted(old)

    def _counted(self, obj: Object) -> dict[str, Any]:
        left_out = OWN if self.has_status else ("metadata",)
        return {name: value for name, value in obj.items() if name not in left_out}

    def selectable_fields(self) -> tuple[str, ...]:
        return self._selectable


def _without_metadata(schema: Schema) -> Schema:
    """metadata has rules of its own, the same for every kind."""
    properties = {name: value for name, value in (schema.get("properties") or {}).items() if name != "metadata"}
    return {**schema, "properties": properties}
