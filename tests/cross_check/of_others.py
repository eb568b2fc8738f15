"""The functions of linalg, fft, lax, nn and ops, by NumPy's or by formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyfn.numpy as tnp
from tests.cross_check.table import ANY, FUNCTIONS, WIDE, both, formulas, shared, singles
from tinyfn import fft, lax, linalg, nn, ops

# linalg and fft


def _regular(m: Any, a: Any) -> Any:
    """A well-conditioned matrix made of any."""
    one = np.eye(a.shape[-1], dtype=bool)  # of no influence on the dtype
    return a * 0.3 + one + one


def _definite(m: Any, a: Any) -> Any:
    return _regular(m, m.matmul(a, np.swapaxes(a, -1, -2) if isinstance(a, np.ndarray) else a.mT))


_square: dict[str, Callable[..., Any]] = {
    "det": lambda m, a: m.det(_regular(m, a)), "inv": lambda m, a: m.inv(_regular(m, a)), "slogdet": lambda m,
    a: list(m.slogdet(_regular(m, a))),
    "solve": lambda m, a: m.solve(_regular(m, a), a), "cholesky": lambda m, a: m.cholesky(_definite(m, a)),
    "matrix_power": lambda m, a: m.matrix_power(_regular(m, a), 3), "eigvalsh": lambda m, a: m.eigvalsh(_definite(m, a)),
    "svdvals": lambda m, a: m.svdvals(_definite(m, a)), "pinv": lambda m, a: m.pinv(_regular(m, a)), "norm": lambda m,
    a: m.norm(a),
    "matrix_norm": lambda m, a: m.matrix_norm(a), "vector_norm": lambda m, a: m.vector_norm(a), "cond": lambda m,
    a: m.cond(_regular(m, a)),
    "tensorinv": lambda m, a: m.tensorinv(_regular(m, a), 1), "tensorsolve": lambda m, a: m.tensorsolve(_regular(m, a), a[0]),
    "lstsq": lambda m, a: m.lstsq(_regular(m, a), a)[0], "multi_dot": lambda m, a: m.multi_dot([a, _regular(m, a), a]),
    "qr": lambda m, a: abs(m.qr(_regular(m, a))[1]), "eigh": lambda m, a: m.eigh(_definite(m, a))[0],
    "svd": lambda m, a: m.svd(_definite(m, a))[1], "diagonal": lambda m, a: m.diagonal(a), "trace": lambda m, a: m.trace(a),
    "matrix_transpose": lambda m, a: m.matrix_transpose(a),
}  # fmt: skip
shared(_square, (((2, 2),), ((3, 3),)), linalg, kinds="f", special=False, factor=4096.0)
for _name in ("svdvals", "eigvalsh", "eigh", "svd", "cond", "qr"):
    FUNCTIONS[f"linalg.{_name}"] = FUNCTIONS[f"linalg.{_name}"]._replace(slope=False)
shared(
    {"matrix_rank": lambda m, a: m.matrix_rank(_regular(m, a))},
    (((2, 2),),),
    linalg,
    rule="index",
    special=False,
    slope=False,
)
shared(
    {"outer": lambda m, a, b: m.outer(a, b), "cross": lambda m, a, b: m.cross(a, b), "vecdot": lambda m, a, b: m.vecdot(a, b),
     "tensordot": lambda m, a, b: m.tensordot(a, b, axes=1), "matmul": lambda m, a, b: m.matmul(a, b)},
    (((3,), (3,)),), linalg, kinds="if", special=False, factor=128.0,
)  # fmt: skip
_transforms: dict[str, Callable[..., Any]] = {
    **{name: lambda m, a, name=name: getattr(m, name)(a) for name in ("fft", "ifft", "fftn", "ifftn", "hfft")},
    "irfft": lambda m, a: m.irfft(a, 4), "irfftn": lambda m, a: m.irfftn(a, a.shape, tuple(range(a.ndim))),
}  # fmt: skip
shared(_transforms, (((4,),), ((5,),), ((2, 3),)), fft, kinds="c", special=False, slope=False, factor=128.0)
for _name in ("hfft", "irfft", "irfftn"):
    FUNCTIONS[f"fft.{_name}"] = FUNCTIONS[f"fft.{_name}"]._replace(rule="real")
shared(
    {name: lambda m, a, name=name: getattr(m, name)(a) for name in ("rfft", "rfftn", "ihfft")},
    (((4,),), ((5,),), ((2, 3),)), fft, kinds="f", rule="complex", special=False, slope=False, factor=128.0,
)  # fmt: skip
shared({name: lambda m, a, name=name: getattr(m, name)(a) for name in ("fft2", "ifft2")},
       (((2, 3),), ((4, 4),)), fft, kinds="c", special=False, slope=False, factor=128.0)  # fmt: skip
shared(
    {"rfft2": lambda m, a: m.rfft2(a)},
    (((2, 3),),),
    fft,
    kinds="f",
    rule="complex",
    special=False,
    slope=False,
    factor=128.0,
)
shared(
    {"irfft2": lambda m, a: m.irfft2(a, (2, 4))},
    (((2, 3),),),
    fft,
    kinds="c",
    rule="real",
    special=False,
    slope=False,
    factor=128.0,
)
shared(
    {"fftshift": lambda m, a: m.fftshift(a), "ifftshift": lambda m, a: m.ifftshift(a)},
    singles(((4,), (2, 3))),
    fft,
    kinds="ifc",
)

# lax: strict functions of arrays of one dtype

_unary: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "square": np.square,
    "logistic": lambda v: 1 / (1 + np.exp(-v)), "erf": np.vectorize(math.erf, otypes=[float]), "erfc": np.vectorize(math.erfc,
    otypes=[float]),
}  # fmt: skip
formulas(lax, _unary, singles(ANY))
formulas(lax, {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "cbrt": np.cbrt, "reciprocal": lambda v: 1 / v,
               "log1p": np.log1p}, singles(ANY), domains=((0.2, 3.0),))  # fmt: skip
formulas(
    lax,
    {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh, "tan": np.tan},
    singles(ANY),
    domains=((-0.9, 0.9),),
    special=False,
)
formulas(lax, {"acosh": np.arccosh}, singles(ANY), domains=((1.1, 4.0),))
formulas(
    lax,
    {"lgamma": np.vectorize(math.lgamma, otypes=[float])},
    singles(ANY),
    domains=((0.3, 4.0),),
    special=False,
    factor=64.0,
)
formulas(lax, {"abs": np.abs, "sign": np.sign}, singles(ANY), kinds="if")
formulas(lax, {"floor": np.floor, "ceil": np.ceil}, singles(ANY), slope=False)
formulas(lax, {"is_finite": np.isfinite}, singles(ANY), rule="bool", slope=False)
formulas(lax, {"bitwise_not": np.invert}, singles(ANY), kinds="bi", slope=False)
formulas(lax, {"population_count": np.bitwise_count}, singles(ANY), kinds="i", slope=False)
FUNCTIONS["lax.population_count"] = FUNCTIONS["lax.population_count"]._replace(domains=((0.0, 9.0),))
_same = tuple((s, s) for s in ANY)
formulas(lax, {"add": np.add, "sub": np.subtract, "mul": np.multiply}, _same, kinds="if")
formulas(lax, {"max": np.maximum, "min": np.minimum}, _same, kinds="if", slope=False)
formulas(lax, {"div": np.divide, "atan2": np.arctan2}, _same, domains=((0.3, 3.0), (0.3, 3.0)))
formulas(lax, {"pow": np.power}, _same, domains=((0.3, 2.0), (-2.0, 2.0)), special=False)
formulas(
    lax, {"rem": np.fmod}, _same, kinds="f", domains=((0.3, 3.0), (0.3, 3.0)), special=False, slope=False
)
formulas(lax, {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
         _same, kinds="if", rule="bool", slope=False)  # fmt: skip
formulas(
    lax,
    {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor},
    _same,
    kinds="bi",
    slope=False,
)
formulas(lax, {"shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift}, _same, kinds="i", slope=False,
         domains=((0.0, 5.0), (0.0, 5.0)))  # fmt: skip


_of_rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
both(lax, {
    "integer_pow": (lambda v: lax.integer_pow(v, 3), lambda v: v**3), "rev": (lambda v: lax.rev(v, (1,)), lambda v: v[:, ::-1]),
    "reshape": (lambda v: lax.reshape(v, (v.size,)), np.ravel), "transpose": (lambda v: lax.transpose(v, (1, 0)), np.transpose),
    "broadcast": (lambda v: lax.broadcast(v, (2,)), lambda v: np.stack([v, v])),
    "expand_dims": (lambda v: lax.expand_dims(v, (0,)), lambda v: v[None]),
    "broadcast_in_dim": (lambda v: lax.broadcast_in_dim(v, (2, *v.shape), (1, 2)), lambda v: np.stack([v, v])),
    "slice": (lambda v: lax.slice(v, (0, 0), (1, 2)), lambda v: v[:1, :2]),
    "slice_in_dim": (lambda v: lax.slice_in_dim(v, 1, None), lambda v: v[1:]),
    "index_in_dim": (lambda v: lax.index_in_dim(v, 0, 1, False), lambda v: v[:, 0]),
    "concatenate": (lambda v: lax.concatenate([v, v], 1), lambda v: np.hstack([v, v])),
    "dynamic_slice": (lambda v: lax.dynamic_slice(v, (0, 1), (2, 1)), lambda v: v[:, 1:2]),
    "collapse": (lambda v: lax.collapse(v, 0, 2), np.ravel),
    "dynamic_index_in_dim": (lambda v: lax.dynamic_index_in_dim(v, 9, 1, False), lambda v: v[:, -1]),
    "dynamic_slice_in_dim": (lambda v: lax.dynamic_slice_in_dim(v, 1, 1), lambda v: v[1:]),
    "dynamic_update_slice": (lambda v: lax.dynamic_update_slice(v, v[:1], (1, 0)), lambda v: np.stack([v[0], v[0]])),
    "split": (lambda v: lax.split(v, (1, 1)), lambda v: [v[:1], v[1:]]), "squeeze": (lambda v: lax.squeeze(v[None], (0,)),
    lambda v: v),
    "pad": (lambda v: lax.pad(v, 0, ((1, 0, 0), (0, 0, 0))), lambda v: np.pad(v, ((1, 0), (0, 0)))),
    "full_like": (lambda v: lax.full_like(v, 2), lambda v: np.full_like(v, 2)),
    "select": (lambda v: lax.select(v > 0, v, -v), lambda v: np.where(v > 0, v, -v)),
    "clamp": (lambda v: lax.clamp(0, v, 2), lambda v: np.clip(v, 0, 2)),
    "gather": (lambda v: lax.gather(v, np.array([[1], [0]], "int32"), _of_rows, (1, v.shape[1])), lambda v: v[::-1]),
    "cummax": (lambda v: lax.cummax(v, 1), lambda v: np.maximum.accumulate(v, 1)),
    "cummin": (lambda v: lax.cummin(v, 0), lambda v: np.minimum.accumulate(v, 0)),
    "cumprod": (lambda v: lax.cumprod(v, 0), lambda v: np.cumprod(v, 0, dtype=v.dtype)),
}, (((2, 3),), ((2, 2),)), kinds="if", special=False)  # fmt: skip
both(lax, {
    "reduce_sum": (lambda v: lax.reduce_sum(v, (0,)), lambda v: np.sum(v, 0, dtype=v.dtype)),
    "reduce_max": (lambda v: lax.reduce_max(v, (0,)), lambda v: np.max(v, 0)),
    "reduce_min": (lambda v: lax.reduce_min(v, (1,)), lambda v: np.min(v, 1)),
    "reduce_prod": (lambda v: lax.reduce_prod(v, (0,)), lambda v: np.prod(v, 0)), "cumsum": (lambda v: lax.cumsum(v, 1, True),
    lambda v: np.cumsum(v[:, ::-1], 1)[:, ::-1]),
    "sort": (lambda v: lax.sort(v, 0), lambda v: np.sort(v, 0)), "top_k": (lambda v: lax.top_k(v, 2)[0],
    lambda v: -np.sort(-v, -1)[:, :2]),
    "sort_key_val": (lambda v: list(lax.sort_key_val(v, -v)), lambda v: [np.sort(v), -np.sort(v)]),
    "associative_scan": (lambda v: lax.associative_scan(tnp.add, v), lambda v: np.cumsum(v, 0)),
    "scan": (lambda v: lax.scan(lambda c, a: (c + a, c), v[0], v)[0], lambda v: v[0] + v.sum(0)),
    "fori_loop": (lambda v: lax.fori_loop(0, 3, lambda n, c: c * 0.5 + v, v), lambda v: v * 1.875),
    "while_loop": (lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5), (0, v))[1], lambda v: v / 8),
    "cond": (lambda v: lax.cond(v.shape[0] > 5, tnp.sin, tnp.cos, v), np.cos),
    "switch": (lambda v: lax.switch(1, [tnp.sin, tnp.cos], v), np.cos),
    "map": (lambda v: lax.map(tnp.sin, v), np.sin), "stop_gradient": (lambda v: lax.stop_gradient(v) + v * 0, lambda v: v),
    "dot": (lambda v: lax.dot(v, v.T), lambda v: v @ v.T),
    "dot_general": (lambda v: lax.dot_general(v, v, (((1,), (1,)), ((0,), (0,)))), lambda v: np.sum(v * v, 1)),
    "batch_matmul": (lambda v: lax.batch_matmul(v[None], v.T[None])[0], lambda v: v @ v.T),
}, (((2, 3),), ((3, 4),)), special=False, factor=256.0)  # fmt: skip
for _name in ("stop_gradient",):
    FUNCTIONS[f"lax.{_name}"] = FUNCTIONS[f"lax.{_name}"]._replace(slope=False)
both(lax, {"argmax": (lambda v: lax.argmax(v, 0), lambda v: np.argmax(v, 0)), "argmin": (lambda v: lax.argmin(v, 1), lambda v:
np.argmin(v, 1))},
     (((2, 3),),), kinds="if", rule="index", special=False, slope=False)  # fmt: skip


def _conv(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """A valid correlation, by its definition: NCHW and OIHW."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel)


_images = (((1, 2, 4, 4), (3, 2, 2, 2)), ((2, 1, 3, 5), (1, 1, 3, 2)))
both(lax, {
    "conv": (lambda a, k: lax.conv(a, k, (1, 1), "VALID"), _conv),
    "conv_general_dilated": (lambda a, k: lax.conv_general_dilated(a, k, (2, 1), "VALID"), lambda a, k: _conv(a, k)[:, :, ::2]),
    "conv_with_general_padding": (lambda a, k: lax.conv_with_general_padding(a, k, (1, 1), [(1, 1), (0, 0)], None, None),
                                  lambda a, k: _conv(np.pad(a, ((0, 0), (0, 0), (1, 1), (0, 0))), k)),
}, _images, special=False, factor=256.0)  # fmt: skip
both(lax, {"reduce_window": (lambda v: lax.reduce_window(v, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
                             lambda v: np.lib.stride_tricks.sliding_window_view(v, (2, 2)).sum((2, 3)))},
     (((3, 4),),), special=False, factor=64.0)  # fmt: skip

# nn, by the formulas of the papers


def _softmax(v: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(v - v.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _sigmoid(v: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-v))


def _elu(v: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))


_erf = np.vectorize(math.erf, otypes=[float])
formulas(nn, {
    "sigmoid": _sigmoid, "tanh": np.tanh, "softplus": lambda v: np.logaddexp(v, 0), "log_sigmoid": lambda v: -np.logaddexp(-v,
    0),
    "silu": lambda v: v * _sigmoid(v), "swish": lambda v: v * _sigmoid(v), "mish": lambda v: v * np.tanh(np.logaddexp(v, 0)),
    "gelu": lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "squareplus": lambda v: (v + np.sqrt(v * v + 4)) / 2, "soft_sign": lambda v: v / (1 + np.abs(v)), "identity": lambda v: v,
}, singles(ANY), special=False)  # fmt: skip
formulas(nn, {
    "relu": lambda v: np.maximum(v, 0), "relu6": lambda v: np.clip(v, 0, 6), "elu": _elu, "celu": _elu,
    "selu": lambda v: 1.0507009873554805 * _elu(v, 1.6732632423543772), "leaky_relu": lambda v: np.where(v >= 0, v, 0.01 * v),
    "hard_tanh": lambda v: np.clip(v, -1, 1), "hard_sigmoid": lambda v: np.clip(v + 3, 0, 6) / 6,
    "hard_silu": lambda v: v * np.clip(v + 3, 0, 6) / 6, "hard_swish": lambda v: v * np.clip(v + 3, 0, 6) / 6,
}, singles(ANY), special=False, domains=((0.2, 2.8),))  # fmt: skip
formulas(
    nn, {"log1mexp": lambda v: np.log1p(-np.exp(-v))}, singles(ANY), domains=((0.2, 3.0),), special=False
)
formulas(nn, {
    "softmax": _softmax, "log_softmax": lambda v: np.log(_softmax(v)), "logsumexp": lambda v: np.log(np.exp(v).sum()),
    "glu": lambda v: v[..., : v.shape[-1] // 2] * _sigmoid(v[..., v.shape[-1] // 2 :]),
    "standardize": lambda v: (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5),
}, (((4,),), ((2, 4),)), special=False, factor=256.0)  # fmt: skip
both(
    nn,
    {"one_hot": (lambda v: nn.one_hot(v, 4), lambda v: np.eye(4)[v])},
    singles(ANY),
    kinds="i",
    rule="float32",
    domains=((0.0, 3.9),),
    slope=False,
)
both(nn, {
    "max_pool": (lambda v: nn.max_pool(v, (2, 2)),
    lambda v: np.lib.stride_tricks.sliding_window_view(v, (2, 2), (1, 2)).max((4, 5))),
    "avg_pool": (lambda v: nn.avg_pool(v, (2, 2)),
    lambda v: np.lib.stride_tricks.sliding_window_view(v, (2, 2), (1, 2)).mean((4, 5))),
}, (((1, 3, 4, 2),),), special=False, factor=64.0)  # fmt: skip
_attended = tuple([(1, 3, 2, 4)] * 3)
both(nn, {"dot_product_attention": (
    nn.dot_product_attention,
    lambda q, k, v: np.einsum("bnts,bsnh->btnh", _softmax(np.einsum("btnh,bsnh->bnts", q, k) / 2), v))},
    (_attended,), domains=(WIDE, WIDE, WIDE), special=False, factor=512.0)  # fmt: skip


def _segments(ufunc: Any, start: float) -> Callable[[np.ndarray], np.ndarray]:
    def call(v: np.ndarray) -> np.ndarray:
        result = np.full((3, *v.shape[1:]), start, v.dtype)
        ufunc.at(result, np.array([2, 0, 2, 1]), v)
        return result

    return call


both(ops, {
    f"segment_{name}": (lambda v, name=name: getattr(ops, f"segment_{name}")(v, np.array([2, 0, 2, 1]), 3), _segments(ufunc,
    start))
    for name, ufunc, start in (("sum", np.add, 0), ("prod", np.multiply, 1), ("max", np.maximum, -1e9), ("min", np.minimum, 1e9))
}, (((4,),), ((4, 2),)), special=False, factor=64.0)  # fmt: skip
