"""docs/reference/resize.md says what the program does: diagrams are drawn from the tables, events follow the schema."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from headrace.metrics.memory import MemoryMetrics
from headrace.resize.monitoring import Monitoring
from headrace.resize.sync import STATES, SYNC, diagram

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "resize.md"


@pytest.mark.parametrize(("name", "table", "first"), [("sync", SYNC, "UNKNOWN"), ("state", STATES, "Pending")])
def test_diagrams_are_drawn_from_the_tables(name, table, first):
    drawn = "\n".join(diagram(table, first))
    found = re.search(rf"<!-- {name} -->\n```mermaid\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert found.group(1) == drawn, f"put this into {PAGE.name}:\n{drawn}"


def test_performance_events_follow_the_documented_schema():
    [schema] = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    monitoring = Monitoring(MemoryMetrics(), lambda: 1_800_000_000.0)
    monitoring.judged("default/web/app", "latency", 450.0, 300.0, True)
    monitoring.judged("default/web/app", "latency", 250.0, 300.0, False)
    for event in monitoring.recent():
        jsonschema_rs.validate(schema, event)
