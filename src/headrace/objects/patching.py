"""A patch of one of three kinds, as a function from the object before to the object after."""

from dataclasses import dataclass
from typing import Any

from headrace.api import patches, patches_strategic
from headrace.api.objects import Object
from headrace.objects import schemas
from headrace.objects.bodies import clone
from headrace.objects.refusals import TooLarge
from headrace.store.protocol import BadRequest, Cause, Invalid


@dataclass(frozen=True, slots=True)
class Patch:
    """`document` is a merge patch, a JSON patch's list of operations, or a strategic merge patch."""

    type: str
    document: Any

    def check(self, *, custom: bool) -> None:
        if self.type == "strategic" and custom:
            raise BadRequest("strategic merge patch format is not supported")
        if self.type != "json" and not isinstance(self.document, dict):
            raise BadRequest("error decoding patch: a merge patch must be a JSON object")

    def apply(self, obj: Object, schema: str) -> Object:
        """`schema` is the name of the object's schema. Raises BadRequest, or Invalid for what does not apply.

        The result shares parts with `obj`, none with the document: that may be applied again.
        """
        document = clone(self.document)
        try:
            match self.type:
                case "merge":
                    changed = patches.merge(obj, document)
                case "json":
                    changed = patches.apply_json(obj, document)
                case _:
                    changed = patches_strategic.apply(obj, document, schemas.bare()[schema], schemas.resolve_for_patch)
        except patches.PatchTooLarge as error:
            raise TooLarge(str(error)) from error
        except patches.BadPatch as error:
            if self.type == "json":
                message = f"the server rejected our request due to an error in our request: {error}"
                raise Invalid(message, (Cause("FieldValueInvalid", str(error), "patch"),)) from error
            raise BadRequest(str(error)) from error
        if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
            raise Invalid("the patched document is no object with metadata")
        return changed
