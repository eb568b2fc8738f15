"""Functions of elements as objects with NumPy's methods: `add.reduce`, `multiply.outer`, `maximum.at`, ..."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

from ..trace.errors import entry_methods, entry_point
from .common import ArrayLike, Axis, DTypeLike, no_out

if TYPE_CHECKING:
    from ..trace.array import Array


# A partial, since calling one costs hardly more than calling the function itself.
class ufunc(partial[Any]):
    """A function of elements that works on whole arrays. Those of two arguments and one result have the methods below.

    `frompyfunc` makes one of a function of scalars.

    >>> tnp.add
    <ufunc 'add'>
    >>> tnp.maximum(tnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    >>> tnp.add.nin, tnp.add.nout, tnp.add.nargs, tnp.add.identity
    (2, 1, 3, 0)
    """

    nin: int
    nout: int
    identity: Any

    if TYPE_CHECKING:

        def __call__(self, *args: ArrayLike) -> Array: ...

    @property
    def nargs(self) -> int:
        """The number of arguments and results."""
        return self.nin + self.nout

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        # The function that it wraps can't be found by its name, which is that of this object.
        return self.__qualname__ if self.nin + self.nout <= 3 and self.is_named else super().__reduce__()  # type: ignore[attr-defined]

    is_named = True

    def reduce(
        self,
        a: ArrayLike,
        axis: Axis = 0,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The function of the first two elements along an axis (None: all axes, in order), of that and the third, ...

        `initial` comes before the first element; elements where the mask `where` is false are left out. A mask, or an
        axis without elements, needs `initial` or a function with an identity.

        >>> tnp.add.reduce(tnp.array([[1, 2], [3, 4]]))
        Array([4, 6], dtype=int32)
        >>> tnp.subtract.reduce(tnp.array([10, 3, 2]))
        Array(5, dtype=int32)
        >>> tnp.maximum.reduce(tnp.array([1, 5, 3]), initial=0, where=tnp.array([True, False, True]))
        Array(3, dtype=int32)
        """
        from .ufunc_methods import reduce

        no_out("reduce", out)
        return reduce(self, a, axis, dtype, keepdims, initial, where)

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Array:
        """What `reduce` has after each element along an axis, in the shape of the argument.

        >>> tnp.maximum.accumulate(tnp.array([1, 5, 3, 7]))
        Array([1, 5, 5, 7], dtype=int32)
        """
        from .ufunc_methods import accumulate

        no_out("accumulate", out)
        return accumulate(self, a, axis, dtype)

    def reduceat(
        self, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None
    ) -> Array:
        """`reduce` of the elements from each index up to the next one (of the one element, where the next is not greater).

        >>> tnp.add.reduceat(tnp.array([1, 2, 3, 4]), tnp.array([0, 2, 1]))
        Array([3, 3, 9], dtype=int32)
        """
        from .ufunc_methods import reduceat

        no_out("reduceat", out)
        return reduceat(self, a, indices, axis, dtype)

    def outer(self, a: ArrayLike, b: ArrayLike, /) -> Array:
        """The function of each element of `a` with each of b: a's axes come first.

        >>> tnp.subtract.outer(tnp.array([10, 20]), tnp.array([1, 2, 3]))
        Array([[ 9,  8,  7],
               [19, 18, 17]], dtype=int32)
        """
        from .ufunc_methods import outer

        return outer(self, a, b)

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
        """`a` with the function applied to its elements at the indices (and those of b), once for each time that one is named.

        It needs inplace=False, since arrays do not change.

        >>> tnp.add.at(tnp.array([1, 2, 3]), tnp.array([0, 0, 2]), 10, inplace=False)
        Array([21,  2, 13], dtype=int32)
        """
        from .ufunc_methods import at

        return at(self, a, indices, b, inplace)


entry_methods(ufunc, "reduce", "accumulate", "reduceat", "outer", "at")


def make_ufunc(function: Callable[..., Any], nin: int, nout: int = 1, identity: Any = None) -> ufunc:
    """The function of elements as an object with methods."""
    made = ufunc(entry_point(function))
    update_wrapper(made, function)
    made.nin, made.nout, made.identity = nin, nout, identity
    return made


def with_methods(nin: int = 2, identity: Any = None) -> Callable[[Callable[..., Array]], ufunc]:
    """Make a function of `nin` arrays a `ufunc`; `identity` is the e with f(e, x) = x, if there is one."""
    return lambda function: make_ufunc(function, nin, 1, identity)
