"""Trees of plain files with the contents of real cgroups: no kernel stands behind them, so only the order of writes,
the refusals and the undoing can be tested on them, not enforcement.
"""

from pathlib import Path

from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, Mounted
from headrace.node.cgroups.v1 import V1Group
from headrace.node.cgroups.v2 import V2Group

V2_FILES = {
    "cgroup.procs": "",
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc",
    "cgroup.subtree_control": "",
    "cpu.max": "max 100000",
    "cpu.weight": "100",
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nnr_periods 40\nnr_throttled 7\nthrottled_usec 9",
    "cpu.pressure": "some avg10=1.50 avg60=0.00 avg300=0.00 total=99\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "memory.current": str(80 << 20),
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.stat": f"anon {60 << 20}\nfile {20 << 20}\ninactive_anon 0\ninactive_file {15 << 20}\nactive_file 5",
    "memory.events": "low 0\nhigh 17\nmax 2\noom 1\noom_kill 3\noom_group_kill 0",
    "memory.pressure": "some avg10=9.96 avg60=1.00 avg300=0.00 total=99\nfull avg10=0.00 avg60=0.00 total=0",
}
V1_FILES = {
    "cpu": {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.shares": "1024", "cgroup.procs": ""},
    "memory": {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.memsw.limit_in_bytes": "9223372036854771712",
        "memory.usage_in_bytes": str(80 << 20),
        "memory.stat": f"cache 5\ninactive_file 1\ntotal_cache 5\ntotal_inactive_file {15 << 20}\ntotal_active_file 5",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
        "memory.failcnt": "12",
        "cgroup.procs": "",
    },
}


def fill(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
    return directory


def v2_group(root: Path, **options) -> V2Group:
    return V2Group(fill(root / "group", V2_FILES), **options)


def v1_group(root: Path) -> V1Group:
    return V1Group({name: fill(root / name / "group", files) for name, files in V1_FILES.items()})


def v2_system(root: Path, place: str, procs: str = "") -> Hierarchies:
    """A machine with v2 only, on which this process is in cgroup `place`."""
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(f"0::{place}\n")
    fill(root / "cgroup", V2_FILES)
    fill(root / "cgroup" / place.strip("/"), {**V2_FILES, "cgroup.procs": procs})
    return Hierarchies({UNIFIED: Mounted(root / "cgroup", "/")}, proc)
