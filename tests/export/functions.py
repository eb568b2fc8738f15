"""Functions of every kind that can be exported, with arguments: what the tests use, and the process that loads them lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax, linalg, nn, random


class Case(NamedTuple):
    """A function and its arguments; `options` are those of jit."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple's default, which nothing changes)


def normal(*shape: int, seed: int = 0, dtype: Any = "float32") -> Any:
    return tnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


W = normal(8, 8, seed=7) * 0.3
X = normal(5, 8, seed=1)
KEYS = random.split(random.key(1), 3)
POLICY = tinyfn.checkpoint_policies.dots_saveable
TABLE = normal(10, 4, seed=2)


def mlp(params: Any, x: Any) -> Any:
    for w, b in params:
        x = nn.relu(x @ w + b)
    return nn.log_softmax(x)


MLP = [(normal(8, 16, seed=3), normal(16, seed=4)), (normal(16, 3, seed=5), normal(3, seed=6))]


def attention(x: Any) -> Any:
    q, k, v = (tnp.einsum("td,dhe->hte", x, W.reshape(8, 2, 4) * s) for s in (1.0, 0.5, 2.0))
    causal = tnp.tril(tnp.ones((x.shape[0], x.shape[0]), bool))
    weights = nn.softmax(tnp.where(causal, tnp.einsum("hqe,hke->hqk", q, k), -1e30))
    return tnp.einsum("hqk,hke->qhe", weights, v).reshape(x.shape)


def recurrent(h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = tnp.tanh(W @ h + x)
        return h, {"y": h.sum(), "x": x}

    return lax.scan(step, h, xs, reverse=True)


def newton(x: Any) -> Any:
    return lax.while_loop(
        lambda c: (c[0] ** 2 - x) ** 2 > 1e-8, lambda c: ((c[0] + x / c[0]) / 2, c[1] + 1), (x, 0)
    )


@tinyfn.custom_jvp
def softer(x: Any) -> Any:
    return tnp.log1p(tnp.exp(x))


softer.defjvp(lambda primals, tangents: (softer(primals[0]), tangents[0] * nn.sigmoid(primals[0])))


@tinyfn.custom_vjp
def clipped(x: Any, limit: Any) -> Any:
    return x * 2


clipped.defvjp(lambda x, limit: (x * 2, limit), lambda limit, ct: (tnp.clip(ct * 2, -limit, limit), None))


def dtypes(x: Any, n: Any) -> Any:
    names = (
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "int8",
        "uint64",
        "bool",
        "complex64",
        "complex128",
        "float64",
    )
    return {name: x.astype(name) for name in names} | {"constants": tnp.asarray(n.astype("uint8") + 200)}


def solver(matvec: Any, b: Any) -> Any:
    return linalg.solve(W + 3 * tnp.eye(8), b)


def transpose_solver(vecmat: Any, b: Any) -> Any:
    return linalg.solve(W.T + 3 * tnp.eye(8), b)


def inner_jit(x: Any) -> Any:
    twice = tinyfn.jit(lambda x: tnp.sin(x) * 2)
    return twice(x) + twice(twice(x)) + tinyfn.vmap(twice)(W)[:5]


CASES: dict[str, Case] = {
    "mlp": Case(mlp, (MLP, X)),
    "attention": Case(attention, (X,)),
    "gradient": Case(tinyfn.grad(lambda p, x: mlp(p, x)[:, 0].mean()), (MLP, X)),
    "hessian": Case(tinyfn.hessian(lambda x: (tnp.sin(x) * x[::-1]).sum()), (normal(3),)),
    "scan": Case(recurrent, (normal(8), normal(6, 8))),
    "gradient of a scan": Case(tinyfn.grad(lambda h, xs: recurrent(h, xs)[0].sum()), (normal(8), normal(6, 8))),
    "while": Case(newton, (tnp.asarray(2.0),)),
    "while under vmap": Case(tinyfn.vmap(newton), (tnp.arange(1.0, 5.0),)),
    "cond": Case(lambda i, x: lax.switch(i, [tnp.sin, lambda x: newton(x[0])[0] * x, attention_like], x), (1, tnp.ones(3) * 3)),
    "checkpoint": Case(tinyfn.grad(lambda x: tinyfn.remat(lambda x: tnp.sin(tnp.sin(x)))(x).sum()), (X,)),
    "custom_jvp": Case(lambda x: (softer(x), tinyfn.grad(lambda x: softer(x).sum())(x)), (X,)),
    "custom_vjp": Case(lambda x: (clipped(x, 0.5), tinyfn.grad(lambda x: clipped(x, 0.5).sum())(x)), (X,)),
    "jit within": Case(inner_jit, (X,)),
    "random": Case(lambda key, x: x * random.bernoulli(key, 0.5, x.shape) + random.normal(key, x.shape), (random.PRNGKey(3), X)),
    "typed keys": Case(
        lambda key, x: (random.split(key), x * random.uniform(random.fold_in(KEYS[1], 3))), (random.key(3), X)
    ),
    "linear solve": Case(
        tinyfn.grad(lambda b: (lax.custom_linear_solve(lambda x: W @ x + 3 * x, b, solver, transpose_solver) ** 2).sum()), (X[0],)
    ),
    "policies": Case(
        tinyfn.grad(lambda x: tinyfn.remat(lambda x: tnp.sin(x @ W) @ W, policy=POLICY)(x).sum()), (X,)
    ),
    "sort and linalg": Case(lambda x: (tnp.argsort(x), tnp.sort(x[0]), linalg.svd(x)[1], linalg.inv(W)), (X,)),
    "fft": Case(lambda x: tinyfn.fft.ifft(tinyfn.fft.rfft(x)), (X,)),
    "special functions": Case(lambda x: (tinyfn.scipy.special.gammaln(x), tinyfn.scipy.special.i0e(x), lax.erf_inv(x)), (X,)),
    "gather and scatter": Case(lambda i, x: TABLE[i].sum() + x.at[i].add(1.0)[:, ::2], (tnp.asarray([1, 3, 3]), X)),
    "convolution": Case(
        lambda x, k: lax.conv_general_dilated(x, k, (1, 2), "SAME", rhs_dilation=(2, 1)), (normal(2, 3, 6, 6), normal(4, 3, 3, 3))
    ),
    "dtypes": Case(dtypes, (X, tnp.asarray(7))),
    "odd constants": Case(lambda x: (x * np.float32(np.nan), x + -0.0, x / np.float32(np.inf), x * (1 + 2j), x > 1e-42), (X,)),
    "empty and 0-d": Case(lambda x, s: (x[:0], s * 2, tnp.zeros((0, 3)).sum(0), None, ()), (X, tnp.asarray(3.0))),
    "python numbers": Case(lambda x, n: (x * 2, n + 1), (1.5, 3)),
    "static": Case(lambda x, power, flip: -(x**power) if flip else x**power, (X, 3, True), {"static_argnums": (1, 2)}),
    "donated": Case(lambda x, y: x * 2 + y, (normal(64), normal(64)), {"donate_argnums": 0}),
    "pruned": Case(lambda x, unused: x + 1, (X, tnp.ones(7))),
    "identity": Case(lambda x: (x, x), (X,)),
}  # fmt: skip


def attention_like(x: Any) -> Any:
    return nn.softmax(x) @ x * x
