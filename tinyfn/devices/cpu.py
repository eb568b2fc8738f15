"""From LLVM IR, as text, to machine code in this process.

    module = compile_ir("define void @kernel(ptr %arguments, i64 %begin, i64 %end) { ... }", host_target())
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(module.function("kernel"))

The IR is expected to be explicit in its vectors and loops; the few passes here clean up after a simple renderer and
leave the rest to LLVM's code generator. Code is kept on disk (`cache.py`) and shared between equal texts."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from ..lower.target import Target
from ..lower.timing import stage
from .cache import DiskCache, default_folder

# Measured with llvmlite 0.50 on kernels of 30 to 180 lines: these three take 0.2 to 1 ms, and give what they take back
# in code generation. LLVM's own -O1 takes 2 to 4 ms more for code of the same speed, and no passes at all gives the
# same speed unless the text keeps variables in memory.
PASSES = ("sroa", "instruction_combine", "simplify_cfg")
LEVEL = 2  # of the code generator; 0 saves half of the time, for code that is 4 to 6 times slower

LIBRARIES = 64  # that one linker links

_CONSTANTS = (b".rodata", b"__const", b"__literal")  # how sections of read-only data are called

DEFINED = re.compile(r'^define (?!internal |private )[^@]*@("?)([\w.$-]+)\1\(', re.MULTILINE)
DECLARED = re.compile(r'^declare [^@]*@"?([\w.$-]+)', re.MULTILINE)
PLACE = re.compile(r"<string>:(\d+):(\d+): error: ([^\n]*)")

# How often each step was done: parse, emit, link, and hits of the two caches (disk, memory).
counts: Counter[str] = Counter()


class CompileError(Exception):
    """LLVM refused a text or could not link it; the message shows where."""


class Module:
    """Machine code, which stays in memory as long as this object; `size` is that of the code and its constants in bytes."""

    def __init__(self, addresses: Mapping[str, int], tracker: Any, size: int = 0):
        self._addresses = addresses
        self._tracker = tracker
        self.size = size

    def __del__(self) -> None:
        # Unloading takes llvmlite's lock, and this may run anywhere; the next compilation does it.
        if _dead is not None:  # which it is when Python ends
            _dead.append(self._tracker)

    def function(self, name: str) -> int:
        """The address of a function that the text defines; valid as long as the module is held."""
        try:
            return self._addresses[name]
        except KeyError:
            raise KeyError(
                f"the module defines no function {name!r}; it has {', '.join(self._addresses)}"
            ) from None

    def keep_forever(self) -> None:
        """Never unload the code: for functions that threads of their own may be in at any time."""
        _kept.append(self)


_kept: list[Module] = []
_dead: deque[Any] = deque()  # what keeps the code of dead modules in memory
_modules: weakref.WeakValueDictionary[tuple[str, object], Module] = weakref.WeakValueDictionary()
_names = count()
_lock = threading.RLock()
# The keys of the texts that are being emitted, and the threads that do it, without `_lock`; and the threads that want to fork.
_emitting: dict[str, int] = {}
_forking: set[int] = set()
_changed = threading.Condition(_lock)


def _before_fork() -> None:
    """Wait until LLVM rests: a lock that it holds during a fork is one that the child waits for forever."""
    _lock.acquire()
    this = threading.get_ident()
    _forking.add(this)
    _changed.wait_for(lambda: all(thread == this for thread in _emitting.values()))


def _after_fork() -> None:
    _forking.discard(threading.get_ident())
    _changed.notify_all()
    _lock.release()


def _in_child() -> None:
    _forking.clear()  # other threads, which may have been about to fork as well, are not here
    _after_fork()


def _may_begin(key: str) -> bool:
    return key not in _emitting and not _forking


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


class _Worker:
    """What one thread at a time needs of LLVM for a target. Lists of passes are kept: llvmlite never frees their memory."""

    def __init__(self, llvm: Any, machine: Any):
        self._llvm, self.machine = llvm, machine
        self._builder = llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=LEVEL)
        )
        self._managers: dict[tuple[str, ...], Any] = {}

    def optimize(self, module: Any, passes: Sequence[str]) -> None:
        """Run the passes over all functions of a module."""
        manager = self._managers.get(tuple(passes))
        if manager is None:
            manager = self._managers[tuple(passes)] = self._llvm.create_new_function_pass_manager()
            for name in passes:
                getattr(manager, f"add_{name}_pass")()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, self._builder)


class _Compiler(NamedTuple):
    """LLVM's objects for one target."""

    llvm: Any
    make_machine: Callable[[], Any]
    workers: deque[_Worker]  # that no thread uses at the moment
    emit: Callable[..., Any]
    linker: _Linker
    header: str
    version: str

    @contextmanager
    def worker(self) -> Iterator[_Worker]:
        """A worker that no other thread uses meanwhile."""
        try:
            worker = self.workers.pop()
        except IndexError:
            worker = _Worker(self.llvm, self.make_machine())
        try:
            yield worker
        finally:
            self.workers.append(worker)


class _Linker:
    """LLVM's linker, a new one from time to time: it keeps some 13 KB of each library, also of those that are gone."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make
        self._left = 0

    def get(self) -> Any:
        """The linker for one more library, which keeps it alive."""
        if not self._left:
            self._now, self._left = self._make(), LIBRARIES
        self._left -= 1
        return self._now


@cache
def _compiler(triple: str, cpu: str, features: str) -> _Compiler:
    import llvmlite
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()

    def make_machine() -> Any:
        return llvm.Target.from_triple(triple).create_target_machine(cpu, features, opt=LEVEL, jit=True)

    machine = make_machine()
    # On one line with the text, so that LLVM's line numbers are the text's.
    header = f'target datalayout = "{machine.target_data}" target triple = "{triple}" '
    version = f"{llvmlite.__version__} {llvm.llvm_version_info}"
    linker = _Linker(lambda: llvm.create_lljit_compiler(make_machine(), suppress_errors=True))
    return _Compiler(
        llvm, make_machine, deque([_Worker(llvm, machine)]), _emit_function(llvm), linker, header, version
    )


def _emit_function(llvm: Any) -> Callable[..., Any]:
    """LLVM's function from modules to machine code, without the lock that llvmlite takes for each call.

    LLVM lets threads work at once on modules of different contexts, each by a target machine of its own. To make code
    takes 85 % of the time of a compilation; all else stays under llvmlite's lock."""
    locked = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory
    function = ctypes.CDLL(llvm.ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


@cache
def disk_cache() -> DiskCache:
    """The cache of compiled code that all compilations of this process use."""
    return DiskCache(default_folder())


def compile_ir(
    text: str,
    target: Target,
    *,
    symbols: Mapping[str, int] | None = None,
    passes: Sequence[str] = PASSES,
) -> Module:
    """Machine code of a module of LLVM IR, without triple and data layout, for this machine.

    `symbols` are addresses of what the text declares and does not define (besides what the C library has). Raises
    CompileError with the line at fault."""
    with _lock:
        compiler = _compiler(target.triple, target.cpu, target.features)
        key = _key(text, target, compiler, passes)
        _changed.wait_for(lambda: _may_begin(key))
        module = _known(key, text, compiler, symbols or {})
        if module is not None:
            return module
        _emitting[key] = threading.get_ident()
    try:
        code = _emit(text, compiler, passes)
        with _lock:
            module = _linked(key, text, code, compiler, symbols or {})
            with stage("disk cache"):
                disk_cache().store(key, code)
            return module
    finally:
        with _lock:
            del _emitting[key]
            _changed.notify_all()


def _known(key: str, text: str, compiler: _Compiler, symbols: Mapping[str, int]) -> Module | None:
    """The module of a text that has been compiled before, by this process or another one."""
    _dead.clear()
    module = _modules.get((key, frozenset(symbols.items())))
    if module is not None:
        counts["memory"] += 1
        return module
    with stage("disk cache"):
        code = disk_cache().load(key)
    if code is None:
        return None
    counts["disk"] += 1
    try:
        return _linked(key, text, code, compiler, symbols)
    except CompileError:
        return None


def _linked(key: str, text: str, code: bytes, compiler: _Compiler, symbols: Mapping[str, int]) -> Module:
    module = _modules[key, frozenset(symbols.items())] = _link(text, code, compiler, symbols)
    return module


def assembly(text: str, target: Target, *, passes: Sequence[str] = PASSES) -> str:
    """The assembly of a module of LLVM IR, for people."""
    with _lock:
        compiler = _compiler(target.triple, target.cpu, target.features)
        with compiler.worker() as worker, _optimized(text, compiler, worker, passes) as module:
            return worker.machine.emit_assembly(module)


def _key(text: str, target: Target, compiler: _Compiler, passes: Sequence[str]) -> str:
    """Everything that the code depends on; tinyfn's own version does not matter beyond what is named here."""
    facts = (compiler.version, target.triple, target.cpu, target.features, str(LEVEL), ",".join(passes), text)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


@stage("emit")
def _emit(text: str, compiler: _Compiler, passes: Sequence[str]) -> bytes:
    llvm, library = compiler.llvm, compiler.llvm.ffi.lib
    with compiler.worker() as worker, _optimized(text, compiler, worker, passes) as module:
        with _lock:
            counts["emit"] += 1
        with llvm.ffi.OutputString() as message:
            code = compiler.emit(worker.machine, module, True, message)
            if not code:
                raise CompileError(f"LLVM made no code of the module: {message}")
        try:
            return ctypes.string_at(library.LLVMPY_GetBufferStart(code), library.LLVMPY_GetBufferSize(code))
        finally:
            library.LLVMPY_DisposeMemoryBuffer(code)


@stage("optimize")
def _optimized(text: str, compiler: _Compiler, worker: _Worker, passes: Sequence[str]) -> Any:
    """The llvmlite module of a text, in a context of its own: parsed, verified, and passed through the passes."""
    llvm = compiler.llvm
    with _lock:
        counts["parse"] += 1
    try:
        with stage("parse"):
            module = llvm.parse_assembly(compiler.header + text, llvm.create_context())
            module.verify()
    except RuntimeError as error:
        raise CompileError(_explain(str(error), text)) from None
    worker.optimize(module, passes)
    return module


def _explain(message: str, text: str) -> str:
    found = PLACE.search(message)
    if not found:
        return f"LLVM refused the module: {message.strip()}"
    line, column = int(found.group(1)), int(found.group(2))
    lines = text.split("\n")
    begin = max(0, line - 4)
    shown = [f"{number + 1:5} {lines[number]}" for number in range(begin, min(line, len(lines)))]
    if line > 1:  # the header shifts the columns of the first line
        shown.append(" " * (5 + column) + "^")
    return f"line {line} of the LLVM IR: {found.group(3)}\n" + "\n".join(shown)


@stage("link")
def _link(text: str, code: bytes, compiler: _Compiler, symbols: Mapping[str, int]) -> Module:
    counts["link"] += 1
    library = compiler.llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in symbols.items():
        library.import_symbol(name, address)
    names = [match.group(2) for match in DEFINED.finditer(text)]
    for name in names:
        library.export_symbol(name)
    try:
        tracker = library.link(compiler.linker.get(), f"tinyfn.{next(_names)}")
    except RuntimeError as error:
        found = compiler.llvm.address_of_symbol
        missing = [
            name
            for name in DECLARED.findall(text)
            if not name.startswith("llvm.") and name not in symbols and not found(name)
        ]
        because = f"nothing defines {', '.join(missing)}" if missing else str(error)
        raise CompileError(f"LLVM could not link the module: {because}") from None
    return Module({name: tracker[name] for name in names}, tracker, _size(code, compiler))


def _size(code: bytes, compiler: _Compiler) -> int:
    """The bytes of an object's sections of code and read-only data."""
    sections = compiler.llvm.ObjectFileRef.from_data(code).sections()
    return sum(s.size() for s in sections if s.is_text() or (s.name() or b"").startswith(_CONSTANTS))
