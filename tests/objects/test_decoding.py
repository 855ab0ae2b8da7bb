"""Typed decoding: what passes, what becomes canonical, what is dropped, what is refused, in Go's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.kinds import POD, RESOURCE_SLICE, SECRET
from headrace.objects import formats, schemas
from headrace.objects.decoding import UndecodableError, decode

POD_SCHEMA = schemas.name_of_kind(POD)


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


def read(obj: dict[str, Any]) -> dict[str, Any]:
    return decode(POD_SCHEMA, obj).object["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("given", "part", "expected"),
    [
        ({"resources": {"limits": {"cpu": "0.5"}}}, "resources", {"limits": {"cpu": "500m"}}),
        ({"resources": {"limits": {"cpu": 2}}}, "resources", {"limits": {"cpu": "2"}}),
        ({"resources": {"limits": {"memory": "1024Mi"}}}, "resources", {"limits": {"memory": "1Gi"}}),
        ({"resources": {"limits": {"memory": "1.0000001"}}}, "resources", {"limits": {"memory": "1001m"}}),
        ({"resources": {"requests": {"cpu": "-100u"}}}, "resources", {"requests": {"cpu": "-1m"}}),
        ({"resources": {"limits": {}}}, "resources", {}),
        ({"ports": [{"containerPort": 80}]}, "ports", [{"containerPort": 80, "protocol": "TCP"}]),
        ({"stdin": True}, "stdin", True),
    ],
    ids=[
        "a quantity becomes canonical",
        "a number is a quantity",
        "binary too",
        "an amount of resources is rounded up to thousandths",
        "and away from zero",
        "an empty map goes",
        "a default is written",
        "what was said stays",
    ],
)
def test_what_is_kept_becomes_canonical(given: dict[str, Any], part: str, expected: Any) -> None:
    assert read(container(**given))[part] == expected


@pytest.mark.parametrize("given", [{"args": []}, {"args": None}, {"stdin": False}, {"workingDir": ""}, {"env": None}])
def test_what_go_leaves_out_is_left_out(given: dict[str, Any]) -> None:
    assert read(container(**given)).keys() == {"name", "resources"}


def test_a_quantity_that_is_no_pointer_is_always_written() -> None:
    source = {"resourceFieldRef": {"resource": "limits.cpu"}}
    assert read(container(env=[{"name": "CPU", "valueFrom": source}]))["env"][0]["valueFrom"] == {
        "resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}
    }


def test_amounts_of_devices_keep_what_they_are_given() -> None:
    spec = {"pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "driver": "d.example.com"}
    devices = [{"name": "a", "capacity": {"memory": {"value": "100u"}}}]
    found = decode(schemas.name_of_kind(RESOURCE_SLICE), {"spec": {**spec, "nodeName": "n", "devices": devices}}).object
    assert found["spec"]["devices"] == devices


def test_a_zero_that_a_pointer_holds_is_kept() -> None:
    spec = decode(POD_SCHEMA, {"spec": {"containers": [], "terminationGracePeriodSeconds": 0}}).object["spec"]
    assert spec["terminationGracePeriodSeconds"] == 0


def test_unknown_fields_are_named_with_their_place() -> None:
    read = decode(POD_SCHEMA, {**container(foo=1, ports=[{"containerPort": 1, "bar": 2}]), "baz": 3})
    assert sorted(read.unknown) == ["baz", "spec.containers[0].foo", "spec.containers[0].ports[0].bar"]
    assert "foo" not in read.object["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (container(name=1), "json: cannot unmarshal number into Go struct field Container.spec.containers.name of"),
        (
            container(args="x"),
            "cannot unmarshal string into Go struct field Container.spec.containers.args of type",
        ),
        (container(ports=[{"containerPort": 2**31}]), "cannot unmarshal number 2147483648 into Go struct field"),
        (container(ports=[{"containerPort": 1.5}]), "cannot unmarshal number 1.5 into Go struct field"),
        (
            container(stdin="yes"),
            "cannot unmarshal string into Go struct field Container.spec.containers.stdin of",
        ),
        (
            container(resources={"limits": {"cpu": "much"}}),
            'spec.containers[0].resources.limits.cpu: "much": must be such as 500m or 1Gi: quantities must match the',
        ),
        (container(resources={"requests": {"cpu": "9mm"}}), 'requests.cpu: "9mm": must be such as 500m or 1Gi: unable'),
        (
            container(resources={"limits": {"cpu": []}}),
            "containers[0].resources.limits.cpu: json: cannot unmarshal",
        ),
        ({"metadata": {"creationTimestamp": "now"}}, 'metadata.creationTimestamp: "now": parsing time "now" as "2006-'),
        ({"metadata": {"labels": {"a": 1}}}, "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels"),
    ],
)
def test_a_wrong_type_is_refused_in_the_words_of_go(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UndecodableError) as refused:
        decode(POD_SCHEMA, given)
    assert words in str(refused.value)


def test_base64_is_checked_and_made_canonical() -> None:
    name = schemas.name_of_kind(SECRET)
    assert decode(name, {"data": {"a": "AAA\nA"}}).object["data"] == {"a": "AAAA"}
    with pytest.raises(UndecodableError, match=r"data\.a: illegal base64 data at input byte"):
        decode(name, {"data": {"a": "%"}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "1Gi", "2020-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["spec", "containers", "name", "metadata", "labels", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "status", "x"]), json_values))
def test_decoding_twice_is_decoding_once(obj: dict[str, Any]) -> None:
    try:
        once = decode(POD_SCHEMA, obj)
    except UndecodableError:
        return
    again = decode(POD_SCHEMA, once.object)
    assert (again.object, again.unknown) == (once.object, [])
    assert schemas.fits(POD_SCHEMA)(once.object)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
        ("2020-01-02T03:04:05.999Z", "2020-01-02T03:04:05Z"),
        ("2020-01-02T03:04:05+01:00", "2020-01-02T02:04:05Z"),
    ],
)
def test_times_are_whole_seconds_in_utc(text: str, expected: str) -> None:
    assert formats.time(text) == expected


@pytest.mark.parametrize("text", ["2020-13-01T00:00:00Z", "2020-01-01", "", "2020-01-01T00:00:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        formats.time(text)


@given(st.floats(0, 4e9))
def test_a_time_that_was_written_is_read(seconds: float) -> None:
    assert formats.parse_time(formats.format_time(seconds)) == int(seconds)
    assert abs(formats.parse_time(formats.format_micro_time(seconds)) - seconds) < 1e-5
