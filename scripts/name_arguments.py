"""What each public function is called with by scripts/names.py: data, by module and name.

An entry is a tuple of arguments, or a `Use`: arguments with keywords, or a call written out. Functions without an entry are
called
with the first of CANDIDATES that they accept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import custom_batching, lax, optax_like, random, tree
from tinyfn.scipy import linalg as scipy_linalg
from tinyfn.trace.array import Array


class Use:
    """What is run of a function: `call(*args, **options)`, where `call` is the function itself if it isn't given.

    `derivative="sample"`: the gradient is that of a distribution and not that of one sample's path, so differences say nothing.
    `derivative="zero"`: it is zero by definition. `of`: those of the arrays of floats by which there is a
    derivative; none if it is empty."""

    def __init__(
        self,
        *args: Any,
        call: Callable[..., Any] | None = None,
        derivative: str = "differences",
        of: tuple[int, ...] | None = None,
        **options: Any,
    ):
        self.args, self.options, self.call = args, options, call
        self.derivative, self.of = derivative, of


_generator = np.random.default_rng(0)


def _array(*shape: int) -> Array:
    return tnp.asarray(_generator.uniform(0.2, 0.9, shape).astype(np.float32))


x, y, z, m, t = _array(4), _array(4), _array(4), _array(3, 3) + 2 * tnp.eye(3), _array(2, 3, 4)
whole, other, mask = tnp.array([3, 1, 2, 1]), tnp.array([1, 2, 1, 3]), tnp.array([True, False, True, True])
i = tnp.array(1)
spd = m @ m.T
image, filters = _array(1, 2, 5, 5), _array(3, 2, 3, 3)
key = random.key(0)
CANDIDATES: tuple[tuple[Any, ...], ...] = (
    (x,), (x, y), (m,), (m, m), (x, y, z), (whole,), (whole, other), (3,), ((2, 3),), ([x, y],), (x, whole), (m, 1),
)  # fmt: skip


def _run(function: Callable[..., Any], *arrays: Any, **options: Any) -> Use:
    """A call written out: a function of the arrays."""
    return Use(*arrays, call=function, **options)


def _smooth(v: Any) -> Any:
    return tnp.sum(tnp.sin(v) ** 2)


def _within(manager: Any) -> Use:
    """What a context manager leaves as it is."""

    def inside(v: Any) -> Any:
        with manager():
            return v * 2

    return _run(inside, x)


def _without_tracing(v: Any) -> Any:
    with tinyfn.no_tracing():
        return tnp.sin(v)


def _custom(transform: Any) -> Use:
    def call(v: Any) -> Any:
        @transform
        def cube(v: Any) -> Any:
            return v**3

        if transform is tinyfn.custom_jvp:
            cube.defjvp(lambda p, t: (p[0] ** 3, 3 * p[0] ** 2 * t[0]))
        else:
            cube.defvjp(lambda v: (v**3, v), lambda v, ct: (3 * v**2 * ct,))
        return cube(v)

    return _run(call, x)


def _printed(v: Any) -> Any:
    tinyfn.debug.callback(lambda v: None, v)
    return v * 2


def _checked(v: Any) -> Any:
    tinyfn.checks.check(tnp.all(v < 10), "{} is too large", v)
    return v * 2


def _gradient_of_its_own(v: Any) -> Any:
    return tinyfn.custom_gradient(lambda v: (v**3, lambda ct: 3 * v**2 * ct))(v)


def _two_passes(v: Any, u: Any) -> Any:
    forward, backward = tinyfn.fwd_and_bwd(tnp.sin, 0)
    return backward(forward(v)[1], u)


def _converted(v: Any, u: Any) -> Any:
    function, constants = tinyfn.closure_convert(lambda v: v * u, v)
    return function(v, *constants)


def _by_newton(f: Any, guess: Any) -> Any:
    def step(_: Any, r: Any) -> Any:
        value, slope = tinyfn.jvp(f, (r,), (tnp.ones_like(r),))
        return r - value / slope

    return lax.fori_loop(0, 10, step, guess)


def _root(v: Any) -> Any:
    return lax.custom_root(
        lambda r: r**3 - v, tnp.ones_like(v), _by_newton, lambda g, u: u / g(tnp.ones_like(u))
    )


def _solution(d: Any, v: Any) -> Any:
    return lax.custom_linear_solve(lambda u: d * u, v, lambda _, u: u / d, symmetric=True)


def _not_executed(v: Any) -> Any:
    with tinyfn.no_execution():
        shape = tinyfn.make_graph(tnp.sin)(v).outputs[0].shape
    return tnp.ones(shape) * v


def _known_now(v: Any) -> Any:
    with tinyfn.ensure_compile_time_eval():
        scale = float(tnp.sum(whole))
    return v * scale


TRANSFORMS: dict[str, Any] = {
    "block_until_ready": (x,), "copy_to_host_async": (x,), "device_put": (x,),
    "device_get": _run(lambda v: v * tinyfn.device_get(y), x),
    "default_backend": _run(lambda v: v * len(tinyfn.default_backend()), x),
    "effects_barrier": _run(lambda v: (tinyfn.effects_barrier(), v * 2)[1], x),
    "typeof": _run(lambda v: tnp.ones(tinyfn.typeof(v).shape) * v, x),
    "default_matmul_precision": _within(lambda: tinyfn.default_matmul_precision("highest")),
    "enable_x64": _within(lambda: tinyfn.enable_x64(False)), "explain_cache_misses": _within(tinyfn.explain_cache_misses),
    "no_execution": _run(_not_executed, x), "ensure_compile_time_eval": _run(_known_now, x),
    "numpy_dtype_promotion": _within(lambda: tinyfn.numpy_dtype_promotion("strict")),
    "numpy_rank_promotion": _within(lambda: tinyfn.numpy_rank_promotion("raise")),
    "named_scope": _within(lambda: tinyfn.named_scope("a")), "named_call": _run(lambda v: tinyfn.named_call(_smooth)(v), x),
    "clear_caches": _run(lambda v: (tinyfn.clear_caches(), v * 2)[1], x),
    "make_jaxpr": _run(lambda v: tinyfn.make_jaxpr(tnp.sin)(v).run([np.asarray(x)])[0] * v, x),
    "custom_vjp_primal_tree_values": (x,), "custom_gradient": _run(_gradient_of_its_own, x),
    "closure_convert": _run(_converted, x, y),
    "fwd_and_bwd": _run(_two_passes, x, y),
    "linear_transpose": _run(lambda a, u: tinyfn.linear_transpose(lambda v: a @ v, u)(u), m, x[:3]),
    "custom_jvp": _custom(tinyfn.custom_jvp), "custom_vjp": _custom(tinyfn.custom_vjp),
    "debug_infs": _within(tinyfn.debug_infs), "debug_key_reuse": _within(tinyfn.debug_key_reuse),
    "debug_nans": _within(tinyfn.debug_nans),
    "disable_jit": _within(tinyfn.disable_jit), "no_tracing": _run(_without_tracing, x),
    "log_compiles": _within(tinyfn.log_compiles),
    "stop_gradient": Use(x, derivative="zero"),
    "eval_shape": _run(lambda v: tnp.ones(tinyfn.eval_shape(tnp.outer, v, v).shape) * v, x),
    "grad": _run(lambda v: tinyfn.grad(_smooth)(v), x),
    "value_and_grad": _run(lambda v: tinyfn.value_and_grad(_smooth)(v), x),
    "hessian": _run(lambda v: tinyfn.hessian(_smooth)(v), x),
    "jacfwd": _run(lambda v: tinyfn.jacfwd(tnp.cumsum)(v * v), x),
    "jacobian": _run(lambda v: tinyfn.jacobian(tnp.cumsum)(v * v), x),
    "jacrev": _run(lambda v: tinyfn.jacrev(tnp.cumsum)(v * v), x),
    "jit": _run(lambda v: tinyfn.jit(_smooth)(v), x),
    "jvp": _run(lambda v, u: tinyfn.jvp(tnp.sin, (v,), (u,)), x, y),
    "vjp": _run(lambda v, u: tinyfn.vjp(tnp.sin, v)[1](u), x, y),
    "linearize": _run(lambda v, u: tinyfn.linearize(tnp.sin, v)[1](u), x, y),
    "make_graph": _run(lambda v: tinyfn.make_graph(tnp.sin)(v).run([np.asarray(x)])[0] * v, x),
    "remat": _run(lambda v: tinyfn.remat(_smooth)(v), x),
    "vmap": _run(lambda a, v: tinyfn.vmap(tnp.dot, (0, None))(a, v), m, x[:3]),
    "io_callback": _run(lambda v: tinyfn.io_callback(np.sin, v, v), x, of=()),
    "pure_callback": _run(lambda v: tinyfn.pure_callback(np.sin, v, v, vmap_method="sequential"), x, of=()),
}  # fmt: skip
SPECIAL_FUNCTIONS: dict[str, Any] = {
    "bernoulli": (6,),
    "comb": (whole, i), "factorial": (x,), "multigammaln": (x + 2, 2), "polygamma": (2, x), "zeta": Use(x + 1.5, y, of=(1,)),
    "betainc": Use(x, y, z, of=(2,)), "bessel_jn": Use(x, v=2), "expn": (whole, x),
    "sph_harm_y": Use(whole, whole - 2, x, y, n_max=8),
    "hyp2f1": (x, y, y + 1, z),
}  # fmt: skip
OPS: dict[str, Any] = {f"segment_{kind}": (x, whole - 1, 3) for kind in ("sum", "prod", "max", "min")}
# With these every result is a fixed size.
_OF_SIZE = (
    "argwhere", "flatnonzero", "nonzero", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
)  # fmt: skip
_SETS = ("union1d", "intersect1d", "setdiff1d", "setxor1d")
NUMPY: dict[str, Any] = {
    **{name: Use(x, size=6) for name in _OF_SIZE}, **{name: Use(whole, other, size=6) for name in _SETS},
    "arccosh": (x + 1,), "acosh": (x + 1,), "apply_along_axis": (lambda v: v.sum(), 0, m),
    "apply_over_axes": (tnp.sum, t, (0, 2)),
    "arange": (5,), "array_split": (x, 3), "astype": (x, "float64"), "average": (x,), "bincount": Use(whole, length=6),
    "bitwise_and": (whole, other), "broadcast_shapes": ((2, 1), (3,)), "broadcast_to": (x, (2, 4)),
    "can_cast": ("int8", "int16"),
    "choose": Use(whole % 2, [x, y], mode="clip"), "clip": (x, 0.3, 0.6), "compress": Use(mask, x, size=3), "convolve": (x, y),
    "cross": (x[:3], y[:3]),
    "delete": (x, 1), "diag_indices": (3,), "diagonal": (m,), "digitize": (x, tnp.array([0.1, 0.5, 1.0])), "dot": (m, m),
    "dsplit": (t, 2), "einsum": ("ij,jk->ik", m, m), "einsum_path": ("ij,jk->ik", m, m),
    "frombuffer": (b"\x01\x02", "uint8"), "fromiter": ([1.0, 2.0], float), "fromstring": Use("1 2", sep=" "),
    "frompyfunc": _run(lambda v: tnp.frompyfunc(lambda a, b: a * b, 2, 1)(v, v), x), "histogram2d": (x, y), "histogramdd": (m,),
    "kaiser": (4, 3.0), "place": Use(x, mask, y, inplace=False), "put": Use(x, whole, y, inplace=False), "resize": (m, (2, 5)),
    "expand_dims": (x, 0), "extract": Use(mask, x, size=3), "finfo": ("float32",),
    "from_dlpack": (x,), "fromfunction": (lambda i, j: i + j, (2, 3)), "fill_diagonal": Use(m, 1.0, inplace=False),
    "full": ((2,), 3.0), "full_like": (x, 2.0),
    "gcd": (whole, other),
    "histogram_bin_edges": (x,), "hsplit": (x, 2), "iinfo": ("int8",), "indices": ((2, 3),),
    "insert": (x, 1, 2.0), "interp": (x, tnp.linspace(0, 1, 4), y), "isdtype": ("int8", "integral"), "isin": (whole, other),
    "issubdtype": ("int8", tnp.integer), "ix_": (whole, other), "lcm": (whole, other), "ldexp": (x, whole),
    "left_shift": (whole, other), "lexsort": ([whole, other],), "linspace": (0.0, 1.0, 5), "logspace": (0.0, 1.0, 5),
    "geomspace": (1.0, 2.0, 5), "mask_indices": (3, tnp.triu), "matvec": (m, x[:3]), "matmul": (m, m), "meshgrid": (x, y),
    "moveaxis": (t, 0, 1), "pad": (x, 1), "partition": (x, 1), "argpartition": (x, 1), "percentile": (x, 30.0),
    "permute_dims": (t, (2, 0, 1)), "piecewise": (x, [x > 0.5], [lambda v: v * 2, 0.0]), "polyder": (x,), "polydiv": (x, y[:2]),
    "polyfit": (x, y, 2), "polyval": (x, y), "promote_types": ("int8", "float32"), "put_along_axis": (x, whole, 1.0, 0, False),
    "quantile": (x, 0.3), "nanquantile": (x, 0.3), "nanpercentile": (x, 30.0),
    "ravel_multi_index": Use((whole, other), (5, 5), mode="clip"),
    "repeat": (x, 2), "reshape": (x, (2, 2)), "result_type": (x, 1), "right_shift": (whole, other), "roll": (x, 1),
    "rollaxis": (t, 2), "roots": Use(x, strip_zeros=False), "rot90": (m,), "searchsorted": (tnp.linspace(0, 1, 5), x),
    "select": ([x > 0.5], [y]), "split": (x, 2),
    "swapaxes": (m, 0, 1), "take": (x, whole), "take_along_axis": (x, whole), "tensordot": (m, m), "tile": (x, 2),
    "top_k": (x, 2), "tri": (3,), "tril_indices": (3,), "triu_indices": (3,), "unpackbits": (tnp.array([3, 5], "uint8"),),
    "unravel_index": (whole, (2, 4)), "vander": (x,), "vecmat": (x[:3], m), "vectorize": (lambda v: v * 2,), "vsplit": (t, 2),
    "where": (mask, x, y), "power": (x, y), "pow": (x, y), "zeros_like": (x,),
    "trapezoid": (x,), "unwrap": (x,), "vecdot": (x, y), "inner": (x, y), "outer": (x, y), "kron": (m, m), "cov": (m,),
    "corrcoef": (m,), "diff": (x,), "gradient": (x,), "nan_to_num": (x,), "array": ([1.0, 2.0],), "asarray": ([1.0, 2.0],),
    "tril_indices_from": (m,), "triu_indices_from": (m,), "diag_indices_from": (m,), "empty": ((2,),), "ones": ((2,),),
    "zeros": ((2,),), "hanning": (4,), "hamming": (4,), "blackman": (4,), "bartlett": (4,),
    "shape": (x,), "size": (x,), "ndim": (x,), "isscalar": (1.0,), "iterable": (x,), "isrealobj": (x,), "iscomplexobj": (x,),
    "array_repr": (x,), "array_str": (x,), "eye": (3,), "identity": (3,), "bitwise_count": (whole,), "packbits": (mask,),
    "trace": (m,), "median": (x,), "block": ([[m, m], [m, m]],),
}  # fmt: skip
LINALG: dict[str, Any] = {
    "cholesky": (spd,), "eigh": (spd,), "eigvalsh": (spd,), "matrix_power": (m, 3), "norm": (x,), "matrix_norm": (m,),
    "vector_norm": (x,), "multi_dot": ([m, m, m],), "solve": (m, x[:3]), "lstsq": (m, x[:3]), "tensorinv": (m, 1),
    "tensorsolve": (m, x[:3]), "svd": (m, False), "qr": (m,), "cross": (x[:3], y[:3]), "vecdot": (x, y), "outer": (x, y),
    "matmul": (m, m), "tensordot": (m, m), "diagonal": (m,), "trace": (m,), "cond": (m,), "matrix_rank": (m,),
}  # fmt: skip
_system = (m, m[0])
SCIPY_LINALG: dict[str, Any] = {
    "cholesky": (spd,), "cho_factor": _run(lambda v: scipy_linalg.cho_factor(v)[0], spd),
    "cho_solve": _run(lambda a, b: scipy_linalg.cho_solve((a, False), b), m, x[:3]),
    "eigh": (spd,), "expm_frechet": (m, m), "lu_factor": (m,), "lu": (m,), "solve": _system, "solve_triangular": _system,
    "lu_solve": _run(lambda a, b: scipy_linalg.lu_solve(scipy_linalg.lu_factor(a), b), *_system),
    "svd": (m, False), "qr": (m,), "toeplitz": (x,), "hankel": (x,), "circulant": (x,), "companion": (x,),
    "hadamard": (4,), "dft": (3,), "hilbert": (3,),
    "block_diag": (m, x), "eigh_tridiagonal": (x, y[:3]), "polar": (m,), "sqrtm": (spd,), "expm": (m,),
}  # fmt: skip
LAX_LINALG: dict[str, Any] = {
    "cholesky": (spd,), "lu": (m,), "lu_pivots_to_permutation": (tnp.array([1, 2, 2]), 3),
    "triangular_solve": _run(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), m, m),
    "eigh": _run(lambda a: lax.linalg.eigh(a)[1], spd),
    "qr": (spd,), "svd": Use(m, full_matrices=False), "tridiagonal_solve": (x, y + 3, x, _array(4, 2)),
}  # fmt: skip
FFT: dict[str, Any] = {"fftfreq": (4,), "rfftfreq": (4,)}
NN: dict[str, Any] = {
    "dot_product_attention": tuple([_array(2, 3, 2, 4) for _ in range(3)]), "one_hot": (whole, 4), "log1mexp": (x,),
    "avg_pool": (image, (2, 2)), "max_pool": (image, (2, 2)), "min_pool": (image, (2, 2)),
    "pool": (image, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
    "softmax": (m,), "log_softmax": (m,), "standardize": (m,), "logsumexp": (m,),
}  # fmt: skip


def _initializer(name: str, *args: Any) -> Use:
    return _run(lambda k: getattr(tinyfn.nn.initializers, name)(*args)(k, (3, 4)), key)


INITIALIZERS: dict[str, Any] = {
    "zeros": (key, (3, 4)), "ones": (key, (3, 4)), "constant": _initializer("constant", 2.0),
    "variance_scaling": _initializer("variance_scaling", 1.0, "fan_in", "normal"),
    **{name: _initializer(name) for name in ("uniform", "normal", "truncated_normal", "orthogonal")},
    "delta_orthogonal": _run(lambda k: tinyfn.nn.initializers.delta_orthogonal()(k, (3, 2, 4)), key),
    **{f"{kind}_{of}": _initializer(f"{kind}_{of}") for kind in ("glorot", "lecun", "he", "xavier", "kaiming")
       for of in ("uniform", "normal")},
}  # fmt: skip


def _sampled(*args: Any, **options: Any) -> Use:
    """A sampler that rejects: its gradient is that of the distribution."""
    return Use(key, *args, derivative="sample", dtype="float64", **options)


def _drawn(*args: Any) -> Use:
    """Samples that are functions of parameters and of uniform numbers: in float64, so that differences are exact."""
    return Use(key, *args, dtype="float64")


RANDOM: dict[str, Any] = {
    "PRNGKey": (3,), "key": (3,), "split": (key, 3), "fold_in": (key, 7), "bits": (key, (3,)), "clone": (key,),
    "key_data": (key,), "key_dtype": (), "key_impl": (key,),
    "wrap_key_data": _run(lambda data: random.wrap_key_data(data), random.key_data(key)),
    "check_key_reuse": _within(random.check_key_reuse), "ball": (key, 3), "bernoulli": (key, x), "beta": _sampled(x, y),
    "binomial": Use(key, 10.0, x, derivative="zero"), "categorical": (key, x), "cauchy": (key, (3,)),
    "chisquare": _sampled(x + 1),
    "choice": (key, x, (3,)), "dirichlet": _sampled(x), "double_sided_maxwell": _drawn(x, y, (4,)), "exponential": (key, (3,)),
    "f": _sampled(x + 1, y + 1), "gamma": _sampled(x), "loggamma": _sampled(x), "generalized_normal": (key, 1.5, (3,)),
    "geometric": (key, x), "gumbel": (key, (3,)), "laplace": (key, (3,)), "logistic": (key, (3,)), "lognormal": _drawn(x),
    "maxwell": (key, (3,)), "multinomial": (key, 5.0, x / tnp.sum(x)), "multivariate_normal": _drawn(x[:3], spd),
    "normal": (key, (3,)), "orthogonal": (key, 3), "pareto": _drawn(x), "permutation": (key, x), "poisson": (key, x),
    "rademacher": (key, (3,)), "randint": (key, (3,), 0, 10), "rayleigh": _drawn(x), "t": _sampled(x + 1),
    "triangular": _drawn(x - 1, x, x + 1), "truncated_normal": _drawn(x - 1, x, (4,)),
    "uniform": _run(lambda k, low, high: random.uniform(k, (4,), "float64", low, high), key, x - 1, y),
    "wald": _drawn(x), "weibull_min": _drawn(x, y),
}  # fmt: skip


def _step(carry: Any, v: Any) -> Any:
    return tnp.tanh(carry * 0.9 + v), carry * v


def _lanes(function: Callable[[Any], Any]) -> Use:
    """A function with collectives over the axis "i", of the rows of a square matrix."""
    return _run(tinyfn.vmap(function, axis_name="i"), m)


def _batched_by_hand(v: Any) -> Any:
    doubled = custom_batching.custom_vmap(lambda x: tnp.sin(x) * 2)
    doubled.def_vmap(lambda size, batched, x: (tnp.sin(x) * 2, True))
    return tinyfn.vmap(doubled)(v)


BATCHING: dict[str, Any] = {
    "custom_vmap": _run(_batched_by_hand, x),
    "sequential_vmap": _run(lambda v: tinyfn.vmap(custom_batching.sequential_vmap(tnp.sin))(v), x),
}
LAX: dict[str, Any] = {
    "custom_linear_solve": _run(_solution, x, y), "custom_root": _run(_root, x),
    "acosh": (x + 1,), "argmax": (x, 0), "argmin": (x, 0),
    "associative_scan": _run(lambda v: lax.associative_scan(tnp.multiply, v), x),
    "batch_matmul": (_array(2, 3, 3), _array(2, 3, 3)), "betainc": Use(x, y, z, of=(2,)),
    "bitcast_convert_type": _run(lambda v: lax.bitcast_convert_type(v, "int32"), x),
    "broadcast": (x, (2,)), "broadcast_in_dim": (x, (2, 4), (1,)), "broadcast_shapes": ((2, 1), (1, 3)),
    "broadcast_to_rank": (x, 3),
    "broadcasted_iota": ("int32", (2, 3), 1), "clamp": (0.3, x, 0.6), "clz": (whole,), "collapse": (t, 0, 2),
    "concatenate": ([x, y], 0), "cond": _run(lambda v: lax.cond(v[0] > 0.5, tnp.sin, tnp.cos, v), x),
    "conv": (image, filters, (1, 1), "SAME"),
    "conv_dimension_numbers": ((1, 2, 5, 5), (3, 2, 3, 3), None), "conv_general_dilated": (image, filters, (1, 2), "VALID"),
    "conv_transpose": (tnp.moveaxis(image, 1, 3), tnp.transpose(filters, (2, 3, 1, 0)), (2, 2), "SAME"),
    "conv_with_general_padding": (image, filters, (1, 1), [(1, 0), (0, 1)], (1, 1), (1, 1)),
    "convert_element_type": (x, "float64"),
    **{f"cum{kind}": (m, 0) for kind in ("sum", "prod", "max", "min", "logsumexp")},
    "dot": (m, m), "dot_general": (m, m, (((1,), (0,)), ((), ()))), "dynamic_index_in_dim": (x, i),
    "dynamic_slice": (x, (i,), (2,)),
    "dynamic_slice_in_dim": (x, i, 2), "dynamic_update_index_in_dim": (x, y[:1], i, 0), "dynamic_update_slice": (x, y[:2], (i,)),
    "dynamic_update_slice_in_dim": (x, y[:2], i, 0), "expand_dims": (x, (0,)),
    "fori_loop": _run(lambda v: lax.fori_loop(0, 4, lambda n, c: tnp.sin(c) + n, v), x), "full": ((2,), 3.0),
    "full_like": (x, 2.0),
    "gather": (x, whole[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,)), "igamma_grad_a": Use(x, y, of=(1,)),
    "index_in_dim": (x, 1), "integer_pow": (x, 3),
    "iota": ("int32", 4), "map": _run(lambda v: lax.map(tnp.sin, v), x), "pad": (x, 0.0, [(1, 2, 1)]),
    "padtype_to_pads": ((5, 5), (3, 3), (1, 1), "SAME"), "population_count": (whole,), "random_gamma_grad": Use(x, y, of=()),
    **{f"reduce_{kind}": (m, (0,)) for kind in ("max", "min", "prod", "sum")},
    **{f"reduce_{kind}": (mask, (0,)) for kind in ("and", "or")}, "reduce_xor": (whole, (0,)),
    "reduce": (x, 0.0, lax.add, (0,)), "reduce_window": (image, 0.0, lax.add, (1, 1, 2, 2)),
    "reduce_window_shape_tuple": ((4, 4), (2, 2), (1, 1), [(0, 0), (0, 0)]),
    "reshape": (x, (2, 2)), "rev": (x, (0,)), "scan": _run(lambda c, v: lax.scan(_step, c, v), x[0], y),
    **{f"scatter{kind}": (x, whole[:2, None], y[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
       for kind in ("", "_add", "_sub", "_mul", "_min", "_max")},
    "scatter_apply": _run(
        lambda v, at: lax.scatter_apply(v, at, lax.sin, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(2,)),
        x, whole[:2, None]),
    "approx_max_k": (x, 2), "approx_min_k": (x, 2), "index_take": _run(lambda v, at: lax.index_take(v, (at,), (0,)), x, whole),
    "conv_general_dilated_patches": (image, (2, 2), (1, 1), "SAME"),
    "conv_general_dilated_local": (image, _array(3, 8, 4, 4), (1, 1), "VALID", (2, 2)),
    "conv_general_permutations": (("NHWC", "HWIO", "NHWC"),),
    "conv_shape_tuple": ((1, 2, 5, 5), (3, 2, 2, 2), (1, 1), "SAME"),
    "conv_general_shape_tuple": ((1, 2, 5, 5), (3, 2, 2, 2), (1, 1), "SAME", None),
    "conv_transpose_shape_tuple": ((1, 5, 5, 2), (2, 2, 2, 3), (1, 1), "SAME", None),
    "complex": (x, y), "real": (x + 1j,), "imag": (x + 1j,), "conj": (x + 1j,), "mulhi": (whole, other),
    "dtype": (x,), "empty": ((2, 3), "float32"), "fft": (x + 1j, "FFT", (4,)), "tile": (x, (2,)), "stack": ([x, y],),
    "shape_as_value": ((2, 3),), "polygamma": Use(tnp.array([0.0, 1, 2, 3]), x, of=(1,)),
    "reduce_precision": Use(x, 8, 10, of=()),
    "ragged_dot": _run(lambda a, b: lax.ragged_dot(a, b, np.array([1, 2])), m, _array(2, 3, 4)),
    "ragged_dot_general": _run(
        lambda a, b: lax.ragged_dot_general(
            a, b, np.array([1, 2]), lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())), m, m),
    "rng_bit_generator": (tnp.arange(4).astype("uint32"), (3,)),
    "select": (mask, x, y), "select_n": (mask, x, y),
    "shift_left": (whole, other), "shift_right_arithmetic": (whole, other), "shift_right_logical": (whole, other),
    "slice": (x, (1,), (3,)), "slice_in_dim": (x, 1, 3), "sort_key_val": (x, y), "split": (x, (1, 3)),
    "squeeze": (x[None], (0,)),
    "switch": _run(lambda n, v: lax.switch(n, [tnp.sin, tnp.cos, tnp.tanh], v), i, x), "top_k": (x, 2), "transpose": (m, (1, 0)),
    "while_loop": _run(lambda v: lax.while_loop(lambda c: tnp.sum(c) < 9, lambda c: c * 1.5, v, max_steps=20), x),
    "zeta": Use(x + 1.5, y, of=(1,)), "stop_gradient": Use(x, derivative="zero"),
    **{name: _lanes(lambda row, name=name: getattr(lax, name)(row, "i"))
       for name in ("psum", "pmean", "pmax", "pmin", "all_gather", "psum_scatter")},
    "all_to_all": _lanes(lambda row: lax.all_to_all(row, "i", 0, 0)), "pswapaxes": _lanes(lambda row: lax.pswapaxes(row, "i", 0)),
    "ppermute": _lanes(lambda row: lax.ppermute(row, "i", [(0, 1), (2, 0)])),
    "pshuffle": _lanes(lambda row: lax.pshuffle(row, "i", [2, 0, 1])),
    "pbroadcast": _lanes(lambda row: lax.pbroadcast(row, "i", 1)),
    "axis_index": _lanes(lambda row: row * lax.axis_index("i")), "axis_size": _lanes(lambda row: row * lax.axis_size("i")),
}  # fmt: skip
_both = {"a": x, "b": (y, None)}
_pair = tree.structure({"a": 0, "b": (0, None)})


@dataclasses.dataclass
class _Node:
    """A container for the functions that register one."""

    content: Any


def _registered(register: Callable[[type], Any]) -> Use:
    def call(v: Any) -> Any:
        kind: Any = type("Node", (_Node,), {})
        register(kind)
        return tree.map(lambda leaf: leaf * 2, kind(v)).content

    return _run(call, x)


def _methods(with_keys: bool) -> Callable[[Any], Any]:
    def register(kind: Any) -> Any:
        if with_keys:
            kind.tree_flatten_with_keys = lambda self: (((tree.GetAttrKey("content"), self.content),), None)
        kind.tree_flatten = lambda self: ((self.content,), None)
        kind.tree_unflatten = classmethod(lambda cls, aux, children: cls(*children))
        return (tree.register_pytree_with_keys_class if with_keys else tree.register_pytree_node_class)(kind)

    return register


TREE: dict[str, Any] = {
    "all": ({"a": 1, "b": 2},), "broadcast": (x, {"a": 0, "b": 0}), "flatten": Use(_both, call=lambda v: tree.flatten(v)[0]),
    "flatten_with_path": Use(_both, call=lambda v: [leaf for _, leaf in tree.flatten_with_path(v)[0]]),
    "keystr": ((tree.DictKey("a"),),),
    "leaves": (_both,), "leaves_with_path": Use(_both, call=lambda v: [leaf for _, leaf in tree.leaves_with_path(v)]),
    "map": (lambda v: v * 2, _both), "map_with_path": (lambda path, v: v * len(path), _both), "reduce": (tnp.multiply, _both),
    "reduce_associative": (tnp.multiply, _both),
    "register_dataclass": _registered(lambda kind: tree.register_dataclass(dataclasses.dataclass(kind), ["content"], [])),
    "register_pytree_node": _registered(
        lambda kind: tree.register_pytree_node(kind, lambda n: ((n.content,), None), lambda aux, c: kind(*c))),
    "register_pytree_with_keys": _registered(
        lambda kind: tree.register_pytree_with_keys(
            kind, lambda n: (((tree.GetAttrKey("content"), n.content),), None), lambda aux, c: kind(*c))),
    "register_pytree_node_class": _registered(_methods(False)), "register_pytree_with_keys_class": _registered(_methods(True)),
    "register_static": Use(call=lambda: tree.leaves(tree.register_static(type("Setting", (), {}))())),
        "structure": (_both,), "transpose": (_pair, tree.structure([0, 0]), {"a": [x, y], "b": ([z, x], None)}),
    "unflatten": (_pair, [x, y]), "Partial": _run(lambda v: tinyfn.jit(lambda f: f(2.0))(tree.Partial(tnp.multiply, v)), x),
}  # fmt: skip


def _optimized(make: Callable[[], Any]) -> Use:
    """A step with fresh state."""

    def call(parameters: Any, gradients: Any) -> Any:
        optimizer = make()
        return optimizer.step(parameters, gradients, optimizer.init(parameters))

    return _run(call, {"w": m}, {"w": tnp.sin(m)})


OPTIMIZERS: dict[str, Any] = {
    **{name: _optimized(lambda name=name: getattr(optax_like, name)(1e-2))
       for name in ("sgd", "adam", "adamw", "lamb", "lars", "muon")},
    "group": _optimized(lambda: optax_like.group(lambda path: "all", {"all": optax_like.sgd(1e-2)})), "newton_schulz": (m,),
    "set_learning_rate": _run(lambda rate: optax_like.set_learning_rate(optax_like.sgd(1e-2).init({"w": m}), rate), x[0]),
}  # fmt: skip


def _kept(policy: Callable[..., bool]) -> Use:
    return _run(lambda v: tinyfn.remat(_smooth, policy=policy)(v), x)


def _residuals(function: Callable[..., Any]) -> Use:
    def call(v: Any) -> Any:
        function(_smooth, v)
        return v

    return _run(call, x)


_policies = tinyfn.checkpoint_policies
POLICIES: dict[str, Any] = {
    **{name: _kept(getattr(_policies, name)) for name in (
        "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable", "dots_with_no_batch_dims_saveable",
        "everything_saveable", "nothing_saveable")},
    **{name: _kept(getattr(_policies, name)("a")) for name in (
        "save_any_names_but_these", "save_anything_except_these_names", "save_only_these_names")},
    "save_from_both_policies": _kept(
        _policies.save_from_both_policies(_policies.dots_saveable, _policies.save_only_these_names("a"))
    ),
}  # fmt: skip
REMAT: dict[str, Any] = {
    "checkpoint": TRANSFORMS["remat"], "checkpoint_name": (x, "a"),
    "print_saved_residuals": _residuals(tinyfn.ad_checkpoint.print_saved_residuals),
    "saved_residuals": _residuals(tinyfn.ad_checkpoint.saved_residuals),
}  # fmt: skip
# The names of `tree`, and of structures.
TREE_UTIL: dict[str, Any] = {
    **{f"tree_{name}": given for name, given in TREE.items()}, **TREE,
    "all_leaves": ([1, 2],), "treedef_children": (_pair,), "treedef_is_leaf": (tree.structure(0),),
    "treedef_tuple": ([_pair],),
}  # fmt: skip
ARGUMENTS: dict[str, dict[str, Any]] = {
    "tinyfn.config": {
        **{name: TRANSFORMS[name] for name in ("default_matmul_precision", "enable_x64")},
        "read": _run(lambda v: v * (1 - tinyfn.config.read("debug_nans")), x),
        "update": _run(lambda v: (tinyfn.config.update("jax_debug_nans", False), v * 2)[1], x),
    },
    "tinyfn.custom_derivatives": TRANSFORMS, "tinyfn.ad_checkpoint": REMAT, "tinyfn.checkpoint_policies": POLICIES,
    "tinyfn.tree_util": TREE_UTIL, "tinyfn.scipy.linalg": SCIPY_LINALG, "tinyfn.lax.linalg": LAX_LINALG,
    "tinyfn.flatten_util": {"ravel_pytree": _run(lambda v: tinyfn.flatten_util.ravel_pytree(v)[0], _both)},
    "tinyfn": TRANSFORMS, "tinyfn.numpy": NUMPY, "tinyfn.lax": LAX, "tinyfn.nn": NN, "tinyfn.nn.initializers": INITIALIZERS,
    "tinyfn.random": RANDOM, "tinyfn.linalg": LINALG, "tinyfn.fft": FFT, "tinyfn.tree": TREE, "tinyfn.ops": OPS,
    "tinyfn.scipy.special": SPECIAL_FUNCTIONS, "tinyfn.custom_batching": BATCHING, "tinyfn.optax_like": OPTIMIZERS,
    "tinyfn.dtypes": {"canonicalize_dtype": ("int8",), **{name: NUMPY[name] for name in ("issubdtype", "promote_types")}},
    "tinyfn.experimental": {"io_callback": TRANSFORMS["io_callback"]},
    "tinyfn.debug": {"print": _run(_printed, x), "callback": _run(_printed, x)}, "tinyfn.checks": {"check": _run(_checked, x)},
}  # fmt: skip
# Functions that work on files, devices or the terminal, with where they are tested.
NOT_RUN: dict[str, str] = {
    "tinyfn.numpy.load": "tests/numpy/test_namespace.py", "tinyfn.numpy.save": "tests/numpy/test_namespace.py",
    "tinyfn.numpy.savez": "tests/numpy/test_namespace.py", "tinyfn.numpy.fromfile": "tests/numpy/test_creation.py",
    "tinyfn.numpy.get_printoptions": "tests/numpy/test_creation.py",
    "tinyfn.numpy.set_printoptions": "tests/numpy/test_creation.py",
    "tinyfn.numpy.printoptions": "tests/numpy/test_creation.py",
    "tinyfn.Variable": "tests/trace/test_sint.py", "tinyfn.tree.static": "tests/trace/test_pytree.py",
    "tinyfn.debug.breakpoint": "tests/debugging/test_effects.py",
    **{f"tinyfn.profiler.{name}": "tests/test_profiler.py" for name in (
        "StepTraceAnnotation", "TraceAnnotation", "annotate", "annotate_function", "start_trace", "stop_trace", "trace",
    )},
    **{f"tinyfn.export.{name}": "tests/export" for name in (
        "deserialize", "export", "load", "register_namedtuple_serialization", "register_pytree_node_serialization",
        "symbolic_args_specs", "symbolic_shape",
    )},
    **{f"tinyfn.checkpoint.{name}": "tests/checkpoint" for name in (
        "get_parameters", "get_state_dict", "load_state_dict", "restore", "safe_load", "safe_load_metadata", "safe_save",
        "save")},
}  # fmt: skip
