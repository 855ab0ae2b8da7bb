"""Arithmetic of limits: what the kernel keeps of them comes back as what was asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.cgroups import amounts
from headrace.node.runtimes.protocol import ApplyFailed, Limits


@given(milli=st.integers(1, 10**7))
def test_a_cpu_limit_comes_back_exactly_and_is_never_below_what_the_kernel_takes(milli: int) -> None:
    quota, period = amounts.quota(milli)
    assert quota >= amounts.LEAST_QUOTA_MICROSECONDS
    assert 1000 <= period <= amounts.LONGEST_PERIOD_MICROSECONDS
    assert amounts.milli_of_quota(quota, period) == milli


@pytest.mark.parametrize(
    ("milli", "quota", "period"),
    [
        pytest.param(500, 50_000, 100_000, id="half a CPU"),
        pytest.param(10, 1000, 100_000, id="the least at the usual period"),
        pytest.param(9, 9000, 1_000_000, id="less than that takes a longer period"),
        pytest.param(5, 5000, 1_000_000, id="five millicores"),
        pytest.param(1, 1000, 1_000_000, id="the least of all"),
    ],
)
def test_quota_and_period(milli: int, quota: int, period: int) -> None:
    assert amounts.quota(milli) == (quota, period)


@given(milli=st.integers(2, 256_000))
def test_a_request_comes_back_exactly_from_shares(milli: int) -> None:
    assert amounts.milli_of_shares(amounts.shares(milli)) == milli


@given(milli=st.integers(0, 10**7))
def test_a_request_comes_back_nearly_from_a_weight_and_the_same_weight_from_that(milli: int) -> None:
    weight = amounts.weight(milli)
    assert 1 <= weight <= 10_000
    assert amounts.weight(amounts.milli_of_weight(weight)) == weight


@pytest.mark.parametrize(
    ("request_milli", "shares"), [(None, 2), (0, 2), (1, 2), (100, 102), (1000, 1024), (10**9, 262_144)]
)
def test_shares_are_those_of_kubernetes(request_milli: int | None, shares: int) -> None:
    assert amounts.shares(request_milli) == shares


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        pytest.param(Limits(500, 99_999_744, 4), Limits(500, 100_000_000, 1), id="as the kernel keeps what was asked"),
        pytest.param(Limits(330, 99_999_744, 4), Limits(330, 100_000_000, 1), id="the CPU was changed by somebody"),
        pytest.param(Limits(None, None, 4), Limits(None, None, 1), id="nothing is limited any more"),
    ],
)
def test_only_a_real_difference_shows(found: Limits, answer: Limits) -> None:
    assert amounts.settled(Limits(500, 100_000_000, 1), found, Limits(500, 99_999_744, 4)) == answer


@pytest.mark.parametrize("limits", [Limits(0), Limits(-1), Limits(None, 0), Limits(None, 4095), Limits(None, None, -1)])
def test_what_is_below_the_least_is_refused(limits: Limits) -> None:
    with pytest.raises(ApplyFailed, match="must"):
        amounts.check(limits)
