"""Manifests: read from files, and what applying one changes (pure but for reading)."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SUFFIXES = (".yaml", ".yml", ".json")


def read(places: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The objects of files, folders (their files in name order) or - for standard input; Lists are taken apart."""
    import yaml

    for place in places:
        for name, text in _texts(place):
            try:
                documents = list(yaml.safe_load_all(text))
            except yaml.YAMLError as wrong:
                raise click.ClickException(f"{name}: {_no_yaml(wrong)}") from None
            except RecursionError:
                raise click.ClickException(f"{name}: nested too deeply to be a manifest") from None
            for document in documents:
                if document is not None:
                    yield from _objects(document, name)


def _no_yaml(wrong: Exception) -> str:
    """Where and what, in a line."""
    from yaml import MarkedYAMLError

    if not isinstance(wrong, MarkedYAMLError) or wrong.problem_mark is None:
        return " ".join(str(wrong).split())
    told = f"line {wrong.problem_mark.line + 1}, column {wrong.problem_mark.column + 1}: no YAML: {wrong.problem}"
    if wrong.context and wrong.context_mark:
        told += f" {wrong.context} that begins in line {wrong.context_mark.line + 1}"
    if "'\\t'" in (wrong.problem or ""):
        return f"{told}: lines are indented by spaces"
    return f"{told}: is it indented as the lines before it?" if "block" in (wrong.context or "") else told


def _objects(document: Any, file: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise click.ClickException(f"{file}: each document needs apiVersion and kind")
    if document["kind"] == "List":
        items = document.get("items") or ()
        if not isinstance(items, (list, tuple)):
            raise click.ClickException(f"{file}: items of a List must be a list")
        for item in items:
            yield from _objects(item, file)
        return
    if document.get("metadata") is None:
        document["metadata"] = {}
    if not isinstance(document["metadata"], dict):
        raise click.ClickException(f"{file}: metadata of a {document['kind']} must be an object with a name")
    yield document


def _texts(place: str) -> Iterator[tuple[str, str]]:
    if place == "-":
        yield "standard input", sys.stdin.read()
        return
    path = Path(place)
    files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise click.UsageError(f"-f {place}: no {', '.join(SUFFIXES)} files in this folder")
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except UnicodeDecodeError as wrong:
            raise click.ClickException(f"{file}: is no text in UTF-8: {wrong}") from None
        except OSError as failed:
            raise click.UsageError(f"-f {file}: {failed.strerror}") from None


def three_way(last: Any, now: Any, wanted: Any) -> Any:
    """The merge patch that brings `now` to `wanted`: what `last` had and `wanted` has not is removed, the rest kept."""
    if not isinstance(wanted, Mapping):
        return wanted
    last = last if isinstance(last, Mapping) else {}
    now = now if isinstance(now, Mapping) else {}
    patch: dict[str, Any] = {key: None for key in last if key not in wanted and key in now}
    for key, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(now.get(key), Mapping):
            inner = three_way(last.get(key), now[key], value)
            if inner:
                patch[key] = inner
        elif isinstance(value, list) and isinstance(now.get(key), list):
            merged = _list(last.get(key), now[key], value)
            if merged != now[key]:
                patch[key] = merged
        elif now.get(key) != value:
            patch[key] = value
    return patch


def _list(last: Any, now: list[Any], wanted: list[Any]) -> list[Any]:
    """A list of named objects is merged by name, so that what the server filled in stays; any other is replaced."""
    if not all(isinstance(each, Mapping) and "name" in each for each in (*now, *wanted)):
        return wanted
    known = {each["name"]: each for each in now}
    before = {each["name"]: each for each in last or () if isinstance(each, Mapping) and "name" in each}
    merged = []
    for each in wanted:
        current = known.get(each["name"])
        patch = three_way(before.get(each["name"]), current, each)
        merged.append(each if current is None else _merged(current, patch))
    names = {each["name"] for each in wanted}
    return merged + [each for each in now if each["name"] not in names and each["name"] not in before]


def _merged(current: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping) or not isinstance(current, Mapping):
        return patch
    result = dict(current)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key, {}), value) if isinstance(value, Mapping) else value
    return result
