"""The rows of the table of prices: functions as users of JAX's names write them, and their inputs.

A function is made of a `Library`, so that tinyfn and JAX run the same text. Sizes are such that a call takes long beside what
it costs to make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .written import WRITTEN

Library = Any  # a namespace of modules and transforms; see `libraries.py`
Function = Callable[..., Any]
Spec = Callable[[Any, int], Any]  # (generator, the most elements along an axis) -> an array


class Row(NamedTuple):
    """A function, its inputs, which of these it is differentiated by, and its derivative by hand, if there is one."""

    function: Callable[[Library], Function]
    inputs: tuple[Spec, ...]
    by: tuple[int, ...] = (0,)
    # Whether libraries give the same numbers: not where they draw random ones, or choose signs.
    is_compared: bool = True

    def arrays(self, most: int = 1 << 30) -> tuple[Any, ...]:
        """The inputs, with no more elements along an axis than that."""
        import numpy as np

        generator = np.random.default_rng(0)
        return tuple([spec(generator, most) for spec in self.inputs])


def _cut(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    return tuple([min(n, most) for n in shape])


def normal(*shape: int) -> Spec:
    """Normal numbers."""
    return lambda g, most: g.standard_normal(_cut(shape, most)).astype("float32")


def between(low: float, high: float, *shape: int) -> Spec:
    """Numbers of an interval."""
    return lambda g, most: g.uniform(low, high, _cut(shape, most)).astype("float32")


def below(high: int, *shape: int) -> Spec:
    """Integers that count the elements of an axis of that size."""
    return lambda g, most: g.integers(0, min(high, most), _cut(shape, most)).astype("int32")


def definite(*shape: int) -> Spec:
    """Matrices that are symmetric and positive definite."""

    def make(g: Any, most: int) -> Any:
        import numpy as np

        a = g.standard_normal(_cut(shape, most))
        n = a.shape[-1]
        return (a @ np.swapaxes(a, -1, -2) / n + np.eye(n) * np.linspace(1, 2, n)).astype("float32")

    return make


def ascending(size: int) -> Spec:
    """Sorted numbers of which no two are equal."""

    def make(g: Any, most: int) -> Any:
        import numpy as np

        return np.linspace(-2, 2, min(size, most)).astype("float32")

    return make


def key() -> Spec:
    """A raw random key."""

    def make(g: Any, most: int) -> Any:
        import numpy as np

        return np.array([0, 7], np.uint32)

    return make


def _pool(l: Library, first: float, combine: str) -> Function:
    return lambda x: l.lax.reduce_window(
        x, first, getattr(l.lax, combine), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )


def _conv_transpose(l: Library) -> Function:
    return lambda x, w: l.lax.conv_transpose(x, w, (2, 2), "SAME")


def _attention(l: Library) -> Function:
    return lambda q, k, v: l.nn.dot_product_attention(q, k, v, is_causal=True)


def _spectrum(l: Library) -> Function:
    def f(x: Any) -> Any:
        spectrum = l.np.fft.rfft(x)
        return l.np.real(spectrum) ** 2 + l.np.imag(spectrum) ** 2

    return f


def _singular(l: Library) -> Function:
    def f(a: Any) -> Any:
        u, s, vh = l.np.linalg.svd(a, full_matrices=False)
        return (u * l.np.sqrt(s)) @ vh  # which no choice of signs changes

    return f


def _rotations(l: Library) -> Function:
    def f(a: Any) -> Any:
        q, r = l.np.linalg.qr(a)
        return l.np.abs(q) @ l.np.abs(r)  # which no choice of signs changes

    return f


def _square_root(l: Library) -> Function:
    def f(a: Any) -> Any:
        w, v = l.np.linalg.eigh(a)
        return (v * l.np.sqrt(w)[..., None, :]) @ l.np.swapaxes(v, -1, -2)

    return f


def _gru_like(l: Library) -> Function:
    def combine(one: Any, other: Any) -> Any:
        return one[0] * other[0], one[1] * other[0] + other[1]

    return lambda a, b: l.lax.associative_scan(combine, (a, b), axis=1)[1]


ROWS: dict[str, Row] = {
    # Sums over rows
    "softmax": Row(lambda l: l.nn.softmax, (normal(512, 1000),)),
    "log_softmax": Row(lambda l: l.nn.log_softmax, (normal(512, 1000),)),
    "logsumexp": Row(lambda l: lambda x: l.special.logsumexp(x, axis=-1), (normal(512, 1000),)),
    "standardize": Row(lambda l: l.nn.standardize, (normal(512, 1000),)),
    "var": Row(lambda l: lambda x: l.np.var(x, axis=-1), (normal(512, 1000),)),
    "std": Row(lambda l: lambda x: l.np.std(x, axis=-1), (normal(512, 1000),)),
    "norm": Row(lambda l: lambda x: l.np.linalg.norm(x, axis=-1), (normal(512, 1000),)),
    "max": Row(lambda l: lambda x: l.np.max(x, axis=-1), (normal(512, 1000),)),
    "prod": Row(lambda l: lambda x: l.np.prod(x, axis=-1), (between(0.9, 1.1, 512, 100),)),
    "masked_mean": Row(
        lambda l: lambda x, m: l.np.mean(x, axis=-1, where=m > 0), (normal(512, 1000), normal(512, 1000))
    ),
    "argmax": Row(lambda l: lambda x: l.np.argmax(x, axis=-1), (normal(512, 1000),), ()),
    "argmin_columns": Row(lambda l: lambda x: l.np.argmin(x, axis=0), (normal(1000, 512),), ()),
    # Cumulative
    "cumsum": Row(lambda l: lambda x: l.np.cumsum(x, axis=-1), (normal(512, 1000),)),
    "cumsum_columns": Row(lambda l: lambda x: l.np.cumsum(x, axis=0), (normal(1000, 512),)),
    "cumsum_long": Row(lambda l: lambda x: l.np.cumsum(x), (between(-1, 1, 500_000),)),
    "cumprod": Row(lambda l: lambda x: l.np.cumprod(x, axis=-1), (between(0.9, 1.1, 512, 200),)),
    "lax_cumprod": Row(lambda l: lambda x: l.lax.cumprod(x, axis=1), (between(0.9, 1.1, 512, 200),)),
    "cummax": Row(lambda l: lambda x: l.lax.cummax(x, axis=1), (normal(512, 1000),)),
    "cummin": Row(lambda l: lambda x: l.lax.cummin(x, axis=1), (normal(512, 1000),)),
    "cumlogsumexp": Row(lambda l: lambda x: l.lax.cumlogsumexp(x, axis=1), (normal(512, 1000),)),
    "associative_scan": Row(_gru_like, (between(0, 1, 64, 1000), normal(64, 1000)), (0, 1)),
    # Order
    "sort": Row(lambda l: lambda x: l.np.sort(x, axis=-1), (normal(128, 1000),)),
    "argsort": Row(lambda l: lambda x: l.np.argsort(x, axis=-1), (normal(128, 1000),), ()),
    "top_k": Row(lambda l: lambda x: l.lax.top_k(x, 5)[0], (normal(128, 1000),)),
    "median": Row(lambda l: lambda x: l.np.median(x, axis=-1), (normal(128, 1000),)),
    "percentile": Row(lambda l: lambda x: l.np.percentile(x, 30.0, axis=-1), (normal(128, 1000),)),
    "searchsorted": Row(lambda l: l.np.searchsorted, (ascending(1000), normal(50_000)), ()),
    "interp": Row(lambda l: l.np.interp, (normal(50_000), ascending(1000), normal(1000)), (0, 2)),
    # Places
    "take": Row(lambda l: lambda x, i: l.np.take(x, i, axis=0), (normal(1000, 64), below(1000, 5000))),
    "take_along_axis": Row(
        lambda l: lambda x, i: l.np.take_along_axis(x, i, -1), (normal(512, 1000), below(1000, 512, 20))
    ),
    "scatter_add": Row(
        lambda l: lambda x, i, y: x.at[i].add(y), (normal(1000, 64), below(1000, 5000), normal(5000, 64)), (0, 2)
    ),
    "scatter_set": Row(
        lambda l: lambda x, i, y: x.at[i].set(y), (normal(5000, 64), below(5000, 500), normal(500, 64)), (0, 2),
        False,
    ),
    "segment_sum": Row(
        lambda l: lambda x, i: l.ops.segment_sum(x, i, num_segments=100), (normal(5000, 64), below(100, 5000))
    ),
    "one_hot": Row(lambda l: lambda i: l.nn.one_hot(i, 1000), (below(1000, 512),), ()),
    # Products
    "einsum": Row(
        lambda l: lambda a, b, c: l.np.einsum("bij,bjk,kl->bil", a, b, c),
        (normal(16, 64, 64), normal(16, 64, 64), normal(64, 64)), (0, 1, 2),
    ),
    "kron": Row(lambda l: l.np.kron, (normal(30, 30), normal(20, 20)), (0, 1)),
    "convolve": Row(lambda l: l.np.convolve, (normal(20_000), normal(64)), (0, 1)),
    "attention": Row(_attention, (normal(4, 128, 4, 32),) * 3, (0, 1, 2)),
    "conv_transpose": Row(_conv_transpose, (normal(4, 16, 16, 16), normal(3, 3, 16, 16)), (0, 1)),
    "max_pool": Row(lambda l: _pool(l, -float("inf"), "max"), (normal(8, 32, 32, 16),)),
    "avg_pool": Row(lambda l: _pool(l, 0.0, "add"), (normal(8, 32, 32, 16),)),
    # Elementwise
    "gelu": Row(lambda l: lambda x: l.nn.gelu(x, approximate=False), (normal(512, 512),)),
    "erfinv": Row(lambda l: l.special.erfinv, (between(-0.99, 0.99, 512, 512),)),
    "gammaln": Row(lambda l: l.special.gammaln, (between(0.5, 8, 256, 256),)),
    "digamma": Row(lambda l: l.special.digamma, (between(0.5, 8, 256, 256),)),
    "gammainc": Row(lambda l: l.special.gammainc, (between(0.5, 8, 10_000), between(0.5, 8, 10_000)), (0, 1)),
    "betainc": Row(
        lambda l: l.special.betainc, (between(0.5, 8, 5000), between(0.5, 8, 5000), between(0.1, 0.9, 5000)), (2,)
    ),
    "zeta": Row(lambda l: l.special.zeta, (between(1.5, 8, 10_000), between(0.5, 8, 10_000)), (1,)),
    # Matrices
    "cholesky": Row(lambda l: l.np.linalg.cholesky, (definite(100, 100),)),
    "solve": Row(lambda l: l.np.linalg.solve, (definite(100, 100), normal(100, 10)), (0, 1)),
    "solve_triangular": Row(
        lambda l: lambda a, b: l.linalg.solve_triangular(a, b, lower=True), (definite(100, 100), normal(100, 10)),
        (0, 1),
    ),
    "inv": Row(lambda l: l.np.linalg.inv, (definite(100, 100),)),
    "det": Row(lambda l: l.np.linalg.det, (definite(16, 8, 8),)),
    "slogdet": Row(lambda l: lambda a: l.np.linalg.slogdet(a)[1], (definite(100, 100),)),
    "qr": Row(_rotations, (normal(100, 50),)),
    "svd": Row(_singular, (normal(60, 40),)),
    "eigh": Row(_square_root, (definite(60, 60),)),
    "eigvals": Row(lambda l: lambda a: l.np.abs(l.np.linalg.eigvals(a)).sum(-1), (normal(30, 30),)),
    "lu": Row(lambda l: lambda a: l.lax.linalg.lu(a)[0], (definite(100, 100),)),
    "pinv": Row(lambda l: l.np.linalg.pinv, (normal(60, 40),)),
    "expm": Row(lambda l: l.linalg.expm, (normal(30, 30),)),
    "fft": Row(_spectrum, (normal(64, 1024),)),
    # Random numbers
    "random_normal": Row(lambda l: lambda k: l.random.normal(k, (250_000,)), (key(),), (), False),
    "random_gamma": Row(
        lambda l: lambda k, a: l.random.gamma(k, a), (key(), between(0.5, 5, 5000)), (1,), False
    ),
    "categorical": Row(lambda l: l.random.categorical, (key(), normal(512, 1000)), (), False),
    "permutation": Row(lambda l: lambda k: l.random.permutation(k, 50_000), (key(),), (), False),
}  # fmt: skip


def written(name: str) -> Callable[[Library], Function] | None:
    """The row's function with its derivative written by hand (a `custom_vjp`), or None."""
    rule = WRITTEN.get(name)
    if rule is None:
        return None

    def made(l: Library) -> Function:
        plain = ROWS[name].function(l)
        function = l.custom_vjp(lambda *args: plain(*args))

        def forward(*args: Any) -> Any:
            out = plain(*args)
            return out, (out, args)

        def backward(kept: Any, ct: Any) -> Any:
            out, args = kept
            return rule(l, ct, out, *args)

        function.defvjp(forward, backward)
        return function

    return made
