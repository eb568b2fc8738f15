"""Random numbers from keys, with JAX's bits: the same function of the same key gives what `jax.random` gives.

A key is an array uint32[2] (typed keys may come later). Every function takes one key and is a pure function
of it: use a key once, and `split` it or `fold_in` a number to get new ones. Many keys at once go through
`tinyfn.vmap`. The bits are threefry2x32's with `jax_threefry_partitionable=True`, JAX's default: element i of
an array depends on the key and on i alone. Unlike in JAX without x64, all 64 bits of a seed count, and dtypes
with 64 bits are honoured."""

from .choosing import categorical, choice, permutation
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
from .keys import PRNGKey, bits, fold_in, key, key_data, split, wrap_key_data

__all__ = [
    "PRNGKey", "bernoulli", "bits", "categorical", "cauchy", "choice", "exponential", "fold_in", "gumbel",
    "key", "key_data", "laplace", "logistic", "normal", "permutation", "rademacher", "randint", "split",
    "truncated_normal", "uniform", "wrap_key_data",
]  # fmt: skip
