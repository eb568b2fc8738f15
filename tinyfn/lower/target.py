"""What the compiler knows of the machine that it compiles for."""

from __future__ import annotations

import math
import os
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
TOPOLOGY = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
# L1 data, L2 and L3 in bytes, for a machine that does not tell.
DEFAULT_CACHES = (32 << 10, 512 << 10, 8 << 20)

# A fork must not find llvmlite half imported by another thread, or the child waits for that import forever.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Target(NamedTuple):
    """Facts about a CPU: sizes are in bytes; L1 and L2 belong to one core, L3 is shared."""

    name: str  # the architecture: x86_64, aarch64
    triple: str
    cpu: str
    features: str  # as LLVM takes them: +avx2,-sse4a
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int

    def lanes(self, itemsize: int) -> int:
        """How many elements of `itemsize` bytes a vector register holds."""
        return max(1, self.vector_bytes // itemsize)


@cache
def host_target() -> Target:
    """The machine that this process runs on; loads llvmlite the first time. Raises ImportError if that can't be loaded."""
    with _lock:
        try:
            from llvmlite import binding as llvm
        except (ImportError, OSError) as error:  # an OSError if its library is broken
            raise ImportError(
                f"jit compiles with llvmlite, which can't be imported ({error}): install it again (`pip install "
                "--force-reinstall llvmlite`), or run jitted functions step by step, with TINYFN_DEVICE=numpy or "
                "set_default_device('numpy')"
            ) from error
        triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
        cpu = llvm.get_host_cpu_name()
    name = triple.split("-")[0].replace("arm64", "aarch64")
    vector_bytes, registers, has_fma = vector_facts(
        name, frozenset(feature for feature, present in features.items() if present)
    )
    return Target(
        name,
        triple,
        cpu,
        features.flatten(),
        vector_bytes,
        registers,
        has_fma,
        *cache_sizes(),
        usable_cores(),
    )


def vector_facts(architecture: str, features: frozenset[str]) -> tuple[int, int, bool]:
    """Bytes in a vector register, how many registers there are, and whether there is a fused multiply-add."""
    if architecture == "aarch64":
        return 16, 32, True
    if architecture == "x86_64":
        if "avx512f" in features:
            return 64, 32, True
        return 32 if "avx" in features else 16, 16, "fma" in features
    return 16, 16, False


def cache_sizes(folder: Path = CACHES) -> tuple[int, int, int]:
    """Bytes of the L1 data, L2 and L3 caches that the first core sees."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = _bytes((index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size > 0:
            found.setdefault(level, size)
    first, second, third = (found.get(level, DEFAULT_CACHES[level - 1]) for level in (1, 2, 3))
    # A machine that tells of its caches and has no third one: the second is the last.
    return first, second, third if 3 in found or not found else second


def _bytes(size: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    return int(size[:-1]) << units[size[-1]] if size and size[-1] in units else int(size)


def usable_cores() -> int:
    """Physical cores that this process may use, by its affinity and its container's quota; at least 1.

    The hardware threads of one core share its vector units, so they count once."""
    if hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
    else:
        allowed = set(range(os.cpu_count() or 1))
    cores = len({_siblings(number) for number in allowed})
    return max(1, min(cores, _quota()))


def _siblings(number: int) -> str:
    try:
        return (TOPOLOGY / f"cpu{number}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return str(number)


def _quota() -> int:
    """Cores' worth of time that the container may use, rounded up."""
    try:
        allowed, period = QUOTA.read_text().split()
        return math.ceil(int(allowed) / int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return os.cpu_count() or 1
