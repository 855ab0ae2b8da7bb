"""Callers that race for a few ConfigMaps and write down every call, answer and missing answer; and who judges that."""

import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.trust.servers import Caller, Server
from tests.trust.writers import CONFIG_MAPS, NO_ANSWER

JUDGE = Path(__file__).parent / "judge"
KEYS = 4
CALLERS = 8
PATIENCE_SECONDS = 60.0

Operation = dict[str, Any]


class History:
    """`record` lets callers race while `between` does what it likes to the server."""

    def __init__(self, server: Server, seed: int, operations: int) -> None:
        self.operations: list[Operation] = []
        self._server, self._seed = server, seed
        self._each = operations // CALLERS
        self._failures: list[Exception] = []
        self.serving = threading.Event()
        self.serving.set()

    @property
    def done(self) -> float:
        """The part of all operations that has been called."""
        return len(self.operations) / (self._each * CALLERS)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._race, args=(each,), daemon=True) for each in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for failure in self._failures:
            raise failure

    def _race(self, client: int) -> None:
        try:
            chance, seen = random.Random(f"{self._seed}-{client}"), dict[str, int]()
            caller = self._server.caller()
            for number in range(self._each):
                if not self._call(caller, chance, seen, client, number):
                    caller.close()
                    assert self.serving.wait(PATIENCE_SECONDS)
                    caller = self._server.caller()
            caller.close()
        except Exception as failure:
            self._failures.append(failure)

    def _call(self, caller: Caller, chance: random.Random, seen: dict[str, int], client: int, number: int) -> bool:
        key, text = f"key-{chance.randrange(KEYS)}", f"{client}-{number}"
        operation: Operation = {"client": client, "key": key, "code": 0, "revision": 0, "got": "", "returned": 0}
        request = _request(chance, key, text, seen.get(key, 0), operation)
        operation["called"] = time.monotonic_ns()
        try:
            operation["code"], answer = caller.call(*request)
            operation["returned"] = time.monotonic_ns()
        except NO_ANSWER:
            answer = {}
        if operation["code"] in (200, 201) and operation["verb"] != "delete":
            seen[key] = operation["revision"] = int(answer["metadata"]["resourceVersion"])
            operation["got"] = answer["data"]["text"]
        self.operations.append(operation)
        return bool(operation["returned"])


def _request(chance: random.Random, key: str, text: str, seen: int, operation: Operation) -> tuple[Any, ...]:
    kind = chance.choices(["get", "create", "replace", "patch", "delete"], [35, 15, 25, 20, 5])[0]
    if kind == "replace" and not seen:
        kind = "get"
    expected = seen if kind == "replace" or (kind == "delete" and chance.random() < 0.5) else 0
    verb = {"replace": "put", "patch": "put"}.get(kind, kind)
    operation |= {"verb": verb, "text": text if kind in ("create", "replace", "patch") else "", "expected": expected}
    path = f"{CONFIG_MAPS}/{key}"
    match kind:
        case "get":
            return ("GET", path)
        case "create":
            return ("POST", CONFIG_MAPS, {"metadata": {"name": key}, "data": {"text": text}})
        case "replace":
            meta = {"name": key, "resourceVersion": str(seen)}
            return ("PUT", path, {"metadata": meta, "data": {"text": text}})
        case "patch":
            return ("PATCH", path, {"data": {"text": text}}, "application/merge-patch+json")
    conditions = {"preconditions": {"resourceVersion": str(expected)}} if expected else None
    return ("DELETE", path, conditions)


def build_judge(folder: Path) -> Path:
    """The judge, compiled. Needs Go."""
    go = shutil.which("go")
    assert go is not None, "histories are judged by porcupine, which is built with Go 1.24 or newer: none on PATH"
    program = folder / "judge"
    subprocess.run([go, "build", "-o", program, "."], cwd=JUDGE, check=True, timeout=300)
    return program


def verdict(judge: Path, operations: Iterable[Operation], file: Path) -> str:
    """`Ok`, `Illegal` or `Unknown`."""
    file.write_text("".join(json.dumps(each) + "\n" for each in operations))
    done = subprocess.run([judge, file], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode < 3, done.stderr
    return done.stdout.split(":")[0]


def out_of_order(operations: Iterable[Operation]) -> list[str]:
    """Writes of any keys whose revisions contradict real time: revisions are one counter."""
    written = [each for each in operations if each["verb"] != "get" and each["revision"]]
    by_return = sorted(written, key=lambda each: each["returned"])
    wrong, highest, place = [], 0, 0
    for each in sorted(written, key=lambda each: each["called"]):
        while by_return[place]["returned"] < each["called"]:
            highest = max(highest, by_return[place]["revision"])
            place += 1
        if each["revision"] <= highest:
            wrong.append(f"{each['verb']} {each['key']} got {each['revision']} after {highest} had been answered")
    return wrong
