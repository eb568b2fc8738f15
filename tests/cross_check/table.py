"""What is said of a function that is checked: how it is called, in a namespace `m` that is NumPy or tinyfn.numpy, or in ours and
by a formula of NumPy's; what its arguments may be; and the rule for its dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tinyfn.numpy as tnp

Shape = tuple[int, ...]
ANY: tuple[Shape, ...] = ((), (0,), (1,), (4,), (2, 3), (3, 1), (2, 0), (1, 2, 2))
FILLED: tuple[Shape, ...] = ((), (1,), (4,), (2, 3), (3, 1), (1, 2, 2))
VECTOR: tuple[Shape, ...] = ((1,), (4,), (7,))
MATRIX: tuple[Shape, ...] = ((1, 1), (2, 3), (3, 2), (2, 2, 3))
WIDE = (-3.0, 3.0)


class Function(NamedTuple):
    """A function under test. `shapes` has one or more tuples of shapes, one shape for each argument."""

    ours: Callable[..., Any]
    numpys: Callable[..., Any]
    shapes: tuple[tuple[Shape, ...], ...]
    kinds: str = "f"  # of dtypes: b, i, f, c
    rule: str = "same"
    domains: tuple[tuple[float, float], ...] = (WIDE,)
    special: bool = True  # whether NaN, infinity and -0.0 are among the elements
    slope: bool = True  # whether the first derivative is compared
    factor: float = 32.0
    one_dtype: bool = False  # whether all arguments have one


FUNCTIONS: dict[str, Function] = {}


def _pairs(shapes: tuple[Shape, ...]) -> tuple[tuple[Shape, ...], ...]:
    """Each shape beside itself, and beside what broadcasts with it."""
    return tuple(
        [(s, s) for s in shapes]
        + [(s, ()) for s in shapes]
        + [((2, 3), (3,)), ((3, 1), (1, 4)), ((), (2, 2))]
    )


def singles(shapes: tuple[Shape, ...]) -> tuple[tuple[Shape, ...], ...]:
    return tuple((s,) for s in shapes)


def unary(
    names: str, kinds: str = "bif", rule: str = "float", domain: tuple[float, float] = WIDE, **options: Any
) -> None:
    for name in names.split():
        FUNCTIONS[f"numpy.{name}"] = Function(
            getattr(tnp, name), getattr(np, name), singles(ANY), kinds, rule, (domain,), **options
        )


def binary(
    names: str, kinds: str = "bif", rule: str = "same", domain: tuple[float, float] = WIDE, **options: Any
) -> None:
    for name in names.split():
        FUNCTIONS[f"numpy.{name}"] = Function(
            getattr(tnp, name), getattr(np, name), _pairs(ANY), kinds, rule, (domain, domain), **options
        )


def shared(
    table: dict[str, Callable[..., Any]],
    shapes: tuple[tuple[Shape, ...], ...],
    ours: Any = None,
    **options: Any,
) -> None:
    """Functions written once, for both namespaces."""
    prefix = (ours or tnp).__name__.removeprefix("tinyfn.")
    theirs = {"linalg": np.linalg, "fft": np.fft}.get(prefix, np)
    for name, call in table.items():
        FUNCTIONS[f"{prefix}.{name}"] = Function(
            lambda *xs, call=call: call(ours or tnp, *xs),
            lambda *xs, call=call: call(theirs, *xs),
            shapes,
            **options,
        )


def formulas(
    module: Any, table: dict[str, Callable[..., Any]], shapes: tuple[tuple[Shape, ...], ...], **options: Any
) -> None:
    """Functions of ours that NumPy has under another name, or not at all."""
    prefix = module.__name__.removeprefix("tinyfn.")
    for name, call in table.items():
        FUNCTIONS[f"{prefix}.{name.split(':')[0]}"] = Function(
            getattr(module, name.split(":")[0]), call, shapes, **options
        )


def both(
    module: Any, table: dict[str, tuple[Callable[..., Any], Callable[..., Any]]], shapes: Any, **options: Any
) -> None:
    """Functions of ours with more than arrays as arguments, and NumPy's formula."""
    prefix = module.__name__.removeprefix("tinyfn.")
    for name, (ours, theirs) in table.items():
        FUNCTIONS[f"{prefix}.{name}"] = Function(ours, theirs, shapes, **options)
