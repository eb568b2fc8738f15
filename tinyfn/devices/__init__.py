"""Devices: where jitted functions run.

`cpu` compiles them (through LLVM), `cuda` does so for an NVIDIA GPU; `numpy` runs them step by step through the primitives'
references, which needs no compiler and is what compiled results are checked against; `null` compiles as `cpu` does and runs
nothing: results are zeros, for measuring what compilation takes. `TINYFN_DEVICE` chooses; `set_default_device` does so at run
time, for functions that are called for the first time after it.
"""

from __future__ import annotations

import os

DEVICES = ("cpu", "cuda", "numpy", "null")


def _from_environment() -> str:
    name = os.environ.get("TINYFN_DEVICE", DEFAULT)
    if name not in DEVICES:
        raise ValueError(f"TINYFN_DEVICE is {name!r}, but the devices are {', '.join(DEVICES)}")
    return name


DEFAULT = "cpu"
_chosen: str | None = None


def default_device() -> str:
    """The device on which jitted functions run."""
    global _chosen
    if _chosen is None:
        _chosen = _from_environment()
    return _chosen


def set_default_device(name: str) -> None:
    """Run the functions that are traced from now on on this device; raises ValueError for a name that is none."""
    global _chosen
    if name not in DEVICES:
        raise ValueError(f"there is no device {name!r}; the devices are {', '.join(DEVICES)}")
    _chosen = name
