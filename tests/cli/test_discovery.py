"""A kind that is not there is told with the one that was meant."""

import click
import pytest

from headrace.api.kinds import DEPLOYMENT, POD
from headrace.cli.discovery import Known, by_manifest, by_word


@pytest.mark.parametrize(
    ("version", "kind", "hint"),
    [
        pytest.param("v2", "Pod", "it is in v1", id="another version"),
        pytest.param("v1", "Pdo", "did you mean Pod?", id="mistyped"),
        pytest.param("v1", "pod", "did you mean Pod?", id="in small letters"),
        pytest.param("example.com/v1", "Widget", "is its CustomResourceDefinition applied?", id="a kind of somebody's"),
    ],
)
def test_a_kind_that_is_not_there(version: str, kind: str, hint: str) -> None:
    known = [Known(each, frozenset({each.plural})) for each in (POD, DEPLOYMENT)]
    with pytest.raises(click.ClickException) as refused:
        by_manifest(known, version, kind)
    assert refused.value.message == f'no kind "{kind}" in version "{version}"; {hint}'


@pytest.mark.parametrize(
    ("word", "hint"),
    [("pdos", "did you mean pods?"), ("foo", "there are deployments, pods")],
    ids=["mistyped", "nothing like it"],
)
def test_a_word_for_no_kind(word: str, hint: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        by_word([Known(each, frozenset({each.plural})) for each in (POD, DEPLOYMENT)], word)
    assert refused.value.message == f'the server has no resource type "{word}"; {hint}'
