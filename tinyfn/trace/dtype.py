"""Data types: the canonical NumPy dtypes that arrays may have, and how they promote.

A dtype is a NumPy dtype object (bfloat16 and the 8-bit floats come from ml_dtypes), made canonical so that equal types
are the same object. Promotion is a least upper bound in one lattice, in which Python scalars are *weak* nodes: they
take part with their kind (integer, float, complex) and not with a width, so that `float16_array + 1.0` stays float16.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from .errors import TypePromotionError

DType = np.dtype

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
float16, float32, float64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3fn, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
float8_e4m3fnuz, float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e4m3, float8_e3m4 = np.dtype(ml_dtypes.float8_e4m3), np.dtype(ml_dtypes.float8_e3m4)
float8_e4m3b11fnuz, float8_e8m0fnu = (
    np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    np.dtype(ml_dtypes.float8_e8m0fnu),
)
# A byte for each element, too.
float6_e2m3fn, float6_e3m2fn = np.dtype(ml_dtypes.float6_e2m3fn), np.dtype(ml_dtypes.float6_e3m2fn)
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
# The gradient of something that has no gradient (an integer): a type with no values, as in JAX.
float0 = np.dtype([("float0", np.void, 0)])
# A random key: eight bytes that can be moved, selected and indexed, and not computed with. A structured type, so that NumPy
# refuses arithmetic on it too, and its two words lie in memory as in uint32[..., 2].
KEY_NAME = "key<threefry2x32>"
key = np.dtype([(KEY_NAME, np.uint64)])


KEY_ADVICE = "keys can't be computed with: take their words with tinyfn.random.key_data first"


class extended:
    """In `issubdtype`, the kind of all dtypes that are not numbers or bools.

    >>> tnp.issubdtype(random.key(0).dtype, tinyfn.dtypes.extended), tnp.issubdtype("int32", tinyfn.dtypes.extended)
    (True, False)
    """


class prng_key(extended):
    """In `issubdtype`, the kind of the dtypes of random keys: `issubdtype(keys.dtype, tinyfn.dtypes.prng_key)`.

    >>> tnp.issubdtype(random.key(0).dtype, tinyfn.dtypes.prng_key)
    True
    """


DEFAULT_INT, DEFAULT_FLOAT, DEFAULT_COMPLEX = int32, float32, complex64

UNSIGNED = (uint8, uint16, uint32, uint64)
SIGNED = (int8, int16, int32, int64)
INTEGERS = UNSIGNED + SIGNED
FLOATS = (bfloat16, float16, float32, float64)
NARROW_FLOATS = (
    float8_e4m3fn,
    float8_e5m2,
    float8_e4m3fnuz,
    float8_e5m2fnuz,
    float8_e4m3,
    float8_e3m4,
    float8_e4m3b11fnuz,
    float8_e8m0fnu,
    float6_e2m3fn,
    float6_e3m2fn,
    float4_e2m1fn,
)  # storage only: they do not promote with anything but themselves
COMPLEX = (complex64, complex128)
ALL = (bool_, *INTEGERS, *FLOATS, *NARROW_FLOATS, *COMPLEX)
MOVED = (*ALL, key)  # what arrays can have elements of: numbers, bools, and keys
_BY_NAME = {d.name: d for d in ALL}
_KIND: dict[DType, str] = {bool_: "bool", key: "key"}
for _kind, _members in (
    ("unsigned", UNSIGNED),
    ("signed", SIGNED),
    ("float", FLOATS + NARROW_FLOATS),
    ("complex", COMPLEX),
):
    for _member in _members:
        _KIND[_member] = _kind

PYTHON_TYPES: dict[Any, DType] = {
    bool: bool_,
    int: DEFAULT_INT,
    float: DEFAULT_FLOAT,
    complex: DEFAULT_COMPLEX,
}


@lru_cache(maxsize=256)
def canonical(dtype: Any) -> DType:
    """The canonical dtype for anything that names one (dtype, scalar type, string, or Python's int, float, ...).

    Raises TypeError for a type that arrays can't have (object, string, datetime, ...).

    >>> tinyfn.dtypes.canonicalize_dtype(float), tinyfn.dtypes.canonicalize_dtype("float64")
    (dtype('float32'), dtype('float64'))
    """
    if isinstance(dtype, type) and dtype in PYTHON_TYPES:
        return PYTHON_TYPES[dtype]
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in _BY_NAME:
        if dtype == KEY_NAME or found == key:
            return key
        raise TypeError(_no_dtype(dtype, found))
    return _BY_NAME[found.name]


def _no_dtype(given: Any, found: Any) -> str:
    """Why something is no dtype of arrays, and what may have been meant."""
    texts = {"U": "text", "S": "text", "O": "Python objects", "M": "dates", "m": "times", "V": "records"}
    if found is not None and ((found.kind in texts and found.itemsize > 0) or found.kind == "O"):
        if given is str or not isinstance(given, str):
            return f"there are no arrays of {texts[found.kind]} ({found}): arrays hold numbers and bools"
    if isinstance(given, str):
        import difflib

        meant = difflib.get_close_matches(given, _BY_NAME, 3)
        if meant:
            return f"{given!r} is no dtype: is it {' or '.join(map(repr, meant))}?"
    hint = " (a shape of several sizes is one tuple)" if isinstance(given, int) else ""
    return f"{given!r} is no dtype{hint}: choose from bool, int32, float32, bfloat16, complex64 and others (see tinyfn.dtypes)"


def kind(dtype: DType) -> str:
    """One of "bool", "unsigned", "signed", "float", "complex", "key"."""
    return _KIND[dtype]


def name(dtype: DType) -> str:
    """The name of a dtype for messages, which for keys NumPy does not know."""
    return KEY_NAME if dtype is key else dtype.name


def is_float(dtype: DType) -> bool:
    """Whether the dtype is a real floating-point type."""
    return _KIND.get(dtype) == "float"


def is_inexact(dtype: DType) -> bool:
    """Whether the dtype is a floating-point or complex type, so that derivatives have a meaning."""
    return _KIND.get(dtype) in ("float", "complex")


def is_integer(dtype: DType) -> bool:
    """Whether the dtype is a signed or unsigned integer."""
    return _KIND.get(dtype) in ("signed", "unsigned")


def accumulator(dtype: DType) -> DType:
    """The type in which sums of this type are accumulated: at least float32, at least 32 bits for integers."""
    if dtype.itemsize >= 4:
        return dtype
    return {"float": float32, "signed": int32, "unsigned": uint32, "bool": int32}[_KIND[dtype]]


# The promotion lattice: each node with the nodes directly above it. "int*", "float*" and "complex*" are the weak nodes.
_ABOVE: dict[Any, tuple[Any, ...]] = {
    bool_: ("int*",),
    "int*": (uint8, int8),
    uint8: (int16, uint16), int8: (int16,),
    uint16: (int32, uint32), int16: (int32,),
    uint32: (int64, uint64), int32: (int64,),
    uint64: ("float*",), int64: ("float*",),
    "float*": (bfloat16, float16, "complex*"),
    bfloat16: (float32,), float16: (float32,),
    float32: (float64, complex64), float64: (complex128,),
    "complex*": (complex64,), complex64: (complex128,), complex128: (),
    **dict.fromkeys((*NARROW_FLOATS, key), ()),
}  # fmt: skip
_WEAK_NODES = {"int*": DEFAULT_INT, "float*": DEFAULT_FLOAT, "complex*": DEFAULT_COMPLEX}
WEAK_DTYPES = frozenset(_WEAK_NODES.values())  # the dtypes that an array of Python numbers alone can have
_WEAK_OF_KIND = {
    "bool": bool_,
    "signed": "int*",
    "unsigned": "int*",
    "float": "float*",
    "complex": "complex*",
}


@cache
def _upward(node: Any) -> frozenset[Any]:
    reached, pending = {node}, [node]
    while pending:
        for above in _ABOVE[pending.pop()]:
            if above not in reached:
                reached.add(above)
                pending.append(above)
    return frozenset(reached)


@lru_cache(maxsize=4096)
def promote_pair(a: DType, a_weak: bool, b: DType, b_weak: bool) -> tuple[DType, bool]:
    """The dtype of an operation on two operands and whether it is weak; raises TypeError where there is none."""
    if a is b:
        return a, a_weak and b_weak
    nodes = [_WEAK_OF_KIND[_KIND[d]] if weak else d for d, weak in ((a, a_weak), (b, b_weak))]
    common = _upward(nodes[0]) & _upward(nodes[1])
    least = [node for node in common if common <= _upward(node)]
    if not least:
        # A narrow storage float takes a Python scalar, and nothing else.
        for dtype, other_weak in ((a, b_weak), (b, a_weak)):
            if dtype in NARROW_FLOATS and other_weak:
                return dtype, False
        if key in (a, b):
            raise TypePromotionError(f"{name(a)} and {name(b)} have no common type; {KEY_ADVICE}")
        raise TypePromotionError(
            f"{a.name} and {b.name} have no common type; cast one of them with .astype(...) first"
        )
    node = least[0]
    if isinstance(node, str):
        return _WEAK_NODES[node], True
    # Two weak operands of different kinds meet in a weak node; a strong operand makes the result strong.
    return node, False


def promote_types(a: Any, b: Any) -> DType:
    """The dtype that a binary operation on arrays of dtypes `a` and `b` gives."""
    # By identity: NumPy says that dtype("float64") == float.
    weak_a, weak_b = (any(t is python for python in (int, float, complex)) for t in (a, b))
    return promote_pair(canonical(a), weak_a, canonical(b), weak_b)[0]


def describe(dtype: DType, shape: tuple[Any, ...], weak: bool = False) -> str:
    """`float32[3,4]`, the way arrays are named in messages and printed graphs."""
    return f"{name(dtype)}[{','.join(map(str, shape))}]{'*' if weak else ''}"
