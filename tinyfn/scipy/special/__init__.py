"""Special functions with the names of `jax.scipy.special`.

Arguments are promoted and broadcast as in `tinyfn.numpy`; integers and bools become float32. Gamma, Bessel and normal
distribution functions of one argument compile into kernels, where they are computed in float64 and rounded once; `zeta`,
`polygamma`, `gammainc`, `gammaincc` and `betainc` iterate in NumPy, also within compiled programs. The others are
compositions of array operations: of `bessel_jn`, `expn`, `fresnel`, `hyp1f1`, `hyp2f1`, `owens_t`, `sph_harm_y` and `wofz` in
float64, rounded once."""

from __future__ import annotations

from ...nn.normalization import log_softmax, logsumexp, softmax
from ...trace.errors import entry_points
from .bessel import bessel_jn, i0, i0e, i1, i1e
from .entropies import boxcox, boxcox1p, entr, expit, kl_div, logit, rel_entr, xlog1py, xlogy
from .exponential_integrals import expn
from .faddeeva import fresnel, wofz
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
from .harmonics import sph_harm_y
from .hypergeometric import hyp1f1, hyp2f1
from .integrals import exp1, expi, sici, spence
from .normal import dawsn, erf, erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri
from .owens import owens_t

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma",
    "psi", "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta",
]  # fmt: skip


entry_points(globals())
