"""Random numbers from keys, with JAX's bits: the same function of the same key gives what `jax.random` gives.

A key is an array of shape () and dtype key<threefry2x32>, made by `key(seed)`, which can be moved, indexed, stacked and compared
as numbers are, but not computed with; or a raw one, uint32[2], made by `PRNGKey(seed)`. Every function takes one key of either
kind and is a pure function of it: use a key once, and `split` it or `fold_in` a number to get new ones, of the same kind;
`check_key_reuse` finds keys that are used twice. Many keys at once go through `tinyfn.vmap`. The bits are threefry2x32's with
`jax_threefry_partitionable=True`, JAX's default: element i of an array depends on the key and on i alone. Unlike in JAX without
x64, all 64 bits of a seed count, and dtypes with 64 bits are honoured."""

from ..trace.errors import entry_points
from .choosing import categorical, choice, permutation
from .counts import binomial, multinomial, poisson
from .distributions import (
    bernoulli,
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)
from .gamma import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from .keys import PRNGKey, bits, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from .matrices import multivariate_normal, orthogonal
from .reuse import KeyReuseError, check_key_reuse
from .transformed import (
    double_sided_maxwell,
    geometric,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)

__all__ = [
    "KeyReuseError", "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
    "check_key_reuse", "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f",
    "fold_in", "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace",
    "loggamma", "logistic", "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal",
    "orthogonal", "pareto", "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "t",
    "triangular", "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data",
]  # fmt: skip

entry_points(globals())
