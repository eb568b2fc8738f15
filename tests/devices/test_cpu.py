"""LLVM IR becomes machine code: right for every size, cached, and refused with the line at fault."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tinyfn.devices import cpu
from tinyfn.lower import target as facts
from tinyfn.lower.target import host_target

ROOT = Path(__file__).parents[2]
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

# y = a * x + y over [begin, end), 16 at a time and then one by one; the arguments are x, y, a.
SAXPY = """
define void @NAME(ptr %arguments, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %arguments
  %y.where = getelementptr i8, ptr %arguments, i64 8
  %y = load ptr, ptr %y.where
  %a.where = getelementptr i8, ptr %arguments, i64 16
  %a = load float, ptr %a.where
  %a.first = insertelement <16 x float> poison, float %a, i32 0
  %a.all = shufflevector <16 x float> %a.first, <16 x float> poison, <16 x i32> zeroinitializer
  %n = sub i64 %end, %begin
  %whole = and i64 %n, -16
  %middle = add i64 %begin, %whole
  %any = icmp slt i64 %begin, %middle
  br i1 %any, label %vector, label %rest
vector:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %vector ]
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %vx = load <16 x float>, ptr %px, align 4
  %vy = load <16 x float>, ptr %py, align 4
  %sum = call <16 x float> @llvm.fma.v16f32(<16 x float> %a.all, <16 x float> %vx, <16 x float> %vy)
  store <16 x float> %sum, ptr %py, align 4
  %i.next = add i64 %i, 16
  %again = icmp slt i64 %i.next, %middle
  br i1 %again, label %vector, label %rest
rest:
  %more = icmp slt i64 %middle, %end
  br i1 %more, label %scalar, label %exit
scalar:
  %j = phi i64 [ %middle, %rest ], [ %j.next, %scalar ]
  %qx = getelementptr float, ptr %x, i64 %j
  %qy = getelementptr float, ptr %y, i64 %j
  %sx = load float, ptr %qx
  %sy = load float, ptr %qy
  %one = call float @llvm.fma.f32(float %a, float %sx, float %sy)
  store float %one, ptr %qy
  %j.next = add i64 %j, 1
  %continue = icmp slt i64 %j.next, %end
  br i1 %continue, label %scalar, label %exit
exit:
  ret void
}
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare float @llvm.fma.f32(float, float, float)
"""


class Arguments(ctypes.Structure):
    _fields_ = (("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("a", ctypes.c_float))


def saxpy(name: str = "saxpy") -> str:
    return SAXPY.replace("NAME", name)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TINYFN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TINYFN_CACHE", raising=False)
    cpu.disk_cache.cache_clear()
    cpu.counts.clear()
    yield
    cpu.disk_cache.cache_clear()


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 31, 33, 64, 1001, 4099])
@pytest.mark.parametrize("begin", [0, 1, 7])
def test_saxpy_is_right_for_every_size(n: int, begin: int) -> None:
    module = cpu.compile_ir(saxpy(), host_target())
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n + begin + 5)).astype(np.float32)
    expected = y.copy()
    # float64 holds the product exactly, so that this rounds once, as an fma does (but for rare double rounding)
    exact = 1.5 * x[begin : begin + n].astype(np.float64) + y[begin : begin + n]
    expected[begin : begin + n] = exact.astype(np.float32)
    arguments = Arguments(x.ctypes.data, y.ctypes.data, 1.5)
    KERNEL(module.function("saxpy"))(ctypes.addressof(arguments), begin, begin + n)
    np.testing.assert_array_equal(y, expected)


def test_equal_texts_are_one_module() -> None:
    first = cpu.compile_ir(saxpy(), host_target())
    assert cpu.compile_ir(saxpy(), host_target()) is first
    assert cpu.counts["emit"] == 1 and cpu.counts["memory"] == 1
    assert cpu.compile_ir(saxpy("other"), host_target()) is not first
    assert cpu.compile_ir(saxpy(), host_target(), passes=()) is not first
    assert cpu.counts["emit"] == 3


def test_code_that_nobody_holds_is_unloaded_and_comes_back_from_disk() -> None:
    cpu.compile_ir(saxpy(), host_target())
    gc.collect()
    assert not [key for key in cpu._modules if "saxpy" in cpu._modules[key]._addresses]
    cpu.compile_ir(saxpy(), host_target())
    assert cpu.counts["emit"] == 1 and cpu.counts["disk"] == 1


def test_every_pass_list_gives_the_same_results() -> None:
    x = np.linspace(-3, 3, 77, dtype=np.float32)
    results = []
    for passes in ((), cpu.PASSES, (*cpu.PASSES, "new_gvn", "loop_strength_reduce")):
        y = np.ones_like(x)
        module = cpu.compile_ir(saxpy(), host_target(), passes=passes)
        arguments = Arguments(x.ctypes.data, y.ctypes.data, 0.1)
        KERNEL(module.function("saxpy"))(ctypes.addressof(arguments), 0, 77)
        results.append(y.tobytes())
    assert len(set(results)) == 1


def test_a_mistake_is_shown_with_its_line() -> None:
    text = saxpy().replace("%i.next = add i64 %i, 16", "%i.next = add i32 %i, 16")
    line = 1 + text[: text.index("add i32")].count("\n")
    with pytest.raises(cpu.CompileError) as caught:
        cpu.compile_ir(text, host_target())
    assert f"line {line} of the LLVM IR: '%i' defined with type 'i64'" in str(caught.value)
    assert f"{line}   %i.next = add i32 %i, 16" in str(caught.value)
    with pytest.raises(cpu.CompileError, match="line 2 of the LLVM IR: use of undefined value '%b'"):
        cpu.compile_ir("define void @f() {\n br label %b\n}", host_target())
    # What parses and is no valid module is found too.
    text = "define i32 @f(i1 %c) {\n br i1 %c, label %b, label %d\nb:\n %x = add i32 1, 2\n br label %d\nd:\n ret i32 %x\n}"
    with pytest.raises(cpu.CompileError, match="LLVM refused the module: Instruction does not dominate"):
        cpu.compile_ir(text, host_target())
    assert not list(cpu.disk_cache().folder.iterdir())  # type: ignore[union-attr]


def test_a_missing_symbol_is_named() -> None:
    text = "declare void @absent(i64)\ndefine void @f() {\n call void @absent(i64 1)\n ret void\n}"
    with pytest.raises(cpu.CompileError, match="nothing defines absent"):
        cpu.compile_ir(text, host_target())


def test_symbols_and_the_c_library_are_linked() -> None:
    calls: list[int] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(calls.append)
    text = """
declare void @given(i64)
declare i64 @labs(i64)
define void @"odd.name$"(i64 %x) {
  %y = call i64 @labs(i64 %x)
  call void @given(i64 %y)
  ret void
}
define internal void @hidden() {
  ret void
}
"""
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    module = cpu.compile_ir(text, host_target(), symbols={"given": address})
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(module.function("odd.name$"))(-7)
    assert calls == [7]
    with pytest.raises(KeyError, match=r"no function 'hidden'; it has odd.name\$"):
        module.function("hidden")


def test_code_for_a_symbol_at_another_address_is_linked_anew() -> None:
    text = "declare i64 @given()\ndefine i64 @f() {\n %x = call i64 @given()\n ret i64 %x\n}"
    kind = ctypes.CFUNCTYPE(ctypes.c_int64)
    for value in (1, 2):
        callback = kind(lambda value=value: value)
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        module = cpu.compile_ir(text, host_target(), symbols={"given": address})
        assert kind(module.function("f"))() == value
    assert cpu.counts["emit"] == 1


def test_assembly_is_for_people() -> None:
    text = cpu.assembly(saxpy(), host_target())
    assert "saxpy:" in text and "ret" in text


def test_threads_compile_at_once() -> None:
    modules: list[cpu.Module] = []
    threads = [
        threading.Thread(target=lambda i=i: modules.append(cpu.compile_ir(saxpy(f"f{i % 3}"), host_target())))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(modules) == 8 and cpu.counts["emit"] == 3


IN_A_NEW_PROCESS = """
import sys, time
from tinyfn.devices import cpu
from tinyfn.lower.target import host_target
text = sys.stdin.read()
cpu.compile_ir(text.replace("@saxpy(", "@warm("), host_target())
cpu.counts.clear()
begin = time.perf_counter()
module = cpu.compile_ir(text, host_target())
print(1e3 * (time.perf_counter() - begin), cpu.counts["parse"], cpu.counts["emit"], cpu.counts["disk"])
"""


def in_a_new_process() -> tuple[float, int, int, int]:
    result = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS],
        input=saxpy(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    milliseconds, parsed, emitted, hits = result.stdout.split()
    return float(milliseconds), int(parsed), int(emitted), int(hits)


def test_a_new_process_links_what_is_on_disk() -> None:
    assert in_a_new_process()[1:] == (1, 1, 0)
    runs = [in_a_new_process() for _ in range(3)]
    assert all(run[1:] == (0, 0, 1) for run in runs)
    assert min(run[0] for run in runs) < 2.5  # about 0.2; compiling takes 3


def test_a_damaged_entry_is_compiled_again() -> None:
    in_a_new_process()
    folder = cpu.disk_cache().folder
    assert folder is not None
    entries = list(folder.iterdir())
    assert len(entries) == 2
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-10])
    assert in_a_new_process()[1:] == (1, 1, 0)
    assert in_a_new_process()[1:] == (0, 0, 1)


def test_an_entry_that_does_not_link_is_compiled_again() -> None:
    """Whole by its checksum, and not an object: what a bug in another version may leave."""
    module = cpu.compile_ir(saxpy(), host_target())
    folder = cpu.disk_cache().folder
    assert folder is not None
    (entry,) = folder.iterdir()
    key = entry.name.removesuffix(".object")
    other = cpu._emit("define void @other() {\n ret void\n}", cpu._compiler(*host_target()[1:4]), ())
    del module
    gc.collect()
    cpu.disk_cache().store(key, other)
    cpu.compile_ir(saxpy(), host_target()).function("saxpy")
    assert cpu.counts["disk"] == 1 and cpu.counts["parse"] == 3


FORK = """
import os, sys, threading
from tinyfn.devices import cpu
from tinyfn.lower.target import host_target
text = sys.stdin.read()
stop = False
def compile_all():
    number = 0
    while not stop:
        cpu.compile_ir(text.replace("@saxpy(", f"@f{threading.get_ident()}_{number}("), host_target())
        number += 1
threads = [threading.Thread(target=compile_all) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(20):
    child = os.fork()
    if not child:
        cpu.compile_ir(text.replace("@saxpy(", f"@child{number}("), host_target())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
print("done")
"""


def test_a_fork_while_other_threads_compile() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        input=saxpy(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == "done\n", result.stderr


def test_the_hosts_facts_make_sense() -> None:
    target = host_target()
    assert target is host_target()
    assert target.vector_bytes in (16, 32, 64) and target.vector_registers in (16, 32)
    assert 8 << 10 <= target.l1_bytes <= target.l2_bytes <= target.l3_bytes
    assert 1 <= target.cores <= (os.cpu_count() or 1)
    assert target.lanes(4) == target.vector_bytes // 4


def test_the_vector_unit_is_read_off_the_features() -> None:
    assert facts.vector_facts("x86_64", frozenset({"sse2"})) == (16, 16, False)
    assert facts.vector_facts("x86_64", frozenset({"avx", "avx2", "fma"})) == (32, 16, True)
    assert facts.vector_facts("x86_64", frozenset({"avx", "avx512f", "fma"})) == (64, 32, True)
    assert facts.vector_facts("aarch64", frozenset()) == (16, 32, True)


def test_caches_are_read_and_have_defaults(tmp_path: Path) -> None:
    assert facts.cache_sizes(tmp_path) == facts.DEFAULT_CACHES
    for index, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "2M"), ("Unified", 3, "32768K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "type").write_text(f"{kind}\n")
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    assert facts.cache_sizes(tmp_path) == (48 << 10, 2 << 20, 32 << 20)


def test_a_missing_llvmlite_is_said_in_plain_words_and_needed_for_jit_alone(tmp_path: Path) -> None:
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise OSError('Could not load shared object file')")
    code = """
import tinyfn, tinyfn.numpy as tnp
f = tinyfn.jit(lambda x: x + 1)
assert float(tnp.ones(()) + 1) == 2 and float(tinyfn.grad(lambda x: x * x)(3.0)) == 6
try:
    f(1.0)
except ImportError as error:
    print(error)
tinyfn.devices.set_default_device("numpy")
assert float(f(1.0)) == 2
"""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "TINYFN_DEVICE": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        "llvmlite" in done.stdout and "TINYFN_DEVICE=numpy" in done.stdout and "shared object" in done.stdout
    )
