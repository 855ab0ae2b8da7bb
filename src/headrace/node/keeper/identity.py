"""Which process is meant: a pid together with its start time. A bare pid may belong to somebody else by now."""

ZOMBIE_STATES = ("Z", "X")


class Stat:
    """The fields of /proc/PID/stat that identify a process, say what it used and how it ended."""

    __slots__ = ("cpu_ticks", "group", "parent", "resident_pages", "session", "start_ticks", "state", "status")

    def __init__(self, text: str) -> None:
        fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.cpu_ticks = sum(map(int, fields[11:15]))  # its own and its waited-for children's
        self.start_ticks = int(fields[19])
        self.resident_pages = int(fields[21])
        self.status = int(fields[49]) if len(fields) > 49 else 0


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return Stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def runs(pid: int, start_ticks: int) -> bool:
    """Whether this very process still runs; one that has ended but was not waited for does not."""
    found = stat(pid)
    return found is not None and found.start_ticks == start_ticks and found.state not in ZOMBIE_STATES


def boot_id() -> str:
    """Changes with each boot of the machine: start times of another boot mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
