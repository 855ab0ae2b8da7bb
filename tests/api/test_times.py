import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.times import SKEW_SECONDS, from_time, past, stamp, to_micro_time, to_time

NOW = 1_800_000_000.0


@given(st.integers(0, 4_000_000_000_000_000))
def test_what_is_written_is_read(microseconds):
    at = microseconds / 1_000_000
    assert from_time(to_micro_time(at)) == pytest.approx(at, abs=1e-6)
    assert from_time(to_time(at)) == at // 1


@pytest.mark.parametrize(
    ("at", "counts_as"),
    [
        pytest.param(NOW - 60, NOW - 60, id="a minute ago"),
        pytest.param(NOW, NOW, id="now"),
        pytest.param(NOW + SKEW_SECONDS, NOW + SKEW_SECONDS, id="by another machine's clock, which is a little ahead"),
        pytest.param(NOW + 60, 0.0, id="by a clock that was set back since"),
    ],
)
def test_since_when_something_is_waited_for(at, counts_as):
    assert past(to_time(at), NOW) == counts_as


@given(st.floats(-86_400, 86_400), st.floats(0, 600))
def test_no_wait_outlasts_its_span_however_the_clock_was_set(set_by, span):
    begun = to_micro_time(NOW)
    assert past(begun, NOW + set_by) + span - (NOW + set_by) <= span + SKEW_SECONDS + 1e-3


@pytest.mark.parametrize("recorded", [None, "", "x", "2027-01-01", "2027-13-01T00:00:00Z", 7, {}], ids=repr)
def test_a_recorded_stamp_that_cannot_be_read_counts_as_long_ago(recorded):
    assert stamp(recorded) == 0.0
    assert past(str(recorded), NOW) == 0.0
