"""Operators on arrays: dtype promotion and broadcasting, and then one primitive or a short formula of several.

Operands promote as `dtype` describes. Shapes broadcast as NumPy's do: from the last axis, a size of 1 or a missing axis
is repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtype as dtypes
from . import errors, prims, sint, switches
from .array import Array, as_array, from_scalar, install, is_scalar, wrap
from .dtype import DType
from .errors import TypePromotionError, user_line
from .prim import Primitive
from .tracing import bind, current_trace, tracer
from .uop import UOp, const


def to_dtype(x: Array, dtype: DType) -> Array:
    """x cast to a dtype, or x itself, weak or not, if it has that dtype."""
    if x.dtype is dtype:
        return x
    return bind(prims.convert, (x,), {"dtype": dtype})


def astype(x: Any, dtype: Any) -> Array:
    """x with its elements cast to a dtype (floats to integers round towards zero and saturate).

    A Python number is not rounded to its default dtype on the way."""
    target = dtypes.canonical(dtype)
    if is_scalar(x):
        if target is dtypes.bool_:
            return scalar(bool(x), target)
        if type(x) is not float or not dtypes.is_integer(target):
            return scalar(x, target)
        x = np.asarray(x)
    x = as_array(x)
    return strong(x if x.dtype is target else bind(prims.convert, (x,), {"dtype": target}))


def strong(x: Array) -> Array:
    """x with a dtype that takes part in promotion in its own right."""
    if not x.weak_type:
        return x
    trace = current_trace()
    return wrap(x.value) if trace is None else tracer(trace, trace.lift(x), False)


def scalar(x: Any, dtype: DType, weak: bool = False) -> Array:
    """A Python number as a 0-d array; within a trace it is a constant of the graph."""
    return constant(from_scalar(x, dtype), dtype, weak)


def constant(value: Any, dtype: DType, weak: bool = False) -> Array:
    """A value as a 0-d array of a dtype that has it; within a trace it is a constant of the graph."""
    trace = current_trace()
    return wrap(np.asarray(value, dtype), weak) if trace is None else tracer(trace, const(value, dtype), weak)


def operand(x: Any) -> Array:
    """An operand as an array: Python numbers become constants."""
    if isinstance(x, Array):
        return x
    if is_scalar(x):
        return scalar(x, dtypes.PYTHON_TYPES[type(x)], weak=type(x) is not bool)
    return as_array(x)


def _dimension_as_array(dimension: UOp) -> Array:
    """A symbolic dimension as an operand, like the Python number that it stands for."""
    trace = current_trace()
    if trace is None or not sint.is_symbolic(dimension):
        raise TypeError(
            f"{dimension!r} has no value here; at {user_line()}: it is one of a traced function's sizes"
        )
    node = prims.dimension_size.node(size=dimension, dtype=dtypes.DEFAULT_INT)
    return tracer(trace, node, True)


UOp.__jax_array__ = _dimension_as_array  # type: ignore[attr-defined]


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that arrays of these shapes broadcast to; raises ValueError naming them if there is none.

    >>> lax.broadcast_shapes((3, 1), (4,), ())
    (3, 4)
    """
    first = shapes[0] if shapes else ()
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    result: list[Any] = []
    for axis in range(ndim):
        size: Any = 1
        for shape in shapes:
            position = axis - ndim + len(shape)
            n = 1 if position < 0 else shape[position]
            if n is size or (isinstance(n, int) and n == 1):
                continue
            if isinstance(size, int) and size == 1:
                size = n
            elif n != size:
                spelled = ", ".join(f"[{','.join(map(str, s))}]" for s in shapes)
                raise ValueError(
                    f"shapes {spelled} do not broadcast: axis {axis - ndim} has sizes {size} and {n}; at {user_line()}"
                )
        result.append(size)
    return tuple(result)


def common_shape(what: str, arrays: Sequence[Array]) -> tuple[Any, ...]:
    """The shape that arrays broadcast to; raises ValueError naming the operation and the arrays if there is none."""
    shapes = [a.shape for a in arrays]
    if switches.general_path and switches.numpy_rank_promotion.chosen != "allow":
        _check_ranks(what, shapes)
    try:
        return broadcast_shapes(*shapes)
    except ValueError as error:
        raise ValueError(f"{what} of {described(*arrays)}: {error}") from None


def full(value: Any, dtype: DType, shape: tuple[Any, ...]) -> Array:
    """An array of one value everywhere; within a trace it is a constant of the graph, broadcast."""
    if current_trace() is None:
        return wrap(np.full(shape, from_scalar(value, dtype), dtype) if value else np.zeros(shape, dtype))
    return broadcast_to(scalar(value, dtype), shape)


def broadcast_to(x: Array, shape: tuple[Any, ...]) -> Array:
    """x repeated to a shape."""
    if x.shape == shape:
        return x
    axes = tuple(range(len(shape) - x.ndim, len(shape)))
    return bind(prims.broadcast, (x,), {"shape": shape, "axes": axes})


def promote(*xs: Any) -> tuple[list[Array], bool]:
    """The operands as arrays of the one dtype that they promote to, and whether that is weak."""
    weak = True
    dtype: DType | None = None
    arrays: list[Any] = []
    for x in xs:
        if isinstance(x, Array):
            x_dtype, x_weak = x.dtype, x.weak_type
        elif is_scalar(x):
            x_dtype, x_weak = dtypes.PYTHON_TYPES[type(x)], type(x) is not bool
        else:
            x = as_array(x)
            x_dtype, x_weak = x.dtype, x.weak_type
        arrays.append(x)
        if dtype is None:
            dtype, weak = x_dtype, x_weak
        else:
            before = dtype, weak
            dtype, weak = dtypes.promote_pair(dtype, weak, x_dtype, x_weak)
            if switches.general_path and switches.numpy_dtype_promotion.chosen == "strict":
                _check_strict(before, (x_dtype, x_weak), dtype)
    assert dtype is not None
    made = [to_dtype(x, dtype) if isinstance(x, Array) else scalar(x, dtype, weak) for x in arrays]
    if weak:  # integers beside a Python float take its dtype, which is as weak as the float
        for array in made:
            array.weak_type = dtype in dtypes.WEAK_DTYPES
    return made, weak


def _check_strict(a: tuple[DType, bool], b: tuple[DType, bool], result: DType) -> None:
    """Raise TypePromotionError if an operand that is no Python number (a weak one) would change its dtype."""
    for (dtype, weak), (other, _) in ((a, b), (b, a)):
        if not weak and dtype is not result:
            raise TypePromotionError(
                f"{dtypes.name(dtype)} and {dtypes.name(other)} are different types, and numpy_dtype_promotion is 'strict'; "
                f"at {user_line()}: cast one of them with .astype(...)"
            )


def _check_ranks(what: str, shapes: Sequence[tuple[Any, ...]]) -> None:
    """Warn or raise, as `numpy_rank_promotion` says, if arrays that are no scalars have different numbers of axes."""
    ranks = {len(shape) for shape in shapes} - {0}
    if len(ranks) > 1:
        spelled = ", ".join(f"[{','.join(map(str, s))}]" for s in shapes)
        message = (
            f"{what} of shapes {spelled}: they have different numbers of axes, and numpy_rank_promotion is "
            f"{switches.numpy_rank_promotion.chosen!r}; at {user_line()}: add axes with reshape or x[None]"
        )
        if switches.numpy_rank_promotion.chosen == "raise":
            raise ValueError(message)
        warnings.warn(message, stacklevel=2)


# NumPy's own functions, for arrays that it promotes and broadcasts as we do.
_UFUNCS: dict[Primitive, Callable[..., Any]] = {
    primitive: primitive.reference
    for primitive in (
        prims.add, prims.sub, prims.mul, prims.max, prims.min, prims.eq, prims.ne, prims.lt, prims.le, prims.gt, prims.ge,
        prims.bitwise_and, prims.bitwise_or, prims.bitwise_xor, prims.pow, prims.atan2,
        prims.floor_divide, prims.floor_remainder,
    )
}  # fmt: skip
_UFUNCS[prims.div] = np.divide  # of floats: its result for integers is another
_UFUNCS[prims.eq], _UFUNCS[prims.ne] = np.equal, np.not_equal  # of numbers: the primitives also compare keys

_OF_BOOLS: dict[Primitive, Primitive] = {prims.add: prims.bitwise_or, prims.mul: prims.bitwise_and}
# Of bools these are of the integers 0 and 1.
_OF_INTEGERS = {
    prims.floor_divide, prims.floor_remainder, prims.rem, prims.shift_left, prims.shift_right_logical,
}  # fmt: skip


def elementwise(primitive: Primitive, *xs: Any, inexact: bool = False) -> Array:
    """A primitive on operands promoted to one dtype (a float, if `inexact`) and broadcast to one shape."""
    if len(xs) == 2 and primitive in _UFUNCS and current_trace() is None and not switches.general_path:
        direct = _by_numpy(_UFUNCS[primitive], *xs, accepted="f" if inexact else "fiu")
        if direct is not None:
            return direct
    arrays, weak = promote(*xs)
    dtype = arrays[0].dtype
    if inexact and not dtypes.is_inexact(dtype):
        arrays = [to_dtype(a, dtypes.DEFAULT_FLOAT) for a in arrays]
    elif dtype is dtypes.bool_:
        if primitive in _OF_INTEGERS:
            arrays = [to_dtype(a, dtypes.DEFAULT_INT) for a in arrays]
        primitive = _OF_BOOLS.get(primitive, primitive)
    shape = common_shape(primitive.name, arrays)
    result = bind(primitive, tuple([broadcast_to(a, shape) for a in arrays]), {})
    result.weak_type = weak and result.dtype in dtypes.WEAK_DTYPES
    return result


def _by_numpy(ufunc: Callable[..., Any], x: Any, y: Any, accepted: str) -> Array | None:
    """The result on known operands, if NumPy's rules are ours for them: two arrays of one dtype, or one and a number."""
    first, second, weak, kind = x, y, True, ""
    if type(x) is Array:
        first, weak = x.value, x.weak_type
        kind = first.dtype.kind
    if type(y) is Array:
        second = y.value
        weak = weak and y.weak_type
        if kind:
            fits = first.dtype is second.dtype and kind in accepted
        else:
            kind = second.dtype.kind
            fits = kind in accepted and (type(x) is int or (type(x) is float and kind == "f"))
    else:
        fits = kind != "" and kind in accepted and (type(y) is int or (type(y) is float and kind == "f"))
    if not fits:
        return None
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(ufunc(first, second))
    except (TypeError, ValueError, OverflowError):
        return None  # to be raised again, with a better message
    return wrap(result, weak and result.dtype.kind != "b")


def _binary(primitive: Primitive, inexact: bool = False) -> Callable[[Any, Any], Array]:
    def apply(x: Any, y: Any) -> Array:
        return elementwise(primitive, x, y, inexact=inexact)

    apply.__name__ = apply.__qualname__ = primitive.name
    apply.__doc__ = primitive.__doc__
    return apply


add, subtract, multiply = _binary(prims.add), _binary(prims.sub), _binary(prims.mul)
equal, not_equal = _binary(prims.eq), _binary(prims.ne)
less, less_equal, greater, greater_equal = (_binary(p) for p in (prims.lt, prims.le, prims.gt, prims.ge))
bitwise_and, bitwise_or, bitwise_xor = (
    _binary(p) for p in (prims.bitwise_and, prims.bitwise_or, prims.bitwise_xor)
)
left_shift = _binary(prims.shift_left)
true_divide = _binary(prims.div, inexact=True)


def negative(x: Any) -> Array:
    """-x"""
    return bind(prims.neg, (operand(x),), {})


def absolute(x: Any) -> Array:
    """|x|"""
    x = operand(x)
    return x if x.dtype is dtypes.bool_ or dtypes.kind(x.dtype) == "unsigned" else bind(prims.abs, (x,), {})


def invert(x: Any) -> Array:
    """Every bit inverted; the logical not of bools."""
    return bind(prims.bitwise_not, (operand(x),), {})


def right_shift(x: Any, y: Any) -> Array:
    """x with its bits moved down by y, the sign filling in for signed integers."""
    arrays, _ = promote(x, y)
    signed = dtypes.kind(arrays[0].dtype) == "signed"
    return elementwise(prims.shift_right_arithmetic if signed else prims.shift_right_logical, *arrays)


def remainder(x: Any, y: Any) -> Array:
    """x modulo y with the sign of y, as Python's `%`."""
    return elementwise(prims.floor_remainder, x, y)


def floor_divide(x: Any, y: Any) -> Array:
    """The greatest whole number that is not above x / y."""
    return elementwise(prims.floor_divide, x, y)


def divmod(x: Any, y: Any) -> tuple[Array, Array]:
    """The pair of x // y and x % y."""
    return floor_divide(x, y), remainder(x, y)


def elementwise_where(condition: Any, x: Any, y: Any) -> Array:
    """x where the condition holds, y elsewhere."""
    (x, y), weak = promote(x, y)
    condition = operand(condition)
    if condition.dtype is not dtypes.bool_:
        condition = not_equal(condition, 0)
    shape = common_shape("where", (condition, x, y))
    result = bind(prims.where, tuple([broadcast_to(a, shape) for a in (condition, x, y)]), {})
    result.weak_type = weak and result.dtype in dtypes.WEAK_DTYPES
    return result


def power(x: Any, y: Any) -> Array:
    """x to the power y. An integer Python exponent is exact, and its derivative too; integers need it to be >= 0."""
    if type(y) is int:
        x = operand(x)
        if x.dtype is dtypes.bool_:
            x = to_dtype(x, dtypes.DEFAULT_INT)
        return bind(prims.integer_pow, (x,), {"exponent": y})
    (x, y), _ = promote(x, y)
    if dtypes.is_inexact(x.dtype):
        return elementwise(prims.pow, x, y)
    if x.dtype is dtypes.bool_:
        x, y = to_dtype(x, dtypes.DEFAULT_INT), to_dtype(y, dtypes.DEFAULT_INT)
    return _integer_power(x, y)


def _integer_power(x: Array, y: Array) -> Array:
    """By squaring, over the bits of the exponent; a negative exponent gives the whole part of the power."""
    if current_trace() is None and not switches.general_path:
        direct = _by_numpy(np.power, x, y, accepted="iu")  # which raises if an exponent is negative
        if direct is not None:
            return direct
    vanishes = bitwise_and(less(y, 0), not_equal(absolute(x), 1))
    result: Array = elementwise_where(vanishes, scalar(0, x.dtype), scalar(1, x.dtype))
    for bit in range(8 * x.dtype.itemsize - (dtypes.kind(x.dtype) == "signed")):
        is_set = not_equal(bitwise_and(y, scalar(1 << bit, y.dtype)), 0)
        result = multiply(result, elementwise_where(is_set, x, scalar(1, x.dtype)))
        x = multiply(x, x)
    return result


def matmul(x: Any, y: Any) -> Array:
    """The matrix product over the last two axes, broadcasting the others; 1-d arguments are vectors."""
    (x, y), _ = promote(x, y)
    if x.dtype is dtypes.bool_:
        return not_equal(matmul(to_dtype(x, dtypes.int32), to_dtype(y, dtypes.int32)), 0)
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(
            f"matmul of {described(x, y)}: scalars have no matrix product; use *; at {user_line()}"
        )
    inner_x, inner_y = x.shape[-1], y.shape[-2] if y.ndim > 1 else y.shape[0]
    if inner_x != inner_y:
        raise ValueError(
            f"matmul of {described(x, y)}: the last axis of the first has size {inner_x}, but the "
            f"{'last but one' if y.ndim > 1 else 'only'} axis of the second has size {inner_y}; at {user_line()}"
        )
    if x.ndim == 1 or y.ndim <= 2:
        axis = 0 if y.ndim == 1 else y.ndim - 2
        return bind(prims.dot_general, (x, y), {"contract": ((x.ndim - 1,), (axis,)), "batch_axes": ((), ())})
    try:
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError as error:
        raise ValueError(f"matmul of {described(x, y)}: their leading {error}") from None
    x, y = broadcast_to(x, (*batch, *x.shape[-2:])), broadcast_to(y, (*batch, *y.shape[-2:]))
    axes = tuple(range(len(batch)))
    params = {"contract": ((x.ndim - 1,), (y.ndim - 2,)), "batch_axes": (axes, axes)}
    return bind(prims.dot_general, (x, y), params)


def described(*xs: Array) -> str:
    """`float32[3] and float32[4]`, or `bool[3], float32[3] and float32[4]`."""
    *first, last = [dtypes.describe(x.dtype, x.shape) for x in xs]
    return f"{', '.join(first)} and {last}" if first else last


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": add, "sub": subtract, "mul": multiply, "truediv": true_divide, "floordiv": floor_divide, "mod": remainder,
    "divmod": divmod, "pow": power, "matmul": matmul, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor,
    "lshift": left_shift, "rshift": right_shift,
}  # fmt: skip
_COMPARISONS = {
    "eq": equal,
    "ne": not_equal,
    "lt": less,
    "le": less_equal,
    "gt": greater,
    "ge": greater_equal,
}


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_OPERANDS = (Array, np.ndarray, np.generic, bool, int, float, complex)
_OFTEN = frozenset((Array, int, float))  # saves the slower isinstance


def _is_operand(x: Any) -> bool:
    return isinstance(x, _OPERANDS) or hasattr(type(x), "__jax_array__")


# What no operator makes an array of, neither here nor by a method of its own. (`[0] * n` is a list, for an integer n.)
_REFUSED = (list, tuple, dict, set, str, bytes, type(None))


def _other(symbol: str, self: Array, other: Any) -> Any:
    """What an operator gives for something that is no operand: NotImplemented, or an error that says what to do."""
    repeats = symbol == "*" and self.ndim == 0 and isinstance(other, (list, tuple, str, bytes))
    if symbol in ("==", "!=") or repeats or not isinstance(other, _REFUSED):
        return NotImplemented
    hint = ": use tinyfn.numpy.array(...) on it first" if isinstance(other, (list, tuple)) else ""
    raise TypeError(
        f"{described(self)} {symbol} {errors.kind_of(other)}: operators take arrays and numbers; at {user_line()}{hint}"
    )


def _operator(function: Callable[..., Any], symbol: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """An operator's method. It is an entry point by itself, since a wrapper would cost a fifteenth of what it takes."""

    def apply(self: Array, other: Any) -> Any:
        try:
            if type(other) in _OFTEN or _is_operand(other):
                return function(other, self) if swapped else function(self, other)
            return _other(symbol, self, other)
        except BaseException as error:
            errors.hand_on(error, function.__name__, (other, self) if swapped else (self, other), {})
            raise

    return errors.is_entry_point(apply)


install(
    {
        f"__{name}__": _operator(function, _SYMBOLS[name])
        for name, function in {**_OPERATORS, **_COMPARISONS}.items()
    }
    | {
        f"__r{name}__": _operator(function, _SYMBOLS[name], swapped=True)
        for name, function in _OPERATORS.items()
    }
    | {
        "__neg__": negative,
        "__abs__": absolute,
        "__invert__": invert,
        "__pos__": lambda self: self,
        "astype": astype,
    }
    # NumPy's arrays leave operators to us, while np.sin(x) converts x to one of them.
    | {"__array_priority__": 100}  # type: ignore[dict-item]
)
