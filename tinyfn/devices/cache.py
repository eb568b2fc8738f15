"""Compiled code kept on disk, so that a kernel is compiled once and not once in every process.

The folder is `TINYFN_CACHE_DIR`, or `tinyfn` in `XDG_CACHE_HOME` (`~/.cache`); `TINYFN_CACHE=0` turns the cache off.
It may be deleted at any time. Each entry is one file, named by its key and holding a checksum of key and content;
it is written under another name and then renamed, so that a reader sees a whole entry or none, whoever else writes.
An entry that is not whole is removed and made again. What does not fit (a full disk, a folder that can't be written)
is not kept, without complaint.

**Whom it trusts.** An entry is machine code that this process will run, so the folder and each file must belong to
this user and be writeable by nobody else; a folder that is not so is not used at all, with one warning that says
why. The checksum is against accidents, not against an attacker who can already write as this user."""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from pathlib import Path

MAGIC = b"tinyfn object 1\n"
SUFFIX = ".object"
LIMIT = 256 << 20  # bytes, all entries together
HOUR = 3600.0
# More files than this take too long to look through.
MOST_ENTRIES = 1 << 14


def default_folder() -> Path | None:
    """The folder that the environment asks for, None if the cache is off."""
    if os.environ.get("TINYFN_CACHE", "").strip() == "0":
        return None
    if given := os.environ.get("TINYFN_CACHE_DIR"):
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinyfn"
    except RuntimeError:  # nobody's home
        return None


class DiskCache:
    """Bytes by key (hexadecimal digits) in a folder; `folder=None` keeps nothing.

    `limit` bounds the bytes of all entries together. The least recently used go first; the bound is looked at
    for one entry in 64 and for every large one, so it is passed by a few per cent at times."""

    def __init__(self, folder: Path | None, limit: int = LIMIT):
        self.limit = limit
        self.folder = folder if folder is not None and _prepared(folder) else None

    def load(self, key: str) -> bytes | None:
        """The bytes stored under a key, None where there are none that can be trusted."""
        if self.folder is None:
            return None
        path = self.folder / (key + SUFFIX)
        try:
            # What is checked is the open file, which nobody can exchange between the check and the use.
            with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or _distrust(status):
                    return None
                content = file.read()
        except OSError:
            return None
        start = len(MAGIC) + 32
        data = content[start:]
        if not content.startswith(MAGIC) or content[len(MAGIC) : start] != _checksum(key, data):
            _remove(path)
            return None
        if time.time() - status.st_mtime > HOUR:
            _touch(path)
        return data

    def store(self, key: str, data: bytes) -> bool:
        """Keep bytes under a key; tells whether that worked."""
        if self.folder is None:
            return False
        temporary = self.folder / f"{key}.{os.getpid()}.{os.urandom(4).hex()}.new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(MAGIC + _checksum(key, data) + data)
            os.replace(temporary, self.folder / (key + SUFFIX))
        except OSError:
            _remove(temporary)
            return False
        if len(data) > self.limit >> 10 or int(key[:2], 16) % 64 == 0:
            self.trim()
        return True

    def trim(self) -> None:
        """Remove the least recently used entries if there are too many or too large ones, and what dead writers left."""
        if self.folder is None:
            return
        entries: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    try:
                        status = file.stat(follow_symlinks=False)
                    except FileNotFoundError:  # another process trims as well
                        continue
                    if file.name.endswith(SUFFIX):
                        entries.append((status.st_mtime, status.st_size, file.path))
                    elif file.name.endswith(".new") and time.time() - status.st_mtime > HOUR:
                        _remove(file.path)
        except OSError:
            return
        total, count = sum(size for _, size, _ in entries), len(entries)
        if total <= self.limit and count <= MOST_ENTRIES:
            return
        for _, size, path in sorted(entries):
            _remove(path)
            total, count = total - size, count - 1
            if total <= self.limit * 7 // 8 and count <= MOST_ENTRIES * 7 // 8:
                break


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + data).digest()


def _prepared(folder: Path) -> bool:
    """Make a folder if need be, and check that it is this user's alone."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        why = _distrust(folder.stat())
    except OSError:
        return False
    if why:
        warnings.warn(
            f"compiled code is not kept in {folder}: it {why}. Make it yours alone (chmod go-w), or name another "
            "folder in TINYFN_CACHE_DIR, or set TINYFN_CACHE=0",
            RuntimeWarning,
            stacklevel=2,
        )
    return not why


def _distrust(status: os.stat_result) -> str:
    """Why a file or folder may hold what somebody else wrote, empty if it may not."""
    if not hasattr(os, "getuid"):  # Windows: a user's folders are the user's
        return ""
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def _remove(path: str | Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        pass
