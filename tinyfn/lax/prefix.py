"""associative_scan: all prefixes of a sequence combined, in a logarithm of its length of steps that each work on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, pytree
from ..trace.array import Array
from ..trace.errors import entry_point, user_line
from ..trace.tracing import describe_function
from ..transforms.arguments import Arguments
from .arguments import one_axis
from .movement import concatenate, expand_dims, reshape, rev, slice_in_dim

Leaves = list[Array]


@entry_point
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The i-th elements along `axis` of the result are the first i+1 of `elems` combined by fn, from the last on if `reverse`.

    fn is associative, and combines whole arrays: given two trees like `elems`, with any number of elements along the axis, it
    gives a tree of the same structure, dtypes and shapes. It is called about 2 log2(n) times, on O(n) elements in all
    (Blelloch, "Prefix sums and their applications", 1990). Raises ValueError if the sizes along the axis differ.

    >>> lax.associative_scan(tnp.add, tnp.array([1, 2, 3, 4]))
    Array([ 1,  3,  6, 10], dtype=int32)
    >>> lax.associative_scan(tnp.maximum, tnp.array([[3, 1, 2]]), reverse=True, axis=1)
    Array([[3, 2, 2]], dtype=int32)

    Of the recurrence h = a * h + b, the steps as pairs (a, b), which combine to steps of the same kind:

    >>> def combine(earlier, later):
    ...     return later[0] * earlier[0], later[0] * earlier[1] + later[1]
    >>> a, b = tnp.array([2.0, 3.0, 0.5]), tnp.array([1.0, 1.0, 1.0])
    >>> lax.associative_scan(combine, (a, b))[1]
    Array([1., 4., 3.], dtype=float32)
    """
    name = describe_function(fn)
    given = Arguments("associative_scan", fn, (elems,), {}, (0,), operators.operand)
    arrays = list(given.arrays)
    if not arrays:
        return elems
    axes = [one_axis("associative_scan", axis, a.ndim) for a in arrays]
    sizes = [a.shape[i] for a, i in zip(arrays, axes, strict=True)]
    if any(n != sizes[0] for n in sizes):
        found = "; ".join(f"`{given.name(i)}` has {n}" for i, n in enumerate(sizes))
        raise ValueError(
            f"associative_scan of {name}: the sizes along axis {axis} differ: {found}; at {user_line()}"
        )

    def combined(a: Leaves, b: Leaves) -> Leaves:
        ((left,), _), ((right,), _) = given.rebuild(a), given.rebuild(b)
        leaves, tree = pytree.flatten(fn(left, right))
        result = [operators.operand(leaf) for leaf in leaves]
        wanted = [(x.dtype, x.shape) for x in a]
        if tree != pytree.structure(left) or [(x.dtype, x.shape) for x in result] != wanted:
            raise TypeError(
                f"associative_scan of {name}: it must give a tree like those that it is given, of "
                f"{', '.join(dtypes.describe(*w) for w in wanted)}, not {operators.described(*result)} in {tree}; "
                f"at {user_line()}"
            )
        return result

    def every(values: Leaves, start: int, stop: int, stride: int = 1) -> Leaves:
        return [slice_in_dim(x, start, stop, stride, i) for x, i in zip(values, axes, strict=True)]

    def prefixes(values: Leaves, n: int) -> Leaves:
        if n < 2:
            return values
        pairs = combined(every(values, 0, n - 1, 2), every(values, 1, n, 2))
        odd = prefixes(pairs, n // 2)  # the results at 1, 3, 5, ...
        if n == 2:
            even = every(values, 0, 1)
        else:
            before = odd if n % 2 else every(odd, 0, n // 2 - 1)
            later = combined(before, every(values, 2, n, 2))
            even = [concatenate(pair, i) for *pair, i in zip(every(values, 0, 1), later, axes, strict=True)]
        return [_interleaved(a, b, i) for a, b, i in zip(even, odd, axes, strict=True)]

    turned = [rev(x, (i,)) for x, i in zip(arrays, axes, strict=True)] if reverse else arrays
    done = prefixes(turned, sizes[0])
    if reverse:
        done = [rev(x, (i,)) for x, i in zip(done, axes, strict=True)]
    ((result,), _) = given.rebuild(done)
    return result


def _interleaved(even: Array, odd: Array, axis: int) -> Array:
    """Elements of both along an axis by turns; the first has as many as the second, or one more."""
    n = odd.shape[axis]
    first = slice_in_dim(even, 0, n, axis=axis)
    both = concatenate([expand_dims(x, (axis + 1,)) for x in (first, odd)], axis + 1)
    merged = reshape(both, (*odd.shape[:axis], 2 * n, *odd.shape[axis + 1 :]))
    if even.shape[axis] == n:
        return merged
    return concatenate([merged, slice_in_dim(even, n, n + 1, axis=axis)], axis)
