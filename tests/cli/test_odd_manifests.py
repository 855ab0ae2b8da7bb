"""Files that are no manifests are told in a line, with their name."""

from pathlib import Path

import click
import pytest

from headrace.cli.manifests import read


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"[" * 5_000, "nested too deeply"),
        (b"{apiVersion: v1, kind: Pod, metadata: 5}", "metadata of a Pod must be an object"),
        (b"{apiVersion: v1, kind: List, items: 5}", "items of a List must be a list"),
        (b"{apiVersion: v1, kind: List, items: [x]}", "each document needs apiVersion and kind"),
        (b"[a]", "each document needs apiVersion and kind"),
        (b"{", "line 1, column 2: no YAML: expected the node content"),
        (
            b"a:\n  - b: 1\n   c: 2\n",
            "line 3, column 4: .* that begins in line 2: is it indented as the lines before it",
        ),
        (b"a:\n\tb: 1\n", "line 2, column 1: .*: lines are indented by spaces"),
        (b"a: b: c\n", "line 1, column 5: no YAML: mapping values are not allowed here"),
    ],
)
def test_no_manifest(tmp_path: Path, given: bytes, told: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(given)
    with pytest.raises(click.ClickException, match=f"odd.yaml: .*{told}"):
        list(read((str(file),)))


def test_lists_and_objects_without_metadata(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text("{apiVersion: v1, kind: List}\n---\n{apiVersion: v1, kind: Pod, metadata: null}\n")
    assert list(read((str(file),))) == [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]
