"""The array primitives: importing this package registers them all."""

from . import operators
from .arithmetic import (
    abs,
    accumulate,
    add,
    div,
    floor_divide,
    floor_remainder,
    integer_pow,
    mul,
    mul_zero,
    neg,
    pow,
    rem,
    sign,
    sub,
)
from .bits import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from .comparison import (
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)
from .complex_numbers import complex_, conj, imag, real
from .contraction import dot_general
from .convolution import conv_general
from .cumulative import cumlogsumexp, cummax, cummin, cumprod, cumsum
from .error_function import erf, erf_inv, erfc
from .exponential import acosh, asinh, atanh, cosh, exp, exp2, expm1, log, log1p, log2, logistic, sinh, tanh
from .extern import ARGSORT, HostFunction, extern
from .extremes import (
    clamp,
    max,
    min,
)
from .functions import cbrt, rsqrt, sqrt
from .indexing import gather, scatter
from .movement import broadcast, dimension_size, flip, iota, reshape, transpose
from .random import threefry2x32
from .reduction import (
    argmax,
    argmin,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
)
from .rounding import ceil, floor, is_finite, is_inf, is_nan, nextafter, reduce_precision, round, trunc
from .selection import (
    bitcast,
    checkpoint_name,
    convert,
    stop_gradient,
    where,
)
from .slicing import concatenate, pad, slice_
from .sliding import from_windows, window_max, window_min, windows
from .sorting import argsort
from .trigonometric import acos, asin, atan, atan2, cos, sin, tan
