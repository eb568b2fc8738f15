"""One workload of one library in a process of its own.

    python -m benchmarks.worker LIBRARY WORKLOAD THREADS

It sets the workload up, makes the first call, prints what that took, and then obeys the lines that it reads: `round` times
some calls, `show FILE` writes the result of a call from the start, `memory` tells the peak. Answers are lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

# A round takes about this long, in seconds, if that is not fewer or more calls.
ROUND, FEWEST, MOST = 0.15, 5, 200
# Calls before the clock starts, at least as many and for at least so long: the other libraries had the caches, their threads may
# still be looking for work, and ours sleep.
WARM_UP, WARM_UP_TIME = 3, 0.02


def measured(function: Callable[[], Any]) -> tuple[float, Any]:
    """What a call took in seconds, and its result."""
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def memory(field: str) -> int:
    """Bytes of this process's memory, as Linux tells: VmRSS now, VmHWM at the most; 0 where it does not tell."""
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines[field].split()[0]) << 10
    except (OSError, KeyError):
        return 0


def leaves(tree: Any) -> list[Any]:
    """The arrays of a tree, those of a dict in the order of its keys, as NumPy arrays."""
    if isinstance(tree, dict):
        return [leaf for _, value in sorted(tree.items()) for leaf in leaves(value)]
    if isinstance(tree, (list, tuple)):
        return [leaf for value in tree for leaf in leaves(value)]
    import numpy as np

    return [np.array(tree.detach() if hasattr(tree, "detach") else tree)]


def one_round(run: Any) -> list[float]:
    """The times of some calls, the first from the start."""
    run.reset()
    calls, end = 0, time.perf_counter() + WARM_UP_TIME
    while calls < WARM_UP or time.perf_counter() < end:
        run()
        calls += 1
    run.reset()
    times: list[float] = []
    end = time.perf_counter() + ROUND
    while len(times) < FEWEST or (time.perf_counter() < end and len(times) < MOST):
        took, result = measured(run)
        del result  # so that its memory can be used again, as in a loop
        times.append(took)
    return times


def bind(threads: int) -> None:
    """Let this process use as many cores as it is to have threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> None:
    """Serve until the input ends."""
    library_name, workload_name, threads = sys.argv[1:]
    bind(int(threads))
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    from benchmarks import libraries, workloads

    import_time, library = measured(lambda: libraries.load(library_name))
    workload = workloads.WORKLOADS[workload_name]
    inputs = workload.inputs()
    setup_time, run = measured(lambda: getattr(library, workload.kind)(inputs))
    before = memory("VmRSS")
    first_time, result = measured(run)
    del result
    answer({"import": import_time, "setup": setup_time, "first": first_time, "versions": library.versions})
    for line in sys.stdin:
        command, _, path = line.strip().partition(" ")
        if command == "round":
            answer(one_round(run))
        elif command == "memory":
            answer({"before": before, "peak": memory("VmHWM")})
        elif command == "show":
            import numpy as np

            run.reset()
            np.savez(path, *leaves(run.shown(run())))
            answer(True)


if __name__ == "__main__":
    main()
