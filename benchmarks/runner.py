"""Measuring a workload: processes that take turns, and results that have to agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .libraries import LIBRARIES
from .workloads import Workload

ROOT = Path(__file__).parents[1]


class WorkerError(Exception):
    """A process ended before it answered; the message has the end of what it printed."""


class Options(NamedTuple):
    """How to measure."""

    threads: int = 2
    rounds: int = 7
    starts: int = 3


class Peer(NamedTuple):
    """A library and the interpreter that finds it."""

    library: str
    python: str


# Libraries that keep compiled code on disk only if one asks for it. What users get is the first call without.
NO_CACHE_BY_DEFAULT = ("jax",)


def environment(library: str, threads: int, cache: Path | None) -> dict[str, str]:
    """The environment variables of a worker; `cache` is where compiled code is kept, None leaves that to the library."""
    # Settings that slow a current NumPy down on some machines, and whatever a user has set for a library.
    dropped = ("OPENBLAS_", "MKL_", "OMP_", "XLA_", "JAX_", "TORCH", "TINYFN_", "PYTHON")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    variables["PYTHONPATH"] = str(ROOT)
    for name in ("OMP", "OPENBLAS", "MKL", "TINYFN"):
        variables[f"{name}_NUM_THREADS"] = str(threads)
    if device := LIBRARIES[library].device:
        variables["TINYFN_DEVICE"] = device
    if library == "jax":
        variables["JAX_PLATFORMS"] = "cpu"
        if threads == 1:
            variables["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if cache is not None:
        folder = {"jax": "JAX_COMPILATION_CACHE_DIR", "torch.compile": "TORCHINDUCTOR_CACHE_DIR"}
        variables[folder.get(library, "TINYFN_CACHE_DIR")] = str(cache)
        if library == "jax":  # it may keep everything
            variables["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            variables["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    return variables


class Worker:
    """The process of one library: a module of ours with arguments."""

    def __init__(self, peer: Peer, module: Sequence[str], threads: int, cache: Path | None):
        self.errors = tempfile.TemporaryFile("w+")
        self.command = [peer.python, "-m", *module]
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                env=environment(peer.library, threads, cache), cwd=ROOT,
            )  # fmt: skip
        except OSError as error:
            self.errors.close()
            raise WorkerError(str(error)) from None
        self.started: dict[str, Any] = {}

    def wait(self) -> dict[str, Any]:
        """What the start took."""
        self.started = self._read()
        return self.started

    def ask(self, command: str) -> Any:
        """The answer to a command."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # reading tells why
        return self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.errors.seek(0)
        printed = [text for text in self.errors.read().splitlines() if text.strip()]
        raise WorkerError("\n".join(printed[-3:]) or f"ended with code {code}")

    def close(self) -> None:
        """End the process."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class Outcome(NamedTuple):
    """What was measured of one library, times in seconds and memory in bytes; with an error there are no numbers."""

    error: str = ""
    imports: tuple[float, ...] = ()
    cold: tuple[
        float, ...
    ] = ()  # first calls with an empty disk cache, or without one where that is the default
    warm: tuple[float, ...] = ()  # first calls that find their code on disk
    rounds: tuple[tuple[float, ...], ...] = ()
    peak: int = 0  # resident, with the interpreter, the library and the inputs
    before: int = 0  # resident before the first call
    difference: float = 0.0  # from the reference
    versions: tuple[tuple[str, str], ...] = ()


def disagreement(
    result: list[np.ndarray], reference: list[np.ndarray], tolerance: float
) -> tuple[float, str]:
    """The greatest difference, each array's relative to its largest element, and what is wrong if it is too great."""
    if len(result) != len(reference):
        return float("inf"), f"gives {len(result)} arrays instead of {len(reference)}"
    greatest = 0.0
    for i, (array, expected) in enumerate(zip(result, reference, strict=True)):
        if array.shape != expected.shape:
            return float(
                "inf"
            ), f"array {i} of its results has the shape {array.shape} instead of {expected.shape}"
        if array.size == 0:
            continue
        largest = float(np.abs(expected).max())
        # A NaN makes the difference NaN, which is within no tolerance.
        difference = float(np.abs(array.astype(np.float64) - expected).max()) / (largest or 1.0)
        if not difference <= tolerance:
            what = f"array {i} of its results differs by {difference:.1e} of the largest element"
            return difference, f"{what}; {tolerance:.0e} is allowed"
        greatest = max(greatest, difference)
    return greatest, ""


def load_arrays(path: Path) -> list[np.ndarray]:
    """The arrays of a file that `show` wrote, in order."""
    with np.load(path) as bundle:
        return [bundle[f"arr_{i}"] for i in range(len(bundle.files))]


def measure(name: str, workload: Workload, peers: list[Peer], options: Options) -> dict[str, Outcome]:
    """Outcomes by library. A library that fails or disagrees with the reference has an error; the others go on."""
    with tempfile.TemporaryDirectory(prefix="tinyfn-benchmark-") as folder:
        return _Measurement(name, workload, peers, options, Path(folder)).run()


class _Measurement:
    def __init__(self, name: str, workload: Workload, peers: list[Peer], options: Options, folder: Path):
        self.name, self.workload, self.peers, self.options = name, workload, peers, options
        self.folder = folder
        self.errors: dict[str, str] = {}
        self.starts: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.rounds: dict[str, list[tuple[float, ...]]] = {}
        self.memory: dict[str, dict[str, int]] = {}
        self.differences: dict[str, float] = {}

    def run(self) -> dict[str, Outcome]:
        for peer in self.peers:
            self.starts[peer.library] = {"cold": [], "fill": [], "warm": []}
            self.rounds[peer.library] = []
        workers: dict[str, Worker] = {}
        try:
            for i in range(self.options.starts):
                for kind in ("cold", "fill", "warm"):
                    for peer in self._alive():
                        if kind == "fill" and (i > 0 or peer.library not in NO_CACHE_BY_DEFAULT):
                            continue
                        worker = self._start(peer, kind, i)
                        if worker is not None and (i, kind) == (0, "warm"):
                            workers[peer.library] = worker
                        elif worker is not None:
                            worker.close()
            for _ in range(self.options.rounds):
                for peer in self._alive():
                    times = self._ask(peer, workers[peer.library], "round")
                    self.rounds[peer.library].append(tuple(times or ()))
            self._compare(workers)
        finally:
            for worker in workers.values():
                worker.close()
        return {peer.library: self._outcome(peer.library) for peer in self.peers}

    def _module(self, library: str) -> list[str]:
        return ["benchmarks.worker", library, self.name, str(self.options.threads)]

    def _alive(self) -> list[Peer]:
        return [peer for peer in self.peers if peer.library not in self.errors]

    def _start(self, peer: Peer, kind: str, number: int) -> Worker | None:
        # All warm starts read what the first cold one left.
        cache: Path | None = self.folder / f"{peer.library}-{number if kind == 'cold' else 0}"
        if kind == "cold" and peer.library in NO_CACHE_BY_DEFAULT:
            cache = None
        if cache is not None:
            cache.mkdir(mode=0o700, exist_ok=True)
        worker = None
        try:
            worker = Worker(peer, self._module(peer.library), self.options.threads, cache)
            self.starts[peer.library][kind].append(worker.wait())
        except WorkerError as error:
            self.errors[peer.library] = str(error)
            if worker is not None:
                worker.close()
            return None
        return worker

    def _ask(self, peer: Peer, worker: Worker, command: str) -> Any:
        try:
            return worker.ask(command)
        except WorkerError as error:
            self.errors[peer.library] = str(error)
            return None

    def _compare(self, workers: dict[str, Worker]) -> None:
        """Ask for memory and results, and compare these with the reference."""
        for peer in self._alive():
            self.memory[peer.library] = self._ask(peer, workers[peer.library], "memory")
        oracle = self.folder / "reference.npz"
        try:
            worker = Worker(
                Peer("reference", sys.executable), self._module("reference"), self.options.threads, None
            )
            try:
                worker.wait()
                worker.ask(f"show {oracle}")
            finally:
                worker.close()
        except WorkerError as error:
            self.errors |= {peer.library: f"no reference: {error}" for peer in self._alive()}
            return
        reference = load_arrays(oracle)
        for peer in self._alive():
            path = self.folder / f"{peer.library}.npz"
            if self._ask(peer, workers[peer.library], f"show {path}"):
                difference, wrong = disagreement(load_arrays(path), reference, self.workload.tolerance)
                self.differences[peer.library] = difference
                if wrong:
                    self.errors[peer.library] = wrong
                path.unlink()

    def _outcome(self, library: str) -> Outcome:
        if library in self.errors:
            return Outcome(self.errors[library], difference=self.differences.get(library, 0.0))
        cold, warm = self.starts[library]["cold"], self.starts[library]["warm"]
        return Outcome(
            imports=tuple([start["import"] for start in cold + warm]),
            cold=tuple([start["first"] for start in cold]),
            warm=tuple([start["first"] for start in warm]),
            rounds=tuple(self.rounds[library]),
            peak=self.memory[library]["peak"],
            before=self.memory[library]["before"],
            difference=self.differences[library],
            versions=tuple(sorted(cold[0]["versions"].items())),
        )
