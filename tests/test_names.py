"""The table of public names is what running each of them gives now, and nothing in it is wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "names.py"


@pytest.mark.filterwarnings("ignore")
def test_the_table_of_names_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("names", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.table()
    assert "✗" not in made
    assert made.count("\n| ") > 370
    assert made == module.PATH.read_text(), "run `python scripts/names.py`"
