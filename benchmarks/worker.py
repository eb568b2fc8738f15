"""One workload of one library in a process of its own: a round of timings for each line that it reads."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """Serve rounds until the input ends."""
    library_name, workload_name = sys.argv[1:]
    begin = time.perf_counter()
    from benchmarks import workloads

    library = workloads.load(library_name)
    imported = time.perf_counter() - begin
    call = workloads.WORKLOADS[workload_name](library)
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    for _ in range(20):
        call()
    print(json.dumps({"import": imported, "first": first}), flush=True)
    for _ in sys.stdin:
        times = []
        end = time.perf_counter() + 0.1
        while len(times) < 10 or (time.perf_counter() < end and len(times) < 1000):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
