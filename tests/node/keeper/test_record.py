"""Records: whole or not there."""

from pathlib import Path

import pytest

from headrace.node.keeper.record import Records, is_id


def test_what_was_written_is_loaded_and_what_was_half_written_goes(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.write("a", {"state": 1})
    records.write("a", {"state": 2})
    (tmp_path / "b.json.new").write_text('{"st')
    assert Records(str(tmp_path)).load(print) == {"a": {"state": 2}}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600


def test_a_record_is_removed_once_or_twice(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    records.write("a", {})
    records.remove("a")
    records.remove("a")
    assert records.load(print) == {}


def test_a_spoilt_record_is_set_aside(tmp_path: Path) -> None:
    records, said = Records(str(tmp_path)), []
    records.write("a", {"state": 1})
    (tmp_path / "b.json").write_bytes(b"\0" * 40)
    assert records.load(said.append) == {"a": {"state": 1}}
    assert "b.json" in said[0]
    assert records.load(said.append) == {"a": {"state": 1}}
    assert len(said) == 1


@pytest.mark.parametrize("id", ["a", "0f3b-uid_name_0", "A.b-c_9"])
def test_ids_that_are_file_names(id: str) -> None:
    assert is_id(id)


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "../x", "a\0b", "a" * 201, "-rf", "ü", 7, None])
def test_ids_that_are_not(id: object) -> None:
    assert not is_id(id)
