"""The LARS family: sgd, lars and muon are one rule with different settings, as in tinygrad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators, prims
from ..trace.array import Array, as_array
from ..trace.errors import user_line
from .base import Optimizer, Rule, State, stored
from .flat import Numbers, Parts
from .settings import newton_schulz_settings, number, real

MUON_PARAMS = (3.4445, -4.775, 2.0315)


class LarsRule(Rule):
    """Momentum with weight decay, and maybe a trust ratio or orthogonalisation."""

    def __init__(
        self, name: str, lr: float, momentum: float, weight_decay: float, ns_steps: int,
        ns_params: Sequence[float] | None, nesterov: bool, classic: bool, pre_wd: bool, tcoef: float,
        aspect_ratio_scale: bool, fused: bool | None, dtype: Any, const_lr: bool | None,
    ):  # fmt: skip
        self.momentum = number(name, "momentum", momentum)
        # A negative decay is ignored (but for the trust ratio), as in tinygrad.
        self.weight_decay = real(name, "weight_decay", weight_decay)
        self.ns_steps, self.ns_params = newton_schulz_settings(name, ns_steps, ns_params or ())
        self.nesterov, self.classic, self.pre_wd = bool(nesterov), bool(classic), bool(pre_wd)
        self.tcoef = number(name, "tcoef", tcoef)
        self.aspect_ratio_scale = bool(aspect_ratio_scale)
        self.slots = ("b",) if self.momentum else ()
        super().__init__(
            name, lr, fused, dtype, const_lr, momentum=self.momentum, weight_decay=self.weight_decay,
            ns_steps=self.ns_steps, ns_params=self.ns_params, nesterov=self.nesterov, classic=self.classic,
            pre_wd=self.pre_wd, tcoef=self.tcoef, aspect_ratio_scale=self.aspect_ratio_scale,
        )  # fmt: skip
        if self.fused and self.ns_params:
            raise ValueError(
                f"{name} can't be fused (fused=True or FUSE_OPTIM=1): Newton-Schulz needs the matrices, "
                f"which a flat vector has lost; at {user_line()}: pass fused=False"
            )

    def refusal(self, shape: tuple[Any, ...]) -> str | None:
        if self.ns_params and not shape:
            return "is a scalar, and Newton-Schulz needs a vector or a matrix: use group"
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
            old: Numbers = operators.to_dtype(slots[0], g.dtype)
            new, b = stored(self.momentum * old + g, slots[0])
            g = g + self.momentum * b if self.nesterov else b
            slots = (new,)
        if self.ns_params:
            g = self._orthogonal(g)
        if not self.classic:
            g = g * scale
        if not self.pre_wd and self.weight_decay > 0:
            g = g + scalars[1] * t
        return g, tuple(slots)

    def _orthogonal(self, g: Numbers) -> Numbers:
        rows, columns = g.shape[0], prod(g.shape[1:])
        result = newton_schulz(prims.reshape(g, shape=(rows, columns)), self.ns_steps, self.ns_params)
        if self.aspect_ratio_scale and rows > columns > 0:
            result = operators.multiply(result, (rows / columns) ** 0.5)
        return prims.reshape(result, shape=g.shape)


def sgd(
    lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
    classic: bool = False,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Stochastic gradient descent with momentum and L2 weight decay (which must be positive to count).

    g += weight_decay · t;  b = momentum · b + g;  g = g + momentum · b if nesterov else b;  t -= lr · g
    (tinygrad's and PyTorch's `SGD`). With `classic` the learning rate goes into b: b = momentum · b + lr · g.

    What all optimizers have: `fused` (default: FUSE_OPTIM) joins the leaves of each dtype to one vector
    during a step; `state_dtype` (default: OPTIM_DTYPE, else float32, or float64 for float64 parameters) is
    the type of what is remembered; `const_lr` (default: CONST_LR) makes the learning rate a constant, not
    part of the state. Raises ValueError for an option out of range, TypeError if it is no number.

    >>> optimizer = optax_like.sgd(lr=0.5, momentum=0.5)
    >>> w, state = tnp.array([4.0]), optimizer.init(tnp.array([4.0]))
    >>> for _ in range(2):
    ...     w, state = optimizer.step(w, tnp.array([2.0]), state)
    ...     print(w, state["b"])
    [3.] [2.]
    [1.5] [3.]
    """
    return LarsRule(
        "sgd", lr, momentum, weight_decay, 0, None, nesterov, classic, True, 0.0, False,
        fused, state_dtype, const_lr,
    )  # fmt: skip


def lars(
    lr: float = 1e-3, momentum: float = 0.9, weight_decay: float = 1e-4, ns_steps: int = 0,
    ns_params: Sequence[float] | None = None, nesterov: bool = False, classic: bool = True,
    pre_wd: bool = True, tcoef: float = 1e-3,
    *, fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Layer-wise adaptive rate scaling: `sgd` whose rate is scaled for each parameter by a trust ratio.

    The ratio is tcoef · |t| / (|g| + weight_decay · |t|), or 1 where |t| or |g| or tcoef is 0 (You, Gitman
    and Ginsburg 2017, "Large batch training of convolutional networks"; as in tinygrad's `LARS`). Without
    `pre_wd` the decay is t -= lr · weight_decay · t, apart from momentum and ratio. With `ns_params` the
    direction is made orthogonal by `newton_schulz`. The other options are those of `sgd`.

    >>> optimizer = optax_like.lars(lr=0.5, momentum=0.0, weight_decay=0.0, tcoef=0.5)
    >>> w = tnp.array([3.0, 4.0])
    >>> w, state = optimizer.step(w, tnp.array([1.0, 0.0]), optimizer.init(w))
    >>> w
    Array([1.75, 4.  ], dtype=float32)
    """
    return LarsRule(
        "lars", lr, momentum, weight_decay, ns_steps, ns_params, nesterov, classic, pre_wd, tcoef, False,
        fused, state_dtype, const_lr,
    )  # fmt: skip


def muon(
    lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0, ns_steps: int = 5,
    ns_params: Sequence[float] = MUON_PARAMS, nesterov: bool = True, *, aspect_ratio_scale: bool = False,
    fused: bool | None = None, state_dtype: Any = None, const_lr: bool | None = None,
) -> Optimizer:  # fmt: skip
    """Momentum whose direction is made orthogonal by `newton_schulz`, with decoupled weight decay.

    From Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks", as in tinygrad's
    `Muon`. A parameter of shape (o, i, ...) is the matrix (o, i · ...), a vector (n, 1). `aspect_ratio_scale`
    multiplies each step by max(1, rows / columns)^0.5, as Jordan and PyTorch do and tinygrad does not. Raises
    ValueError if fused, by argument or FUSE_OPTIM. The other options are those of `sgd`.

    >>> optimizer = optax_like.muon(lr=0.5, ns_steps=20, ns_params=(2.0, -1.5, 0.5))
    >>> w = tnp.zeros((2, 2))
    >>> w, state = optimizer.step(w, tnp.array([[-3.0, 0.0], [0.0, -4.0]]), optimizer.init(w))
    >>> tnp.round(w, 3)
    Array([[0.5, 0. ],
           [0. , 0.5]], dtype=float32)
    """
    return LarsRule(
        "muon", lr, momentum, weight_decay, ns_steps, ns_params, nesterov, False, False, 0.0,
        aspect_ratio_scale, fused, state_dtype, const_lr,
    )  # fmt: skip


def newton_schulz(
    matrix: Any, steps: int = 5, params: Sequence[float] = MUON_PARAMS, eps: float = 1e-7
) -> Array:
    """A matrix made nearly orthogonal: G / (|G| + eps), then `steps` times G = Σᵢ params[i] · (G Gᵀ)ⁱ G.

    The polynomial moves all singular values towards 1 (Bernstein and Newhouse 2024, "Old optimizer, new
    norm", with Muon's coefficients by default). Leading axes are a batch; a vector is a matrix of one column.
    Computed in float32 at least, and returned in the matrix's dtype. Raises ValueError for a scalar.

    >>> g = tnp.array([[3.0, 0.0], [0.0, 4.0]])
    >>> q = optax_like.newton_schulz(g, steps=20, params=(2.0, -1.5, 0.5))
    >>> tnp.round(q, 4)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    steps, coefficients = newton_schulz_settings("newton_schulz", steps, params)
    eps = number("newton_schulz", "eps", eps)
    given = as_array(matrix)
    described = dtypes.describe(given.dtype, given.shape)
    if given.dtype not in dtypes.FLOATS:
        raise TypeError(f"newton_schulz needs a matrix of floats, not {described}; at {user_line()}")
    if given.ndim == 0:
        raise ValueError(f"newton_schulz needs a matrix or a vector, not a scalar; at {user_line()}")
    if not coefficients:
        raise ValueError(f"newton_schulz needs at least one coefficient in params; at {user_line()}")
    shape: tuple[Any, ...] = given.shape if given.ndim > 1 else (*given.shape, 1)
    g: Numbers = operators.to_dtype(given, dtypes.accumulator(given.dtype))
    g = prims.reshape(g, shape=shape)
    norms = prims.sqrt(prims.reduce_sum(g * g, axes=(g.ndim - 2, g.ndim - 1)))
    g = g / prims.reshape(norms + eps, shape=(*shape[:-2], 1, 1))
    # G Gᵀ is the smaller of the two products if G has no more rows than columns.
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
    square: Numbers = operators.matmul(g, _transposed(g))
    inner = coefficients[-1] * square
    for coefficient in coefficients[-2:0:-1]:
        inner = square @ inner + coefficient * square
    return result + inner @ g


def _transposed(x: Numbers) -> Numbers:
    return prims.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
