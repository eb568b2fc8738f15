"""The native code of loops and branches within programs: they run kernels again and again, or those of one branch.

A program's `Kernels` have a record for a loop like that for a kernel; instead of points it has the address of numbers that say
what to do (`loops.py`). Every function here is `void (numbers, arguments, context)`, where `arguments` is a table of addresses
of arrays, and `context` belongs to the call that all runs in: how much work there may be until somebody looks whether the user
wants to stop, and whether that is so.

**Stopping.** From time to time, by an estimate of the work done, the main thread asks Python to handle its signals. What a
handler raises is kept, everything returns, and `raise_stopped` raises it where the program was called."""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import NamedTuple

from ..lower.target import host_target
from .cpu import compile_ir
from .flow_text import PYTHON, TEXT
from .runner import RUN_TABLE
from .threads import symbols


class FlowRunner(NamedTuple):
    """The addresses of the native functions."""

    loop: int
    branch: int
    function: int


@cache
def _module() -> tuple[FlowRunner, ctypes.Array[ctypes.c_int64]]:
    python = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in PYTHON
    }
    text = RUN_TABLE + TEXT
    module = compile_ir(text, host_target(), symbols={**symbols(), **python})
    module.keep_forever()
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(module.function("tinyfn_flow_state"))()
    state = (ctypes.c_int64 * 4).from_address(address)

    def know_main_thread() -> None:
        state[0] = threading.main_thread().ident or 0

    know_main_thread()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=know_main_thread)
    names = ("tinyfn_loop", "tinyfn_branch", "tinyfn_function")
    return FlowRunner(*map(module.function, names)), state


def flow_runner() -> FlowRunner:
    """The native functions, compiled the first time."""
    return _module()[0]


def raise_stopped() -> None:
    """Raise what a handler of a signal raised while a program ran (a KeyboardInterrupt, mostly)."""
    state = _module()[1]
    kind, value, traceback = state[1:4]
    state[1:4] = [0, 0, 0]
    restore = ctypes.pythonapi.PyErr_Restore
    restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
    restore(kind, value, traceback)
    raise KeyboardInterrupt  # in case nothing was kept
