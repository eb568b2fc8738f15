"""Time the workloads side by side with a peer.

    python -m benchmarks                                  tinyfn alone
    python -m benchmarks --peer jax=/path/to/python       and JAX, from the environment of that interpreter

Each workload runs in one process for each library, and the libraries take turns, round by round, so that both meet the
same disturbances. The ratio is that of the medians over all rounds; below 1 tinyfn is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from .workloads import WORKLOADS

ROOT = Path(__file__).parents[1]


class Worker:
    """The process of one library for one workload."""

    def __init__(self, library: str, python: str, workload: str):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        # These slow a current NumPy down on some machines; both sides run without them.
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(name, None)
        command = [python, "-m", "benchmarks.worker", library, workload]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
        self.start = self._read()
        self.times: list[float] = []

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process failed: {' '.join(map(str, self.process.args))}")  # type: ignore[arg-type]
        return json.loads(line)

    def round(self) -> None:
        """One round of timings."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times += self._read()

    def close(self) -> dict[str, float]:
        """End the process and give what was measured, in seconds."""
        self.process.communicate()
        return {**self.start, "cached": median(self.times), "least": min(self.times)}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", help=f"some of: {', '.join(WORKLOADS)} (default: all)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    peers = dict(peer.split("=", 1) for peer in options.peer)
    results: dict[str, dict[str, dict[str, float]]] = {}
    print(f"{'workload':16}{'library':10}{'first call':>12}{'later calls':>13}{'ratio':>8}")
    for workload in options.workloads or WORKLOADS:
        workers = {
            name: Worker(name, python, workload)
            for name, python in {"tinyfn": sys.executable, **peers}.items()
        }
        for _ in range(options.rounds):
            for worker in workers.values():
                worker.round()
        results[workload] = measured = {name: worker.close() for name, worker in workers.items()}
        for name, numbers in measured.items():
            ratio = "" if name == "tinyfn" else f"{measured['tinyfn']['cached'] / numbers['cached']:8.2f}"
            print(
                f"{workload:16}{name:10}{numbers['first'] * 1e6:9.0f} us{numbers['cached'] * 1e6:10.1f} us{ratio}"
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
