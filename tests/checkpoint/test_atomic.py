"""A file is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoint.files import PACKAGE_ROOT, Lazy, assert_same, no_leftovers, run_python
from tinyfn.checkpoint import safe_load, safe_save


class Exploding:
    """An array whose bytes cannot be had."""

    dtype, shape = np.dtype(np.float32), (4,)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt(), SystemExit(1), MemoryError()])
@pytest.mark.parametrize("old", [False, True])
def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path, error: BaseException, old: bool) -> None:
    path = tmp_path / "f"
    if old:
        safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes() if old else None
    with pytest.raises(type(error)):
        # The float64 tensor is written first: the failure comes after some data is in the temporary file.
        safe_save({"a": np.zeros(100_000), "b": Exploding(error)}, path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert os.listdir(tmp_path) == (["f"] if old else [])


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_failing_system_call_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()

    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            safe_save({"a": np.zeros(3)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()
    code = f"""
import resource, signal, numpy as np
from tinyfn.checkpoint import safe_save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    safe_save({{"a": np.zeros(1 << 20)}}, {str(path)!r})
except OSError as error:
    print("OSError", error.errno)
"""
    assert run_python(code) == f"OSError {errno.EFBIG}\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]


def test_data_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def record_replace(source: str, target: str) -> None:
        events.append("replace")
        assert os.path.dirname(source) == os.path.dirname(target)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    safe_save({"a": np.arange(5)}, tmp_path / "f")
    assert events == ["file", "replace", "folder"]


def test_kill_9_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()
    code = f"""
import os, signal, numpy as np
from tinyfn.checkpoint import safe_save

class Deadly:
    dtype, shape = np.dtype(np.float32), (4,)
    def __array__(self, dtype=None, copy=None):
        os.kill(os.getpid(), signal.SIGKILL)

safe_save({{"a": np.zeros(1 << 20), "b": Deadly()}}, {str(path)!r})
"""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert len(os.listdir(tmp_path)) == 2
    safe_save({"a": np.arange(6)}, path)
    assert safe_load(path)["a"].shape == (6,)


def test_kill_9_at_any_time_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    old = {"a": np.zeros(1 << 20, np.float32)}
    code = f"""
import numpy as np
from tinyfn.checkpoint import safe_save
print("ready", flush=True)
value = 0
while True:
    value += 1
    safe_save({{"a": np.full(1 << 20, value, np.float32)}}, {str(path)!r})
"""
    for delay in (0.0, 0.004, 0.011, 0.023):
        safe_save(old, path)
        environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        array = safe_load(path)["a"]
        assert array.shape == (1 << 20,)
        assert (array == array[0]).all()


def test_saving_over_the_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    array = np.arange(100_000, dtype=np.float32)
    safe_save({"a": array, "b": array.astype(np.int16)}, path)
    before = path.read_bytes()
    loaded = safe_load(path)
    safe_save(loaded, path)
    assert path.read_bytes() == before
    safe_save({"a": loaded["a"][::-1], "new": np.zeros(3)}, path)
    assert_same(loaded["a"], array)
    assert_same(loaded["b"], array.astype(np.int16))
    assert_same(safe_load(path)["a"], np.ascontiguousarray(array[::-1]))
    path.unlink()
    assert_same(loaded["a"], array)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o444])
def test_the_old_files_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    path.chmod(mode)
    modes: list[int] = []

    class Watch(Lazy):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            modes.extend(stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path))
            return super().__array__()

    safe_save({"a": Watch(np.arange(9), True)}, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    # While it is written, the temporary file is no more open than the old one.
    assert modes == [mode, mode]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_files_mode_is_the_umasks(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        safe_save({"a": np.arange(5)}, tmp_path / "f")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o666 & ~umask


def test_links_and_special_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "folder" / "real", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    safe_save({"a": np.arange(5)}, link)
    safe_save({"a": np.arange(6)}, link)
    assert link.is_symlink()
    assert safe_load(target)["a"].shape == (6,)
    with pytest.raises(OSError, match="not a regular file"):
        safe_save({"a": np.arange(5)}, target.parent)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        safe_save({"a": np.arange(5)}, tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    safe_save({"a": np.arange(5)}, "x" * 255)
    assert len(safe_load("x" * 255)) == 1
    assert no_leftovers(tmp_path)
