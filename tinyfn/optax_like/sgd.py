"""The LARS family: sgd, lars and muon are one rule with different settings, as in tinygrad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import as_array
from ..trace.errors import user_line
from .base import Numbers, Optimizer, Parts, Rule, State, number, real, stored


class LarsRule(Rule):
    """Momentum with weight decay, and maybe a trust ratio or orthogonalisation."""

    def __init__(
        self, name: str, lr: float, momentum: float, weight_decay: float, ns_steps: int,
        ns_params: Sequence[float] | None, nesterov: bool, classic: bool, pre_wd: bool, tcoef: float,
        fused: bool | None, state_dtype: Any, const_lr: bool | None, aspect_ratio_scale: bool = False,
    ):  # fmt: skip
        self.momentum = number(name, "momentum", momentum)
        # A negative decay is ignored (but not in the trust ratio), as in tinygrad.
        self.weight_decay = real(name, "weight_decay", weight_decay)
        self.ns_steps, self.ns_params = _newton_schulz_settings(name, ns_steps, ns_params or ())
        self.nesterov, self.classic, self.pre_wd = bool(nesterov), bool(classic), bool(pre_wd)
        self.tcoef = number(name, "tcoef", tcoef)
        self.aspect_ratio_scale = bool(aspect_ratio_scale)
        self.slots = ("b",) if self.momentum else ()
        super().__init__(
            name, lr, fused, state_dtype, const_lr, momentum=momentum, weight_decay=weight_decay, ns_steps=ns_steps,
            ns_params=self.ns_params, nesterov=self.nesterov, classic=self.classic, pre_wd=self.pre_wd, tcoef=tcoef,
            aspect_ratio_scale=self.aspect_ratio_scale,
        )  # fmt: skip
        if self.fused and self.ns_params:
            raise ValueError(
                f"{name} can't be fused (fused=True or FUSE_OPTIM=1): Newton-Schulz needs the matrices, which a flat vector "
                f"has lost; at {user_line()}: pass fused=False"
            )

    def check_shape(self, shape: tuple[Any, ...]) -> str | None:
        if self.ns_params and not shape:
            return "is a scalar, and Newton-Schulz needs a vector or a matrix: give it to another optimizer with group"
        return None

    def scalars(self, rate: Numbers, shared: State) -> tuple[Numbers, ...]:
        if self.pre_wd or self.weight_decay <= 0:
            return (rate,)
        return rate, rate * self.weight_decay

    def delta(
        self, t: Numbers, g: Numbers, slots: Sequence[Numbers], scalars: Sequence[Numbers], parts: Parts
    ) -> tuple[Numbers, tuple[Numbers, ...]]:
        scale = scalars[0]
        if self.tcoef:
            size, slope = parts.norm(t), parts.norm(g)
            ratio = self.tcoef * size / (slope + self.weight_decay * size)
            ratio = operators.elementwise_where((size > 0) & (slope > 0), ratio, 1.0)
            scale = parts.spread(ratio * scale)
        if self.pre_wd and self.weight_decay > 0:
            g = g + self.weight_decay * t
        if self.classic:
            g = g * scale
        if slots:
            b, momentum = stored(self.momentum * operators.to_dtype(slots[0], g.dtype) + g, slots[0])
            g = g + self.momentum * momentum if self.nesterov else momentum
            slots = (b,)
        if self.ns_params:
            g = self._orthogonal(g)
        if not self.classic:
            g = g * scale
        if not self.pre_wd and self.weight_decay > 0:
            g = g + scalars[1] * t
        return g, tuple(slots)

    def _orthogonal(self, g: Numbers) -> Numbers:
        rows, columns = g.shape[0], prod(g.shape[1:])
        matrix = prims.reshape(g, shape=(rows, columns))
        result = newton_schulz(matrix, self.ns_steps, self.ns_params)
        if self.aspect_ratio_scale and rows > columns > 0:
            result = operators.multiply(result, (rows / columns) ** 0.5)
        return prims.reshape(result, shape=g.shape)


def sgd(
    lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, classic: bool = False,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Stochastic gradient descent with momentum and (if positive) L2 weight decay, as PyTorch's `SGD`.

    g += weight_decay · t;  b = momentum · b + g;  g = g + momentum · b if nesterov else b;  t -= lr · g. With `classic`
    the learning rate goes into b, which then does not feel later changes of it. From tinygrad's `SGD`. Settings that
    all optimizers have: `fused` (default: FUSE_OPTIM) keeps parameters, gradients and state as one vector for each
    dtype during the step; `state_dtype` (default: OPTIM_DTYPE, else float32, or float64 for float64 parameters) is
    the type of what is remembered; `const_lr` (default: CONST_LR) makes the rate a constant, not a part of the state."""
    return LarsRule(
        "sgd", lr, momentum, weight_decay, 0, None, nesterov, classic, True, 0.0, fused, state_dtype, const_lr
    )


def lars(
    lr: float = 1e-3, momentum: float = 0.9, weight_decay: float = 1e-4, ns_steps: int = 0,
    ns_params: Sequence[float] | None = None, nesterov: bool = False, classic: bool = True, pre_wd: bool = True,
    tcoef: float = 1e-3,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Layer-wise adaptive rate scaling: `sgd` whose rate is scaled for each parameter by a trust ratio.

    The ratio is tcoef · |t| / (|g| + weight_decay · |t|), or 1 where |t| or |g| is 0, or tcoef is (You, Gitman and
    Ginsburg 2017, "Large batch training of convolutional networks", section 4.1, as in tinygrad's `LARS`). Without `pre_wd`
    the decay is t -= lr · weight_decay · t, apart from momentum and ratio. With `ns_params` each step's direction is
    orthogonalised by `newton_schulz`. The other settings: see `sgd`."""
    return LarsRule(
        "lars", lr, momentum, weight_decay, ns_steps, ns_params, nesterov, classic, pre_wd, tcoef, fused, state_dtype, const_lr
    )


def muon(
    lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0, ns_steps: int = 5,
    ns_params: Sequence[float] = (3.4445, -4.775, 2.0315), nesterov: bool = True,
    *, aspect_ratio_scale: bool = False, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Momentum whose every step is made orthogonal by `newton_schulz`, for matrices; weight decay is decoupled.

    From Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks", as in tinygrad's `Muon`. A
    parameter (o, i, ...) is the matrix (o, i · ...), a vector (n, 1). `aspect_ratio_scale` multiplies each step by
    max(1, rows / columns)^0.5, as Jordan and PyTorch do and tinygrad does not. Raises ValueError if fused. The other
    settings: see `sgd`."""
    return LarsRule(
        "muon", lr, momentum, weight_decay, ns_steps, ns_params, nesterov, False, False, 0.0, fused, state_dtype, const_lr,
        aspect_ratio_scale,
    )  # fmt: skip


def newton_schulz(matrix: Any, steps: int = 5, params: Sequence[float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7) -> Numbers:
    """A matrix made nearly orthogonal: G / (|G| + eps), and then `steps` times G = Σᵢ params[i] · (G Gᵀ)ⁱ G.

    The polynomial moves all singular values towards 1 (Bernstein and Newhouse 2024, "Old optimizer, new norm", with the
    coefficients of Muon by default). Leading axes are a batch; a vector is a matrix of one column. It is computed in
    float32 at least, and returned in the matrix's dtype. Raises ValueError for a scalar."""
    steps, coefficients = _newton_schulz_settings("newton_schulz", steps, params)
    eps = number("newton_schulz", "eps", eps)
    given: Numbers = as_array(matrix)
    described = dtypes.describe(given.dtype, given.shape)
    if given.dtype not in dtypes.FLOATS:
        raise TypeError(f"newton_schulz works on float matrices, not {described}; at {user_line()}")
    if given.ndim == 0:
        raise ValueError(f"newton_schulz needs a matrix or a vector, not the scalar {described}; at {user_line()}")
    if not coefficients:
        raise ValueError(f"newton_schulz needs at least one coefficient in params; at {user_line()}")
    shape: tuple[Any, ...] = given.shape if given.ndim > 1 else (*given.shape, 1)
    g = prims.reshape(operators.to_dtype(given, dtypes.accumulator(given.dtype)), shape=shape)
    norms = prims.sqrt(prims.reduce_sum(g * g, axes=(len(shape) - 2, len(shape) - 1)))
    g = g / prims.reshape(norms + eps, shape=(*shape[:-2], 1, 1))
    # The product G Gᵀ is the smaller one if G has fewer rows than columns.
    is_tall = shape[-2] > shape[-1]
    g = _transposed(g) if is_tall else g
    for _ in range(steps):
        g = _polynomial(g, coefficients)
    g = _transposed(g) if is_tall else g
    return operators.to_dtype(prims.reshape(g, shape=given.shape), given.dtype)


def _polynomial(g: Numbers, coefficients: tuple[float, ...]) -> Numbers:
    """Σᵢ coefficients[i] · (G Gᵀ)ⁱ G, by Horner's rule on the small square matrix."""
    result = coefficients[0] * g
    if len(coefficients) == 1:
        return result
    square = operators.matmul(g, _transposed(g))
    inner = coefficients[-1] * square
    for coefficient in coefficients[-2:0:-1]:
        inner = operators.matmul(square, inner) + coefficient * square
    return result + operators.matmul(inner, g)


def _transposed(x: Numbers) -> Numbers:
    return prims.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _newton_schulz_settings(what: str, steps: Any, params: Any) -> tuple[int, tuple[float, ...]]:
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise TypeError(f"{what}: ns_steps must be an int, not {type(steps).__name__}; at {user_line()}")
    if steps < 0:
        raise ValueError(f"{what}: ns_steps must be at least 0, not {steps}; at {user_line()}")
    return steps, tuple([real(what, "each of ns_params", p) for p in params])

