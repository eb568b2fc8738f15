"""The table of public names in docs/names.md, made by running each of them: `python scripts/names.py` writes it anew.

For each function arguments are taken from SPECIAL, or the first of CANDIDATES that it accepts. Then it is run eagerly, under
jit, grad and vmap, and on each dtype, and the table says what worked: a mark stands for results that were compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import fft, linalg, ops, tree
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.array import Array
from tinyfn.trace.errors import TracerError

PATH = Path(__file__).parents[1] / "docs" / "names.md"
DTYPES = (
    "bool",
    "int8",
    "uint32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
MODULES = {"tinyfn.numpy": tnp, "tinyfn.linalg": linalg, "tinyfn.fft": fft, "tinyfn.ops": ops}

_generator = np.random.default_rng(0)


def _array(*shape: int) -> Array:
    return tnp.asarray(_generator.uniform(0.2, 0.9, shape).astype(np.float32))


x, y, z, m, t = _array(4), _array(4), _array(4), _array(3, 3) + 2 * tnp.eye(3), _array(2, 3, 4)
whole, other, mask = tnp.array([3, 1, 2, 1]), tnp.array([1, 2, 1, 3]), tnp.array([True, False, True, True])
spd = m @ m.T
CANDIDATES: tuple[tuple[Any, ...], ...] = (
    (x,), (x, y), (m,), (m, m), (x, y, z), (whole,), (whole, other), (3,), ((2, 3),), ([x, y],), (x, whole), (m, 1),
)  # fmt: skip
# Functions for which the first candidate that is accepted says little, or none is.
SPECIAL: dict[str, tuple[Any, ...]] = {
    **{f"segment_{kind}": (x, whole, 4) for kind in ("sum", "prod", "max", "min")},
    "arccosh": (x + 1,), "acosh": (x + 1,), "apply_along_axis": (lambda v: v.sum(), 0, m),
    "apply_over_axes": (tnp.sum, t, (0, 2)),
    "arange": (5,), "array_split": (x, 3), "astype": (x, "float64"), "average": (x,), "bincount": (whole,),
    "bitwise_and": (whole, other), "broadcast_shapes": ((2, 1), (3,)), "broadcast_to": (x, (2, 4)), "can_cast": ("int8", "int16"),
    "choose": (whole % 2, [x, y]), "clip": (x, 0.3, 0.6), "compress": (mask, x), "convolve": (x, y), "cross": (x[:3], y[:3]),
    "delete": (x, 1), "diag_indices": (3,), "diagonal": (m,), "digitize": (x, tnp.array([0.1, 0.5, 1.0])), "dot": (m, m),
    "dsplit": (t, 2), "einsum": ("ij,jk->ik", m, m), "expand_dims": (x, 0), "extract": (mask, x), "finfo": ("float32",),
    "from_dlpack": (x,), "fromfunction": (lambda i, j: i + j, (2, 3)), "fill_diagonal": (m, 1.0),
    "full": ((2,), 3.0), "full_like": (x, 2.0),
    "gcd": (whole, other),
    "histogram_bin_edges": (x,), "hsplit": (x, 2), "iinfo": ("int8",), "indices": ((2, 3),),
    "insert": (x, 1, 2.0), "interp": (x, tnp.linspace(0, 1, 4), y), "isdtype": ("int8", "integral"), "isin": (whole, other),
    "issubdtype": ("int8", tnp.integer), "ix_": (whole, other), "lcm": (whole, other), "ldexp": (x, whole),
    "left_shift": (whole, other), "lexsort": ([whole, other],), "linspace": (0.0, 1.0, 5), "logspace": (0.0, 1.0, 5),
    "geomspace": (1.0, 2.0, 5), "mask_indices": (3, tnp.triu), "matvec": (m, x[:3]), "matmul": (m, m), "meshgrid": (x, y),
    "moveaxis": (t, 0, 1), "pad": (x, 1), "partition": (x, 1), "argpartition": (x, 1), "percentile": (x, 30.0),
    "permute_dims": (t, (2, 0, 1)), "piecewise": (x, [x > 0.5], [lambda v: v * 2, 0.0]), "polyder": (x,), "polydiv": (x, y[:2]),
    "polyfit": (x, y, 2), "polyval": (x, y), "promote_types": ("int8", "float32"), "put_along_axis": (x, whole, 1.0, 0, False),
    "quantile": (x, 0.3), "nanquantile": (x, 0.3), "nanpercentile": (x, 30.0), "ravel_multi_index": ((whole, other), (5, 5)),
    "repeat": (x, 2), "reshape": (x, (2, 2)), "result_type": (x, 1), "right_shift": (whole, other), "roll": (x, 1),
    "rollaxis": (t, 2), "rot90": (m,), "searchsorted": (tnp.linspace(0, 1, 5), x), "select": ([x > 0.5], [y]), "split": (x, 2),
    "swapaxes": (m, 0, 1), "take": (x, whole), "take_along_axis": (x, whole), "tensordot": (m, m), "tile": (x, 2),
    "top_k": (x, 2), "tri": (3,), "tril_indices": (3,), "triu_indices": (3,), "unpackbits": (tnp.array([3, 5], "uint8"),),
    "unravel_index": (whole, (2, 4)), "vander": (x,), "vecmat": (x[:3], m), "vectorize": (lambda v: v * 2,), "vsplit": (t, 2),
    "where": (mask, x, y), "power": (x, y), "pow": (x, y), "zeros_like": (x,),
    "trapezoid": (x,), "unwrap": (x,), "vecdot": (x, y), "inner": (x, y), "outer": (x, y), "kron": (m, m), "cov": (m,),
    "corrcoef": (m,), "diff": (x,), "gradient": (x,), "nan_to_num": (x,), "array": ([1.0, 2.0],), "asarray": ([1.0, 2.0],),
    "cholesky": (spd,), "eigh": (spd,), "eigvalsh": (spd,), "matrix_power": (m, 3),
    "multi_dot": ([m, m, m],), "solve": (m, x[:3]),
    "lstsq": (m, x[:3]), "tensorinv": (tnp.reshape(m, (3, 3)), 1), "tensorsolve": (m, x[:3]), "fftfreq": (4,), "rfftfreq": (4,),
    "shape": (x,), "size": (x,), "ndim": (x,), "isscalar": (1.0,), "iterable": (x,), "isrealobj": (x,), "iscomplexobj": (x,),
    "array_repr": (x,), "array_str": (x,), "eye": (3,), "identity": (3,), "bitwise_count": (whole,), "packbits": (mask,),
    "norm": (x,), "trace": (m,), "matrix_norm": (m,), "vector_norm": (x,), "median": (x,), "block": ([[m, m], [m, m]],),
    "tril_indices_from": (m,), "triu_indices_from": (m,), "diag_indices_from": (m,), "empty": ((2,),), "ones": ((2,),),
    "zeros": ((2,),), "hanning": (4,), "hamming": (4,), "blackman": (4,), "bartlett": (4,), "svd": (m, False), "qr": (m,),
}  # fmt: skip
# With these every result is a fixed size.
_OF_SIZE = (
    "argwhere", "flatnonzero", "nonzero", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "union1d", "intersect1d", "setdiff1d", "setxor1d",
)  # fmt: skip
SIZED: dict[str, dict[str, Any]] = {
    "fill_diagonal": {"inplace": False},
    "bincount": {"length": 6},
    "choose": {"mode": "clip"},
    "ravel_multi_index": {"mode": "clip"},
    "roots": {"strip_zeros": False},
    **{name: {"size": 6} for name in _OF_SIZE},
}
FILES = {"load", "save", "savez"}


def _leaves(value: Any) -> list[Any]:
    return [leaf for leaf in tree.leaves(value) if isinstance(leaf, Array)]


def _same(a: Any, b: Any) -> bool:
    first, second = _leaves(a), _leaves(b)
    return len(first) == len(second) > 0 and all(
        p.shape == q.shape
        and p.dtype == q.dtype
        and np.allclose(np.asarray(p, _wide(p)), np.asarray(q, _wide(q)), 1e-4, 1e-5, True)
        for p, q in zip(first, second, strict=True)
    )


def _wide(a: Array) -> Any:
    return np.complex128 if a.dtype.kind == "c" else np.float64


def _attempt(call: Callable[[], bool]) -> str:
    try:
        return "✓" if call() else "✗"
    except TracerError:
        return "known"
    except (TypeError, ValueError, NotImplementedError, BufferError):
        return ""


def _arguments(name: str, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    options = SIZED.get(name, {})
    for args in (SPECIAL[name],) if name in SPECIAL else CANDIDATES:
        try:
            function(*args, **options)
        except (TypeError, ValueError, IndexError, AttributeError):
            continue
        return args, options
    raise ValueError(f"{name} accepts none of the arguments that are tried: add some to SPECIAL")


class Row:
    """What a function does with one tuple of arguments."""

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name = name
        self.args, options = _arguments(name, function)
        self._leaves, self._tree = tree.flatten(self.args)
        self._places = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, Array)]
        self._arrays = [self._leaves[i] for i in self._places]

        def call(*arrays: Any) -> Any:
            leaves = list(self._leaves)
            for i, array in zip(self._places, arrays, strict=True):
                leaves[i] = array
            return function(*tree.unflatten(self._tree, leaves), **options)

        self._call = call

    def cells(self) -> Iterator[str]:
        """Under jit, grad and vmap, and the dtypes."""
        call, arrays = self._call, self._arrays
        eager = call(*arrays)
        if not _leaves(eager):
            yield from ("", "", "", "")
            return
        yield _attempt(lambda: _same(tinyfn.jit(call)(*arrays), eager))
        floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        yield _attempt(lambda: self._gradient(floats)) if floats else ""
        stacked = [tnp.stack([a, a]) for a in arrays]

        def mapped() -> bool:
            lanes = tinyfn.vmap(call)(*stacked)
            return all(_same(tree.map(lambda leaf, i=i: leaf[i], lanes), eager) for i in range(2))

        yield _attempt(mapped) if arrays else ""
        yield self._dtypes(floats)

    def _gradient(self, floats: list[int]) -> bool:
        def loss(*chosen: Any) -> Any:
            arrays = list(self._arrays)
            for i, array in zip(floats, chosen, strict=True):
                arrays[i] = array
            total: Any = 0.0
            found = [leaf for leaf in _leaves(self._call(*arrays)) if dtypes.is_inexact(leaf.dtype)]
            if not found:
                raise TypeError("nothing to differentiate")
            for leaf in found:
                total = total + tnp.sum(tnp.abs(leaf) if leaf.dtype.kind == "c" else leaf)
            return total

        chosen = [self._arrays[i] for i in floats]
        gradients = tinyfn.grad(loss, tuple(range(len(floats))))(*chosen)
        return all(bool(tnp.isfinite(g).all()) for g in gradients)

    def _dtypes(self, floats: list[int]) -> str:
        moved = floats or [i for i, a in enumerate(self._arrays) if a.dtype.kind in "iu"]
        accepted = []
        for dtype in DTYPES if moved else ():
            arrays = [a.astype(dtype) if i in moved else a for i, a in enumerate(self._arrays)]
            try:
                accepted.append(dtype) if _leaves(self._call(*arrays)) else None
            except (TypeError, ValueError, IndexError, OverflowError, BufferError):
                continue
        return "all" if len(accepted) == len(DTYPES) else ", ".join(accepted)


def names(module: Any) -> list[str]:
    """The module's functions, for which there are rows."""
    found = []
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) and not isinstance(value, (type, np.dtype)) and name not in FILES:
            found.append(name)
    return found


def table() -> str:
    """The text of docs/names.md."""
    lines = [
        "# Public names, and what was run of each", "",
        "Made by `python scripts/names.py`, which runs every function. ✓: the result under `jit` and each lane of `vmap` was the",
        "eager one, and the gradient finite. *known*: needs values that are known to Python. Empty: has no meaning, or is not",
        "supported. Dtypes are those that the first floats (or integers) among the arguments may have.", "",
    ]  # fmt: skip
    for title, module in MODULES.items():
        lines += [f"## {title}", "", "| name | jit | grad | vmap | dtypes |", "|---|---|---|---|---|"]
        for name in names(module):
            lines.append(f"| {name} | {' | '.join(Row(name, getattr(module, name)).cells())} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(table())
    sys.exit(0)
