"""The cache on disk: whole entries or none, whoever writes, whatever breaks, and nothing from strangers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tinyfn.devices import cache as module
from tinyfn.devices.cache import SUFFIX, DiskCache, default_folder

ROOT = Path(__file__).parents[2]


def key_of(number: int) -> str:
    return f"{number * 7919 % 251:02x}{number:062x}"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def entry(cache: DiskCache, key: str) -> Path:
    assert cache.folder is not None
    return cache.folder / (key + SUFFIX)


def test_what_is_stored_is_loaded(cache: DiskCache) -> None:
    assert cache.load(key_of(1)) is None
    for number, data in enumerate((b"", b"code", bytes(range(256)) * 1000)):
        assert cache.store(key_of(number), data)
        assert cache.load(key_of(number)) == data
    assert cache.store(key_of(1), b"newer") and cache.load(key_of(1)) == b"newer"
    assert entry(cache, key_of(1)).stat().st_mode & 0o777 == 0o600
    assert entry(cache, key_of(1)).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"X" + content[1:],
        lambda content: bytes(len(content)),
    ],
)
def test_a_damaged_entry_is_removed(cache: DiskCache, damage: Any) -> None:
    cache.store(key_of(1), b"some code")
    path = entry(cache, key_of(1))
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(key_of(1)) is None
    assert not path.exists()
    assert cache.store(key_of(1), b"some code") and cache.load(key_of(1)) == b"some code"


def test_an_entry_under_another_name_is_refused(cache: DiskCache) -> None:
    cache.store(key_of(1), b"some code")
    entry(cache, key_of(1)).rename(entry(cache, key_of(2)))
    assert cache.load(key_of(2)) is None


WRITER = """
import sys
from pathlib import Path
from tinyfn.devices.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), limit=200_000)
bad = 0
for round in range(15):
    for number in range(40):
        key = f"{number:064x}"
        data = bytes([number]) * (100 * number + 1)
        found = cache.load(key)
        bad += found is not None and found != data
        cache.store(key, data)
print(bad)
"""


def test_processes_write_and_read_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "cache")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["0\n"] * 3
    left = [path.name for path in (tmp_path / "cache").iterdir()]
    assert len(left) >= 20 and all(name.endswith(SUFFIX) for name in left)


def test_the_size_is_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=100_000)
    past = time.time() - 10_000
    for number in range(200):
        cache.store(key_of(number), bytes(2000))
        os.utime(entry(cache, key_of(number)), (past + number, past + number))
        if number % 50 == 10:
            assert cache.load(key_of(3)) is not None  # used, so it is young again
    assert cache.folder is not None
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= 105_000
    assert cache.load(key_of(3)) is not None and cache.load(key_of(199)) is not None
    assert cache.load(key_of(5)) is None and cache.load(key_of(120)) is None


def test_small_entries_are_bounded_as_well(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", limit=100_000)
    for number in range(3000):
        cache.store(key_of(number), b"12345678")
    assert cache.folder is not None
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= 120_000


def test_the_number_of_entries_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyfn.devices.cache.MOST_ENTRIES", 40)
    cache = DiskCache(tmp_path / "cache", limit=100_000_000)
    for number in range(100):
        cache.store(key_of(number), b"12345678")
    cache.trim()
    assert cache.folder is not None and 20 <= len(list(cache.folder.iterdir())) <= 40
    assert cache.load(key_of(99)) is not None


def test_what_dead_writers_left_is_removed(cache: DiskCache) -> None:
    assert cache.folder is not None
    old, new = cache.folder / "a.new", cache.folder / "b.new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.trim()
    assert not old.exists() and new.exists()


class FullDisk:
    """A file that takes half of what it is given."""

    def __init__(self, file: Any):
        self.file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_no_error(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_full(file: Any, mode: str = "r") -> Any:
        opened = open(file, mode)
        return FullDisk(opened) if "w" in mode else opened

    cache.store(key_of(1), b"older")
    monkeypatch.setattr(module, "open", open_full, raising=False)
    assert not cache.store(key_of(1), b"newer") and not cache.store(key_of(2), b"newer")
    assert cache.load(key_of(1)) == b"older" and cache.load(key_of(2)) is None
    assert cache.folder is not None
    assert [path.name for path in cache.folder.iterdir()] == [key_of(1) + SUFFIX]


def test_a_folder_that_cannot_be_written_is_read(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system call is replaced, since root writes in every folder."""
    cache.store(key_of(1), b"code")
    really_open = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    again = DiskCache(cache.folder)
    assert again.load(key_of(1)) == b"code" and not again.store(key_of(2), b"code")


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    assert cache.folder is None
    assert not cache.store(key_of(1), b"code") and cache.load(key_of(1)) is None
    cache.trim()


def test_a_folder_that_is_deleted_is_no_error(cache: DiskCache) -> None:
    assert cache.folder is not None
    cache.folder.rmdir()
    assert not cache.store(key_of(1), b"code") and cache.load(key_of(1)) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    DiskCache(folder).store(key_of(1), b"code")
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match=rf"can be written by others \(mode {mode:o}\).*chmod go-w"):
        cache = DiskCache(folder)
    assert cache.folder is None and cache.load(key_of(1)) is None


def test_a_folder_of_somebody_else_is_not_used(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.warns(RuntimeWarning, match=f"belongs to user {owner}"):
        assert DiskCache(cache.folder).folder is None


def test_a_file_that_others_can_write_or_own_is_not_loaded(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(key_of(1), b"code")
    for mode in (0o620, 0o602):
        entry(cache, key_of(1)).chmod(mode)
        assert cache.load(key_of(1)) is None
    entry(cache, key_of(1)).chmod(0o600)
    assert cache.load(key_of(1)) == b"code"
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert cache.load(key_of(1)) is None


def test_links_and_folders_are_not_loaded(cache: DiskCache) -> None:
    cache.store(key_of(1), b"code")
    entry(cache, key_of(1)).rename(entry(cache, "elsewhere"))
    entry(cache, key_of(1)).symlink_to(entry(cache, "elsewhere"))
    entry(cache, key_of(2)).mkdir()
    assert cache.load(key_of(1)) is None and cache.load(key_of(2)) is None


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TINYFN_CACHE", "TINYFN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "tinyfn"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "tinyfn"
    monkeypatch.setenv("TINYFN_CACHE_DIR", str(tmp_path / "given"))
    assert default_folder() == tmp_path / "given"
    monkeypatch.setenv("TINYFN_CACHE", "0")
    assert default_folder() is None and not DiskCache(None).store(key_of(1), b"code")
