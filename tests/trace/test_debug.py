"""Debug levels, and the time of stages."""

from __future__ import annotations

import threading

import pytest

from tinyfn.trace import debug
from tinyfn.trace.debug import StageTimes, debug_level, level, stage, stage_times


def test_the_level_is_the_environments_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYFN_DEBUG", raising=False)
    monkeypatch.delenv("DEBUG", raising=False)
    assert level() == 0
    monkeypatch.setenv("DEBUG", "3")
    assert level() == 3
    monkeypatch.setenv("DEBUG", "express:*")  # another program's
    assert level() == 0
    monkeypatch.setenv("TINYFN_DEBUG", "2")
    assert level() == 2
    with debug_level(4):
        assert level() == 4
        with debug_level(0):
            assert level() == 0
        assert level() == 4
        with debug_level(None):
            assert level() == 2
    assert level() == 2
    setter = debug_level(1)
    assert level() == 1
    setter.__exit__()
    monkeypatch.setenv("TINYFN_DEBUG", "much")
    with pytest.raises(ValueError, match="TINYFN_DEBUG is 'much'"):
        level()


@pytest.mark.parametrize("value", [-1, "2", 1.5])
def test_levels_that_are_none_are_refused(value: object) -> None:
    before = level()
    with pytest.raises(ValueError, match="the debug level is a number"):
        debug_level(value)  # type: ignore[arg-type]
    assert level() == before


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "time", CLOCK)


def busy(seconds: float) -> None:
    CLOCK.now += seconds


@stage("inner")
def inner() -> int:
    """Takes 2 s."""
    busy(2)
    return 7


def test_times_of_stages_do_not_overlap() -> None:
    with stage_times() as times:
        with stage("outer"):
            busy(1)
            assert inner() == 7
            inner()
    assert list(times.counts.items()) == [("inner", 2), ("outer", 1)]
    assert times.seconds == {"inner": 4, "outer": 1} and times.total == 5
    assert inner.__doc__ == "Takes 2 s."


def test_nothing_is_measured_outside() -> None:
    inner()
    with stage("outer"):
        with stage_times() as times:
            pass
    inner()
    assert times.seconds == {} and str(times).endswith("0.00") and repr(times) == "<StageTimes: nothing ms>"


def test_a_measurement_within_another_counts_for_both() -> None:
    with stage_times() as outer:
        with stage("around"):
            with stage_times() as within:
                inner()
    assert within.counts == {"inner": 1} and outer.counts == {"inner": 1, "around": 1}
    assert outer.seconds == {"inner": 2, "around": 0}


def test_an_error_ends_a_stage() -> None:
    with stage_times() as times:
        with pytest.raises(KeyError), stage("failing"):
            raise KeyError
        inner()
    assert times.counts == {"failing": 1, "inner": 1}


def test_other_threads_are_not_measured() -> None:
    with stage_times() as times:
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
    assert times.counts == {}


def test_the_table() -> None:
    times = StageTimes()
    times.add("trace", 0.0123)
    times.add("render", 0.0041, count=3)
    assert str(times) == (
        "stage          ms   share   calls\n"
        "trace       12.30   75.0%       1\n"
        "render       4.10   25.0%       3\n"
        "all         16.40"
    )
    assert times.line() == "trace 12.3, render 4.1"
