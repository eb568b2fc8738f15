"""docs/tour.md: its commands run, and print what the page says they print.

`python tests/test_tour.py` puts what they print now on the page."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tinyfn import devices

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tour.md"
COMMANDS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text( example)?\n(.*?)^```\n)?", re.S | re.M)

# Commands whose output depends on the machine.
MACHINE = r"host_target|assembly|timeit|debug_level|print\(lowered\)"


class Block(NamedTuple):
    """Commands and what the page says that they print; an example is what they printed on some machine."""

    commands: str
    example: bool
    printed: str | None


def blocks(page: str) -> list[Block]:
    return [Block(m.group(1), m.group(2) is not None, m.group(3)) for m in COMMANDS.finditer(page)]


def run(commands: str, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        exec(compile(commands, "docs/tour.md", "exec", dont_inherit=True), names)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().rstrip().splitlines())


@pytest.fixture
def default_device() -> Iterator[None]:
    before = devices.default_device()
    yield
    devices.set_default_device(before)


def test_the_commands_print_what_the_page_shows(default_device: None) -> None:
    names: dict[str, Any] = {"__name__": "tour"}
    shown = blocks(PAGE.read_text())
    assert len(shown) >= 10
    for block in shown:
        printed = run(block.commands, names)
        assert bool(printed) == bool(block.printed), (
            f"run `python tests/test_tour.py`; printed by\n{block.commands}"
        )
        if not block.example:
            assert printed == (block.printed or ""), (
                f"run `python tests/test_tour.py`; printed by\n{block.commands}"
            )


def test_the_page_covers_every_stage() -> None:
    page = PAGE.read_text()
    assert len(page.splitlines()) <= 310
    for stage in ("Trace", "Grad", "Simplify", "Index", "Group", "Estimates", "code", "Assembly", "Run"):
        assert re.search(rf"^## \d\..*{stage}", page, re.M), stage
    # Only what depends on the machine is not compared.
    examples = [block.commands for block in blocks(page) if block.example]
    assert all(re.search(MACHINE, commands) for commands in examples)
    assert len(examples) == 5


def test_the_modules_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:trace|transforms|lower|devices)/[\w/]+\.py)`", PAGE.read_text())
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / "tinyfn" / name).exists()]


def test_commands_are_split_as_they_are_written() -> None:
    page = "a\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n\n```python\ny = 2\n```\nb\n"
    page += "```python\nz\n```\n\n```text example\n3\n```\n"
    assert blocks(page) == [
        Block("x = 1\nprint(x)\n", False, "1\n"),
        Block("y = 2\n", False, None),
        Block("z\n", True, "3\n"),
    ]


def write() -> None:
    """Put what the commands print on the page."""
    names: dict[str, Any] = {"__name__": "tour"}

    def replaced(match: re.Match[str]) -> str:
        commands = match.group(1)
        ast.parse(commands)
        example = " example" if re.search(MACHINE, commands) else ""
        printed = run(commands, names)
        return f"```python\n{commands}```\n" + (f"\n```text{example}\n{printed}```\n" if printed else "")

    PAGE.write_text(COMMANDS.sub(replaced, PAGE.read_text()))


if __name__ == "__main__":
    write()
