"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from .. import lax
from ..lax.arguments import ArrayLike, described
from ..trace import dtype as dtypes
from ..trace import operators
from ..trace.array import Array
from ..trace.errors import user_line
from .normalization import logsumexp, softmax


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query · key · scale + bias) · value for each head: [B, T, N, H] like the query, or [T, N, H]
    without B.

    The query is [B, T, N, H], key and value [B, S, K, H] of its dtype, where K divides N (each serves N/K
    heads of the query). The bias (added) and the mask (bool: where false, the key is not seen) broadcast to
    [B, N, T, S]; the scale is 1/sqrt(H) if it is None. `is_causal` lets position t see keys 0 to t, a local
    window (left, right) those from t - left to t + right; sequence lengths int[B] hide keys and zero results
    beyond. Half precision is computed with in float32 up to the probabilities. A position that sees no key
    gives 0. With `return_residual` the result is a pair with the logsumexp of each position's logits, [B, T, N].
    `implementation` (None, "xla" or "cudnn") changes nothing.

    >>> q, k = tnp.ones((8, 16, 4, 32)), tnp.ones((8, 20, 2, 32))  # 4 heads, of which 2 at a time share a key
    >>> nn.dot_product_attention(q, k, k).shape
    (8, 16, 4, 32)
    >>> values = tnp.arange(4.0).reshape(4, 1, 1)
    >>> alike = tnp.zeros((4, 1, 1))
    >>> nn.dot_product_attention(alike, alike, values, is_causal=True).ravel()
    Array([0. , 0.5, 1. , 1.5], dtype=float32)
    >>> nn.dot_product_attention(alike, alike, values, local_window_size=(1, 0)).ravel()
    Array([0. , 0.5, 1.5, 2.5], dtype=float32)
    >>> nn.dot_product_attention(alike, alike, values, mask=tnp.array([True, False, True, False])).ravel()
    Array([1., 1., 1., 1.], dtype=float32)
    """
    if implementation not in (None, "xla", "cudnn"):
        raise ValueError(
            f"nn.dot_product_attention: implementation {implementation!r} must be None, 'xla' or 'cudnn'; at {user_line()}"
        )
    arrays = [operators.operand(x) for x in (query, key, value)]
    ndim = arrays[0].ndim
    if ndim not in (3, 4) or any(a.ndim != ndim for a in arrays):
        raise ValueError(
            f"nn.dot_product_attention needs 3 or 4 axes each, not {described(arrays)}; at {user_line()}"
        )
    queries, keys, values = (lax.broadcast_to_rank(a, 4) for a in arrays)
    size, positions, heads, depth = queries.shape
    _, length, groups, _ = keys.shape
    if keys.shape != values.shape or keys.shape[::3] != (size, depth) or heads % groups:
        raise ValueError(
            "nn.dot_product_attention needs query [B, T, N, H], key and value [B, S, K, H] with K dividing "
            f"N, not {described(arrays)}; at {user_line()}"
        )
    dtype = keys.dtype
    if not dtypes.is_float(dtype) or queries.dtype is not dtype or values.dtype is not dtype:
        raise TypeError(
            f"nn.dot_product_attention needs floats of one dtype, not {described(arrays)}; at {user_line()}"
        )
    wide = dtypes.accumulator(dtype)
    each = heads // groups

    def by_group(x: Array) -> Array:
        """[B, N, T, S] as [B, K, T, N/K, S], sizes of 1 staying as they are."""
        n = x.shape[1]
        split = (groups, each) if n == heads else (1, 1)
        return lax.transpose(lax.reshape(x, (x.shape[0], *split, *x.shape[2:])), (0, 1, 3, 2, 4))

    def four_axes(name: str, x: ArrayLike) -> Array:
        array = lax.broadcast_to_rank(operators.operand(x), 4)
        shape = (size, heads, positions, length)
        if array.ndim != 4 or any(n not in (1, m) for n, m in zip(array.shape, shape, strict=True)):
            found = described([array])
            raise ValueError(
                f"nn.dot_product_attention: the {name} {found} does not broadcast to {shape}; at "
                f"{user_line()}"
            )
        return by_group(array)

    grouped = lax.reshape(queries, (size, positions, groups, each, depth))
    logits: Any = lax.dot_general(
        grouped, keys, (((4,), (3,)), ((0, 2), (0, 2))), preferred_element_type=wide
    )
    logits = logits * (1 / math.sqrt(depth) if scale is None else scale)
    if bias is not None:
        logits = logits + operators.astype(four_axes("bias", bias), wide)
    seen: Any = None
    if mask is not None:
        seen = four_axes("mask", mask)
        if seen.dtype is not dtypes.bool_:
            raise TypeError(
                f"nn.dot_product_attention: the mask must be bool; at {user_line()}: add numbers as bias"
            )
    shape = (1, 1, positions, 1, length)
    row, column = lax.broadcasted_iota(dtypes.int32, shape, 2), lax.broadcasted_iota(dtypes.int32, shape, 4)
    rules = [lax.le(column, row)] if is_causal else []
    if local_window_size is not None:
        window = local_window_size
        left, right = (window, window) if isinstance(window, int) else window
        rules += [lax.le(row, lax.add(column, left)), lax.ge(row, lax.sub(column, right))]
    if query_seq_lengths is not None:
        rules.append(lax.lt(row, _lengths(query_seq_lengths, size)))
    if key_value_seq_lengths is not None:
        rules.append(lax.lt(column, _lengths(key_value_seq_lengths, size)))
    for rule in rules:
        seen = rule if seen is None else operators.bitwise_and(seen, rule)
    chances = operators.to_dtype(softmax(logits, axis=-1, where=seen), dtype)
    result = lax.dot_general(chances, values, (((4,), (1,)), ((0, 1), (0, 2))))
    result = lax.reshape(lax.transpose(result, (0, 2, 1, 3, 4)), arrays[0].shape)
    if not return_residual:
        return result
    sums = logsumexp(logits, -1, where=seen)  # [B, K, T, N/K]
    return result, operators.to_dtype(
        lax.reshape(lax.transpose(sums, (0, 2, 1, 3)), arrays[0].shape[:-1]), dtype
    )


def _lengths(lengths: ArrayLike, size: Any) -> Array:
    """Sequence lengths [B] as [B, 1, 1, 1, 1]."""
    array = operators.operand(lengths)
    if array.shape != (size,) or not dtypes.is_integer(array.dtype):
        raise ValueError(
            f"nn.dot_product_attention: lengths must be integers [{size}], not {described([array])}; at "
            f"{user_line()}"
        )
    return lax.reshape(operators.astype(array, dtypes.int32), (size, 1, 1, 1, 1))
