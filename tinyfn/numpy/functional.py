"""Functions of functions, questions about arrays and types, and files."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace.array import Array, is_scalar
from ..trace.errors import entry_point
from ..trace.index import reshape
from ..trace.indexing import getitem
from .common import ArrayLike, DTypeLike, at_user, axis_of, cast, operand, operands, permute
from .floats import imag, isclose
from .logic import bitwise_and, equal, isnan, where
from .reductions import all as all_

# Functions of functions


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """The function of scalars (or of the core axes in `signature`, as "(n),(n)->()") over all other axes, broadcast.

    `excluded` are positions of arguments that are passed on as they are.

    >>> step = tnp.vectorize(lambda x, low: tnp.where(x > low, 1, 0))
    >>> step(tnp.array([[1, 2, 3]]), tnp.array([[1], [2]]))
    Array([[0, 1, 1],
           [0, 0, 1]], dtype=int32)
    >>> distance = tnp.vectorize(lambda u, v: linalg.norm(u - v), signature="(n),(n)->()")
    >>> distance(tnp.zeros((5, 1, 3)), tnp.zeros((4, 3))).shape
    (5, 4)
    """
    from functools import wraps

    from ..transforms.vmap import vmap

    cores = None
    if signature is not None:
        spelled = signature.replace(" ", "")
        inputs = spelled.partition("->")[0]
        if not re.fullmatch(r"(\([\w,]*\),?)*->(\([\w,]*\),?)+", spelled):
            raise ValueError(
                f"vectorize: a signature has the form '(n),(n)->()', not {signature!r}{at_user()}"
            )
        cores = [len([d for d in part.strip("()").split(",") if d]) for part in inputs.split("),(")]

    @entry_point
    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        mapped = [i for i in range(len(args)) if i not in excluded]
        if cores is not None and len(cores) != len(mapped):
            raise ValueError(
                f"vectorize: {signature!r} has {len(cores)} arguments, not {len(mapped)}{at_user()}"
            )
        arrays = [operand(args[i], "vectorize") for i in mapped]
        counts = cores or [0] * len(arrays)
        for a, count in zip(arrays, counts, strict=True):
            if a.ndim < count:
                raise ValueError(
                    f"vectorize: an argument of shape {list(a.shape)} lacks axes of {signature!r}{at_user()}"
                )
        leads = [a.shape[: a.ndim - count] for a, count in zip(arrays, counts, strict=True)]
        shape = o.broadcast_shapes(*leads) if leads else ()

        def call(*lanes: Any) -> Any:
            everything = list(args)
            for i, lane in zip(mapped, lanes, strict=True):
                everything[i] = lane
            return pyfunc(*everything, **kwargs)

        function: Callable[..., Any] = call
        # The innermost map is over the last of the shared axes; an axis of size 1 that others have longer is
        # not mapped.
        plans = []
        for axis in range(-1, -len(shape) - 1, -1):
            along = [
                0 if len(lead) >= -axis and (lead[axis] is shape[axis] or lead[axis] == shape[axis]) else None
                for lead in leads
            ]
            plans.append(along)
        squeezed = [
            reshape(
                a,
                tuple([n for k, n in enumerate(lead) if plans[len(lead) - k - 1][j] == 0])
                + a.shape[len(lead) :],
            )
            for j, (a, lead) in enumerate(zip(arrays, leads, strict=True))
        ]
        for along in plans:
            function = vmap(function, in_axes=tuple(along))
        return function(*squeezed)

    return vectorized


@entry_point
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """The function of each 1-d slice along an axis; what it returns takes the place of that axis.

    Further arguments are handed on to the function, which is called once, on tracers, as in `vmap`.

    >>> x = tnp.array([[1, 2, 3], [4, 5, 7]])
    >>> tnp.apply_along_axis(tnp.diff, 1, x)
    Array([[1, 1],
           [1, 2]], dtype=int32)
    >>> tnp.apply_along_axis(lambda column: column[0] * column[1], 0, x)
    Array([ 4, 10, 21], dtype=int32)
    """
    from ..transforms.vmap import vmap

    x = operand(arr, "apply_along_axis")
    place = axis_of(axis, x.ndim, "apply_along_axis")
    x = permute(x, [*[i for i in range(x.ndim) if i != place], place])
    lead = x.shape[:-1]
    result: Array = vmap(lambda row: func1d(row, *args, **kwargs))(reshape(x, (prod(lead), x.shape[-1])))
    result = reshape(result, (*lead, *result.shape[1:]))
    inner = range(len(lead), result.ndim)
    return permute(result, [*range(place), *inner, *range(place, len(lead))])


@entry_point
def piecewise(x: ArrayLike, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """For each element the function (or value) of the last condition that holds there; one more, or 0, where none does.

    The result has the dtype of x. All functions get all elements, and `args` and `kw`.

    >>> x = tnp.array([-2.0, 0.0, 3.0])
    >>> tnp.piecewise(x, [x < 0, x > 0], [lambda x: -x, 10, 7])
    Array([ 2.,  7., 10.], dtype=float32)
    """
    array = operand(x, "piecewise")
    if isinstance(condlist, (Array, np.ndarray)):
        stacked = o.operand(condlist)
        conditions = (
            [stacked]
            if stacked.shape == array.shape
            else [getitem(stacked, i) for i in range(stacked.shape[0])]
        )
    else:
        conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    if len(functions) != len(conditions) + 1:
        raise ValueError(f"piecewise: {len(functions)} functions for {len(conditions)} conditions{at_user()}")

    def value(f: Any) -> Array:
        result = cast(f(array, *args, **kw) if callable(f) else f, array.dtype)
        return o.broadcast_to(result, array.shape)

    result = value(functions[-1])
    for condition, function in zip(conditions, functions[:-1], strict=True):
        result = where(condition, value(function), result)
    return result


# Questions about arrays


def shape(a: ArrayLike) -> tuple[Any, ...]:
    """The sizes of an array's axes.

    >>> tnp.shape(tnp.zeros((2, 3))), tnp.shape(1.0)
    ((2, 3), ())
    """
    return operand(a, "shape").shape


def ndim(a: ArrayLike) -> int:
    """The number of an array's axes.

    >>> tnp.ndim(tnp.zeros((2, 3))), tnp.ndim(1.0)
    (2, 0)
    """
    return operand(a, "ndim").ndim


def size(a: ArrayLike, axis: int | None = None) -> Any:
    """The number of elements, or the size along an axis.

    >>> x = tnp.zeros((2, 3))
    >>> tnp.size(x), tnp.size(x, 1)
    (6, 3)
    """
    x = operand(a, "size")
    return x.size if axis is None else x.shape[axis]


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, |a - b| <= atol + rtol * |b|, as a bool array.

    >>> tnp.allclose(tnp.array([1.0, 2.0]), tnp.array([1.0, 2.00001]))
    Array(True, dtype=bool)
    >>> tnp.allclose(tnp.nan, tnp.nan), tnp.allclose(tnp.nan, tnp.nan, equal_nan=True)
    (Array(False, dtype=bool), Array(True, dtype=bool))
    """
    return all_(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements (NaN equal to NaN, if `equal_nan`), as a bool array.

    >>> tnp.array_equal(tnp.array([1, 2]), tnp.array([1.0, 2.0]))
    Array(True, dtype=bool)
    >>> tnp.array_equal(tnp.ones((2, 1)), tnp.ones(2))
    Array(False, dtype=bool)
    """
    x, y = operands("array_equal", a1, a2)
    if x.shape != y.shape:
        return o.scalar(False, dtypes.bool_)
    same = equal(x, y)
    return all_(o.bitwise_or(same, bitwise_and(isnan(x), isnan(y))) if equal_nan else same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to one shape and are equal there, as a bool array.

    >>> tnp.array_equiv(tnp.ones((2, 1)), tnp.ones(2))
    Array(True, dtype=bool)
    """
    try:
        return all_(equal(a1, a2))
    except ValueError:
        return o.scalar(False, dtypes.bool_)


def isscalar(element: Any) -> bool:
    """Whether it is a number, or an array without axes.

    >>> tnp.isscalar(1.0), tnp.isscalar(tnp.array(1.0)), tnp.isscalar(tnp.array([1.0]))
    (True, True, False)
    """
    return isinstance(element, (bool, int, float, complex, np.generic)) or getattr(element, "ndim", None) == 0


def iterable(y: Any) -> bool:
    """Whether it can be iterated over.

    >>> tnp.iterable(tnp.zeros(2)), tnp.iterable(tnp.zeros(()))
    (True, False)
    """
    return getattr(y, "ndim", 1) != 0 and hasattr(y, "__iter__")


def iscomplexobj(x: Any) -> bool:
    """Whether its dtype is complex.

    >>> tnp.iscomplexobj(tnp.array([1 + 0j])), tnp.iscomplexobj(1.0)
    (True, False)
    """
    return isinstance(x, complex) or dtypes.kind(_dtype_of(x)) == "complex"


def isrealobj(x: Any) -> bool:
    """Whether its dtype is not complex.

    >>> tnp.isrealobj(tnp.array([1 + 0j])), tnp.isrealobj(1.0)
    (False, True)
    """
    return not iscomplexobj(x)


def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part that is not 0.

    >>> tnp.iscomplex(tnp.array([1 + 1j, 1 + 0j]))
    Array([ True, False], dtype=bool)
    """
    return o.not_equal(imag(x), 0)


def isreal(x: ArrayLike) -> Array:
    """Whether each element has no imaginary part.

    >>> tnp.isreal(tnp.array([1 + 1j, 1 + 0j]))
    Array([False,  True], dtype=bool)
    """
    return o.invert(iscomplex(x))


# Types


def _dtype_of(x: Any) -> dtypes.DType:
    found = getattr(x, "dtype", None)
    named: Any = type(x) if is_scalar(x) else x if found is None or isinstance(x, type) else found
    return dtypes.canonical(named)


_ABSTRACT = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating,
    np.complexfloating, dtypes.extended, dtypes.prng_key,
)  # fmt: skip
_CLASS_OF_KIND: dict[str, Any] = {
    "bool": np.bool_, "signed": np.signedinteger, "unsigned": np.unsignedinteger, "float": np.floating,
    "complex": np.complexfloating, "key": dtypes.prng_key,
}  # fmt: skip


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether a dtype is another or belongs to an abstract one: `generic`, `number`, `integer`, `floating`, ...; of random keys
    `tinyfn.dtypes.prng_key`.

    >>> tnp.issubdtype(tnp.bfloat16, tnp.floating), tnp.issubdtype(tnp.int32, tnp.int64)
    (True, False)
    """
    abstract = any(arg1 is c for c in _ABSTRACT)
    if any(arg2 is c for c in _ABSTRACT):
        return issubclass(arg1 if abstract else _CLASS_OF_KIND[dtypes.kind(_dtype_of(arg1))], arg2)
    return not abstract and _dtype_of(arg1) is dtypes.canonical(arg2)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
    floating", "numeric", a dtype, or one of a tuple of those.

    >>> tnp.isdtype(tnp.uint8, "integral"), tnp.isdtype(tnp.uint8, ("bool", tnp.float32))
    (True, False)
    """
    target = dtypes.canonical(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(target, k) for k in kind)
    kinds = {
        "bool": ("bool",), "signed integer": ("signed",), "unsigned integer": ("unsigned",),
        "integral": ("signed", "unsigned"), "real floating": ("float",), "complex floating": ("complex",),
        "numeric": ("signed", "unsigned", "float", "complex"),
    }  # fmt: skip
    if isinstance(kind, str):
        if kind in kinds:
            return dtypes.kind(target) in kinds[kind]
        if kind not in [d.name for d in dtypes.ALL]:
            raise ValueError(
                f"isdtype: {kind!r} is neither a kind ({', '.join(kinds)}) nor a dtype{at_user()}"
            )
    return target is dtypes.canonical(kind)


def result_type(*args: Any) -> dtypes.DType:
    """The dtype that an operation on these arrays, numbers and dtypes gives; Python numbers are weak.

    >>> tnp.result_type(tnp.int32, tnp.float16), tnp.result_type(tnp.zeros(2, tnp.int8), 1.5)
    (dtype('float16'), dtype('float32'))
    """
    if not args:
        raise ValueError(f"result_type needs an argument{at_user()}")
    found: dtypes.DType | None = None
    found_weak = True
    for x in args:
        dtype = _dtype_of(x)
        weak = (
            bool(getattr(x, "weak_type", False))
            or (is_scalar(x) and type(x) is not bool)
            or _is_number_type(x)
        )
        found, found_weak = (
            (dtype, weak) if found is None else dtypes.promote_pair(found, found_weak, dtype, weak)
        )
    assert found is not None
    return found


def _is_number_type(x: Any) -> bool:
    # By identity: NumPy's dtype int64 is equal to `int`.
    return x is int or x is float or x is complex


def promote_types(a: DTypeLike, b: DTypeLike) -> dtypes.DType:
    """The dtype that an operation on arrays of two dtypes gives; `int`, `float` and `complex` are weak.

    >>> tnp.promote_types(tnp.int64, tnp.float16), tnp.promote_types(tnp.uint8, tnp.int8), tnp.promote_types(tnp.int8, int)
    (dtype('float16'), dtype('int16'), dtype('int8'))
    """
    weak = _is_number_type(a), _is_number_type(b)
    return dtypes.promote_pair(dtypes.canonical(a), weak[0], dtypes.canonical(b), weak[1])[0]


def can_cast(from_: DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a cast is allowed: "safe" ones keep every value, "same_kind" ones the kind, and "unsafe" are all.

    >>> tnp.can_cast(tnp.int8, tnp.int32), tnp.can_cast(tnp.int32, tnp.float32)
    (True, False)
    >>> tnp.can_cast(tnp.int32, tnp.float32, "same_kind"), tnp.can_cast(tnp.float32, tnp.int32, "same_kind")
    (True, False)
    """
    first, second = _dtype_of(from_), dtypes.canonical(to)
    if first is second or (casting == "unsafe" and dtypes.key not in (first, second)):
        return True
    if casting in ("no", "equiv"):
        return False
    if dtypes.key in (first, second):
        return False
    order = ("bool", "unsigned", "signed", "float", "complex")
    if casting == "same_kind" and order.index(dtypes.kind(first)) <= order.index(dtypes.kind(second)):
        return True
    if dtypes.bfloat16 in (first, second) or {first, second} & set(dtypes.NARROW_FLOATS):
        if dtypes.kind(first) == "float":
            a, b = finfo(first), finfo(second) if dtypes.is_float(second) else None
            return (b is not None and a.nmant <= b.nmant and float(a.max) <= float(b.max)) or dtypes.kind(
                second
            ) == "complex"
        return first is dtypes.bool_ or (first.itemsize == 1 and second is dtypes.bfloat16)
    return bool(np.can_cast(first, second, "safe"))


class FloatInfo:
    """Limits of a float dtype, as Python's floats and integers; what `finfo` gives.

    >>> tnp.finfo(tnp.float16)
    finfo(dtype=float16, min=-65504.0, max=65504.0, eps=0.0009765625, tiny=6.103515625e-05)
    """

    def __init__(self, dtype: dtypes.DType):
        found = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        self.dtype = dtypes.canonical(found.dtype)
        self.bits, self.nmant, self.nexp = int(found.bits), int(found.nmant), int(found.nexp)
        self.minexp, self.maxexp = int(found.minexp), int(found.maxexp)
        self.precision, self.resolution = int(found.precision), float(found.resolution)
        self.eps, self.epsneg = float(found.eps), float(found.epsneg)
        self.max, self.min = float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.smallest_subnormal = float(found.smallest_subnormal)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype.name}, min={self.min}, max={self.max}, eps={self.eps}, tiny={self.tiny})"


@cache
def _float_info(dtype: dtypes.DType) -> FloatInfo:
    return FloatInfo(dtype)


def finfo(dtype: Any) -> FloatInfo:
    """Limits of a float dtype (of a complex one's parts): max, min, tiny, eps, bits, nmant, ... as Python's numbers.

    >>> tnp.finfo(tnp.float32).eps == 2**-23, tnp.finfo(tnp.bfloat16).max, tnp.finfo(tnp.complex64).bits
    (True, 3.3895313892515355e+38, 32)
    """
    return _float_info(_dtype_of(dtype))


def iinfo(dtype: Any) -> Any:
    """Limits of an integer dtype: max, min, bits.

    >>> tnp.iinfo(tnp.int8).min, tnp.iinfo(tnp.int8).max, tnp.iinfo(tnp.uint16).bits
    (-128, 127, 16)
    """
    return ml_dtypes.iinfo(_dtype_of(dtype))  # type: ignore[no-untyped-call]
