"""Products that sum over axes, of all rows or of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array
from ..trace.dtype import DType
from ..trace.errors import user_line
from .arguments import ArrayLike, applied, described, distinct_axes, of_one_dtype
from .elementwise import bitwise_and, ge, lt, select, sub
from .movement import broadcast_in_dim, broadcasted_iota, transpose
from .precision import PrecisionLike, check_precision
from .reductions import cumsum

DotDimensionNumbers: TypeAlias = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


def accumulated(name: str, arrays: list[Array], preferred: Any, precision: Any) -> tuple[list[Array], DType]:
    """The factors in a type in which a product can be summed that is asked for in `preferred`, and that
    type."""
    check_precision(name, precision)
    dtype = arrays[0].dtype
    target = dtype if preferred is None else dtypes.canonical(preferred)
    if dtype is dtypes.bool_ and target is dtypes.bool_:
        # Whether any of the products holds: cast to bool, their number says so.
        return [operators.to_dtype(a, dtypes.int32) for a in arrays], target
    if dtypes.promote_types(dtype, target) is not dtype:
        arrays = [operators.to_dtype(a, dtypes.promote_types(dtype, target)) for a in arrays]
    return arrays, target


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Sums of products over paired axes: `dimension_numbers` is ((lhs, rhs) contracting axes, (lhs, rhs)
    batch axes).

    The result has the batch axes, then the other axes of lhs, then those of rhs, and the dtype
    `preferred_element_type`, in which it is accumulated. Half precision is accumulated in float32 in any
    case, and float32 is never computed in less: `precision` changes nothing. Of bools it is whether any product holds.

    >>> x, y = tnp.ones((2, 3)), tnp.ones((4, 3))
    >>> lax.dot_general(x, y, (((1,), (1,)), ((), ())))
    Array([[3., 3., 3., 3.],
           [3., 3., 3., 3.]], dtype=float32)
    >>> batch, right = tnp.ones((7, 2, 3)), tnp.ones((3, 7, 4))
    >>> lax.dot_general(batch, right, (((2,), (0,)), ((0,), (1,)))).shape
    (7, 2, 4)
    >>> a = tnp.array([100, 100], dtype="int8")
    >>> lax.dot_general(a, a, (((0,), (0,)), ((), ())), preferred_element_type="int32")
    Array(20000, dtype=int32)
    """
    (x, y), dtype = accumulated(
        "dot_general", of_one_dtype("dot_general", lhs, rhs), preferred_element_type, precision
    )
    try:
        (_, _), (_, _) = dimension_numbers
        _ = [list(axes) for pair in dimension_numbers for axes in pair]
    except (TypeError, ValueError):
        raise ValueError(
            f"dot_general: dimension_numbers {dimension_numbers} must be ((axes of lhs, axes of rhs) to sum over, (the same) for "
            f"the batch), as (((1,), (0,)), ((), ())); at {user_line()}"
        ) from None
    pairs = [
        tuple([distinct_axes("dot_general", axes, a.ndim) for axes, a in zip(pair, (x, y), strict=True)])
        for pair in dimension_numbers
    ]
    return operators.to_dtype(applied(prims.dot_general, x, y, contract=pairs[0], batch_axes=pairs[1]), dtype)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
) -> Array:
    """The product of vectors and matrices: over the last axis of lhs and the first of rhs.

    With `dimension_numbers` it is `dot_general`.

    >>> lax.dot(tnp.array([[1, 2], [3, 4]]), tnp.array([1, 10]))
    Array([21, 43], dtype=int32)
    >>> lax.dot(tnp.ones((2, 3)), tnp.ones((3, 4))).shape
    (2, 4)
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
    x, y = operators.operand(lhs), operators.operand(rhs)
    if not 1 <= x.ndim <= 2 or not 1 <= y.ndim <= 2:
        raise TypeError(
            f"lax.dot multiplies vectors and matrices, not {described([x, y])}; at {user_line()}: use "
            "dot_general"
        )
    return dot_general(lhs, rhs, (((x.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """The matrix products over the last two axes, for each index of the other axes, which both have.

    >>> lax.batch_matmul(tnp.ones((5, 2, 3)), tnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    x, y = operators.operand(lhs), operators.operand(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ValueError(
            f"lax.batch_matmul needs two arrays with equally many axes, 2 or more, not {described([x, y])}; "
            f"at {user_line()}"
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)


class RaggedDotDimensionNumbers(NamedTuple):
    """Which axes are which in `ragged_dot_general`: those of `dot_general`, the axis of lhs of which consecutive parts are the
    groups, and the axis of rhs (if there is one) that has a matrix for each group.

    >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    >>> lax.ragged_dot_general(tnp.ones((5, 2)), tnp.ones((3, 2, 4)), tnp.array([2, 0, 3]), numbers).shape
    (5, 4)
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: ArrayLike | None = None,
) -> Array:
    """`dot_general` of each of consecutive parts of lhs, which have `group_sizes` (integers [groups]) along its ragged axis.

    If that axis is not contracted, a part is multiplied by its own slice of rhs along the group axis, and the result is that of
    `dot_general` without this axis; what no group has is zero. If it is contracted, rhs has the same groups along the axis that
    is contracted with it, and the result has one more axis, the first, with the product of each group. If it is a batch axis,
    groups change nothing. All groups are computed of all of lhs, under a mask. Precision and dtype are as for `dot_general`.

    >>> sums = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> x, y = tnp.array([[1], [2], [3]]), tnp.array([[1], [10], [100]])
    >>> lax.ragged_dot_general(x, y, tnp.array([2, 1]), sums)[:, 0, 0]
    Array([ 21, 300], dtype=int32)
    """
    numbers = ragged_dot_dimension_numbers
    x, y = of_one_dtype("ragged_dot_general", lhs, rhs)
    sizes = operators.operand(group_sizes)
    contracting, batch = numbers.dot_dimension_numbers
    ragged = distinct_axes("ragged_dot_general", numbers.lhs_ragged_dimensions, x.ndim)
    grouped = distinct_axes("ragged_dot_general", numbers.rhs_group_dimensions, y.ndim)
    if len(ragged) != 1 or sizes.ndim != 1 or not dtypes.is_integer(sizes.dtype) or group_offset is not None:
        raise ValueError(
            f"lax.ragged_dot_general of {described([x, y])} needs one ragged axis, group_sizes as integers [groups], not "
            f"{described([sizes])}, and no group_offset; at {user_line()}"
        )
    (along,), count = ragged, sizes.shape[0]
    contracted, batched = (
        distinct_axes("ragged_dot_general", axes, x.ndim) for axes in (contracting[0], batch[0])
    )
    inner = along in contracted or along in batched
    if inner != (not grouped) or any(y.shape[axis] != count for axis in grouped) or len(grouped) > 1:
        raise ValueError(
            f"lax.ragged_dot_general of {described([x, y])} in {count} groups along axis {along} of lhs: rhs needs one axis "
            f"of groups if that axis is not contracted, and none if it is, not {grouped}; at {user_line()}"
        )
    if along in batched:
        return dot_general(x, y, (contracting, batch), precision, preferred_element_type)
    # lhs once for each group, with zeros outside of it.
    shape = (count, *x.shape)
    ends = cumsum(operators.to_dtype(sizes, dtypes.int32))
    first, last = (
        broadcast_in_dim(v, shape, (0,)) for v in (sub(ends, operators.to_dtype(sizes, dtypes.int32)), ends)
    )
    place = broadcasted_iota(dtypes.int32, shape, along + 1)
    own = bitwise_and(ge(place, first), lt(place, last))
    parts = select(own, broadcast_in_dim(x, shape, range(1, x.ndim + 1)), operators.scalar(0, x.dtype))
    moved = [axis + 1 for axis in contracted], [axis + 1 for axis in batched]
    if grouped:
        both = ((*moved[0], 0), (*contracting[1], grouped[0])), (moved[1], batch[1])
        return dot_general(parts, y, both, precision, preferred_element_type)
    result = dot_general(
        parts, y, ((moved[0], contracting[1]), (moved[1], batch[1])), precision, preferred_element_type
    )
    at = len(batched)  # where the axis of groups is: after those of the batch
    return transpose(result, [at, *[axis for axis in range(result.ndim) if axis != at]])


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: ArrayLike | None = None,
) -> Array:
    """[m, k] by [groups, k, n] to [m, n]: consecutive rows of lhs, as many as `group_sizes` says, by the matrix of their group.

    Rows that no group has are zero. See `ragged_dot_general`.

    >>> rows, matrices = tnp.array([[1.0], [2.0], [3.0]]), tnp.array([[[1.0]], [[10.0]]])
    >>> lax.ragged_dot(rows, matrices, group_sizes=tnp.array([1, 2]))
    Array([[ 1.],
           [20.],
           [30.]], dtype=float32)
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset)
