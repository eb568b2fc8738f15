"""tinyfn.nn: attention."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.nn.checks import check_gradient
from tinyfn import lax, nn
from tinyfn.transforms import grad, jit, vmap


def reference_attention(
    q: Any, k: Any, v: Any, bias: Any = 0.0, mask: Any = True, scale: float | None = None
) -> np.ndarray:
    heads = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, heads, axis=2), np.repeat(v, heads, axis=2)
    logits = (
        np.einsum("btnh,bsnh->bnts", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + bias
    )
    mask = np.broadcast_to(mask, logits.shape)
    powers = np.where(mask, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    total = powers.sum(-1, keepdims=True)
    chances = powers / np.where(total == 0, 1, total)
    return np.einsum("bnts,bsnh->btnh", chances, v)


def test_attention() -> None:
    generator = np.random.default_rng(1)
    q, k, v = (
        generator.normal(size=(2, 5, 4, 3)),
        generator.normal(size=(2, 6, 2, 3)),
        generator.normal(size=(2, 6, 2, 3)),
    )
    bias, mask = generator.normal(size=(2, 1, 5, 6)), generator.random((1, 4, 5, 6)) > 0.2
    t, s = np.arange(5)[:, None], np.arange(6)
    causal = s <= t
    attention = nn.dot_product_attention

    def check(found: Any, expected: np.ndarray) -> None:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)

    check(attention(q, k, v), reference_attention(q, k, v))
    check(attention(q, k, v, bias, mask), reference_attention(q, k, v, bias, mask))
    check(attention(q, k, v, bias[:1, :, :, :1]), reference_attention(q, k, v, bias[:1, :, :, :1]))
    check(attention(q, k, v, is_causal=True, scale=0.3), reference_attention(q, k, v, 0, causal, 0.3))
    check(attention(q, k, v, mask=mask, is_causal=True), reference_attention(q, k, v, 0, causal & mask))
    window = (s >= t - 1) & (s <= t + 2)
    check(attention(q, k, v, local_window_size=(1, 2)), reference_attention(q, k, v, 0, window))
    check(
        attention(q, k, v, local_window_size=1), reference_attention(q, k, v, 0, (s >= t - 1) & (s <= t + 1))
    )
    lengths = np.array([3, 5]), np.array([2, 6])
    inside = (t < lengths[0][:, None, None]) & (s < lengths[1][:, None, None])
    found = attention(q, k, v, query_seq_lengths=lengths[0], key_value_seq_lengths=lengths[1])
    check(found, reference_attention(q, k, v, 0, inside[:, None]))
    assert not np.asarray(found)[0, 3:].any()
    check(attention(q[0], k[0], v[0], is_causal=True), reference_attention(q, k, v, 0, causal)[0])
    check(vmap(attention)(q, k, v), reference_attention(q, k, v))
    check(jit(attention)(q, k, v, bias, mask), reference_attention(q, k, v, bias, mask))
    # A position that sees nothing gives 0, and no NaN to anything.
    check(attention(q, k, v, mask=np.zeros((1, 1, 5, 6), bool)), np.zeros_like(q))
    nothing = grad(
        lambda x: lax.reduce_sum(attention(x, k, v, mask=np.zeros((1, 1, 5, 6), bool)), (0, 1, 2, 3))
    )(q)
    assert not np.asarray(nothing).any()
    weights = generator.normal(size=q.shape)

    def loss(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return lax.reduce_sum(lax.mul(attention(q, k, v, bias, mask, is_causal=True), weights), (0, 1, 2, 3))

    arguments = [q, k, v, bias]
    for i in range(4):
        check_gradient(lambda x, i=i: loss(*arguments[:i], x, *arguments[i + 1 :]), arguments[i])
    for dtype, tolerance in (("float32", 2e-6), ("float16", 4e-3), (ml_dtypes.bfloat16, 3e-2)):
        narrow = [a.astype(dtype) for a in (q, k, v)]
        found = attention(*narrow, is_causal=True)
        assert found.dtype == narrow[0].dtype
        expected = reference_attention(*[a.astype(np.float64) for a in narrow], 0, causal)
        np.testing.assert_allclose(
            np.asarray(found).astype(np.float64), expected, rtol=tolerance, atol=tolerance
        )


def test_attention_errors() -> None:
    q, k = np.ones((2, 5, 4, 3)), np.ones((2, 6, 3, 3))
    for call, kind, match in (
        (lambda: nn.dot_product_attention(q, k, k), ValueError, "K dividing N"),
        (lambda: nn.dot_product_attention(q, q, q[:, :4]), ValueError, "query"),
        (lambda: nn.dot_product_attention(q[0, 0], q, q), ValueError, "3 or 4 axes"),
        (lambda: nn.dot_product_attention(q, q, q.astype(np.float32)), TypeError, "one dtype"),
        (lambda: nn.dot_product_attention(q, q, q, mask=np.ones((1, 1, 5, 5))), TypeError, "bool"),
        (lambda: nn.dot_product_attention(q, q, q, bias=np.ones((1, 3, 5, 5))), ValueError, "broadcast"),
        (lambda: nn.dot_product_attention(q, q, q, query_seq_lengths=np.arange(3)), ValueError, "lengths"),
    ):
        with pytest.raises(kind, match=match):
            call()
