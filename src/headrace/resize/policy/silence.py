"""Which metrics of a policy nobody has reported since it began: its triggers on them can never act. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.api.objects import Object, metadata
from headrace.resize.policy.decision import Container
from headrace.resize.policy.signals import readings
from headrace.resize.policy.spec import THROTTLING, Policy, Trigger

WINDOWS = 5  # samples come about once a second: after so many windows of a trigger something should have come
LEAST_SECONDS = 60.0  # what is scraped or asked for comes less often
LOOKED_AT = 3  # samples: two make a rate


@dataclass(slots=True)
class Silence:
    """What was heard of one policy since its `generation` and its first container `began` to be looked at."""

    generation: int = -1
    began: float = 0.0
    heard: set[str] = field(default_factory=set)

    def look(self, obj: Object, policy: Policy, containers: Sequence[Container], asks: bool, now: float) -> str:
        """Names what never came, or nothing. `asks`: somebody asks the policy's queries."""
        generation = int(metadata(obj).get("generation", 0))
        if generation != self.generation or not containers:
            self.generation, self.began = generation, now
            self.heard.clear()
        if not containers:
            return ""
        self.heard |= {
            each.metric for each in policy.triggers if each.metric not in self.heard and _came(each, containers)
        }
        missing = [each for each in policy.triggers if each.metric not in self.heard]
        queried = {str(each["metric"]) for each in obj["spec"].get("triggers") or () if each.get("query")}
        unasked = [each.metric for each in missing if each.metric in queried and not asks]
        late = [
            each.metric
            for each in missing
            if each.metric not in unasked and now - self.began >= max(LEAST_SECONDS, float(WINDOWS * each.of))
        ]
        told = []
        if unasked:
            told.append(f"{', '.join(unasked)}: queries are asked on a cluster only; let the application report it")
        if late:
            told.append(f"{', '.join(late)}: nobody has reported it since the policy began")
        return "; ".join(told)


def _came(trigger: Trigger, containers: Sequence[Container]) -> bool:
    if trigger.metric == THROTTLING:  # an idle container passes no period, but has passed some
        return any(each.usage and each.usage[-1].periods > 0 for each in containers)
    return any(readings(trigger.metric, each.usage[-LOOKED_AT:], each.values) for each in containers)
