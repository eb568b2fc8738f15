"""The worked example of docs/adding_an_op.md, taken from the page itself and tested as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def example() -> str:
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "adding_an_op.md").read_text(), re.S)
    assert found
    return found.group(1)


def run_primitive_tests(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "new_op.py").write_text(source)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "new_op",
        "-p",
        "no:cacheprovider",
        "-q",
        "-k",
        "softsign",
        "tests/test_primitives.py",
        "tests/devices/test_samples.py",
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_the_class_is_short() -> None:
    body = example().split("class ")[1].split("\n\n\n")[0].rstrip()
    assert len(body.splitlines()) <= 18


def test_a_new_op_is_tested_everywhere_with_no_other_edit(tmp_path: Path) -> None:
    result = run_primitive_tests(tmp_path, example())
    assert result.returncode == 0, result.stdout[-3000:]
    passed = re.search(r"(\d+) passed", result.stdout)
    # Value, printed source, vmap and each device for each of its samples, derivatives for those that have them; special values.
    assert passed and int(passed.group(1)) >= 50, result.stdout[-3000:]


def test_a_wrong_formula_is_found(tmp_path: Path) -> None:
    result = run_primitive_tests(
        tmp_path, example().replace("1.0))\n\n    def partial", "1.5))\n\n    def partial")
    )
    assert result.returncode == 1 and "test_samples[softsign" in result.stdout


def test_a_wrong_derivative_is_found(tmp_path: Path) -> None:
    result = run_primitive_tests(tmp_path, example().replace("return 1.0 /", "return 2.0 /"))
    assert result.returncode == 1 and "test_jvp_is_the_limit_of_differences[softsign" in result.stdout
