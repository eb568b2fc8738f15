"""Which folder may import which: read off the import statements of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tinyfn"

# The parts of the package, each with the parts it may import. The surface (numpy, lax, nn, ...) is on top.
MAY_IMPORT = {
    "trace": set(),
    "lower": {"trace"},
    "devices": {"lower"},
    "transforms": {"trace"},
    "optax_like": {"trace"},
    "checkpoint": {"trace"},
    "surface": {"trace", "transforms", "optax_like", "checkpoint", "surface"},
}
EXCEPTIONS = {
    # The modules that join the transforms with the compiler and the devices: at a call, and ahead of it.
    *[
        (f"transforms/{name}.py", part)
        for name in ("jit", "ahead", "executable")
        for part in ("lower", "devices")
    ],
    # `tinyfn.checkpoint` is a module and, called, a transform.
    ("checkpoint/__init__.py", "transforms"),
}
HEAVY = {"llvmlite", "pycuda", "scipy", "inspect", "dataclasses", "asyncio", "multiprocessing"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    first = module.split("/")[0].removesuffix(".py")
    return first if first in MAY_IMPORT else "surface"


def imports(path: Path, everywhere: bool) -> Iterator[str]:
    """Full names of the modules that a module imports, in functions too if `everywhere`."""
    tree = ast.parse(path.read_text())
    package = ["tinyfn", *path.relative_to(PACKAGE).parent.parts]
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{prefix}.{alias.name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    name = str(path.relative_to(PACKAGE))
    part = part_of(name)
    for imported in imports(path, everywhere=True):
        if imported.startswith("tinyfn."):
            target = part_of(imported.removeprefix("tinyfn.").split(".")[0])
            allowed = target == part or target in MAY_IMPORT[part] or (name, target) in EXCEPTIONS
            assert allowed, (
                f"{name} imports {imported}: {part} may import {MAY_IMPORT[part] or 'nothing of ours'}"
            )


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_heavy_is_imported_with_the_package(path: Path) -> None:
    found = {imported.split(".")[0] for imported in imports(path, everywhere=False)} & HEAVY
    assert not found, f"{path.name} imports {found} at the top; import it in the function that needs it"


def test_the_rules_can_fail(tmp_path: Path) -> None:
    bad = PACKAGE / "trace" / "uop.py"
    assert "tinyfn.trace.dtype" in set(imports(bad, everywhere=True))
    assert part_of("trace/prims/random.py") == "trace" and part_of("numpy/__init__.py") == "surface"
