"""The functions of tinyfn.numpy, which NumPy has under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinyfn.numpy as tnp
from tests.cross_check.table import (
    ANY,
    FILLED,
    FUNCTIONS,
    MATRIX,
    VECTOR,
    binary,
    formulas,
    shared,
    singles,
    unary,
)

# Elementwise

unary(
    "sin cos arctan sinh cosh tanh arcsinh exp exp2 expm1 radians degrees deg2rad rad2deg sinc", kinds="bif"
)
unary("asinh atan", kinds="bif")
unary("tan", domain=(-1.3, 1.3), special=False)
unary("arcsin arccos arctanh asin acos atanh", domain=(-0.9, 0.9))
unary("arccosh acosh", domain=(1.1, 4.0))
unary("log log2 log10 sqrt", domain=(0.2, 4.0))
unary("log1p", domain=(-0.7, 4.0))
unary("cbrt", domain=(0.2, 4.0))
unary("square negative", "if", "same")
unary("reciprocal", "f", "same", (0.3, 3.0))
unary("positive abs absolute sign", "if", "same")
unary("fabs", "f", "same", (0.2, 3.0))
unary("floor ceil trunc rint", "f", "same", slope=False)
unary("round around", "f", "same", slope=False)
unary("fix", "f", "same", slope=False)
unary("isnan isinf isfinite isposinf isneginf signbit", "f", "bool", slope=False)
unary("iscomplex isreal logical_not", "bif", "bool", slope=False)
unary("real conj conjugate", "ifc", "real")
FUNCTIONS["numpy.conj"] = FUNCTIONS["numpy.conj"]._replace(rule="same", slope=False)
FUNCTIONS["numpy.conjugate"] = FUNCTIONS["numpy.conjugate"]._replace(rule="same", slope=False)
unary("imag", "ifc", "real")
unary("angle", "c", "real float", special=False, slope=False)
unary("nan_to_num", "if", "same", slope=False)
unary("bitwise_not invert bitwise_invert", "bi", "same", slope=False)
unary("bitwise_count", "i", "uint8", slope=False)
binary("add multiply", "bif")
binary("subtract", "if")
binary("maximum minimum fmax fmin", "bif", slope=False)
binary("divide true_divide", "bif", "float", (0.3, 3.0))
binary("arctan2 atan2", "f", "float", (0.2, 3.0))
binary("hypot", "f", "float", (0.3, 3.0), special=False)
binary("logaddexp logaddexp2", "f", "float")
binary("power pow float_power", "f", "same", (0.3, 2.0), special=False)
binary("copysign", "f", "float", (0.3, 3.0))
binary("heaviside", "f", "float", slope=False)
binary("floor_divide remainder mod fmod", "f", "same", (0.3, 3.0), special=False, slope=False)
binary("equal not_equal less less_equal greater greater_equal", "bif", "bool", slope=False)
binary("logical_and logical_or logical_xor", "bif", "bool", slope=False)
binary("isclose", "f", "bool", slope=False)
binary("bitwise_and bitwise_or bitwise_xor", "bi", slope=False)
binary("gcd lcm", "i", slope=False, domain=(0.0, 11.0))
binary("left_shift right_shift bitwise_left_shift bitwise_right_shift", "i", slope=False, domain=(0.0, 5.0))
shared(
    {
        "where": lambda m, a, b: m.where(a > b, a, b),
        "clip": lambda m, a, b: m.clip(a, -1, m.abs(b)),
        "select": lambda m, a, b: m.select([a > 1, b > 1], [a * 2, b], 0),
        "nan_to_num": lambda m, a, b: m.nan_to_num(a + b, nan=1, posinf=2, neginf=3),
        "piecewise": lambda m, a, b: m.piecewise(a + b, [a + b > 0], [lambda v: v * 2, lambda v: v - 1]),
    },
    tuple((s, s) for s in ANY),
    slope=False,
)

# Reductions and what runs along axes


def _reduction(name: str, **given: Any) -> Callable[..., Any]:
    return lambda m, x: [
        getattr(m, name)(x, axis=axis, keepdims=keepdims, **given)
        for axis in (None, 0, -1)
        for keepdims in (False, True)
        if axis is None or x.ndim
    ]


def _along(name: str, *args: Any) -> Callable[..., Any]:
    return lambda m, x: getattr(m, name)(x, *args, axis=-1)


def _reductions(names: str, **options: Any) -> None:
    shared(
        {name: _reduction(name) for name in names.split()}, options.pop("shapes", singles(FILLED)), **options
    )


_reductions("sum prod", kinds="bif", rule="sum", shapes=singles(ANY), factor=256.0)
_reductions("mean", kinds="bif", rule="float", factor=256.0)
_reductions("var std", kinds="f", rule="float", special=False, slope=False, factor=256.0)
_reductions("max min amax amin", kinds="bif")
_reductions("ptp", kinds="if")
_reductions("any all", kinds="bif", rule="bool", shapes=singles(ANY), slope=False)
_reductions("count_nonzero", kinds="bif", rule="index", shapes=singles(ANY), slope=False)
_reductions("argmax argmin", kinds="bif", rule="index", slope=False)
_reductions("nansum nanprod", kinds="if", rule="sum", shapes=singles(ANY), factor=256.0)
_reductions("nanmean nanmax nanmin", kinds="f", special=False, factor=256.0)
_reductions("nanvar nanstd", kinds="f", special=False, slope=False, factor=256.0)
_reductions("nanargmax nanargmin", kinds="f", rule="index", special=False, slope=False)
_reductions("median nanmedian", kinds="f", rule="float", special=False)
shared(
    {
        "quantile": lambda m, x: m.quantile(x, 0.3, axis=-1), "percentile": lambda m, x: m.percentile(x, 70, axis=0),
        "nanquantile": lambda m, x: m.nanquantile(x, 0.6, axis=0), "nanpercentile": lambda m, x: m.nanpercentile(x, 25, axis=-1),
        "average": lambda m, x: m.average(x, axis=-1), "trapezoid": lambda m, x: m.trapezoid(x, axis=-1),
        "diff": lambda m, x: m.diff(x, axis=-1), "ediff1d": lambda m, x: m.ediff1d(x), "unwrap": lambda m, x: m.unwrap(x,
        axis=-1),
        "cumulative_sum": lambda m, x: m.cumulative_sum(m.ravel(x), include_initial=True),
        "cumulative_prod": lambda m, x: m.cumulative_prod(m.ravel(x)),
        "nancumsum": _along("nancumsum"), "nancumprod": _along("nancumprod"), "cumsum": _along("cumsum"),
        "cumprod": _along("cumprod"),
    },
    singles(((1,), (4,), (2, 3), (3, 1), (1, 2, 2))), special=False, factor=256.0,
)  # fmt: skip
shared({"gradient": lambda m, x: m.gradient(x, axis=-1)}, singles(((4,), (2, 3))), special=False)

# Shapes: the elements are those of NumPy in each dtype.

shared(
    {
        "ravel": lambda m, x: m.ravel(x), "transpose": lambda m, x: m.transpose(x), "flip": lambda m, x: m.flip(x),
        "fliplr": lambda m, x: m.fliplr(m.atleast_2d(x)), "flipud": lambda m, x: m.flipud(m.atleast_1d(x)),
        "atleast_1d": lambda m, x: m.atleast_1d(x), "atleast_2d": lambda m, x: m.atleast_2d(x), "atleast_3d": lambda m,
        x: m.atleast_3d(x),
        "squeeze": lambda m, x: m.squeeze(x), "expand_dims": lambda m, x: m.expand_dims(x, (0, -1)),
        "reshape": lambda m, x: m.reshape(x, (-1, 1) if x.size else (0, 2)), "roll": lambda m, x: m.roll(x, 2),
        "tile": lambda m, x: m.tile(x, (2, 1)), "repeat": lambda m, x: m.repeat(x, 2), "copy": lambda m, x: m.copy(x),
        "stack": lambda m, x: m.stack([x, x], -1), "vstack": lambda m, x: m.vstack([x, x]), "hstack": lambda m,
        x: m.hstack([x, x]),
        "dstack": lambda m, x: m.dstack([x, x]), "column_stack": lambda m, x: m.column_stack([x, x]),
        "append": lambda m, x: m.append(x, x), "broadcast_to": lambda m, x: m.broadcast_to(x, (2, *x.shape)),
        "broadcast_arrays": lambda m, x: list(m.broadcast_arrays(x, m.expand_dims(x, 0))), "zeros_like": lambda m,
        x: m.zeros_like(x),
        "ones_like": lambda m, x: m.ones_like(x), "full_like": lambda m, x: m.full_like(x, 1), "array": lambda m, x: m.array(x),
        "asarray": lambda m, x: m.asarray(x), "diagflat": lambda m, x: m.diagflat(x),
    },
    singles(ANY), kinds="bifc",
)  # fmt: skip
shared(
    {
        "swapaxes": lambda m, x: m.swapaxes(x, 0, -1), "moveaxis": lambda m, x: m.moveaxis(x, 0, -1), "rollaxis": lambda m,
        x: m.rollaxis(x, 1),
        "permute_dims": lambda m, x: m.permute_dims(x, tuple(reversed(range(x.ndim)))), "matrix_transpose": lambda m,
        x: m.matrix_transpose(x),
        "rot90": lambda m, x: m.rot90(x), "tril": lambda m, x: m.tril(x), "triu": lambda m, x: m.triu(x, 1),
        "diagonal": lambda m, x: m.diagonal(x),
        "pad": lambda m, x: m.pad(x, 1), "split": lambda m, x: m.split(x, [1], -1), "array_split": lambda m,
        x: m.array_split(x, 2),
        "vsplit": lambda m, x: m.vsplit(x, [1]), "hsplit": lambda m, x: m.hsplit(x, [1]), "concatenate": lambda m,
        x: m.concatenate([x, x], -1),
        "concat": lambda m, x: m.concat([x, x], axis=0), "block": lambda m, x: m.block([[x, x]]), "delete": lambda m,
        x: m.delete(x, 0, -1),
        "insert": lambda m, x: m.insert(x, 0, x[..., 0], -1), "take": lambda m, x: m.take(x, m.asarray([0, -1]), axis=0),
        "take_along_axis": lambda m, x: m.take_along_axis(x, m.zeros_like(x, dtype="int32"), -1),
        "compress": lambda m, x: m.compress(np.array([True]), x, axis=0), "unstack": lambda m, x: list(m.unstack(x)),
    },
    singles(MATRIX), kinds="bifc",
)  # fmt: skip
shared(
    {"diag": lambda m, x: m.diag(x), "extract": lambda m, x: m.extract(np.arange(x.size) % 2 == 0, x)},
    singles(VECTOR),
    kinds="bif",
)
shared({"trace": lambda m, x: m.trace(x)}, singles(((2, 2), (2, 3))), kinds="if", rule="sum")
shared({"dsplit": lambda m, x: m.dsplit(x, [1])}, (((1, 2, 2),), ((2, 1, 3),)), kinds="bif")
shared(
    {"meshgrid": lambda m, a, b: list(m.meshgrid(a, b)), "vander": lambda m, a, b: m.vander(a, 3)},
    (((3,), (3,)),),
    special=False,
    factor=64.0,
    one_dtype=True,
)

# Order and sets

shared(
    {"sort": lambda m, x: m.sort(x, axis=-1), "partition": lambda m, x: m.sort(m.partition(x, 0, -1)[..., :1]), "unique":
    lambda m, x: m.unique(x)},
    singles(((1,), (4,), (2, 3))), kinds="bif", special=False,
)  # fmt: skip
shared(
    {
        "argsort": lambda m, x: m.argsort(x, axis=-1, stable=True), "flatnonzero": lambda m, x: m.flatnonzero(x),
        "nonzero": lambda m, x: list(m.nonzero(x)), "argwhere": lambda m, x: m.argwhere(x),
        "argpartition": lambda m, x: m.argpartition(m.ravel(x), 0)[:1] * 0, "lexsort": lambda m, x: m.lexsort((x, x)),
    },
    singles(((4,), (7,))), kinds="bif", rule="index", slope=False, special=False,
)  # fmt: skip
shared(
    {
        "searchsorted": lambda m, a, b: m.searchsorted(m.sort(a), b), "digitize": lambda m, a, b: m.digitize(b, m.sort(a)),
    },
    (((4,), (3,)), ((1,), (5,))), kinds="if", rule="index", slope=False, special=False,
)  # fmt: skip
shared(
    {"isin": lambda m, a, b: m.isin(a, b)},
    (((4,), (3,)), ((2, 2), (0,))),
    kinds="if",
    rule="bool",
    slope=False,
    special=False,
)
shared({"interp": lambda m, a, b: m.interp(a, np.arange(3), b)}, (((4,), (3,)),), special=False, slope=False)
shared(
    {"polyval": lambda m, a, b: m.polyval(a, b), "polyadd": lambda m, a, b: m.polyadd(a, b), "polysub": lambda m, a, b:
    m.polysub(a, b),
     "polyder": lambda m, a, b: m.polyder(a), "polyint": lambda m, a, b: m.polyint(b),
     "convolve": lambda m, a, b: m.convolve(a, b), "correlate": lambda m, a, b: m.correlate(a, b)},
    (((4,), (3,)), ((1,), (2,))), special=False, factor=128.0, one_dtype=True,
)  # fmt: skip

# Products

_SQUARES = (((2, 3), (3, 2)), ((1, 3), (3, 3)), ((2, 2, 3), (3, 2)))
shared(
    {"matmul": lambda m, a, b: m.matmul(a, b)},
    (*_SQUARES, ((3,), (3,)), ((2, 3), (3,))),
    kinds="if",
    special=False,
    factor=128.0,
)
shared(
    {"dot": lambda m, a, b: m.dot(a, b)},
    (*_SQUARES, ((), (2,)), ((3,), (3,))),
    kinds="if",
    special=False,
    factor=128.0,
)
shared({"tensordot": lambda m, a, b: m.tensordot(a, b, 1), "einsum": lambda m, a, b: m.einsum("...ij,jk->ik...", a, b)},
       _SQUARES, kinds="if", special=False, factor=128.0)  # fmt: skip
shared(
    {"vdot": lambda m, a, b: m.vdot(a, b), "inner": lambda m, a, b: m.inner(a, b), "vecdot": lambda m, a, b: m.vecdot(a, b),
     "cross": lambda m, a, b: m.cross(a, b)}, (((3,), (3,)),), kinds="if", special=False, factor=128.0)  # fmt: skip
shared(
    {"outer": lambda m, a, b: m.outer(a, b), "kron": lambda m, a, b: m.kron(a, b)},
    (((3,), (2,)), ((2, 2), (1, 3)), ((), (2,))),
    kinds="if",
)
shared(
    {"matvec": lambda m, a, b: m.matvec(a, b)},
    (((2, 3), (3,)), ((2, 1, 3), (2, 3))),
    kinds="if",
    special=False,
    factor=128.0,
)
shared({"vecmat": lambda m, a, b: m.vecmat(a, b)}, (((3,), (3, 2)),), kinds="if", special=False, factor=128.0)
shared({"cov": lambda m, a: m.cov(a)}, (((2, 4),), ((5,),)), special=False, factor=256.0)
shared(
    {"corrcoef": lambda m, a: m.corrcoef(a + 9 * np.arange(4))},
    (((2, 4),),),
    special=False,
    factor=4096.0,
    slope=False,
)

formulas(tnp, {"polymul": np.convolve}, (((4,), (3,)),), special=False, factor=128.0, one_dtype=True)
