"""Calls of LAPACK's and BLAS's routines, as what programs run decompositions by: with no Python between two of them.

NumPy brings a LAPACK, whose routines are found by their names in the library that `numpy.linalg` is linked with. A decomposition
says by which calls it is computed (`decomposition`), with all else, such as transposes, masks and NaN for what has no
result, written in array ops, which are parts of kernels. `lapack` is the op of one such call, for each matrix of a batch. It
comes into being when a graph is lowered, after all transforms."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..prim import Primitive, Sample, full_like
from ..uop import UOp, output
from .comparison import eq
from .movement import broadcast
from .selection import where

_LETTERS = {dtypes.float32: "s", dtypes.float64: "d"}
# How libraries spell a routine, and the size of their integers: OpenBLAS of NumPy's wheels, Accelerate, and the plain names.
_SPELLINGS = (
    ("scipy_{}_64_", dtypes.int64),
    ("{}_64_", dtypes.int64),
    ("{}$NEWLAPACK$ILP64", dtypes.int64),
    ("scipy_{}_", dtypes.int32),
    ("{}_", dtypes.int32),
)


class Read(NamedTuple):
    """The argument of a routine that is a source's matrix."""

    source: int


class Write(NamedTuple):
    """The argument that is a result's matrix, which begins as that of a source if there is one."""

    result: int
    source: int | None = None


class Work(NamedTuple):
    """The argument that is memory to work in: so many numbers of the matrices' type, or integers."""

    length: int
    integers: bool = False


# A routine's argument: a character, an integer, a number of the matrices' type, or memory.
Argument = str | int | float | Read | Write | Work


class Library(NamedTuple):
    """Where LAPACK's routines are: `address("dpotrf")`, 0 for one that is not there; and the dtype of its integers."""

    address: Callable[[str], int]
    integer: DType


@cache
def library() -> Library | None:
    """The LAPACK that NumPy uses; None if its routines are not to be found by name."""
    import numpy.linalg._umath_linalg as linked

    try:
        handle = ctypes.CDLL(linked.__file__)
    except (OSError, AttributeError, TypeError):
        return None
    for spelling, integer in _SPELLINGS:

        def address(routine: str, spelling: str = spelling) -> int:
            try:
                return ctypes.cast(getattr(handle, spelling.format(routine)), ctypes.c_void_p).value or 0
            except AttributeError:
                return 0

        if address("dpotrf") and address("spotrf"):
            return Library(address, integer)
    return None


def letter(dtype: DType) -> str:
    """The first letter of the names of routines for matrices of a dtype."""
    return _LETTERS[dtype]


def has(dtype: DType, *routines: str) -> bool:
    """Whether there are these routines (named without their first letter) for matrices of this dtype."""
    found = library()
    return (
        dtype in _LETTERS and found is not None and all(found.address(_LETTERS[dtype] + r) for r in routines)
    )


class NativeCall(NamedTuple):
    """One call as native code makes it: the routine's name and address, its arguments' kinds and values.

    `arguments` has for each argument the bytes of a constant, or a pair: of an array (a source's number, that of a result behind
    them, or one more for the memory to work in) and an offset in it. `strides` are the bytes from matrix to matrix of each array;
    `copies` are the pairs of a result and the source that it begins as."""

    routine: str
    address: int
    arguments: tuple[bytes | tuple[int, int], ...]
    strides: tuple[int, ...]
    copies: tuple[tuple[int, int], ...]
    times: int
    workspace: int


class Lapack(Primitive):
    """The results of a routine of LAPACK for each matrix of the sources' leading axes.

    `results` are the dtype and shape of each result for one matrix."""

    family = "foreign"
    params = ("routine", "arguments", "results")

    def out(self, *args: Any, routine: str, arguments: tuple[Argument, ...], results: tuple[Any, ...]) -> Any:
        lead = args[0].shape[:-2]
        return tuple([dtype for dtype, _ in results]), tuple([(*lead, *shape) for _, shape in results])

    def reference(
        self, *args: Any, routine: str, arguments: tuple[Argument, ...], results: tuple[Any, ...]
    ) -> Any:
        args = tuple([np.ascontiguousarray(a) for a in args])
        lead = args[0].shape[:-2]
        made = [np.empty((*lead, *shape), dtype) for dtype, shape in results]
        call = self.call(args, routine, arguments, results)
        work = np.empty(call.workspace, np.uint8)
        arrays = [*args, *made, work]
        for result, source in call.copies:
            np.copyto(arrays[result].reshape(-1), arrays[source].reshape(-1))
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(call.arguments))(call.address)
        constants = [a if isinstance(a, bytes) else None for a in call.arguments]
        for i in range(call.times):
            places = [
                ctypes.cast(ctypes.c_char_p(constant), ctypes.c_void_p).value
                if constant is not None
                else arrays[where[0]].ctypes.data + where[1] + i * call.strides[where[0]]
                for constant, where in zip(constants, call.arguments, strict=True)
            ]
            function(*places)
        return made

    def call(
        self, args: Sequence[Any], routine: str, arguments: Sequence[Argument], results: Sequence[Any]
    ) -> NativeCall:
        """The call, for sources of these dtypes and shapes."""
        found = library()
        assert found is not None, "it is made where there is a library"
        dtype, lead = args[0].dtype, len(args[0].shape) - 2
        strides = [prod(a.shape[lead:]) * a.dtype.itemsize for a in args]
        strides += [prod(shape) * d.itemsize for d, shape in results]
        work = len(strides)
        used = 0
        made: list[bytes | tuple[int, int]] = []
        copies = []
        for argument in arguments:
            if isinstance(argument, str):
                made.append(argument.encode())
            elif isinstance(argument, int):
                made.append(np.array(argument, found.integer).tobytes())
            elif isinstance(argument, float):
                made.append(np.array(argument, dtype).tobytes())
            elif isinstance(argument, Read):
                made.append((argument.source, 0))
            elif isinstance(argument, Write):
                made.append((len(args) + argument.result, 0))
                if argument.source is not None:
                    copies.append((len(args) + argument.result, argument.source))
            else:
                made.append((work, used))
                size = argument.length * (found.integer if argument.integers else dtype).itemsize
                used += -(-size // 64) * 64
        return NativeCall(
            letter(dtype) + routine,
            found.address(letter(dtype) + routine),
            tuple(made),
            (*strides, 0),
            tuple(copies),
            prod(args[0].shape[:lead]),
            used,
        )

    def samples(self) -> Iterator[Sample]:
        return iter(
            ()
        )  # it comes into being in programs alone, by the decompositions, of which there are samples


lapack = Lapack()


class Integers(NamedTuple):
    """The result of a routine that is an array of its integers, of this shape for one matrix."""

    shape: tuple[int, ...]


INFO = Integers(())  # 0 if all went well


def call(
    routine: str, sources: Sequence[UOp], arguments: Sequence[Argument], *results: tuple[int, ...] | Integers
) -> list[UOp]:
    """The results of a routine on UOps: for each matrix arrays of these shapes, in the sources' dtype or of integers."""
    found = library()
    assert found is not None
    dtype = sources[0].dtype
    described = tuple(
        [(found.integer, r.shape) if isinstance(r, Integers) else (dtype, tuple(r)) for r in results]
    )
    node = lapack.node(*sources, routine=routine, arguments=tuple(arguments), results=described)
    return [output(node, i) for i in range(len(results))]


def best_work(routine: str, dtype: DType, arguments: Sequence[Argument]) -> int:
    """The length of the work array with which a routine is fastest: what it says if it is asked by a length of -1.

    The first `Work` of the arguments is that array, and the integer behind it its length."""
    found = library()
    assert found is not None
    answers: list[Any] = []
    length = None
    for argument in arguments:
        if length == -1 and isinstance(argument, int):
            answers.append(np.array(-1, found.integer))
            length = 0
        elif isinstance(argument, str):
            answers.append(np.frombuffer(argument.encode(), np.uint8))
        elif isinstance(argument, int):
            answers.append(np.array(argument, found.integer))
        else:
            if length is None and isinstance(argument, Work):
                length = -1
                asked = len(answers)
            answers.append(np.zeros(2))
    address = found.address(letter(dtype) + routine)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(answers))(address)(*[a.ctypes.data for a in answers])
    return max(1, int(answers[asked].view(dtype)[0]))


def where_found(info: UOp, result: UOp) -> UOp:
    """The result of the matrices for which a routine found one (its `info` is 0), and NaN for the others."""
    good = broadcast(eq(info, full_like(info, 0)), shape=result.shape, axes=tuple(range(info.ndim)))
    return where(good, result, full_like(result, np.nan))


def factors_lu(columns: UOp) -> list[UOp]:
    """The LU factors of matrices given by their columns (n, m), in one array (..., n, m), also by columns, the number of the row
    that row i was exchanged with in step i (from 1), and `info`."""
    n, m = columns.shape[-2:]
    arguments = (m, n, Write(0, 0), m, Write(1), Write(2))
    return call("getrf", [columns], arguments, (n, m), Integers((min(m, n),)), INFO)
