"""einsum: sums of products written by the letters of axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from ..trace.index import reshape
from ..trace.sint import bounds, is_symbolic
from .common import (
    DTypeLike,
    at_user,
    bind,
    cast,
    described,
    no_out,
    operands,
    permute,
)
from .triangles import diagonal


def contracted(x: Array, y: Array, contract: tuple[Any, Any], batch: tuple[Any, Any] = ((), ())) -> Array:
    """dot_general, also of bools, whose product is a logical one."""
    if x.dtype is dtypes.bool_:
        x, y = o.to_dtype(x, dtypes.int32), o.to_dtype(y, dtypes.int32)
        return o.not_equal(contracted(x, y, contract, batch), 0)
    return bind(prims.dot_general, (x, y), {"contract": contract, "batch_axes": batch})


def factors(what: str, preferred: DTypeLike, *xs: Any) -> list[Array]:
    """The operands of a product as arrays of one dtype, or of the one that its result is to have."""
    if not xs:
        raise ValueError(f"{what} needs an operand{at_user()}")
    arrays = operands(what, *xs)
    return arrays if preferred is None else [cast(a, preferred) for a in arrays]


def einsum(
    subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """The sum of products that the subscripts describe, as in "bij,bjk->bik": an axis per letter, "..." for
    any others.

    Letters that are not in the result are summed over; without "->" the result has, in alphabetical order,
    those that occur once. A letter that repeats within one operand takes its diagonal. Also as einsum(x, [0,
    1], y, [1, 2], [0, 2]). Operands are contracted in pairs, in the order that `einsum_path` finds: the best for up to
    five, else (or for "greedy") always the cheapest pair; with optimize=False as they come, or as a path says.

    >>> x = tnp.array([[1, 2], [3, 4]])
    >>> tnp.einsum("ij,j->i", x, tnp.array([1, 10]))
    Array([21, 43], dtype=int32)
    >>> tnp.einsum("ii->i", x), tnp.einsum("ij->", x)
    (Array([1, 4], dtype=int32), Array(10, dtype=int32))
    >>> tnp.einsum("...ij,jk", tnp.ones((5, 2, 3)), tnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    no_out("einsum", out)
    arrays, terms, result, sizes = _read(subscripts, operands, preferred_element_type)
    work = _alone(arrays, terms, result, sizes)
    for step in _path(tuple([term for _, term in work]), result, sizes, optimize)[0]:
        chosen = [work[i] for i in step]
        work = [pair for i, pair in enumerate(work) if i not in step]
        if len(chosen) > 2:  # NumPy finds no order of pairs better than another: the smallest first
            chosen.sort(key=lambda pair: prod([n for n in pair[0].shape if not is_symbolic(n)]))
        while len(chosen) > 1:
            (x, xs), (y, ys), *others = chosen
            needed = {*result, *[letter for _, t in (*work, *others) for letter in t]}
            chosen = [_pair(x, xs, y, ys, needed), *others]
        work.append(chosen[0])
    x, term = work[0]
    x, term = _summed(x, term, [a for a in term if a not in result])
    x = permute(x, [term.index(letter) for letter in result if letter in term])
    missing = [letter for letter in result if letter not in term]
    if missing:  # letters of size 1 in every operand
        kept = iter(x.shape)
        x = reshape(x, tuple([1 if letter in missing else next(kept) for letter in result]))
    return x


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], str]:
    """The order in which `einsum` contracts operands, for its `optimize`, and NumPy's description of it with its costs.

    Each step names operands by their places in the list, from which they are taken; their product is put at its end.

    >>> path, description = tnp.einsum_path("ij,jk,k->i", tnp.ones((9, 9)), tnp.ones((9, 9)), tnp.ones(9))
    >>> path
    [(1, 2), (0, 1)]
    """
    arrays, terms, result, sizes = _read(subscripts, operands, None)
    chosen = tuple([term for _, term in _alone(arrays, terms, result, sizes)])
    steps, text = _path(chosen, result, sizes, optimize)
    return list(steps), text


Letters = tuple[str, ...]
Path = tuple[tuple[int, ...], ...]


def _read(
    subscripts: Any, operands: tuple[Any, ...], preferred: DTypeLike
) -> tuple[list[Array], list[Letters], Letters, dict[str, Any]]:
    """The operands, the letters of their axes and of the result's, and the letters' sizes."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    arrays = factors("einsum", preferred, *operands)
    terms, result = _parse(subscripts, arrays)
    sizes = _sizes(subscripts, terms, arrays)
    for letter in result:
        if letter not in sizes:
            raise ValueError(
                f"einsum {subscripts!r}: {letter!r} is in the result but in no operand{at_user()}"
            )
    return arrays, terms, result, sizes


def _alone(
    arrays: list[Array], terms: list[Letters], result: Letters, sizes: dict[str, Any]
) -> list[tuple[Array, Letters]]:
    """Each operand after what can be done to it alone: diagonals, and sums over letters that only it has."""
    work = [_reduced(x, term, sizes) for x, term in zip(arrays, terms, strict=True)]
    for i, (x, term) in enumerate(work):
        others = {letter for j, (_, t) in enumerate(work) if j != i for letter in t}
        work[i] = _summed(x, term, [a for a in term if a not in others and a not in result])
    return work


def _from_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The subscripts in letters of einsum(x, [0, 1], y, [1, 2], [0, 2])."""

    def letters(term: Sequence[Any]) -> str:
        return "".join(
            "..." if i is Ellipsis else chr(ord("A") + i) if i < 26 else chr(ord("a") + i - 26) for i in term
        )

    operands, terms = arguments[0 : len(arguments) // 2 * 2 : 2], arguments[1::2]
    subscripts = ",".join(letters(t) for t in terms)
    if len(arguments) % 2:
        subscripts += "->" + letters(arguments[-1])
    return subscripts, operands


def _parse(subscripts: str, arrays: list[Array]) -> tuple[list[Letters], Letters]:
    """The letters of each operand's axes and of the result's; the axes of an ellipsis get the letters "0",
    "1", ..."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise ValueError(
            f"einsum {subscripts!r}: it describes {len(parts)} operands, not {len(arrays)}{at_user()}"
        )
    terms: list[Letters] = []
    most = 0
    for part, x in zip(parts, arrays, strict=True):
        before, dots, after = part.partition("...")
        if not all(c.isalpha() for c in before + after):
            raise ValueError(
                f"einsum {subscripts!r}: {part!r} is not made of letters and one '...'{at_user()}"
            )
        extra = x.ndim - len(before) - len(after)
        if extra < 0 or (extra and not dots):
            raise ValueError(
                f"einsum {subscripts!r}: {part!r} does not fit the axes of {described(x)}{at_user()}"
            )
        # Counted from the last, so that axes of ellipses of different lengths line up.
        terms.append((*before, *[str(i) for i in range(extra - 1, -1, -1)], *after))
        most = max(most, extra if dots else 0)
    ellipsis = [str(i) for i in range(most - 1, -1, -1)]
    if arrow:
        before, dots, after = right.partition("...")
        if not all(c.isalpha() for c in before + after):
            raise ValueError(
                f"einsum {subscripts!r}: {right!r} is not made of letters and one '...'{at_user()}"
            )
        result = (*before, *(ellipsis if dots else ()), *after)
        if len(set(result)) != len(result):
            raise ValueError(f"einsum {subscripts!r}: a letter repeats in the result{at_user()}")
        return terms, result
    every = [letter for term in terms for letter in term]
    once = sorted({letter for letter in every if every.count(letter) == 1 and letter.isalpha()})
    return terms, (*ellipsis, *once)


def _is_one(n: Any) -> bool:
    return not is_symbolic(n) and bool(n == 1)


def _sizes(subscripts: str, terms: list[Letters], arrays: list[Array]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for term, x in zip(terms, arrays, strict=True):
        for letter, n in zip(term, x.shape, strict=True):
            size = sizes.setdefault(letter, n)
            if _is_one(size):
                sizes[letter] = n
            elif size is not n and size != n and not _is_one(n):
                name = "..." if letter.isdigit() else letter
                raise ValueError(f"einsum {subscripts!r}: {name!r} has sizes {size} and {n}{at_user()}")
    return sizes


def _reduced(x: Array, term: Letters, sizes: dict[str, Any]) -> tuple[Array, Letters]:
    """The operand without axes of size 1 that others have longer, and with diagonals for repeated letters."""
    kept = [i for i, letter in enumerate(term) if not (_is_one(x.shape[i]) and not _is_one(sizes[letter]))]
    if len(kept) < len(term):
        x, term = reshape(x, tuple([x.shape[i] for i in kept])), tuple([term[i] for i in kept])
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = diagonal(x, 0, first, second)
            term = (*[a for i, a in enumerate(term) if i not in (first, second)], letter)
    return x, term


def _summed(x: Array, term: Letters, letters: Sequence[str]) -> tuple[Array, Letters]:
    if not letters:
        return x, term
    axes = tuple([i for i, letter in enumerate(term) if letter in letters])
    kept = tuple([letter for letter in term if letter not in letters])
    if x.dtype is dtypes.bool_:
        return bind(prims.reduce_or, (x,), {"axes": axes}), kept
    return bind(prims.reduce_sum, (x,), {"axes": axes}), kept


def _pair(x: Array, xs: Letters, y: Array, ys: Letters, needed: set[str]) -> tuple[Array, Letters]:
    """The product of two operands, summed over the letters that both have and nothing else needs."""
    shared = [letter for letter in xs if letter in ys]
    batch = [letter for letter in shared if letter in needed]
    summed = [letter for letter in shared if letter not in needed]
    free_x, free_y = [a for a in xs if a not in shared], [a for a in ys if a not in shared]

    def axes(term: Letters, letters: list[str]) -> tuple[int, ...]:
        return tuple([term.index(letter) for letter in letters])

    product = contracted(x, y, (axes(xs, summed), axes(ys, summed)), (axes(xs, batch), axes(ys, batch)))
    return product, (*batch, *free_x, *free_y)


def _path(
    terms: tuple[Letters, ...], result: Letters, sizes: dict[str, Any], optimize: Any
) -> tuple[Path, str]:
    """The operands to contract, step by step, and a description.

    Each step's operands are taken out of the list, and the product is put at its end."""
    count = len(terms)
    if isinstance(optimize, (list, tuple)):
        steps = tuple([tuple(step) for step in optimize if step != "einsum_path"])
        left = count
        for step in steps:
            within = step and len(set(step)) == len(step) and set(step) <= set(range(left))
            left = left + 1 - len(step) if within else 0
        if left != 1:
            raise ValueError(f"einsum: the path {optimize!r} does not contract {count} operands{at_user()}")
        return steps, "as given"
    if optimize not in (True, False, "auto", "greedy", "optimal"):
        raise ValueError(
            f"einsum: optimize must be True, False, 'auto', 'greedy', 'optimal' or a path, not {optimize!r}{at_user()}"
        )
    if optimize is False or count <= 2:
        return ((0, 1), *[(0, count - i) for i in range(2, count)]) if count > 1 else (), "in order"
    known = tuple([(letter, min(bounds(n)[1], 1024) if is_symbolic(n) else n) for letter, n in sizes.items()])
    return _found_path(terms, result, known, "greedy" if optimize is True else optimize)


@lru_cache(maxsize=512)
def _found_path(
    terms: tuple[Letters, ...], result: Letters, sizes: tuple[tuple[str, int], ...], kind: str
) -> tuple[Path, str]:
    """NumPy's path for operands of these axes, and its description of it."""
    if kind == "auto":
        kind = "optimal" if len(terms) <= 5 else "greedy"  # the best path of many takes long to find
    if len(sizes) > len(ascii_letters):
        return ((0, 1),) * (len(terms) - 1), "in order: NumPy searches no paths for that many letters"
    # Letters that NumPy knows stay as they are, for its description.
    free = iter([a for a in ascii_letters if a not in dict(sizes)])
    names = {letter: letter if letter in ascii_letters else next(free) for letter, _ in sizes}
    size = dict(sizes)
    subscripts = [
        ",".join(["".join([names[a] for a in term]) for term in terms]),
        "".join([names[a] for a in result]),
    ]
    # It looks at shapes alone.
    shapes = [np.broadcast_to(np.int8(0), [size[a] for a in term]) for term in terms]
    (_, *steps), text = np.einsum_path("->".join(subscripts), *shapes, optimize=kind)
    return tuple([tuple(step) for step in steps]), text
