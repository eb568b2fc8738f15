"""A small transformer, written as a user would: its gradient, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import nn, optax_like, random

VOCABULARY, LENGTH, WIDTH, HEADS = 11, 8, 32, 4


def init(key: Any, blocks: int = 2) -> Any:
    keys = iter(random.split(key, 2 + 6 * blocks))

    def dense(rows: int, columns: int) -> Any:
        return random.normal(next(keys), (rows, columns)) / np.sqrt(rows)

    norm = {"scale": tnp.ones(WIDTH), "bias": tnp.zeros(WIDTH)}
    return {
        "tokens": random.normal(next(keys), (VOCABULARY, WIDTH)) * 0.1,
        "positions": random.normal(next(keys), (LENGTH, WIDTH)) * 0.1,
        "blocks": [
            {
                "norm1": norm, "norm2": norm, "q": dense(WIDTH, WIDTH), "k": dense(WIDTH, WIDTH), "v": dense(WIDTH, WIDTH),
                "out": dense(WIDTH, WIDTH), "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH),
            }
            for _ in range(blocks)
        ],
        "norm": norm,
    }  # fmt: skip


def layer_norm(p: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / tnp.sqrt(variance + 1e-5) * p["scale"] + p["bias"]


def attention(p: Any, x: Any) -> Any:
    length = x.shape[0]
    q, k, v = (tnp.einsum("td,dhe->hte", x, p[name].reshape(WIDTH, HEADS, -1)) for name in "qkv")
    scores = tnp.einsum("hqe,hke->hqk", q, k) / np.sqrt(WIDTH // HEADS)
    causal = tnp.tril(tnp.ones((length, length), bool))
    weights = nn.softmax(tnp.where(causal, scores, -1e30))
    return tnp.einsum("hqk,hke->qhe", weights, v).reshape(length, WIDTH) @ p["out"]


def logits(params: Any, tokens: Any) -> Any:
    """One sequence [T] to logits [T, vocabulary]; vmap makes it a batch."""
    x = tnp.take(params["tokens"], tokens, axis=0) + params["positions"][: tokens.shape[0]]
    for p in params["blocks"]:
        x = x + attention(p, layer_norm(p["norm1"], x))
        x = x + nn.gelu(layer_norm(p["norm2"], x) @ p["up"]) @ p["down"]
    return layer_norm(params["norm"], x) @ params["tokens"].T


def loss(params: Any, tokens: Any) -> Any:
    predicted = nn.log_softmax(tinyfn.vmap(logits, in_axes=(None, 0))(params, tokens[:, :-1]))
    return -(nn.one_hot(tokens[:, 1:], VOCABULARY, dtype=predicted.dtype) * predicted).sum(-1).mean()


def sequences(seed: int, count: int) -> np.ndarray:
    """Arithmetic sequences modulo the vocabulary: the next token follows from the last two."""
    generator = np.random.default_rng(seed)
    start, step = generator.integers(0, VOCABULARY, (2, count, 1))
    return ((start + step * np.arange(LENGTH)) % VOCABULARY).astype(np.int32)


def test_the_gradient_is_the_limit_of_differences() -> None:
    params = tinyfn.tree.map(lambda x: x.astype("float64"), init(random.key(0)))
    tokens = sequences(0, 3)
    gradient = tinyfn.jit(tinyfn.grad(loss))(params, tokens)
    generator = np.random.default_rng(1)
    direction = tinyfn.tree.map(lambda x: generator.normal(size=x.shape), params)
    moved = [tinyfn.tree.map(lambda x, d, s=s: x + s * d, params, direction) for s in (1e-6, -1e-6)]
    high, low = (float(loss(p, tokens)) for p in moved)
    products = tinyfn.tree.map(lambda g, d: float((g * d).sum()), gradient, direction)
    np.testing.assert_allclose(sum(tinyfn.tree.leaves(products)), (high - low) / 2e-6, rtol=1e-6)


def test_eager_jit_and_remat_agree() -> None:
    params, tokens = init(random.key(0)), sequences(0, 3)
    eager = tinyfn.grad(loss)(params, tokens)
    for other in (
        tinyfn.jit(tinyfn.grad(loss)),
        tinyfn.grad(tinyfn.jit(loss)),
        tinyfn.grad(tinyfn.checkpoint(loss)),
    ):
        for a, b in zip(tinyfn.tree.leaves(eager), tinyfn.tree.leaves(other(params, tokens)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_per_example_gradients_add_up() -> None:
    params, tokens = init(random.key(0), blocks=1), sequences(0, 4)
    each = tinyfn.vmap(tinyfn.grad(lambda p, t: loss(p, t[None])), in_axes=(None, 0))(params, tokens)
    whole = tinyfn.grad(loss)(params, tokens)
    for a, b in zip(tinyfn.tree.leaves(each), tinyfn.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a.mean(0), b, rtol=1e-4, atol=1e-6)


def test_it_learns() -> None:
    params = init(random.key(0))
    optimizer = optax_like.adamw(lr=3e-3)
    state = optimizer.init(params)

    @tinyfn.jit
    def step(params: Any, state: Any, tokens: Any) -> Any:
        value, grads = tinyfn.value_and_grad(loss)(params, tokens)
        params, state = optimizer.step(params, grads, state)
        return params, state, value

    for i in range(200):
        params, state, value = step(params, state, sequences(i + 1, 32))
    tokens = sequences(0, 100)
    guesses = np.asarray(tinyfn.vmap(logits, in_axes=(None, 0))(params, tokens[:, :-1])).argmax(-1)
    # From the third token on the sequence is determined.
    assert np.mean(guesses[:, 1:] == tokens[:, 2:]) > 0.95, float(value)
