"""Time the workloads side by side with peers.

    python -m benchmarks                                      all workloads, and the peers that TINYFN_BENCH_PEERS names
    python -m benchmarks matmul softmax --peer jax=PYTHON     some of them, and JAX from the environment of that interpreter
    python -m benchmarks --peers jax,torch                    of the peers, these alone
    python -m benchmarks --compare old.json                   and what has changed since that file was written
    python -m benchmarks mlp_large_step --kernels             what tinyfn runs: kernels, their work, and calls of NumPy
    python -m benchmarks prices                               another table: what derivatives and batches cost (--help)

TINYFN_BENCH_PEERS is a list like jax=/path/to/python,torch=/path/to/python. A peer's path is an interpreter or the folder of a
virtual environment. The environment of torch has a second library, torch.compile, which is slow to start: it is used only
if --peers names it.

Each workload runs in one process for each library, and the libraries take turns, round by round, so that all meet the same
disturbances. All have the same inputs, the same cores and as many threads, and results that are checked against float64
before any number is shown. Columns:

    cached      median time of a call, until its result is there
    first       the first call in a new process: trace, compile and run; an empty disk cache (JAX: none, as by default)
    warm        the same, with code found on disk (JAX: with its cache turned on)
    import      importing the library, with NumPy
    peak        resident memory at the most, with interpreter, library and inputs
    limit       how much of what the machine can do (bytes from and to memory, float32 operations; measured first) was used
    ratio       tinyfn's time over the peer's, the median over rounds: below 1 tinyfn is faster. Then its range over rounds
    least       the same of the shortest calls, which other programs on the machine disturb less
    goals       what is asked of tinyfn; "warm" compares with the peer's first call as it is by default
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from compileall import compile_dir
from pathlib import Path
from typing import Any

from .libraries import LIBRARIES, load
from .report import HEADER, comparison, lines, summary
from .runner import Options, Outcome, Peer, environment, measure
from .workloads import WORKLOADS, Workload, selected

ROOT = Path(__file__).parents[1]


def interpreter(path: str) -> str:
    """The interpreter of an environment, or the path itself."""
    folder = Path(path).expanduser()
    return str(folder / "bin" / "python") if folder.is_dir() else str(folder)


def find_peers(given: list[str], chosen: str | None, parser: argparse.ArgumentParser) -> list[Peer]:
    """tinyfn and the peers that options and environment name, in the order in which they take turns."""
    named = [entry for entry in os.environ.get("TINYFN_BENCH_PEERS", "").split(",") if entry] + given
    environments = {"tinyfn": sys.executable}
    known = {source.environment for source in LIBRARIES.values()}
    for entry in named:
        name, _, path = entry.partition("=")
        if name not in known - {"tinyfn"} or not path:
            parser.error(
                f"a peer is NAME=PYTHON with one of the names {', '.join(sorted(known - {'tinyfn'}))}, not {entry!r}"
            )
        environments[name] = interpreter(path)
    libraries = list(environments)
    if chosen is not None:
        libraries = ["tinyfn", *[name for name in chosen.split(",") if name]]
        for name in libraries:
            if name not in LIBRARIES or LIBRARIES[name].environment not in environments:
                parser.error(f"no environment of {name} is known: say --peer {name}=PYTHON")
    return [Peer(name, environments[LIBRARIES[name].environment]) for name in libraries]


def machine_limits(threads: int) -> dict[str, float]:
    """What the machine can do at most, measured in a process of its own; empty if that fails."""
    command = [sys.executable, "-m", "benchmarks.limits", str(threads)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment("tinyfn", threads, None)
    )
    if done.returncode:
        print(f"the machine's limits could not be measured: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    limits: dict[str, float] = json.loads(done.stdout)
    return limits


def kernels(workload: Workload) -> str:
    """The table of the kernels that tinyfn runs for a workload; those of eager workloads are not compiled."""
    from tinyfn.devices import set_default_device

    set_default_device("cpu")
    run = getattr(load("tinyfn"), workload.kind)(workload.inputs())
    return str(run.function.lower(*run.arguments)) if hasattr(run.function, "lower") else "not jitted"


def machine() -> dict[str, Any]:
    """What numbers depend on besides the libraries."""
    facts: dict[str, Any] = {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    try:
        text = Path("/proc/cpuinfo").read_text()
        facts["processor"] = next(
            row.split(":", 1)[1].strip() for row in text.splitlines() if row.startswith("model name")
        )
    except (OSError, StopIteration):
        facts["processor"] = platform.processor()
    if hasattr(os, "getloadavg"):
        facts["load"] = os.getloadavg()
    return facts


def rounded(outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON; times to 0.1 µs or 4 digits."""

    def shorter(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        return [shorter(each) for each in value] if isinstance(value, (tuple, list)) else value

    return {key: shorter(value) for key, value in outcome._asdict().items()}


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 1 if a library failed, 0 otherwise."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["prices"]:
        from .prices.command import main as prices

        return prices(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", help="names, or beginnings of names before a _ (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the workloads' names and goals")
    parser.add_argument(
        "--kernels", action="store_true", help="print the kernels of tinyfn, and time nothing"
    )
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--peers", metavar="NAMES", help="these peers only (an empty text: none)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--starts", type=int, default=3, help="new processes for each kind of first call")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples, versions and facts")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a file that --json wrote earlier")
    options = parser.parse_args(given)
    try:
        workloads = selected(options.workloads)
    except KeyError as error:
        parser.error(f"no workload is named {error}; there are {', '.join(WORKLOADS)}")
    if options.list:
        for name, workload in workloads.items():
            print(f"{name:20}{'; '.join(map(str, workload.goals))}".rstrip())
        return 0
    if options.kernels:
        for name, workload in workloads.items():
            print(f"{name}: {kernels(workload)}\n")
        return 0
    for name in ("threads", "rounds", "starts"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} should be at least 1")
    old = json.loads(options.compare.read_text()) if options.compare else None
    peers = find_peers(options.peer, options.peers, parser)
    # As after an installation by pip: nobody's first import is to compile the modules.
    compile_dir(ROOT / "tinyfn", quiet=2)
    facts = machine()
    if facts.get("load", (0,))[0] > 0.5:
        print(
            f"other programs run (load {facts['load'][0]:.1f} on {facts['cores']} cores): times and limits are rough"
        )
    limits = machine_limits(options.threads)
    if limits:
        print(
            f"limits: {limits['bytes'] / 1e9:.1f} GB/s, {limits['flops'] / 1e9:.0f} GFLOP/s, "
            f"with {options.threads} threads\n"
        )
    print(HEADER)
    how = Options(options.threads, options.rounds, options.starts)
    results: dict[str, dict[str, Outcome]] = {}
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": facts,
        "options": how._asdict(),
        "limits": limits,
        "workloads": {},
    }
    for name, workload in workloads.items():
        results[name] = measure(name, workload, peers, how)
        for line in lines(name, results[name], limits):
            print(line, flush=True)
        report["workloads"][name] = {library: rounded(outcome) for library, outcome in results[name].items()}
        if options.json:  # each time, so that a run that is broken off leaves what it has
            options.json.write_text(json.dumps(report))
    print(f"\n{summary(results)}")
    if old:
        print("\n" + "\n".join(comparison(results, old)))
    return int(any(outcome.error for outcomes in results.values() for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
