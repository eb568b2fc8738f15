"""Tables of what was measured, goals, and comparison with an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from .runner import Outcome
from .workloads import WORKLOADS, Goal

OURS = "tinyfn"
HEADER = (
    f"{'workload':20}{'library':14}{'cached':>10}{'first':>10}{'warm':>10}{'import':>9}{'peak':>9}{'limit':>7}"
    f"{'ratio':>9}  {'of rounds':13}{'least':>6}  goals"
)


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # what is rounded up to 1 in this unit
            return (
                f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds * 1e9:.3g} ns"


def cached(outcome: Outcome) -> float:
    """The median time of a cached call over all rounds."""
    return median(time for times in outcome.rounds for time in times)


def least(outcome: Outcome) -> float:
    """The least time of a cached call: what it takes when nothing else runs, if that happened at all."""
    return min(time for times in outcome.rounds for time in times)


def ratios(ours: Outcome, theirs: Outcome) -> list[float]:
    """For each round our median time over theirs."""
    return [median(a) / median(b) for a, b in zip(ours.rounds, theirs.rounds, strict=True)]


def reached(ours: Outcome, theirs: Outcome, goal: Goal) -> float:
    """The ratio that a goal is about: of cached calls the median over rounds, of first calls that of medians.

    A first call of ours that finds its code on disk is compared with one of theirs as it is without asking for a cache."""
    if goal.what == "cached":
        return median(ratios(ours, theirs))
    mine = ours.cold if goal.what == "cold" else ours.warm
    return median(mine) / median(theirs.cold)


def of_limit(name: str, outcome: Outcome, limits: dict[str, float]) -> float | None:
    """The least time that the machine's limits allow for a workload over the time it took; None without limits."""
    workload = WORKLOADS[name]
    if not limits or not (workload.flops or workload.bytes):
        return None
    least = max(workload.flops / limits["flops"], workload.bytes / limits["bytes"])
    return least / cached(outcome)


def judged(name: str, outcomes: dict[str, Outcome]) -> Iterator[tuple[Goal, float]]:
    """The goals of a workload that can be judged, each with what was reached."""
    for goal in WORKLOADS[name].goals:
        pair = outcomes.get(OURS), outcomes.get(goal.peer)
        if pair[0] and pair[1] and not pair[0].error and not pair[1].error:
            yield goal, reached(pair[0], pair[1], goal)


def lines(name: str, outcomes: dict[str, Outcome], limits: dict[str, float]) -> Iterator[str]:
    """The lines of a workload, one for each library."""
    ours = outcomes.get(OURS)
    for library, outcome in outcomes.items():
        start = f"{name:20}{library:14}"
        if outcome.error:
            yield f"{start}failed: {' / '.join(outcome.error.splitlines())}"
            continue
        share = of_limit(name, outcome, limits)
        line = (
            f"{start}{duration(cached(outcome)):>10}{duration(median(outcome.cold)):>10}"
            f"{duration(median(outcome.warm)):>10}{duration(median(outcome.imports)):>9}"
            f"{outcome.peak / 1e6:>6.0f} MB{'' if share is None else f'{100 * share:.0f} %':>7}"
        )
        if library != OURS and ours is not None and not ours.error:
            each = ratios(ours, outcome)
            spread = f"{min(each):.2f} - {max(each):.2f}"
            goals = ", ".join(
                f"{goal}: {'met' if value <= goal.ratio else 'NOT met'} ({value:.2f})"
                for goal, value in judged(name, outcomes)
                if goal.peer == library
            )
            best = least(ours) / least(outcome)
            line += f"{median(each):>9.2f}  {spread:13}{best:>6.2f}  {goals}"
        yield line.rstrip()


def summary(results: dict[str, dict[str, Outcome]]) -> str:
    """How many goals were met, and which were not."""
    all_judged = [(name, goal, value) for name in results for goal, value in judged(name, results[name])]
    if not all_judged:
        return ""
    missed = [f"{name} {goal} ({value:.2f})" for name, goal, value in all_judged if value > goal.ratio]
    text = f"goals met: {len(all_judged) - len(missed)} of {len(all_judged)}"
    return text + ("; not met: " + ", ".join(missed) if missed else "")


def comparison(results: dict[str, dict[str, Outcome]], old: dict[str, Any]) -> Iterator[str]:
    """Cached and first calls of an earlier run (its JSON) beside those of this one.

    A peer that has changed as well tells how much of a change is the machine's."""
    yield f"{'workload':20}{'library':14}{'cached before':>14}{'now':>10}{'now/before':>12}{'first before':>14}{'now':>10}"
    for name, outcomes in results.items():
        for library, outcome in outcomes.items():
            before = old["workloads"].get(name, {}).get(library)
            if outcome.error or not before or before["error"]:
                continue
            was = median(time for times in before["rounds"] for time in times)
            now = cached(outcome)
            yield (
                f"{name:20}{library:14}{duration(was):>14}{duration(now):>10}{now / was:>12.2f}"
                f"{duration(median(before['cold'])):>14}{duration(median(outcome.cold)):>10}"
            )
