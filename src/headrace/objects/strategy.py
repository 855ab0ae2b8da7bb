"""What one kind does with its objects beyond what every object has: defaults, what a write may change, validation.

Source: the registry strategies of Kubernetes. An object given here is a fresh copy; these methods may change it.
"""

from headrace.api.objects import Object
from headrace.api.resting import Resting
from headrace.ledger.node import Shortfall
from headrace.objects.caller import Caller
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.store.rows import Rows


class Strategy:
    """The behaviour of a kind with nothing special; kinds override what they need."""

    has_status = False
    counts_generations = False
    may_be_replaced_unseen = True
    """A PUT without a resourceVersion replaces whatever is there."""
    judges_metadata = True
    """Metadata is judged together with the rest; otherwise only where the rest is right."""
    ends_by_phase = False
    """A delete only begins the end (Namespace); a controller finishes it."""

    def prune(self, obj: Object) -> list[str]:
        """Drop what a custom kind's schema does not know; the paths of what was dropped."""
        return []

    def ahead(self, obj: Object) -> Resting[None] | None:
        """What judging a new object would otherwise do at once, and what takes long."""
        return None

    def default(self, obj: Object) -> None:
        """Fill in what was left out. Runs on every write, so it must change nothing the second time."""

    def prepare_create(self, obj: Object) -> None:
        """Take away or set what a creator does not decide."""
        if self.has_status:
            obj["status"] = {}

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Put back what an update of the main resource does not decide."""
        if self.has_status:
            keep(obj, old, "status")

    def prepare_status(self, obj: Object, old: Object) -> None:
        """Put back what an update of the status does not decide."""
        for part in (obj.keys() | old.keys()) - {"status", "metadata"}:
            keep(obj, old, part)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        """The rules of an object of this kind, but for its metadata."""

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        """The rules of a change: what may not change. `validate` has run."""

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        """The rules of a status."""

    def prepare_subresource(self, subresource: str, obj: Object, old: Object) -> None:
        """Put back what an update of this subresource does not decide."""
        self.prepare_status(obj, old)

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        """The rules of a change through the main resource ("") or a subresource."""
        if subresource:
            self.validate_status(obj, old, errors)
        else:
            self.validate(obj, errors)
            self.validate_update(obj, old, errors)

    def judging(self, subresource: str, obj: Object, old: Object | None, errors: FieldErrors) -> Resting[None] | None:
        """Rules that may take long, beside the old object where there is one. All other validation has run."""
        return None

    def name_errors(self, name: str) -> list[str]:
        return names.dns_subdomain(name)

    def admit_new(self, rows: Rows, obj: Object) -> None:
        """What an admission plug-in adds from other objects, or refuses because of them."""

    def admit_change(self, rows: Rows, obj: Object, old: Object, now: str) -> None:
        """The same for a change of the main resource."""

    def judge_surroundings(
        self, rows: Rows, subresource: str, obj: Object, old: Object | None, errors: FieldErrors
    ) -> None:
        """Rules that depend on other objects; `old` is None where `obj` is new."""

    def generation_changed(self, obj: Object, old: Object) -> bool:
        return obj.get("spec") != old.get("spec")

    def selectable_fields(self) -> tuple[str, ...]:
        """Paths that field selectors of this kind may name, beside metadata.name and metadata.namespace."""
        return ()

    def stored_when_refused(self, obj: Object, shortfall: Shortfall) -> bool:
        """Write into `obj` how it failed, if a new object that does not fit is kept as a failed one."""
        return False

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """How long a delete waits."""
        return 0

    def mark_ending(self, obj: Object, now: str) -> bool:
        """For kinds with `ends_by_phase`: begin the end in `obj`. False when nothing is left to wait for."""
        return False

    def mark_deleting(self, obj: Object, now: str) -> None:
        """What the first request to delete an object changes in it, beside its deletionTimestamp."""

    def waits_to_go(self, obj: Object) -> bool:
        """Whether an object that is being deleted stays, although it has no finalizers."""
        return False

    def judge_caller(
        self, subresource: str, verb: str, obj: Object, old: Object, caller: Caller, errors: FieldErrors
    ) -> None:
        """Parts of the object that this caller may not change."""

    def gone_is_confirmed(self, obj: Object, user: str) -> bool:
        """Whether what the object held is free at once when `user` removes it."""
        return True


def keep(obj: Object, old: Object, part: str) -> None:
    """Put a part back as it was."""
    if part in old:
        obj[part] = old[part]
    else:
        obj.pop(part, None)
