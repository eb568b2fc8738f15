"""Time what derivatives and batches of functions cost, beside their values, written rules, and JAX.

    python -m benchmarks prices                                  all rows, tinyfn alone
    python -m benchmarks prices softmax sort --peer PYTHON       some of them, and JAX from that interpreter or environment
    python -m benchmarks prices --peer PYTHON --page docs/prices.md

Columns, of the shortest calls:

    value        time of the compiled value
    / JAX        the same over JAX's
    gradient     time of value and gradient over that of the value: the price. Then JAX's price, and our time over JAX's
    written      time of value and gradient by the derived rule over that by one written by hand (`benchmarks/prices/written.py`)
    batched      time of vmap over 4 lanes over 4 times that of the value, and our time over JAX's
    NumPy        the ops that compiled programs leave to NumPy
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..runner import Peer, Worker, WorkerError, disagreement, load_arrays
from .report import HEADER, Measured, line, page
from .rows import ROWS

WHOLE = 1 << 30
TOLERANCE = 2e-3


class Library:
    """A library's process, which is started again if it dies."""

    def __init__(self, peer: Peer, threads: int):
        self.peer, self.threads = peer, threads
        self.worker: Worker | None = None
        self.version = ""

    def ask(self, command: str) -> Any:
        """The answer; WorkerError if there is none, or one that is an error."""
        try:
            if self.worker is None:
                self.worker = Worker(
                    self.peer,
                    ["benchmarks.prices.worker", self.peer.library, str(self.threads)],
                    self.threads,
                    None,
                )
                self.version = self.worker.wait()["version"]
            found = self.worker.ask(command)
        except WorkerError:
            self.close()
            raise
        if isinstance(found, dict) and "error" in found:
            raise WorkerError(found["error"])
        return found

    def close(self) -> None:
        """End the process."""
        if self.worker is not None:
            self.worker.close()
        self.worker = None


def measure(name: str, libraries: list[Library], rounds: int, most: int, folder: Path) -> dict[str, Measured]:
    """What was measured of a row, by library; those that fail have an error. Libraries take turns, program by program."""
    found = {library.peer.library: Measured() for library in libraries}
    alive = []
    for library in libraries:
        try:
            for program in library.ask(f"prepare {name} {most}"):
                found[library.peer.library].times[program] = float("inf")
            alive.append(library)
        except WorkerError as error:
            found[library.peer.library].error = str(error)
    for _ in range(rounds):
        for program in ("value", "gradient", "written", "batched"):
            for library in list(alive):
                times = found[library.peer.library].times
                if program in times:
                    try:
                        times[program] = min(times[program], *library.ask(f"time {program}"))
                    except WorkerError as error:
                        found[library.peer.library].error = str(error)
                        alive.remove(library)
    for library in alive:
        if library.peer.library == "tinyfn":
            facts = library.ask("host")
            found["tinyfn"].host, found["tinyfn"].derived = facts["host"], facts["derived"]
    if len(alive) == 2 and ROWS[name].is_compared:
        paths = [folder / f"{library.peer.library}.npz" for library in alive]
        for library, path in zip(alive, paths, strict=True):
            library.ask(f"show {path}")
        ours, theirs = map(load_arrays, paths)
        _, wrong = disagreement([a.astype(np.float64) for a in ours], theirs, TOLERANCE)
        if wrong:
            found["tinyfn"].error = f"beside JAX: {wrong}"
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 1 if a row failed, 0 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks prices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", help=f"names (default: all); there are {', '.join(ROWS)}")
    parser.add_argument(
        "--peer", metavar="PYTHON", help="an interpreter, or the folder of an environment, with JAX"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--most", type=int, default=WHOLE, help="elements along an axis, at most (for a quick look)"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the table as a page of the documentation"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.rows if name not in ROWS]:
        parser.error(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    peers = [Peer("tinyfn", sys.executable)]
    if options.peer:
        path = Path(options.peer).expanduser()
        peers.append(Peer("jax", str(path / "bin" / "python") if path.is_dir() else str(path)))
    libraries = [Library(peer, options.threads) for peer in peers]
    results: dict[str, dict[str, Measured]] = {}
    print(HEADER)
    try:
        with tempfile.TemporaryDirectory(prefix="tinyfn-prices-") as folder:
            for name in options.rows or ROWS:
                results[name] = measure(name, libraries, options.rounds, options.most, Path(folder))
                print(line(name, results[name]), flush=True)
    finally:
        for library in libraries:
            library.close()
    if options.json:
        options.json.write_text(
            json.dumps({name: {k: vars(m) for k, m in each.items()} for name, each in results.items()})
        )
    if options.page:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
        ).stdout.strip()
        versions = {library.peer.library: library.version for library in libraries}
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        facts = f"commit {commit}, {time.strftime('%Y-%m-%d')}, {options.threads} threads, load {load:.1f}"
        options.page.write_text(page(results, versions, facts))
    return int(any(m.error for each in results.values() for m in each.values()))
