"""The NumPy namespace on arrays of ours: named, and with arguments, as in `jax.numpy`.

Importing it gives arrays their methods (`x.sum()`, `x[index]`, `x.at[index]`, ...) and their operators' fast paths.
"""

from __future__ import annotations

import numpy as _np

from .. import linalg
from ..trace.array import Array as ndarray
from ..trace.dtype import (
    bfloat16, bool_, complex64, complex128, float0, float8_e4m3fn, float8_e5m2, float16, float32, float64, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64,
)  # fmt: skip
from . import methods as _methods
from .creation import (
    arange, array, asarray, astype, copy, empty, empty_like, eye, from_dlpack, fromfunction, full,
    full_like, geomspace, identity, indices, linspace, logspace, meshgrid, ones, ones_like, tri, zeros,
    zeros_like,
)  # fmt: skip
from .elementwise import (
    abs, absolute, acos, acosh, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, around,
    asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_count, bitwise_invert, bitwise_left_shift,
    bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, cbrt, ceil, clip, conj, conjugate,
    copysign, cos, cosh, deg2rad, degrees, divide, divmod, equal, exp, exp2, expm1, fabs, fix,
    float_power, floor, floor_divide, fmax, fmin, fmod, gcd, greater, greater_equal, heaviside, hypot,
    imag, invert, isclose, isfinite, isinf, isnan, isneginf, isposinf, lcm, ldexp, left_shift, less,
    less_equal, log, log10, log1p, log2, logaddexp, logaddexp2, logical_and, logical_not, logical_or,
    logical_xor, maximum, minimum, mod, multiply, nan_to_num, negative, nextafter, not_equal, positive,
    pow, power, rad2deg, radians, real, reciprocal, remainder, right_shift, rint, round, sign, signbit,
    sin, sinc, sinh, sqrt, square, subtract, tan, tanh, true_divide, trunc, where,
)  # fmt: skip
from .reductions import (
    all, amax, amin, any, argmax, argmin, average, corrcoef, count_nonzero, cov, cumprod, cumsum,
    cumulative_sum, diff, ediff1d, gradient, max, mean, median, min, nanargmax, nanargmin, nancumprod,
    nancumsum, nanmax, nanmean, nanmedian, nanmin, nanprod, nanquantile, nanstd, nansum, nanvar,
    percentile, prod, ptp, quantile, std, sum, trapezoid, var,
)  # fmt: skip
from .manipulation import (
    append, array_split, atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes,
    broadcast_to, column_stack, concat, concatenate, diag, diag_indices, diagflat, diagonal, dstack,
    expand_dims, fill_diagonal, flip, fliplr, flipud, hsplit, hstack, matrix_transpose, moveaxis, pad,
    permute_dims, ravel, repeat, reshape, roll, rollaxis, rot90, split, squeeze, stack, swapaxes, tile,
    trace, transpose, tril, tril_indices, triu, triu_indices, unstack, vsplit, vstack,
)  # fmt: skip
from .indexing import (
    apply_along_axis, argpartition, argsort, argwhere, bincount, choose, compress, delete, digitize,
    extract, flatnonzero, histogram, histogram_bin_edges, insert, interp, isin, ix_, lexsort, nonzero,
    partition, put_along_axis, ravel_multi_index, searchsorted, select, sort, take, take_along_axis,
    top_k, unique, unravel_index,
)  # fmt: skip
from .contraction import (
    convolve, correlate, cross, dot, einsum, inner, kron, matmul, matvec, outer, polyval, tensordot,
    unwrap, vander, vdot, vecdot, vecmat,
)  # fmt: skip
from .functional import (
    allclose, array_equal, array_equiv, can_cast, finfo, iinfo, iscomplex, iscomplexobj, isdtype, isreal,
    isrealobj, isscalar, issubdtype, iterable, load, ndim, piecewise, promote_types, result_type, save,
    savez, shape, size, vectorize,
)  # fmt: skip

e, pi, inf, nan, euler_gamma, newaxis = _np.e, _np.pi, _np.inf, _np.nan, _np.euler_gamma, None
dtype = _np.dtype
generic, number, integer, signedinteger = _np.generic, _np.number, _np.integer, _np.signedinteger
unsignedinteger, inexact, floating, complexfloating = _np.unsignedinteger, _np.inexact, _np.floating, _np.complexfloating

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "any", "append",
    "apply_along_axis", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argpartition", "argsort", "argwhere", "around", "array",
    "array_equal", "array_equiv", "array_split", "asarray", "asin", "asinh", "astype", "atan", "atan2",
    "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bfloat16", "bincount", "bitwise_and",
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "can_cast", "cbrt", "ceil", "choose", "clip", "column_stack", "complex128", "complex64",
    "complexfloating", "compress", "concat", "concatenate", "conj", "conjugate", "convolve", "copy",
    "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "cumprod",
    "cumsum", "cumulative_sum", "deg2rad", "degrees", "delete", "diag", "diag_indices", "diagflat",
    "diagonal", "diff", "digitize", "divide", "divmod", "dot", "dstack", "dtype", "e", "ediff1d",
    "einsum", "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims", "expm1",
    "extract", "eye", "fabs", "fill_diagonal", "finfo", "fix", "flatnonzero", "flip", "fliplr", "flipud",
    "float0", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float_power", "floating",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "from_dlpack", "fromfunction", "full", "full_like",
    "gcd", "generic", "geomspace", "gradient", "greater", "greater_equal", "heaviside", "histogram",
    "histogram_bin_edges", "hsplit", "hstack", "hypot", "identity", "iinfo", "imag", "indices", "inexact",
    "inf", "inner", "insert", "int16", "int32", "int64", "int8", "integer", "interp", "invert", "isclose",
    "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "isrealobj", "isscalar", "issubdtype", "iterable", "ix_", "kron", "lcm", "ldexp",
    "left_shift", "less", "less_equal", "lexsort", "linalg", "linspace", "load", "log", "log10", "log1p",
    "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logspace", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid",
    "min", "minimum", "mod", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin",
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod", "nanquantile",
    "nanstd", "nansum", "nanvar", "ndarray", "ndim", "negative", "newaxis", "nextafter", "nonzero",
    "not_equal", "number", "ones", "ones_like", "outer", "pad", "partition", "percentile", "permute_dims",
    "pi", "piecewise", "polyval", "positive", "pow", "power", "prod", "promote_types", "ptp",
    "put_along_axis", "quantile", "rad2deg", "radians", "ravel", "ravel_multi_index", "real",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "right_shift", "rint", "roll",
    "rollaxis", "rot90", "round", "save", "savez", "searchsorted", "select", "shape", "sign", "signbit",
    "signedinteger", "sin", "sinc", "sinh", "size", "sort", "split", "sqrt", "square", "squeeze", "stack",
    "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile",
    "top_k", "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices", "triu", "triu_indices",
    "true_divide", "trunc", "uint16", "uint32", "uint64", "uint8", "unique", "unravel_index",
    "unsignedinteger", "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat", "vectorize",
    "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip
