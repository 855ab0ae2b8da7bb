"""A ResizePolicy from a file, defaulted and validated as the server would."""

from typing import Any

from headrace.resize.policy.spec import Policy, policy_of


class Unusable(ValueError):
    """The file is not a valid ResizePolicy; the message names the fields."""


def read_policy(path: str) -> Policy:
    """Raises Unusable."""
    from headrace.api.kinds import RESIZE_POLICY
    from headrace.cli.manifests import read
    from headrace.objects.crd.custom import CustomStrategy
    from headrace.objects.validation.errors import FieldErrors, summary
    from headrace.objects.validation.resizing import RULES

    found = [each for each in read((path,)) if each.get("kind") == RESIZE_POLICY.kind]
    if len(found) != 1:
        raise Unusable(f"must hold one {RESIZE_POLICY.kind}, not {len(found)}")
    policy: dict[str, Any] = found[0]
    strategy = CustomStrategy(_schema(), has_status=True, selectable=(), rule=RULES[RESIZE_POLICY.resource])
    strategy.prune(policy)
    strategy.default(policy)
    errors = FieldErrors()
    strategy.validate(policy, errors)
    if errors:
        raise Unusable(summary(errors.causes))
    return policy_of(policy)


def _schema() -> dict[str, Any]:
    from headrace.api.kinds import RESIZE_POLICY
    from headrace.serve.shipped import shipped_definitions

    wanted = f"{RESIZE_POLICY.plural}.{RESIZE_POLICY.group}"
    [definition] = [each for each in shipped_definitions() if each["metadata"]["name"] == wanted]
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema
