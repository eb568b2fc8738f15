"""Special functions with the names of `jax.scipy.special`.

Arguments are promoted and broadcast as in `tinyfn.numpy`; integers and bools become float32. Gamma, Bessel and normal
distribution functions of one argument compile into kernels, where they are computed in float64 and rounded once; `zeta`,
`polygamma`, `gammainc`, `gammaincc` and `betainc` iterate in NumPy, also within compiled programs."""

from __future__ import annotations

from ...nn.normalization import log_softmax, logsumexp, softmax
from .bessel import i0, i0e, i1, i1e
from .entropies import boxcox, boxcox1p, entr, expit, kl_div, logit, rel_entr, xlog1py, xlogy
from .gamma_functions import (
    bernoulli,
    beta,
    betainc,
    betaln,
    comb,
    digamma,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
    psi,
    zeta,
)
from .integrals import exp1, expi, sici, spence
from .normal import dawsn, erf, erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr", "erf",
    "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
    "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp",
    "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "psi", "rel_entr", "sici", "softmax", "spence", "xlog1py",
    "xlogy", "zeta",
]  # fmt: skip
