"""`headrace simulate claim`: a row for each node, and where none fits, why."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from headrace.cli.explain_claim import Devices
from headrace.cli.main import root
from headrace.cli.simulate_claim import NOTHING_FITS, Wanted, answer

CLASS = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {}}


def slice_of(name: str, *devices: str) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": name,
        "pool": pool,
        "devices": [{"name": each} for each in devices],
    }
    return {"metadata": {"name": f"of-{name}"}, "spec": spec}


def claim(name: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": requests}}}


DEVICES = Devices([node("a"), node("b")], [slice_of("a", "gpu-0", "gpu-1"), slice_of("b", "gpu-0")], [CLASS], [])


def lines(wanted: Wanted, devices: Devices, node: str = "") -> list[str]:
    return answer(wanted, devices, node).lines


def test_each_node_says_which_devices_it_would_give() -> None:
    assert list(lines(Wanted([claim("one", 2)]), DEVICES)) == [
        "NODE   FITS   DEVICES",
        "a      yes    gpu: gpu.example.com/a/gpu-0, gpu: gpu.example.com/a/gpu-1",
        "b      no",
    ]


def test_claims_of_one_file_are_wanted_together() -> None:
    rows = list(lines(Wanted([claim("one", 1), claim("two", 1)]), DEVICES))
    assert rows[1].endswith("gpu: gpu.example.com/a/gpu-0, gpu: gpu.example.com/a/gpu-1")
    assert rows[2].split() == ["b", "no"]


def test_a_class_in_the_file_counts_before_it_is_there() -> None:
    none = Devices(DEVICES.nodes, DEVICES.slices, [], [])
    assert "yes" in list(lines(Wanted([claim("one", 1)], [CLASS]), none))[1]


def test_where_no_node_fits_it_is_explained() -> None:
    told = list(lines(Wanted([claim("one", 3)]), DEVICES))
    assert told[1:3] == ["a      no", "b      no"]
    assert "    claim default/one, request gpu: needs 3, 2 of 2 devices left, too few" in told


def test_one_node_may_be_asked_about_and_an_unknown_one_is_told() -> None:
    assert [row.split()[0] for row in lines(Wanted([claim("one", 1)]), DEVICES, "b")] == ["NODE", "b"]
    with pytest.raises(click.ClickException, match='node "c" not found; there are: a, b'):
        DEVICES.must_have("c")
    DEVICES.must_have("b")
    DEVICES.must_have("")


def test_a_class_that_is_not_there_is_told_with_those_that_are() -> None:
    other = {
        **claim("one", 1),
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}},
    }
    assert lines(Wanted([other]), DEVICES)[-1] == '  device class "gpus" not found; there are: gpu'


@pytest.mark.parametrize(("count", "where", "fits"), [(2, "", True), (2, "b", False), (3, "", False)])
def test_it_is_told_whether_any_node_fits(count: int, where: str, fits: bool) -> None:
    assert answer(Wanted([claim("one", count)]), DEVICES, where).fits == fits


def test_the_exit_status_of_nothing_that_fits_is_documented() -> None:
    told = CliRunner().invoke(root, ["simulate", "claim", "--help"])
    assert f"{NOTHING_FITS} where none does" in " ".join(told.output.split())
