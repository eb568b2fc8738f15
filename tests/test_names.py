"""The table of public names is what running each of them gives now, nothing in it is wrong, and no name is missing."""

from __future__ import annotations

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from scripts import names
from tests.required_names import OF_ARRAYS, OF_AT, REQUIRED

MODULES = names.modules()
TEXT = names.PATH.read_text()
# The test of every row takes a minute, that of every tenth some seconds.
STRIDE = 10


@pytest.mark.parametrize("title", REQUIRED)
def test_what_a_port_needs_is_there_and_in_the_table(title: str) -> None:
    module = MODULES[title]
    wanted = REQUIRED[title].split()
    missing = [name for name in wanted if not hasattr(module, name) or name not in names.public(module)]
    assert not missing
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    run = {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")}
    listed = {
        name
        for line in section.splitlines()
        if ": " in line
        for name in line.rstrip(".").split(": ")[1].split(", ")
    }
    assert not set(wanted) - run - listed


def test_arrays_have_the_methods_that_a_port_needs() -> None:
    x = tnp.ones((2, 2))
    assert not [name for name in OF_ARRAYS.split() if not hasattr(x, name)]
    assert not [name for name in OF_AT.split() if not hasattr(x.at[0], name)]
    np.testing.assert_array_equal(tinyfn.jit(lambda x: x.at[0].set(2.0))(x), [[2, 2], [1, 1]])


def test_every_public_name_is_in_the_table_and_nothing_in_it_is_wrong() -> None:
    assert "✗" not in TEXT
    assert TEXT.count("\n| ") > 650
    for title, module in MODULES.items():
        section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0].strip()
        lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
        assert names.section(title, module, lines) == f"## {title}\n\n{section}", (
            "run `python scripts/names.py`"
        )
        assert [line.split(" | ")[0] for line in lines] == [
            f"| {name}" for name, _ in names.rows(title, module)
        ]


def test_a_sample_of_the_table_is_what_running_it_gives() -> None:
    every = [(title, *row) for title, module in MODULES.items() for row in names.rows(title, module)]
    wrong = [row for row in every[::STRIDE] if not _stands(*row)]
    assert not wrong, "run `python scripts/names.py`"


def _stands(title: str, name: str, function: object) -> bool:
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return names.line(title, name, function, every_dtype_compiled=False) in section.splitlines()  # type: ignore[arg-type]


@pytest.mark.sweep
def test_the_whole_table_is_what_running_it_gives() -> None:
    assert names.table() == TEXT, "run `python scripts/names.py`"
