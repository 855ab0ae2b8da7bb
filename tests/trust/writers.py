"""Callers that write through HTTP and remember what was acknowledged; what got no answer may have happened or not."""

import http.client
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.trust.servers import Caller, Server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
NODE = {"metadata": {"name": "node-a"}, "status": {"capacity": {"cpu": "64", "memory": "64Gi", "pods": "1000"}}}
NO_ANSWER = (OSError, http.client.HTTPException)
NAMES = 5


def pod(name: str, milli: int) -> dict[str, Any]:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": f"{milli}m"}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-a", "containers": [container]}}


@dataclass(slots=True)
class Acknowledged:
    """The last acknowledged state of each ConfigMap: revision and text, or None where it was deleted.

    `open`: what was asked for and got no answer; the next look says whether it happened.
    """

    last: dict[str, tuple[int, str] | None] = field(default_factory=dict)
    open: dict[str, str | None] = field(default_factory=dict)
    revisions: set[int] = field(default_factory=set)

    def revision(self, number: int) -> None:
        assert number not in self.revisions, f"revision {number} was given out twice"
        self.revisions.add(number)

    def compare(self, found: dict[str, tuple[int, str]]) -> list[str]:
        """What is lost or changed, in sentences; afterwards the open ones are known."""
        wrong = []
        for name in {*self.last, *self.open, *found}:
            here, there = self.last.get(name), found.get(name)
            if here == there:
                continue
            hoped = self.open[name] if name in self.open else here and here[1]
            happened = name in self.open and (there is None) == (hoped is None) and (there is None or there[1] == hoped)
            newer = there is None or here is None or there[0] > here[0]
            if not (happened and newer):
                wrong.append(f"{name}: {here} was acknowledged, {there} is there")
        self.last, self.open = dict(found), {}
        return wrong


class Writers:
    """Threads that write until the server is gone; each has names of its own, so nobody undoes another's write.

    An answer with one of the codes in `ending` says that it is about to go: what was asked may have happened.
    """

    def __init__(self, server: Server, acknowledged: Acknowledged, seed: int, count: int = 4) -> None:
        self._server, self._acknowledged = server, acknowledged
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.writes = 0
        self.ending: tuple[int, ...] = ()
        self._failures: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._write, args=(number, random.Random(f"{seed}-{number}")), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def join(self) -> None:
        """Raises what any of them found wrong."""
        for thread in self._threads:
            thread.join()
        for failure in self._failures:
            raise failure

    def _write(self, number: int, chance: random.Random) -> None:
        caller = self._server.caller()
        try:
            while not self._stopped.is_set():
                self._one(caller, number, chance)
        except NO_ANSWER:
            pass
        except Exception as failure:
            self._failures.append(failure)
        finally:
            caller.close()

    def _one(self, caller: Caller, number: int, chance: random.Random) -> None:
        name = f"{number}-{chance.randrange(NAMES)}"
        kind = chance.random()
        if kind < 0.25:
            code, answer = caller.call("POST", PODS, pod(f"pod-{name}", chance.randrange(1, 9) * 100))
            self._heard(answer if code == 201 else None)
        elif kind < 0.4:
            caller.call("DELETE", f"{PODS}/pod-{name}?gracePeriodSeconds=0")
        elif kind < 0.5:
            self._config_map(caller, name, None)
        else:
            self._config_map(caller, name, f"{time.monotonic_ns()}" + "x" * chance.randrange(3000))

    def _config_map(self, caller: Caller, name: str, text: str | None) -> None:
        held = self._acknowledged
        before = held.last.get(name)
        if before is None and text is None:
            return
        with self._lock:
            held.open[name] = text
        if text is None:
            code, answer = caller.call("DELETE", f"{CONFIG_MAPS}/{name}")
        else:
            body = {"metadata": {"name": name}, "data": {"text": text}}
            if before is None:
                code, answer = caller.call("POST", CONFIG_MAPS, body)
            else:
                code, answer = caller.call("PUT", f"{CONFIG_MAPS}/{name}", body)
        if code in self.ending:
            raise ConnectionError
        assert code in (200, 201), answer
        with self._lock:
            held.last[name] = None if text is None else (self._revision(answer), text)
            del held.open[name]
            self.writes += 1

    def _revision(self, answer: dict[str, Any]) -> int:
        number = int(answer["metadata"]["resourceVersion"])
        self._acknowledged.revision(number)
        return number

    def _heard(self, answer: dict[str, Any] | None) -> None:
        if answer is not None:
            with self._lock:
                self._acknowledged.revision(int(answer["metadata"]["resourceVersion"]))


def config_maps(caller: Caller) -> tuple[int, dict[str, tuple[int, str]]]:
    """The list's revision, and revision and text of each."""
    code, answer = caller.call("GET", CONFIG_MAPS)
    assert code == 200, answer
    found = {
        item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), item["data"]["text"])
        for item in answer["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
    }
    return int(answer["metadata"]["resourceVersion"]), found
