"""What results have to be: NumPy's values in double precision for the same arguments, and dtypes by JAX's rules, written
down here once more: integers keep their width beside each other, yield to floats, and become float32 where a function needs
floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

INTEGERS = ("int8", "uint8", "int32", "uint32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = {"b": ("bool",), "i": INTEGERS, "f": FLOATS, "c": COMPLEX}
EPS = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1.2e-7,
    "complex64": 1.2e-7,
    "float64": 2.3e-16,
    "complex128": 2.3e-16,
}


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def promoted(names: Sequence[str]) -> str:
    """The dtype that arrays of these dtypes have together."""
    result = names[0]
    for name in names[1:]:
        result = _pair(result, name)
    return result


def _pair(a: str, b: str) -> str:
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    rank = {**dict.fromkeys(INTEGERS, 0), **dict.fromkeys(FLOATS, 1), **dict.fromkeys(COMPLEX, 2)}
    if rank[a] == rank[b] == 0:
        return np.promote_types(a, b).name
    if rank[a] != rank[b]:
        low, high = sorted((a, b), key=rank.__getitem__)
        return "complex128" if low == "float64" else high
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    return max(a, b, key=lambda n: dtype_of(n).itemsize)


def _inexact(name: str) -> str:
    return name if name in FLOATS + COMPLEX else "float32"


def _summed(name: str) -> str:
    return {"bool": "int32", "int8": "int32", "uint8": "uint32"}.get(name, name)


# What a function's result has for the dtype that its arguments have together.
RULES: dict[str, Callable[[str], str]] = {
    "same": lambda name: name,
    "float": _inexact,
    "sum": _summed,
    "bool": lambda name: "bool",
    "index": lambda name: "int32",
    "real": lambda name: {"complex64": "float32", "complex128": "float64"}.get(name, name),
    "real float": lambda name: {"complex64": "float32", "complex128": "float64"}.get(name, _inexact(name)),
    "complex": lambda name: "complex128" if name in ("float64", "complex128") else "complex64",
    "float32": lambda name: "float32",
    "uint8": lambda name: "uint8",
}


def exact(array: np.ndarray, floats: bool) -> np.ndarray:
    """The argument for the oracle: floats in double precision, and integers too where the function needs floats."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "biu" and not floats:
        return array
    return array.astype(np.float64)


def leaves(x: Any) -> list[Any]:
    """The arrays of tuples and lists."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def compare(found: Any, wanted: Any, dtype: str | None, factor: float) -> None:
    """Equal shapes, the dtype, equal NaNs and infinities, and values within `factor` units of the dtype's precision."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    if dtype is not None:
        assert found.dtype.name == dtype
    if found.dtype.kind in "biu":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, wanted.astype(found.dtype))
        return
    eps, wide = EPS[found.dtype.name], np.complex128 if found.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        # Beyond the dtype's range is infinity, and below it may be zero.
        wanted = wanted.astype(found.dtype).astype(wide)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(float(finite.max(initial=0)), 0.1)
    np.testing.assert_allclose(found.astype(wide), wanted, rtol=factor * eps, atol=factor * eps * scale)
