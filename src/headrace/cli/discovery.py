"""Which kind a person means by `pods`, `po`, `Pod`, `deployments.apps`: asked of the server's discovery."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from headrace.api.kinds import Kind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Known:
    kind: Kind
    names: frozenset[str]


async def kinds(client: Any) -> list[Known]:
    """Every kind that the server serves, in its order."""
    found: list[Known] = []
    for root in ("/api", "/apis"):
        answer = await client.request("GET", root, accept=AGGREGATED)
        found += _read(answer.get("items") or ())
    return found


def _read(groups: Iterable[Mapping[str, Any]]) -> Iterable[Known]:
    for group in groups:
        group_name = (group.get("metadata") or {}).get("name", "")
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                kind = Kind(
                    group_name,
                    version["version"],
                    each["responseKind"]["kind"],
                    each["resource"],
                    each["scope"] == "Namespaced",
                )
                names = {
                    kind.plural,
                    each.get("singularResource", ""),
                    kind.kind.lower(),
                    *(each.get("shortNames") or ()),
                }
                names |= {f"{name}.{group_name}" for name in tuple(names) if group_name}
                yield Known(kind, frozenset(names - {""}))


def by_word(known: Iterable[Known], word: str) -> Kind:
    """Raises ClickException with the likeliest kind, or all of them."""
    import difflib

    there = list(known)
    for each in there:
        if word.lower() in each.names:
            return each.kind
    meant = difflib.get_close_matches(word.lower(), sorted({name for each in there for name in each.names}), 1)
    hint = (
        f"did you mean {meant[0]}?" if meant else f"there are {', '.join(sorted({each.kind.plural for each in there}))}"
    )
    raise click.ClickException(f'the server has no resource type "{word}"; {hint}')


def by_manifest(known: Iterable[Known], api_version: str, kind: str) -> Kind:
    """Raises ClickException with the version in which the kind is, the likeliest kind, or where kinds come from."""
    import difflib

    there = [each.kind for each in known]
    for each in there:
        if each.api_version == api_version and each.kind == kind:
            return each
    hint = "is its CustomResourceDefinition applied?"
    if versions := sorted({each.api_version for each in there if each.kind == kind}):
        hint = f"it is in {', '.join(versions)}"
    elif meant := difflib.get_close_matches(kind, {each.kind for each in there}, 1):
        hint = f"did you mean {meant[0]}?"
    raise click.ClickException(f'no kind "{kind}" in version "{api_version}"; {hint}')
