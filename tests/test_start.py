"""What a newcomer meets first: the import, the README's code, and the example that trains on real digits."""

from __future__ import annotations

import os
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path
from statistics import quantiles

import numpy as np

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
# Where it is set, every import compiles the package again, which is not what users meet.
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)


def run(*command: str) -> str:
    result = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def test_the_import_costs_little_more_than_numpys() -> None:
    def seconds(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds("import tinyfn")
    # The processor's time of two imports in a row, since what else runs slows down both; the lower quartile, since where
    # caches are shared it slows down the larger one more.
    ratios: list[float] = []
    while len(ratios) < 45:
        numpys = seconds("import numpy")
        ratios.append(seconds("import tinyfn") / numpys)
        if len(ratios) >= 9 and quantiles(ratios)[0] < 1.5:
            break
    assert quantiles(ratios)[0] < 1.5


def test_nothing_heavy_is_loaded_with_the_package() -> None:
    loaded = set(run("-c", "import sys, tinyfn; print(*sys.modules)").split())
    assert "tinyfn.transforms.jit" in loaded
    assert (
        not loaded & {"llvmlite", "pycuda", "scipy", "matplotlib", "inspect", "dataclasses"} - numpy_modules()
    )


def numpy_modules() -> set[str]:
    return set(run("-c", "import sys, numpy, ml_dtypes; print(*sys.modules)").split())


def test_the_readmes_code_runs() -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert found
    printed = run("-c", found.group(1))
    assert "(100, 3)" in printed and "dot_general(" in printed


def test_digits_are_learned_saved_and_restored(tmp_path: Path) -> None:
    trained = run("examples/mnist.py", "--output", str(tmp_path))
    accuracy = re.search(r"test accuracy: ([\d.]+) % of 1000", trained)
    assert accuracy and float(accuracy.group(1)) >= 94, trained
    assert (tmp_path / "digits.png").stat().st_size > 10_000
    restored = run("examples/mnist.py", "--output", str(tmp_path), "--load")
    assert "predictions are the same bits as after training" in restored
    assert trained.splitlines()[-1] == restored.splitlines()[-1]


def test_the_example_reads_idx_files(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for part, count in (("train", 300), ("t10k", 50)):
        images, labels = (
            generator.integers(0, 256, (count, 28, 28), np.uint8),
            generator.integers(0, 10, count, np.uint8),
        )
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (tmp_path / name).write_bytes(header + array.tobytes())
    printed = run("examples/mnist.py", "--data", str(tmp_path), "--epochs", "1", "--output", str(tmp_path))
    assert "trained on 300 images" in printed and "of 50 held-out images" in printed
