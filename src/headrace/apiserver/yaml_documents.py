"""YAML as Kubernetes reads it: plain data, no dates, and no aliases, since a few of them can stand for gigabytes."""

from typing import Any

import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DATE = "tag:yaml.org,2002:timestamp"


class _Loader(_BASE):  # type: ignore[misc]
    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }


def load(body: bytes) -> Any:
    """One document. Raises yaml.YAMLError."""
    for event in yaml.parse(body, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"alias *{event.anchor}: aliases are not accepted, write the value out")
    return _with_text_keys(yaml.load(body, Loader=_Loader))


def _with_text_keys(value: Any) -> Any:
    """JSON knows only text as a key; YAML reads `1` and `no` as others (sigs.k8s.io/yaml turns them back the same)."""
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(each) for key, each in value.items()}
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


def dump(value: Any) -> bytes:
    return yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False).encode()
