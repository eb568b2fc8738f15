"""Which of tinyfn's primitives have no reverse rule of their own: it is derived, by transposing their forward rule."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

# The first two are resolved by the vmap that has their axis' name, to reductions, before anything is timed; a derivative of the
# third is an error, which says so.
NOT_TIMED = ("pmax", "pmin", "extern")


def derived_rules() -> list[str]:
    """The names of all primitives whose reverse rule is derived, of the whole registry."""
    import tinyfn
    from tinyfn.trace.prim import REGISTRY, Primitive

    for module in walk_packages(tinyfn.__path__, "tinyfn."):
        import_module(module.name)
    return sorted(
        name
        for name, op in REGISTRY.items()
        if op.vjp is None
        and type(op).jvp is not Primitive.jvp
        and name != "extern"  # whose rule is to refuse
    )


def derived_in(programs: Any) -> set[str]:
    """Those in the graph of the row's value, calls within it included."""
    from tinyfn.trace.prim import Primitive
    from tinyfn.transforms.executable import simplified

    program, args = programs.made["value"]
    ops = {node.op for node in simplified(program.graph(*args)).nodes()}
    return {
        op.name
        for op in ops
        if isinstance(op, Primitive) and op.vjp is None and type(op).jvp is not Primitive.jvp
    }
