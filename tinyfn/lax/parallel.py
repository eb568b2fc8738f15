"""Collectives: what the lanes of a vmap that has an `axis_name` do with each other's values.

    vmap(lambda x: x - lax.pmean(x, "batch"), axis_name="batch")(xs)

They are called in the function of the vmap, at any depth within it: in jitted functions, loops, branches and rules of custom
functions. Where `axis_name` may be a tuple of names, the lanes are those of all these axes together, of which the last name's
change fastest. Arguments may be pytrees; each leaf is treated alike. An argument that all lanes share counts once for each lane.

Derivatives within the vmap are those of all lanes together: the gradient of a lane's argument is the sum of what it contributes
to the results of all lanes, as in JAX.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, pytree
from ..trace.array import Array, is_scalar
from ..trace.errors import UnboundAxisError, user_line
from ..trace.prims import collectives
from ..trace.prims.movement import move_axis
from ..trace.tracing import axis_size as size_of
from ..trace.tracing import bound_axes
from .arguments import applied, described, one_axis
from .elementwise import convert_element_type
from .movement import reshape
from .reductions import reduce_max, reduce_min, reduce_sum

Groups = Sequence[Sequence[int]] | None


def _names(what: str, axis_name: Any) -> tuple[Any, ...]:
    """The axes meant, as a tuple of names that are bound; raises NameError for one that is not."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    if len(set(names)) != len(names):
        raise ValueError(f"{what}: the axes {names} are not distinct; at {user_line()}")
    for name in names:
        _size(what, name)
    return names


def _size(what: str, name: Any) -> Any:
    """The size of the axis of this name."""
    size = size_of(name)
    if size is None:
        others = [
            f"{other!r} (size {a.size}, of vmap of {a.function_name})" for other, a in bound_axes().items()
        ]
        known = (
            f"the axes that have a name there are {', '.join(others)}"
            if others
            else "no axis has a name there"
        )
        raise UnboundAxisError(
            f"{what} over the axis {name!r}: there is no vmap with axis_name={name!r} around it, and {known}; at {user_line()}: "
            f"call the function that it is in through vmap(..., axis_name={name!r})"
        )
    return size


def _one_name(what: str, axis_name: Any) -> Any:
    if isinstance(axis_name, (tuple, list)):
        if len(axis_name) != 1:
            raise NotImplementedError(
                f"{what} over the axes {tuple(axis_name)}: it takes one axis name; at {user_line()}: gather the lanes with "
                "all_gather, which takes several, and choose among them"
            )
        (axis_name,) = axis_name
    _size(what, axis_name)
    return axis_name


def _no_groups(what: str, groups: Groups) -> None:
    if groups is not None:
        raise NotImplementedError(
            f"{what}: axis_index_groups are not supported under vmap; at {user_line()}: map over two axes, one for the groups "
            "and one within them, each with a name of its own"
        )


def _map(function: Callable[[Array], Array], x: Any) -> Any:
    return pytree.map(lambda leaf: function(operators.operand(leaf)), x)


def _countable(x: Array) -> Array:
    return convert_element_type(x, "int32") if x.dtype is dtypes.bool_ else x


def _reduced(
    what: str, x: Any, axis_name: Any, groups: Groups, primitive: Any, positional: Callable[..., Array]
) -> Any:
    """A reduction over named axes, after one over axes of the array for integers among them."""
    _no_groups(what, groups)
    given = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    positions = [axis for axis in given if isinstance(axis, int)]
    names = _names(what, [axis for axis in given if not isinstance(axis, int)])

    def reduce(leaf: Array) -> Array:
        leaf = positional(leaf, positions) if positions else leaf
        return applied(primitive, leaf, axes=names) if names else leaf

    return _map(reduce, x)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The sum over all lanes of the axes, of x's shape and dtype (int32 for bool), the same in each lane.

    A Python number gives a Python number, that times the number of lanes: `psum(1, name)` is the axis' size. Integers among the
    names are axes of x. Raises NameError if there is no vmap with the name.

    >>> xs = tnp.array([1.0, 2.0, 3.0])
    >>> tinyfn.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(xs)
    Array([6., 6., 6.], dtype=float32)
    >>> tinyfn.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(tnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    >>> tinyfn.vmap(lambda x: x + lax.psum(1, "i"), axis_name="i")(xs)
    Array([4., 5., 6.], dtype=float32)
    >>> over_both = tinyfn.vmap(tinyfn.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
    >>> over_both(tnp.ones((2, 3)))
    Array([[6., 6., 6.],
           [6., 6., 6.]], dtype=float32)
    """
    if is_scalar(x):
        _no_groups("psum", axis_index_groups)
        size = prod([_size("psum", name) for name in _names("psum", axis_name)])
        if isinstance(size, int):
            return size * x
    return _reduced(
        "psum",
        pytree.map(lambda leaf: _countable(operators.operand(leaf)), x),
        axis_name,
        axis_index_groups,
        collectives.psum,
        reduce_sum,
    )


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The mean over all lanes of the axes, of x's shape, the same in each lane; of floats for integers.

    >>> tinyfn.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(tnp.array([1.0, 2.0, 6.0]))
    Array([-2., -1.,  3.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = axis_size(axis_name)
    return pytree.map(lambda leaf: leaf / size, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The greatest element over all lanes of the axes, of x's shape, the same in each lane; NaN if there is one.

    Lanes that share the greatest element share the derivative equally.

    >>> tinyfn.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(tnp.array([1, 3, 2]))
    Array([3, 3, 3], dtype=int32)
    """
    return _reduced("pmax", x, axis_name, axis_index_groups, collectives.pmax, reduce_max)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The least element over all lanes of the axes, of x's shape, the same in each lane; NaN if there is one.

    >>> tinyfn.vmap(lambda x: x - lax.pmin(x, "i"), axis_name="i")(tnp.array([1, 3, 2]))
    Array([0, 2, 1], dtype=int32)
    """
    return _reduced("pmin", x, axis_name, axis_index_groups, collectives.pmin, reduce_min)


def axis_size(axis_name: Any) -> Any:
    """The number of lanes of the axes: a Python int, unless the size is symbolic.

    >>> tinyfn.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(tnp.array([1, 2, 3]))
    Array([3, 6, 9], dtype=int32)
    """
    return prod([_size("axis_size", name) for name in _names("axis_size", axis_name)])


def axis_index(axis_name: Any) -> Array:
    """The lane's number along the axes: an int32 scalar, from 0 to `axis_size(axis_name) - 1`.

    >>> tinyfn.vmap(lambda x: x * lax.axis_index("i"), axis_name="i")(tnp.array([5, 5, 5]))
    Array([ 0,  5, 10], dtype=int32)
    """
    names = _names("axis_index", axis_name)
    index = operators.scalar(0, dtypes.int32)
    for i, name in enumerate(names):
        here = applied(collectives.axis_index, axes=(name,))
        index = here if i == 0 else index * _size("axis_index", name) + here
    return index


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Groups = None, axis: int = 0, tiled: bool = False
) -> Any:
    """What all lanes have, stacked along a new axis of the result, or concatenated along `axis` if `tiled`.

    Each lane has the same result. x of shape (4, 5), in each of 3 lanes, becomes (3, 4, 5), or (12, 5) if tiled.

    >>> tinyfn.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(tnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    >>> gathered = tinyfn.vmap(lambda x: lax.all_gather(x, "i", axis=1, tiled=True), axis_name="i")
    >>> gathered(tnp.ones((3, 4, 5))).shape
    (3, 4, 15)
    """
    _no_groups("all_gather", axis_index_groups)
    names = _names("all_gather", axis_name)

    def gather(leaf: Array) -> Array:
        at = one_axis("all_gather", axis, leaf.ndim + (not tiled))
        for name in reversed(names):
            count = _size("all_gather", name)
            leaf = applied(collectives.all_gather, leaf, axes=(name,), axis=at, count=count)
            if tiled or name is not names[-1]:
                leaf = _merged(leaf, at)
        return leaf

    return _map(gather, x)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """The sum over all lanes, of which lane i has element i along `scatter_dimension`, or the i-th of equal parts if `tiled`.

    x of shape (3, 4), in each of 3 lanes, becomes (4,); tiled, (6, 4) becomes (2, 4). Raises ValueError if the axis does not have
    as many elements as there are lanes, or, if tiled, a multiple of that.

    >>> x = tnp.array([[1, 2], [10, 20]])
    >>> tinyfn.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(x)
    Array([11, 22], dtype=int32)
    >>> tinyfn.vmap(lambda x: lax.psum_scatter(x, "i", tiled=True), axis_name="i")(tnp.ones((3, 6, 4))).shape
    (3, 2, 4)
    """
    _no_groups("psum_scatter", axis_index_groups)
    names = _names("psum_scatter", axis_name)

    def scatter(leaf: Array) -> Array:
        leaf = _countable(leaf)
        at = one_axis("psum_scatter", scatter_dimension, leaf.ndim)
        leaf = _parts("psum_scatter", leaf, at, axis_name, tiled)
        for name in names:
            leaf = _unmerged(leaf, at, _size("psum_scatter", name))
            leaf = applied(collectives.psum_scatter, leaf, axes=(name,), axis=at)
        return reshape(leaf, (*leaf.shape[:at], *leaf.shape[at + 1 :])) if not tiled else leaf

    return _map(scatter, x)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """In lane j, what each lane has as element j along `split_axis`, stacked along `concat_axis` in the order of those lanes.

    It exchanges an axis of the array for the axis of the vmap: the result has the shape of x without `split_axis`, and has an
    axis with an element for each lane at `concat_axis`. If `tiled`, equal parts along `split_axis` are sent instead, and put one
    after another along `concat_axis`: in each of 3 lanes (6, 4) becomes (2, 12). Raises ValueError if the sizes do not fit.

    >>> x = tnp.array([[1, 2], [3, 4]])
    >>> tinyfn.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    >>> tiled = tinyfn.vmap(lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), axis_name="i")
    >>> tiled(tnp.ones((3, 6, 4))).shape
    (3, 2, 12)
    """
    _no_groups("all_to_all", axis_index_groups)
    names = _names("all_to_all", axis_name)

    def exchange(leaf: Array) -> Array:
        split = one_axis("all_to_all", split_axis, leaf.ndim)
        concat = one_axis("all_to_all", concat_axis, leaf.ndim)
        leaf = _parts("all_to_all", leaf, split, axis_name, tiled)
        # The axis of parts in front, with an axis for each name.
        total = axis_size(axis_name)
        leaf = move_axis(_unmerged(leaf, split, total) if tiled else leaf, split, 0)
        leaf = reshape(leaf, (*[_size("all_to_all", name) for name in names], *leaf.shape[1:]))
        for i, name in enumerate(names):
            leaf = applied(collectives.all_to_all, leaf, axes=(name,), split=i, concat=i)
        leaf = move_axis(reshape(leaf, (total, *leaf.shape[len(names) :])), 0, concat)
        return _merged(leaf, concat) if tiled else leaf

    return _map(exchange, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """x with its axis `axis` exchanged for the vmap's, which must be as long: `all_to_all(x, axis_name, axis, axis)`.

    >>> tinyfn.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(tnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """In each lane what another one has: `perm` lists pairs (from, to); a lane that nothing is sent to has zeros.

    `lax.ppermute(x, "i", [(i, (i + 1) % n) for i in range(n)])` hands each lane's x to the next one. Raises ValueError if a lane
    sends or receives twice, or does not exist.

    >>> xs = tnp.array([10, 20, 30])
    >>> tinyfn.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), axis_name="i")(xs)
    Array([30, 10, 20], dtype=int32)
    >>> tinyfn.vmap(lambda x: lax.ppermute(x, "i", [(0, 1)]), axis_name="i")(xs)
    Array([ 0, 10,  0], dtype=int32)
    """
    name = _one_name("ppermute", axis_name)
    size = _fixed("ppermute", name)
    pairs = tuple([(operator.index(origin), operator.index(to)) for origin, to in perm])
    for which, lanes in (("sends", [p[0] for p in pairs]), ("receives", [p[1] for p in pairs])):
        wrong = [lane for lane in lanes if not 0 <= lane < size or lanes.count(lane) > 1]
        if wrong:
            what = (
                f"lane {wrong[0]} {which} twice" if 0 <= wrong[0] < size else f"there is no lane {wrong[0]}"
            )
            raise ValueError(
                f"ppermute over the axis {name!r} of size {size}: {what} in {list(pairs)}; at {user_line()}"
            )
    return _map(lambda leaf: applied(collectives.ppermute, leaf, axes=(name,), perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """In lane i what lane perm[i] has. Raises ValueError unless `perm` has the number of each lane once.

    >>> tinyfn.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(tnp.array([10, 20, 30]))
    Array([30, 10, 20], dtype=int32)
    """
    name = _one_name("pshuffle", axis_name)
    size = _fixed("pshuffle", name)
    sources = [operator.index(lane) for lane in perm]
    if sorted(sources) != list(builtins.range(size)):
        raise ValueError(
            f"pshuffle over the axis {name!r}: perm must have each of the numbers 0 to {size - 1} once, not {sources}; "
            f"at {user_line()}"
        )
    return ppermute(x, name, [(source, lane) for lane, source in enumerate(sources)])


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """What lane `source` has, in each lane. Raises ValueError if there is no such lane.

    >>> tinyfn.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(tnp.array([10, 20, 30]))
    Array([20, 20, 20], dtype=int32)
    """
    size = axis_size(axis_name)
    source = operator.index(source)
    if isinstance(size, int) and not 0 <= source < size:
        raise ValueError(
            f"pbroadcast over the axis {axis_name!r} of size {size}: there is no lane {source}; at {user_line()}"
        )
    return pytree.map(lambda gathered: gathered[source], all_gather(x, axis_name))


def _fixed(what: str, name: Any) -> int:
    size = _size(what, name)
    if not isinstance(size, int):
        raise ValueError(f"{what} over the axis {name!r} needs a fixed size, not {size!r}; at {user_line()}")
    return size


def _merged(x: Array, axis: int) -> Array:
    """An axis and the one after it as one."""
    return reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _unmerged(x: Array, axis: int, size: Any) -> Array:
    """An axis as two, of which the first has this size."""
    return reshape(x, (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :]))


def _parts(what: str, x: Array, axis: int, axis_name: Any, tiled: bool) -> Array:
    """x, after checking that along an axis it has an element for each lane, or equal parts if `tiled`."""
    size = axis_size(axis_name)
    if (x.shape[axis] % size != 0) if tiled else (x.shape[axis] != size):
        needed = "a multiple of that" if tiled else "as many (or tiled=True)"
        raise ValueError(
            f"{what} over {axis_name!r}, which has {size} lanes: axis {axis} of {described([x])} needs {needed}; at {user_line()}"
        )
    return x
