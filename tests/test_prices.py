"""The table of prices: each derived rule has a row, and rows compute what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.prices.derived import NOT_TIMED, derived_in, derived_rules
from benchmarks.prices.libraries import load
from benchmarks.prices.report import Measured, cells, dear, page
from benchmarks.prices.rows import ROWS, written
from benchmarks.prices.worker import Programs
from benchmarks.worker import leaves
from tinyfn import devices


@pytest.fixture
def step_by_step() -> Iterator[None]:
    before = devices.default_device()
    devices.set_default_device("numpy")
    yield
    devices.set_default_device(before)


def test_each_derived_rule_has_a_row(step_by_step: None) -> None:
    library, found = load("tinyfn"), set()
    for name in ROWS:
        found |= derived_in(Programs(library, name, 5))
    assert found | set(NOT_TIMED) >= set(derived_rules())


@pytest.mark.parametrize("name", [name for name in ROWS if written(name)])
def test_a_written_rule_gives_what_the_derived_one_gives(name: str, step_by_step: None) -> None:
    programs = Programs(load("tinyfn"), name, 5)
    derived, by_hand = leaves(programs.call("gradient")), leaves(programs.call("written"))
    assert len(derived) == len(by_hand)
    for a, b in zip(derived, by_hand, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def test_a_run_prints_a_table_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prices.md"
    command = [
        "prices",
        "softmax",
        "argmax",
        "--most",
        "7",
        "--rounds",
        "1",
        "--threads",
        "1",
        "--page",
        str(path),
    ]
    assert main(command) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["row", "softmax", "argmax"]
    text = path.read_text()
    assert "| softmax |" in text and "| argmax |" in text
    with pytest.raises(SystemExit):
        main(["prices", "soft"])
    assert "no row is named soft" in capsys.readouterr().err


def test_ratios() -> None:
    ours = Measured({"value": 2.0, "gradient": 6.0, "written": 3.0, "batched": 8.0})
    theirs = Measured({"value": 1.0, "gradient": 4.0, "batched": 8.0})
    pair = {"tinyfn": ours, "jax": theirs}
    assert cells(pair) == ["2 s", "2.00", "3.00", "4.00", "1.50", "2.00", "1.00", "1.00", ""]
    assert dear({"f": pair}) == ["f, value beside JAX: 2.0", "f, derived beside written: 2.0"]
    assert "| f | 2 s | 2.00 |" in page({"f": pair}, {"jax": "1.2"}, "")
    failed = {"tinyfn": Measured(error="it broke"), "jax": theirs}
    assert cells(failed) == ["failed: it broke"] and dear({"f": failed}) == []
