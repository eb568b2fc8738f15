"""The rows of one library in a process of its own.

    python -m benchmarks.prices.worker LIBRARY THREADS

It obeys the lines that it reads: `prepare ROW MOST` makes a row's programs and tells their names, `time PROGRAM` gives the
times of some calls, `show FILE` writes the results of the value and the gradient, `host` tells which ops tinyfn runs by NumPy,
and which of them have derived rules. Answers are lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..worker import bind, leaves, measured
from .derived import derived_in
from .rows import ROWS, written

LANES = 4  # of the batch
# A program is called for so long in a round, and at least so often.
ROUND, FEWEST = 0.03, 3


class Programs:
    """A row's compiled programs, by name, each with its arguments."""

    def __init__(self, library: Any, name: str, most: int):
        import numpy as np

        row, self.library = ROWS[name], library
        arrays = row.arrays(most)
        function = row.function(library)
        self.made: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        args = self._own(arrays)
        self._add("value", function, args)
        if row.by:
            shape = np.shape(self.call("value"))
            ct = self._own([np.random.default_rng(1).standard_normal(shape).astype("float32")])[0]
            self._add("gradient", self._pulled(function, row.by), (ct, *args))
            by_hand = written(name)
            if by_hand is not None:
                self._add("written", self._pulled(by_hand(library), row.by), (ct, *args))
        self._add("batched", library.vmap(function), self._own([np.stack([a] * LANES) for a in arrays]))

    def _own(self, arrays: Any) -> tuple[Any, ...]:
        return tuple([self.library.np.asarray(a) for a in arrays])

    def _add(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.made[name] = self.library.jit(function), args

    def _pulled(self, function: Callable[..., Any], by: tuple[int, ...]) -> Callable[..., Any]:
        """The function's value, and the cotangents of those arguments."""

        def run(ct: Any, *args: Any) -> Any:
            def of(*some: Any) -> Any:
                given = list(args)
                for at, each in zip(by, some, strict=True):
                    given[at] = each
                return function(*given)

            out, pull = self.library.vjp(of, *[args[at] for at in by])
            return out, pull(ct)

        return run

    def call(self, name: str) -> Any:
        """The result of a program."""
        program, args = self.made[name]
        return self.library.wait(program(*args))

    def times(self, name: str) -> list[float]:
        """Those of some calls."""
        self.call(name)
        times: list[float] = []
        end = time.perf_counter() + ROUND
        while len(times) < FEWEST or time.perf_counter() < end:
            times.append(measured(lambda: self.call(name))[0])
        return times


def on_host(programs: Programs) -> dict[str, list[str]]:
    """For each of tinyfn's programs the ops that are calls of NumPy."""
    from tinyfn.lower.group import group
    from tinyfn.lower.nest import Host
    from tinyfn.trace.prim import Primitive
    from tinyfn.transforms.executable import simplified

    found = {}
    for name, (program, args) in programs.made.items():
        steps = group(simplified(program.graph(*args)))
        hosts = [step.node.op for step in steps if isinstance(step, Host)]
        found[name] = sorted(
            {
                op.name
                for op in hosts
                if isinstance(op, Primitive) and op.family not in ("structured", "foreign")
            }
        )
    return found


def main() -> None:
    """Serve until the input ends."""
    library_name, threads = sys.argv[1:]
    bind(int(threads))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    from .libraries import load

    library = load(library_name)
    answer({"version": library.version})
    programs: Programs | None = None
    for line in sys.stdin:
        command, *rest = line.split()
        try:
            if command == "prepare":
                programs = None
                programs = Programs(library, rest[0], int(rest[1]))
                for name in programs.made:
                    programs.call(name)
                answer(list(programs.made))
                continue
            assert programs is not None
            if command == "time":
                answer(programs.times(rest[0]))
            elif command == "host":
                answer({"host": on_host(programs), "derived": sorted(derived_in(programs))})
            elif command == "show":
                import numpy as np

                np.savez(
                    rest[0], *leaves([programs.call(n) for n in ("value", "gradient") if n in programs.made])
                )
                answer(True)
        except Exception as error:  # the other rows go on
            answer({"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"})


if __name__ == "__main__":
    main()
