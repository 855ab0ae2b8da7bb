"""The pages about resizing say what the program does: diagrams, fields, words and places are compared."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from headrace.metrics.memory import MemoryMetrics
from headrace.node.actuator import RETRY_SECONDS, SYNC_SECONDS
from headrace.resize.monitoring import Monitoring
from headrace.resize.service import RESERVATION_SECONDS
from headrace.resize.sync import STATES, SYNC, SYNC_NUMBERS, diagram
from headrace.resize.workload import BEGINNINGS
from headrace.wire.generated import agents_pb2, resize_pb2
from tests.objects.policies import definitions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE, API = DOCS / "reference" / "resize.md", DOCS / "reference" / "resize-api.md"
EXPLANATION = DOCS / "explanation" / "resize.md"
TYPES = {1: "double", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 13: "uint32"}


@pytest.mark.parametrize(
    ("page", "name", "table", "first"),
    [
        (PAGE, "sync", SYNC, "UNKNOWN"),
        (PAGE, "state", STATES, "Pending"),
        (EXPLANATION, "sync", SYNC, "UNKNOWN"),
    ],
)
def test_diagrams_are_drawn_from_the_tables(page, name, table, first):
    drawn = "\n".join(diagram(table, first))
    found = re.search(rf"<!-- {name} -->\n```mermaid\n(.*?)\n```", page.read_text(), re.DOTALL)
    assert found.group(1) == drawn, f"put this into {page.name}:\n{drawn}"


def _type(field):
    if field.enum_type is not None:
        return field.enum_type.containing_type.name
    if field.message_type is None:
        return TYPES[field.type]
    return "map" if field.message_type.GetOptions().map_entry else field.message_type.name


def _fields(message):
    for field in message.fields:
        kind = _type(field)
        if field.is_repeated and kind != "map":
            kind = f"repeated {kind}"
        yield message.name, field.name, str(field.number), f"optional {kind}" if field.containing_oneof else kind


def _spec_fields(schema, path=""):
    """Those that take a value, and their defaults; a threshold and an amount of each resource count as one."""
    for name, child in schema["properties"].items():
        inner = child.get("items", child)
        is_one = name in ("selector", "up", "down", "min", "max", "quota") or "properties" not in inner
        if is_one and (child.get("type") == "object" or "properties" not in child):
            yield path + name, child.get("default")
        elif child.get("type") == "array":
            yield path + name, child.get("default")
            yield from _spec_fields(inner, f"{path}{name}[].")
        else:
            yield from _spec_fields(child, f"{path}{name}.")


def test_the_page_has_every_field_of_a_policy_with_its_default():
    (policy,) = (each for each in definitions() if each["spec"]["names"]["kind"] == "ResizePolicy")
    schema = policy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    wanted = list(_spec_fields(schema))
    rows = re.findall(r"^\| ([\w.\[\]]+) \| ([^|]+) \| [^|]*\|$", PAGE.read_text(), re.MULTILINE)
    told = [(name, default) for name, default in rows if name in dict(wanted)]
    assert [name for name, _ in told] == [name for name, _ in wanted]
    for (name, default), (_, text) in zip(wanted, told, strict=True):
        assert name == "triggers" or text == ("-" if default is None else str(default)), name


def test_the_api_page_has_every_field_and_no_other():
    messages = list(resize_pb2.DESCRIPTOR.message_types_by_name.values())
    messages += [agents_pb2.DESCRIPTOR.message_types_by_name[name] for name in ("Samples", "Sample")]
    wanted = [row for message in messages for row in _fields(message)]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\d+) \| ([\w ]+) \| (.+) \|$", API.read_text(), re.MULTILINE)
    assert [row[:4] for row in rows] == wanted
    assert all(row[4].strip() for row in rows)


def test_the_api_page_has_every_call_with_its_messages():
    wanted = []
    for service in resize_pb2.DESCRIPTOR.services_by_name.values():
        for call in service.methods:
            answer = f"stream of {call.output_type.name}" if call.server_streaming else call.output_type.name
            wanted.append((service.name, call.name, f"{call.input_type.name} → {answer}"))
    assert re.findall(r"^\| ([A-Z]\w+) \| (\w+) \| (\w+ → [\w ]+) \|$", API.read_text(), re.MULTILINE) == wanted


def test_states_and_words_of_messages_are_the_programs():
    text = API.read_text()
    for name, number in (*SYNC_NUMBERS.items(), *resize_pb2.ResourceUpdateState.State.items()):
        assert re.search(rf"{name}\s{number}\b", text), name
    for beginning in BEGINNINGS.values():
        assert re.search(beginning.replace(" ", r"\s"), text), beginning
        assert beginning in PAGE.read_text(), beginning


def test_periods_are_the_programs():
    text = EXPLANATION.read_text()
    assert f"{SYNC_SECONDS:.0f} s (`--sync-seconds`, 1 to 3600); with a problem every {RETRY_SECONDS:.0f} s" in text
    assert RESERVATION_SECONDS == 10
    assert "keeps the room for ten seconds" in text


@pytest.mark.parametrize("page", [PAGE, API, EXPLANATION])
def test_what_the_pages_point_at_is_there(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for named in re.findall(r"`((?:tests|bench)/[\w/.]+)`", text):
        assert (ROOT / named).exists(), named
    for named in re.findall(r"`((?:ledger|resize|store|runtime|node)/[\w/]+\.py)`", text):
        assert (ROOT / "src" / "headrace" / named).exists(), named


def test_performance_events_follow_the_documented_schema():
    [schema] = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    monitoring = Monitoring(MemoryMetrics(), lambda: 1_800_000_000.0)
    monitoring.judged("default/web/app", "latency", 450.0, 300.0, True)
    monitoring.judged("default/web/app", "latency", 250.0, 300.0, False)
    for event in monitoring.recent():
        jsonschema_rs.validate(schema, event)
