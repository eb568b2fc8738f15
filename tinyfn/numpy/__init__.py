"""The NumPy namespace on arrays of ours: named, and with arguments, as in `jax.numpy`.

Importing it gives arrays their methods (`x.sum()`, `x[index]`, `x.at[index]`, ...) and their operators' fast
paths.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy as _np

from ..trace.array import Array as ndarray
from ..trace.dtype import float0
from ..trace.errors import entry_points as _entry_points
from . import methods as _methods  # noqa: F401

# fmt: off
# isort: off
from .arithmetic import (
    abs, absolute, add, bitwise_count, clip, divide, divmod, fabs, float_power, floor_divide, fmax, fmin, fmod, gcd,
    lcm, maximum, minimum, mod, multiply, negative, positive, pow, power, reciprocal, remainder, sign, square,
    subtract, true_divide,
)
from .contraction import (
    convolve, correlate, cross, dot, inner, kron, matmul, matvec, outer, polyval, tensordot, unwrap, vander, vdot,
    vecdot, vecmat,
)
from .conversion import array, asarray, astype, copy, from_dlpack
from .creation import (
    empty, empty_like, eye, full, full_like, identity, ones, ones_like, tri, zeros, zeros_like,
)
from .cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum, diff, ediff1d, gradient, trapezoid
from .dtype_queries import can_cast, finfo, iinfo, isdtype, issubdtype, promote_types, result_type
from .elementary import (
    acos, acosh, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, asin, asinh, atan, atan2, atanh, cbrt,
    cos, cosh, deg2rad, degrees, exp, exp2, expm1, hypot, log, log1p, log2, log10, logaddexp, logaddexp2, rad2deg,
    radians, sin, sinc, sinh, sqrt, tan, tanh,
)
from .floats import (
    angle, around, ceil, conj, conjugate, copysign, fix, floor, heaviside, imag, isclose, ldexp, nan_to_num,
    nextafter, real, rint, round, signbit, trunc,
)
from .indexing import choose, place, put, put_along_axis, select, take, take_along_axis
from .joining import (
    append, array_split, column_stack, concat, concatenate, dstack, hsplit, hstack, split, stack, unstack, vsplit,
    vstack,
)
from .logic import (
    bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, equal,
    greater, greater_equal, invert, isfinite, isinf, isnan, isneginf, isposinf, left_shift, less, less_equal,
    logical_and, logical_not, logical_or, logical_xor, not_equal, right_shift, where,
)
from .ordering import (
    argpartition, argsort, bincount, digitize, interp, lexsort, partition, searchsorted, sort, sort_complex, top_k,
)
from .positions import (
    argwhere, compress, delete, extract, flatnonzero, insert, ix_, nonzero, ravel_multi_index, unravel_index,
)
from .queries import (
    allclose, array_equal, array_equiv, iscomplex, iscomplexobj, isreal, isrealobj, isscalar, iterable, ndim, shape,
    size,
)
from .ranges import arange, fromfunction, geomspace, indices, linspace, logspace, meshgrid
from .rearranging import flip, fliplr, flipud, repeat, resize, roll, rot90, tile, trim_zeros
from .reductions import all, amax, amin, any, argmax, argmin, count_nonzero, max, min, prod, ptp, sum
from .scalar_types import (
    bfloat16, bool_, complex64, complex128, float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e3m4, float8_e4m3,
    float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float16,
    float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
)
from .shapes import (
    atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to, expand_dims,
    matrix_transpose, moveaxis, permute_dims, ravel, reshape, rollaxis, squeeze, swapaxes, transpose,
)
from .statistics import average, corrcoef, cov, mean, std, var
from .sums_of_products import einsum, einsum_path
from .triangles import (
    diag, diag_indices, diagflat, diagonal, fill_diagonal, trace, tril, tril_indices, triu, triu_indices,
)
from .ufunc import ufunc

if _TYPE_CHECKING:
    from .. import fft, linalg
    from ..scipy.special import i0
    from .files import frombuffer, fromfile, fromiter, fromstring, load, save, savez
    from .functional import apply_along_axis, piecewise, vectorize
    from .grids import (
        apply_over_axes, bartlett, blackman, block, c_, diag_indices_from, dsplit, hamming, hanning, index_exp,
        kaiser, mask_indices, mgrid, ogrid, r_, s_, tril_indices_from, triu_indices_from,
    )
    from .histograms import histogram, histogram2d, histogram_bin_edges, histogramdd
    from .inspection import __array_namespace_info__ as __array_namespace_info__
    from .nan_reductions import (
        nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar,
    )
    from .padding import pad
    from .polynomials import poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, roots
    from .quantiles import median, nanmedian, nanpercentile, nanquantile, percentile, quantile
    from .representation import array_repr, array_str, frexp, modf, packbits, spacing, unpackbits
    from .sets import (
        intersect1d, isin, setdiff1d, setxor1d, union1d, unique, unique_all, unique_counts, unique_inverse,
        unique_values,
    )
    from .ufunc_methods import frompyfunc
# isort: on
# fmt: on

bool = bool_
e, pi, inf, nan, euler_gamma, newaxis = _np.e, _np.pi, _np.inf, _np.nan, _np.euler_gamma, None
dtype = _np.dtype
generic, number, integer, signedinteger = _np.generic, _np.number, _np.integer, _np.signedinteger
unsignedinteger, inexact, floating, complexfloating = (
    _np.unsignedinteger,
    _np.inexact,
    _np.floating,
    _np.complexfloating,
)
character, flexible, object_ = _np.character, _np.flexible, _np.object_
# The widths that Python's numbers get here, and C's names.
int_, uint, float_, complex_ = int32, uint32, float32, complex64
single, double, csingle, cdouble = float32, float64, complex64, complex128
ComplexWarning = _np.exceptions.ComplexWarning
# How arrays are printed is one setting for NumPy's and ours.
get_printoptions, set_printoptions, printoptions = (
    _np.get_printoptions,
    _np.set_printoptions,
    _np.printoptions,
)

__array_api_version__ = "2025.12"

# Imported when they are first used, so that `import tinyfn` stays quick; a name by its module.
_ON_DEMAND = {
    name: module
    for module, names in {
        ".files": "frombuffer fromfile fromiter fromstring load save savez",
        ".functional": "apply_along_axis piecewise vectorize",
        ".grids": "apply_over_axes bartlett blackman block c_ diag_indices_from dsplit hamming hanning index_exp kaiser "
        "mask_indices mgrid ogrid r_ s_ tril_indices_from triu_indices_from",
        ".histograms": "histogram histogram2d histogram_bin_edges histogramdd",
        ".inspection": "__array_namespace_info__",
        ".nan_reductions": "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
        ".padding": "pad",
        ".polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub roots",
        ".quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
        ".representation": "array_repr array_str frexp modf packbits spacing unpackbits",
        ".sets": "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse unique_values",
        ".ufunc_methods": "frompyfunc",
        "..scipy.special": "i0",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> _Any:
    if name in ("fft", "linalg"):
        found: _Any = _import_module(f"..{name}", __name__)
    elif name in _ON_DEMAND:
        module = _import_module(_ON_DEMAND[name], __name__)
        _entry_points(vars(module))
        found = getattr(module, name)
    else:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=_sys.modules[__name__]
        )
    globals()[name] = found  # from now on an attribute as any other
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "ComplexWarning", "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any", "append",
    "apply_along_axis", "apply_over_axes", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "argmax", "argmin", "argpartition", "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_repr",
    "array_split", "array_str", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d",
    "atleast_3d", "average", "bartlett", "bfloat16", "bincount", "bitwise_and", "bitwise_count", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bool",
    "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "c_", "can_cast", "cbrt", "cdouble", "ceil", "character",
    "choose", "clip", "column_stack", "complex64", "complex128", "complex_", "complexfloating", "compress", "concat",
    "concatenate", "conj", "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh",
    "count_nonzero", "cov", "cross", "csingle", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad",
    "degrees", "delete", "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff", "digitize", "divide",
    "divmod", "dot", "double", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum", "einsum_path", "empty", "empty_like",
    "equal", "euler_gamma", "exp", "exp2", "expand_dims", "expm1", "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo",
    "fix", "flatnonzero", "flexible", "flip", "fliplr", "flipud", "float0", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float16", "float32", "float64", "float_", "float_power", "floating", "floor", "floor_divide", "fmax",
    "fmin", "fmod", "frexp", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "frompyfunc", "fromstring",
    "full", "full_like", "gcd", "generic", "geomspace", "get_printoptions", "gradient", "greater", "greater_equal", "hamming",
    "hanning", "heaviside", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot",
    "i0", "identity", "iinfo", "imag", "index_exp", "indices", "inexact", "inf", "inner", "insert", "int8", "int16", "int32",
    "int64", "int_", "integer", "interp", "intersect1d", "invert", "isclose", "iscomplex", "iscomplexobj", "isdtype",
    "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "issubdtype", "iterable",
    "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal", "lexsort", "linalg", "linspace", "load",
    "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logspace", "mask_indices", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid",
    "mgrid", "min", "minimum", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin",
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile",
    "nanstd", "nansum", "nanvar", "ndarray", "ndim", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "number",
    "object_", "ogrid", "ones", "ones_like", "outer", "packbits", "pad", "partition", "percentile", "permute_dims", "pi",
    "piecewise", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "positive", "pow", "power", "printoptions", "prod", "promote_types", "ptp", "put", "put_along_axis", "quantile", "r_",
    "rad2deg", "radians", "ravel", "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape", "resize",
    "result_type", "right_shift", "rint", "roll", "rollaxis", "roots", "rot90", "round", "s_", "save", "savez",
    "searchsorted", "select", "set_printoptions", "setdiff1d", "setxor1d", "shape", "sign", "signbit", "signedinteger", "sin",
    "sinc", "single", "sinh", "size", "sort", "sort_complex", "spacing", "split", "sqrt", "square", "squeeze", "stack", "std",
    "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "top_k", "trace",
    "transpose", "trapezoid", "tri", "tril", "tril_indices", "tril_indices_from", "trim_zeros", "triu", "triu_indices",
    "triu_indices_from", "true_divide", "trunc", "ufunc", "uint", "uint8", "uint16", "uint32", "uint64", "union1d", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unpackbits", "unravel_index", "unsignedinteger",
    "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat", "vectorize", "vsplit", "vstack", "where", "zeros",
    "zeros_like",
]  # fmt: skip

_entry_points(globals())
