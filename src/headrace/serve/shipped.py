"""The CustomResourceDefinitions that headrace ships, installed at every start as this release has them."""

from collections.abc import Container
from importlib.resources import files
from typing import Any

import yaml

from headrace.api.kinds import CUSTOM_RESOURCE_DEFINITION
from headrace.api.objects import name_of
from headrace.store.protocol import NotFound, Store

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where PyYAML was built with libyaml


def shipped_definitions() -> list[dict[str, Any]]:
    folder = files("headrace.objects") / "crds"
    texts = [file.read_text() for file in sorted(folder.iterdir(), key=lambda each: each.name)]
    return [document for text in texts for document in yaml.load_all(text, _LOADER)]


async def install(store: Store, names: Container[str] | None = None) -> None:
    """Idempotent: a definition that is there as shipped is left alone. `names`: only these."""
    for wanted in shipped_definitions():
        if names is not None and name_of(wanted) not in names:
            continue
        try:
            now = await store.get(CUSTOM_RESOURCE_DEFINITION, name_of(wanted))
        except NotFound:
            await store.create(CUSTOM_RESOURCE_DEFINITION, wanted)
            continue
        if any(_differs(now["spec"].get(field), value) for field, value in wanted["spec"].items()):
            await store.patch(CUSTOM_RESOURCE_DEFINITION, name_of(wanted), fields={"spec": wanted["spec"]})


def _differs(now: Any, wanted: Any) -> bool:
    """Whether something wanted is not there; what the server filled in beside it does not count."""
    if isinstance(wanted, dict):
        return not isinstance(now, dict) or any(_differs(now.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            not isinstance(now, list)
            or len(now) != len(wanted)
            or any(_differs(one, other) for one, other in zip(now, wanted, strict=True))
        )
    return bool(now != wanted)
