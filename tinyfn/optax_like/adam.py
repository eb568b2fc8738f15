"""The LAMB family: adam, adamw and lamb are one rule with different settings, as in tinygrad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trace import operators, prims
from ..trace.dtype import DType
from .base import Optimizer, Rule, State, stored
from .flat import Numbers, Parts
from .settings import number, real


class LambRule(Rule):
    """Running means of the gradient and its square, and maybe a trust ratio."""

    slots = ("m", "v")

    def __init__(
        self, name: str, lr: float, b1: float, b2: float, eps: float, weight_decay: float, adam: bool,
        fused: bool | None, dtype: Any, const_lr: bool | None,
    ):  # fmt: skip
        self.b1, self.b2 = number(name, "b1", b1, below=1), number(name, "b2", b2, below=1)
        self.eps = number(name, "eps", eps)
        self.weight_decay = real(name, "weight_decay", weight_decay)
        self.adam = bool(adam)
        super().__init__(
            name, lr, fused, dtype, const_lr, b1=self.b1, b2=self.b2, eps=self.eps,
            weight_decay=self.weight_decay, adam=self.adam,
        )  # fmt: skip

    def shared_state(self, dtype: DType) -> State:
        return {"b1_t": operators.full(1, dtype, (1,)), "b2_t": operators.full(1, dtype, (1,))}

    def advance(self, shared: State) -> State:
        b1_t, b2_t = shared["b1_t"], shared["b2_t"]
        return {"b1_t": operators.multiply(b1_t, self.b1), "b2_t": operators.multiply(b2_t, self.b2)}

    def scalars(self, rate: Numbers, shared: State) -> tuple[Numbers, ...]:
        # The bias corrections, once: m̂ / (√v̂ + eps) with m̂ = m / (1 - b1_t) and v̂ = v / (1 - b2_t) is
        # m / (√v · ratio + floor), with the two numbers that follow the rate.
        correction = 1.0 - shared["b1_t"]
        return rate, correction / prims.sqrt(1.0 - shared["b2_t"]), correction * self.eps

    def delta(
        self, t: Numbers, g: Numbers, slots: Sequence[Numbers], scalars: Sequence[Numbers], parts: Parts
    ) -> tuple[Numbers, tuple[Numbers, ...]]:
        rate, ratio, floor = scalars
        old_m: Numbers = operators.to_dtype(slots[0], g.dtype)
        old_v: Numbers = operators.to_dtype(slots[1], g.dtype)
        new_m, m = stored(self.b1 * old_m + (1.0 - self.b1) * g, slots[0])
        new_v, v = stored(self.b2 * old_v + (1.0 - self.b2) * (g * g), slots[1])
        up = m / (prims.sqrt(v) * ratio + floor)
        if self.weight_decay:
            up = up + self.weight_decay * t
        if not self.adam:
            size, length = parts.norm(t), parts.norm(up)
            trust = operators.elementwise_where((size > 0) & (length > 0), size / length, 1.0)
            rate = parts.spread(trust * rate)
        return rate * up, (new_m, new_v)


def adam(
    lr: float = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Adam: t -= lr · m̂ / (√v̂ + eps), with bias-corrected running means m̂ of g and v̂ of g².

    m = b1 · m + (1 - b1) · g and m̂ = m / (1 - b1^step), and so v̂ with b2 and g² (Kingma and Ba 2015, "Adam:
    a method for stochastic optimization", algorithm 1). The other options are those of `sgd`.

    >>> optimizer = optax_like.adam(lr=0.5)
    >>> w, state = tnp.array([1.0, 2.0]), optimizer.init(tnp.array([1.0, 2.0]))
    >>> w, state = optimizer.step(w, tnp.array([0.01, -100.0]), state)
    >>> tnp.round(w, 3)  # the first step is lr against the gradient's sign
    Array([0.5, 2.5], dtype=float32)
    >>> sorted(state)
    ['b1_t', 'b2_t', 'lr', 'm', 'v']
    """
    return LambRule("adam", lr, b1, b2, eps, 0.0, True, fused, state_dtype, const_lr)


def adamw(
    lr: float = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """`adam` with decoupled weight decay: t -= lr · (m̂ / (√v̂ + eps) + weight_decay · t).

    From Loshchilov and Hutter 2019, "Decoupled weight decay regularization", with the rate in the decay, as
    in tinygrad and PyTorch. A negative decay grows the parameters. The other options are those of `sgd`.

    >>> optimizer = optax_like.adamw(lr=0.5, weight_decay=0.5)
    >>> w = tnp.array([4.0])
    >>> w, state = optimizer.step(w, tnp.array([0.0]), optimizer.init(w))
    >>> w
    Array([3.], dtype=float32)
    """
    return LambRule("adamw", lr, b1, b2, eps, weight_decay, True, fused, state_dtype, const_lr)


def lamb(
    lr: float = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6, weight_decay: float = 0.0,
    adam: bool = False,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """`adamw` whose rate is scaled for each parameter by |t| / |update|, or by 1 where either is 0.

    From You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm
    2, with φ(z) = z. With `adam` nothing is scaled. The other options are those of `sgd`.

    >>> optimizer = optax_like.lamb(lr=0.5)
    >>> w = tnp.array([3.0, 4.0])
    >>> w, state = optimizer.step(w, tnp.array([1.0, 0.0]), optimizer.init(w))
    >>> tnp.round(w, 3)  # a step of lr times the length of w, 5
    Array([0.5, 4. ], dtype=float32)
    """
    return LambRule("lamb", lr, b1, b2, eps, weight_decay, adam, fused, state_dtype, const_lr)
