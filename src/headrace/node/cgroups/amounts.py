"""Limits in the kernel's units, and what of them the kernel keeps exactly. Pure arithmetic.

Sources: kernel Documentation/scheduler/sched-bwc.rst (least quota 1000 µs, longest period 1 s); KEP-2254 for weights.
"""

from dataclasses import replace

from headrace.node.runtimes.protocol import ApplyFailed, Limits

PERIOD_MICROSECONDS = 100_000
LONGEST_PERIOD_MICROSECONDS = 1_000_000
LEAST_QUOTA_MICROSECONDS = 1_000
LEAST_SHARES = 2
MOST_SHARES = 262_144
LEAST_MEMORY_BYTES = 1 << 20
UNLIMITED_BYTES = 1 << 62  # cgroup v1 prints a number near 2**63 for "no limit"
PAGE_BYTES = 4096


def check(limits: Limits) -> None:
    """Raises ApplyFailed naming the value and the least that is possible. None, not 0, is unlimited."""
    if limits.cpu_milli is not None and limits.cpu_milli < 1:
        raise ApplyFailed(f"cpu limit {limits.cpu_milli}m: must be at least 1m")
    if limits.memory_bytes is not None and limits.memory_bytes < LEAST_MEMORY_BYTES:
        raise ApplyFailed(f"memory limit {limits.memory_bytes} bytes: must be at least {LEAST_MEMORY_BYTES}")
    if limits.cpu_shares_milli is not None and limits.cpu_shares_milli < 0:
        raise ApplyFailed(f"cpu request {limits.cpu_shares_milli}m: must not be negative")


def quota(milli: int) -> tuple[int, int]:
    """Quota and period in microseconds. Below 10m the period grows, since the kernel takes no quota under 1000 µs."""
    if milli * PERIOD_MICROSECONDS // 1000 >= LEAST_QUOTA_MICROSECONDS:
        return milli * PERIOD_MICROSECONDS // 1000, PERIOD_MICROSECONDS
    return milli * LONGEST_PERIOD_MICROSECONDS // 1000, LONGEST_PERIOD_MICROSECONDS


def milli_of_quota(quota: int, period: int) -> int | None:
    """Millicores, rounded up; None for a negative quota, which is no limit."""
    return None if quota < 0 else -(-quota * 1000 // period)


def shares(milli: int | None) -> int:
    """cpu.shares of a request; no request has the least, as in Kubernetes."""
    return min(MOST_SHARES, max(LEAST_SHARES, (milli or 0) * 1024 // 1000))


def milli_of_shares(value: int) -> int:
    """Back from cpu.shares; exact for requests from 2m on."""
    return -(-value * 1000 // 1024)


def weight(milli: int | None) -> int:
    """cpu.weight (1 to 10000) of a request, by the line through shares 2 and 262144 that runtimes use."""
    return 1 + (shares(milli) - LEAST_SHARES) * 9999 // (MOST_SHARES - LEAST_SHARES)


def milli_of_weight(value: int) -> int:
    """Back from cpu.weight. A step of weight is 26 shares, so this is near the request, not the request."""
    return milli_of_shares(LEAST_SHARES + -(-(value - 1) * (MOST_SHARES - LEAST_SHARES) // 9999))


def pages(size: int) -> int:
    """A memory limit as the kernel keeps it: whole pages, rounded down."""
    return size // PAGE_BYTES * PAGE_BYTES


def settled(asked: Limits, found: Limits, kept: Limits) -> Limits:
    """`found`, but in the words of `asked` where the kernel keeps the one as the other.

    `kept` is what the kernel makes of `asked`. So 100M reads back as 100M, not as 99999744, and nobody sees a drift.
    """
    return replace(
        found,
        cpu_milli=asked.cpu_milli if found.cpu_milli == kept.cpu_milli else found.cpu_milli,
        memory_bytes=asked.memory_bytes if found.memory_bytes == kept.memory_bytes else found.memory_bytes,
        cpu_shares_milli=(
            asked.cpu_shares_milli if found.cpu_shares_milli == kept.cpu_shares_milli else found.cpu_shares_milli
        ),
    )
