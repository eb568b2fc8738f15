"""Array: an immutable array of numbers, as NumPy's but never changed in place.

A concrete Array holds a NumPy buffer. Its subclass Tracer (in `tracing`) stands for an array in a function that is being
traced. Operators promote dtypes and broadcast shapes as described in `operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtype as dtypes
from . import errors
from .dtype import DType
from .errors import DeletedArrayError, user_line

LINE = 64  # bytes: a cache line, and the widest vector
ALIGNED = 4096  # bytes: copies from here on begin at a cache line

if TYPE_CHECKING:
    from .indexing import At

_new = object.__new__


class Array:
    """An immutable array; make one with `tinyfn.numpy.array` or any function of `tinyfn.numpy`.

    >>> x = tnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes, x.device
    ((2, 3), 2, 6, dtype('float32'), 4, 24, 'cpu')
    >>> np.asarray(x), x.tolist(), x[1, 2].item()
    (array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 6.0)
    >>> x.at[0, 0].set(9.0)[0]  # x itself stays as it is
    Array([9., 2., 3.], dtype=float32)
    >>> x.is_deleted(), x.block_until_ready() is x
    (False, True)
    """

    __slots__ = ("__weakref__", "_value", "weak_type")
    _value: np.ndarray | None
    # Whether it came from Python scalars alone, and so takes the dtype of what it is combined with.
    weak_type: bool

    def __init__(self, *args: Any, **kwargs: Any):
        raise TypeError(
            f"Array is no constructor; at {user_line()}: make an array with tinyfn.numpy.array(...)"
        )

    @property
    def value(self) -> np.ndarray:
        """The buffer; raises DeletedArrayError if the array has been donated.

        >>> tnp.arange(3).value
        array([0, 1, 2], dtype=int32)
        """
        value = self._value
        if value is None:
            raise DeletedArrayError(
                f"this array was donated to a jitted function, which may have reused its memory; at {user_line()}: "
                "use the function's result instead, or do not list the argument in donate_argnums"
            )
        return value

    @property
    def dtype(self) -> DType:
        """The type of the elements, as a NumPy dtype."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The size along each axis."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        size: Any = 1
        for n in self.shape:
            size = size * n
        return size

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """The number of bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where the elements are."""
        return "cpu"

    def is_deleted(self) -> bool:
        """Whether the array has been donated, so that its value is gone.

        >>> x = tnp.zeros(3)
        >>> y = tinyfn.jit(lambda x: x + 1, donate_argnums=0)(x)
        >>> x.is_deleted(), y.is_deleted()
        (True, False)
        """
        return self._value is None

    def block_until_ready(self) -> Array:
        """The array itself: on the CPU its value is there when it is returned."""
        return self

    def _concrete(self, attempt: str, error: type[Exception]) -> np.ndarray:
        """The value, for `attempt`; a traced array raises `error` if its value is not known."""
        return self.value

    # Conversions

    def _number(self, attempt: str) -> None:
        """Raise TypeError if the elements are random keys, which have no value as numbers."""
        if self.dtype is dtypes.key:
            described = dtypes.describe(self.dtype, self.shape)
            raise TypeError(f"can't {attempt}: it is {described}; at {user_line()}: {dtypes.KEY_ADVICE}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._number("convert it to a NumPy array")
        value = self._concrete("convert it to a NumPy array", errors.TracerArrayConversionError)
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(
                    f"can't view {dtypes.describe(value.dtype, value.shape)} as {dtype} without a copy"
                )
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._number("export it with DLPack")
        value = self._concrete("export it with DLPack", errors.TracerArrayConversionError)
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        options: dict[str, Any] = {name: option for name, option in given.items() if option is not None}
        if copy is False or (max_version is not None and max_version >= (1, 0)):
            return value.__dlpack__(**options)
        # A consumer that knows only the old protocol can't be told that the buffer is read-only, so it gets a copy.
        return value.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def item(self, *index: int) -> Any:
        """The Python scalar of an array with one element (ValueError if there are others), or of the element at the index.

        >>> tnp.array([5]).item(), tnp.array([[1, 2], [3, 4]]).item(1, 0)
        (5, 3)
        """
        self._number("take its item()")
        value = self._concrete("take its item()", errors.ConcretizationError)
        if not index and value.size != 1:
            raise ValueError(
                f"item() takes the only element, but there are {value.size} in {dtypes.describe(value.dtype, value.shape)}; at "
                f"{errors.user_line()}: give an index, or use tolist()"
            )
        return value.item(*index)

    def tolist(self) -> Any:
        """The elements as (nested lists of) Python scalars.

        >>> tnp.array([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        self._number("make a list of it")
        return self._concrete("make a list of it", errors.ConcretizationError).tolist()

    def __bool__(self) -> bool:
        self._number("use it as a condition")
        value = self._concrete(
            "use it as a condition (`if`, `while`, `and`, `or`, `not`)", errors.TracerBoolConversionError
        )
        if value.size != 1:
            described = dtypes.describe(value.dtype, value.shape)
            raise ValueError(f"the truth of {described} is ambiguous; use .any() or .all(); at {user_line()}")
        return bool(value)

    def _scalar(self, attempt: str, error: type[Exception]) -> np.ndarray:
        self._number(attempt)
        value = self._concrete(attempt, error)
        if value.size != 1:
            described = dtypes.describe(value.dtype, value.shape)
            raise TypeError(
                f"only an array with one element can be made a Python number, not {described}; at {user_line()}"
            )
        return value.reshape(())

    def __int__(self) -> int:
        return int(self._scalar("make a Python int of it", errors.ConcretizationError))

    def __float__(self) -> float:
        return float(self._scalar("make a Python float of it", errors.ConcretizationError))

    def __complex__(self) -> complex:
        return complex(self._scalar("make a Python complex of it", errors.ConcretizationError))

    def __index__(self) -> int:
        value = self._concrete(
            "use it as a Python index, length or count", errors.TracerIntegerConversionError
        )
        if value.ndim or value.dtype.kind not in "iu":
            described = dtypes.describe(value.dtype, value.shape)
            raise TypeError(
                f"only an integer scalar can be a Python index, length or count, and {described} is none"
            )
        return int(value)

    def __hash__(self) -> int:
        raise TypeError(
            f"arrays are not hashable; at {user_line()}: use Python numbers (x.item(), or a tuple of them) as a key"
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(
                f"{dtypes.describe(self.dtype, ())} is a scalar and has no length; at {user_line()}"
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError(
                f"{dtypes.describe(self.dtype, ())} is a scalar: can't iterate over it; at {user_line()}"
            )
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 and spec else format(str(self), spec)

    def __repr__(self) -> str:
        if self._value is None:
            return "Array(<donated>)"
        value = self._value
        if value.dtype is dtypes.key:
            words = np.ascontiguousarray(value).view(np.uint32).reshape(*value.shape, 2)
            text = np.array2string(words, separator=", ", threshold=1000)
            return f"Array(shape={value.shape}, dtype={dtypes.KEY_NAME}, words=\n{text})"
        text = np.array2string(value, separator=", ", prefix="Array(", threshold=1000)
        return f"Array({text}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return repr(self) if self.value.dtype is dtypes.key else str(self.value)

    def __reduce__(self) -> Any:
        return _unpickle, (np.asarray(self.value), self.weak_type)

    def __delitem__(self, index: Any) -> None:
        raise TypeError(
            f"arrays are immutable; at {user_line()}: instead of del x[index] write x = tinyfn.numpy.delete(x, index)"
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"arrays are immutable; at {user_line()}: instead of x[index] = value write x = x.at[index].set(value)"
        )

    if TYPE_CHECKING:  # what `operators` and `tinyfn.numpy` put on the class
        T: Array
        mT: Array
        at: At

        def __add__(self, other: Any, /) -> Array: ...
        def __radd__(self, other: Any, /) -> Array: ...
        def __sub__(self, other: Any, /) -> Array: ...
        def __rsub__(self, other: Any, /) -> Array: ...
        def __mul__(self, other: Any, /) -> Array: ...
        def __rmul__(self, other: Any, /) -> Array: ...
        def __truediv__(self, other: Any, /) -> Array: ...
        def __rtruediv__(self, other: Any, /) -> Array: ...
        def __floordiv__(self, other: Any, /) -> Array: ...
        def __rfloordiv__(self, other: Any, /) -> Array: ...
        def __mod__(self, other: Any, /) -> Array: ...
        def __rmod__(self, other: Any, /) -> Array: ...
        def __pow__(self, other: Any, /) -> Array: ...
        def __rpow__(self, other: Any, /) -> Array: ...
        def __matmul__(self, other: Any, /) -> Array: ...
        def __rmatmul__(self, other: Any, /) -> Array: ...
        def __and__(self, other: Any, /) -> Array: ...
        def __rand__(self, other: Any, /) -> Array: ...
        def __or__(self, other: Any, /) -> Array: ...
        def __ror__(self, other: Any, /) -> Array: ...
        def __xor__(self, other: Any, /) -> Array: ...
        def __rxor__(self, other: Any, /) -> Array: ...
        def __lshift__(self, other: Any, /) -> Array: ...
        def __rlshift__(self, other: Any, /) -> Array: ...
        def __rshift__(self, other: Any, /) -> Array: ...
        def __rrshift__(self, other: Any, /) -> Array: ...
        def __divmod__(self, other: Any, /) -> tuple[Array, Array]: ...
        def __lt__(self, other: Any, /) -> Array: ...
        def __le__(self, other: Any, /) -> Array: ...
        def __gt__(self, other: Any, /) -> Array: ...
        def __ge__(self, other: Any, /) -> Array: ...
        def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def __getitem__(self, index: Any, /) -> Array: ...
        def astype(self, dtype: Any, /, *, copy: bool = False) -> Array: ...
        def reshape(self, *shape: Any) -> Array: ...
        def transpose(self, *axes: Any) -> Array: ...
        def sum(self, axis: Any = None, **options: Any) -> Array: ...
        def mean(self, axis: Any = None, **options: Any) -> Array: ...
        def prod(self, axis: Any = None, **options: Any) -> Array: ...
        def max(self, axis: Any = None, **options: Any) -> Array: ...
        def min(self, axis: Any = None, **options: Any) -> Array: ...
        def all(self, axis: Any = None, **options: Any) -> Array: ...
        def any(self, axis: Any = None, **options: Any) -> Array: ...
        def std(self, axis: Any = None, **options: Any) -> Array: ...
        def var(self, axis: Any = None, **options: Any) -> Array: ...
        def argmax(self, axis: Any = None, **options: Any) -> Array: ...
        def argmin(self, axis: Any = None, **options: Any) -> Array: ...
        def cumsum(self, axis: Any = None, **options: Any) -> Array: ...
        def cumprod(self, axis: Any = None, **options: Any) -> Array: ...
        def ravel(self, *args: Any, **options: Any) -> Any: ...
        def flatten(self, *args: Any, **options: Any) -> Any: ...
        def squeeze(self, *args: Any, **options: Any) -> Any: ...
        def swapaxes(self, *args: Any, **options: Any) -> Any: ...
        def clip(self, *args: Any, **options: Any) -> Any: ...
        def round(self, *args: Any, **options: Any) -> Any: ...
        def conj(self, *args: Any, **options: Any) -> Any: ...
        def dot(self, *args: Any, **options: Any) -> Any: ...
        def take(self, *args: Any, **options: Any) -> Any: ...
        def sort(self, *args: Any, **options: Any) -> Any: ...
        def argsort(self, *args: Any, **options: Any) -> Any: ...
        def repeat(self, *args: Any, **options: Any) -> Any: ...
        def diagonal(self, *args: Any, **options: Any) -> Any: ...
        def trace(self, *args: Any, **options: Any) -> Any: ...
        def copy(self, *args: Any, **options: Any) -> Any: ...
        def ptp(self, *args: Any, **options: Any) -> Any: ...
        def view(self, *args: Any, **options: Any) -> Any: ...
        def nonzero(self, *args: Any, **options: Any) -> Any: ...
        def searchsorted(self, *args: Any, **options: Any) -> Any: ...
        def choose(self, *args: Any, **options: Any) -> Any: ...
        def compress(self, *args: Any, **options: Any) -> Any: ...
        def argpartition(self, *args: Any, **options: Any) -> Any: ...


def wrap(value: np.ndarray, weak_type: bool = False) -> Array:
    """An Array of a buffer that nothing else will change."""
    value.flags.writeable = False
    array = _new(Array)
    array._value = value
    array.weak_type = weak_type
    return array


def own(value: Any, weak_type: bool = False) -> Array:
    """An Array of what a NumPy function gave: views that would keep alive or hide much other memory are copied."""
    if type(value) is not np.ndarray:
        value = np.asarray(value)
    base = value.base
    if base is not None and (0 in value.strides or getattr(base, "nbytes", 0) > 2 * value.nbytes):
        value = value.copy()
    return wrap(value, weak_type)


def buffer(value: np.ndarray, copy: bool) -> np.ndarray:
    """A NumPy array with its dtype made canonical: in the machine's byte order, and the very object for that type.

    (Arrays that were pickled have dtypes of their own, which are equal to the canonical ones but not identical.)"""
    dtype = dtypes.canonical(value.dtype)
    if copy or value.dtype.byteorder not in "=|":
        value = _copied(value, dtype)
    return value if value.dtype is dtype else value.view(dtype)


def _copied(value: np.ndarray, dtype: DType) -> np.ndarray:
    """A copy in row-major order; a large one is aligned, since vectors across two cache lines take twice as long."""
    size = value.size * dtype.itemsize
    if size < ALIGNED:
        return np.array(value, dtype, order="C")
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    result = memory[begin : begin + size].view(dtype).reshape(value.shape)
    np.copyto(result, value)
    return result


def _unpickle(value: np.ndarray, weak_type: bool) -> Array:
    return wrap(buffer(value, copy=False), weak_type)


def is_scalar(x: Any) -> bool:
    """Whether x is one of Python's numbers."""
    return type(x) in dtypes.PYTHON_TYPES


def from_scalar(x: Any, dtype: DType | None = None) -> np.ndarray:
    """A Python number as a 0-d buffer of its default dtype, or of the one given; raises OverflowError if it does not fit."""
    dtype = dtype or dtypes.PYTHON_TYPES[type(x)]
    if dtype is dtypes.key and x:
        raise TypeError(f"the Python number {x} is no key; at {user_line()}: {dtypes.KEY_ADVICE}")
    if type(x) is int and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= x <= info.max:
            raise OverflowError(
                f"the Python integer {x} does not fit into {dtype.name}; at {user_line()}: "
                "give it a wider dtype, for example tinyfn.numpy.array(x, 'int64')"
            )
    return np.asarray(x, dtype)


def as_array(x: Any) -> Array:
    """Anything that stands for an array as an Array: Python numbers are weak, NumPy's arrays are copied.

    An object of another library says with `__jax_array__()`, or `__array__()`, which array it stands for. Raises TypeError
    for anything else (lists too: `tinyfn.numpy.array` takes those)."""
    if isinstance(x, Array):
        return x
    if type(x) in dtypes.PYTHON_TYPES:
        return wrap(from_scalar(x), weak_type=type(x) is not bool)
    if isinstance(x, np.ndarray):
        return wrap(buffer(x, copy=x.flags.writeable or x.base is not None))
    if isinstance(x, np.generic):
        return wrap(buffer(np.asarray(x), copy=False))
    convert = getattr(x, "__jax_array__", None)
    if convert is not None:
        return as_array(convert())
    if hasattr(x, "__array__") and not isinstance(x, (list, tuple)):
        return as_array(np.asarray(x))
    if isinstance(x, (bool, int, float, complex)):  # subclasses, as an IntEnum
        kinds: tuple[Any, ...] = (bool, int, float, complex)
        return as_array(next(t for t in kinds if isinstance(x, t))(x))
    hint = " (use tinyfn.numpy.array(...) on it first)" if isinstance(x, (list, tuple)) else ""
    raise TypeError(f"{errors.kind_of(x)} is not an array or a number{hint}")


errors.entry_methods(
    Array, "__array__", "__bool__", "__complex__", "__contains__", "__delitem__", "__dlpack__", "__float__", "__format__",
    "__hash__", "__index__", "__init__", "__int__", "__iter__", "__len__", "__reduce__", "__setitem__", "__str__", "item",
    "tolist",
)  # fmt: skip


def install(methods: dict[str, Callable[..., Any]]) -> None:
    """Give Array these methods and operators, which are functions of the layers above."""
    for name, function in methods.items():
        setattr(Array, name, errors.as_entry_point(function, name))
