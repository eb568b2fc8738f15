"""What distributions of one kind share: how their methods are called, and what follows from a few formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import numpy as tnp
from ...numpy.common import floats
from ...trace import dtype as dtypes
from ...trace import operators
from ...trace.array import Array
from ...trace.errors import entry_methods, user_line

where: Callable[..., Any] = operators.elementwise_where
Formula = Callable[..., Any]
_LOCATION = {"loc": 0, "scale": 1}


def _logarithm(p: Any, rest: Any) -> Any:
    """log p of a probability, given also 1 - p."""
    near = p > 0.5
    return where(near, tnp.log1p(-where(near, rest, 0.5)), tnp.log(where(near, 0.5, p)))


class _Family:
    """What distributions share: a name, the names of parameters in order, some with default values, and a text for `help`."""

    def __init__(self, name: str, shapes: tuple[str, ...], defaults: dict[str, int], text: str, wide: bool):
        self.name, self._names, self._defaults = name, (*shapes, *defaults), defaults
        # Differences of logarithms of gamma functions lose all digits of float32 where parameters are large.
        self._wide = wide
        methods = [method for method in dir(type(self)) if not method.startswith("_")]
        self.__doc__ = f"{text}\nMethods, of ({', '.join(('x', *self._names))}): {', '.join(methods)}.\n"

    def __repr__(self) -> str:
        return f"stats.{self.name}({', '.join(self._names)})"

    def _called(
        self, method: str, formula: Formula, x: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Array:
        """A formula of (x, *parameters), all of one float dtype: float32 at least, or float64."""
        given = dict(zip(self._names, args, strict=False))
        what = f"stats.{self.name}.{method}"
        if len(args) > len(self._names) or not set(options) <= set(self._names) - set(given):
            raise TypeError(
                f"{what} takes {', '.join(('x', *self._names))}, not {len(args) + 1} arguments and {list(options)}; at "
                f"{user_line()}"
            )
        values = {**self._defaults, **given, **options}
        lacking = [name for name in self._names if name not in values]
        if lacking:
            raise TypeError(f"{what} needs {' and '.join(lacking)}; at {user_line()}")
        arrays = floats(what, x, *[values[name] for name in self._names])
        dtype = arrays[0].dtype
        working = dtypes.float64 if self._wide else dtypes.accumulator(dtype)
        given_in_it = [operators.to_dtype(a, working) for a in arrays]
        return operators.to_dtype(tnp.asarray(formula(*given_in_it)), dtype)


class Continuous(_Family):
    """A distribution with a location and a scale: the methods take (x, *shapes, loc=0, scale=1).

    The standard distribution's x is (x - loc) / scale. Raises TypeError for parameters that are missing or too many.

    >>> from tinyfn.scipy import stats
    >>> x = tnp.array([-1.0, 0.0, 2.0])
    >>> stats.chi2.pdf(x, 2).round(2), stats.chi2.logpdf(x, 2).round(2)  # of 2 degrees of freedom: exp(-x / 2) / 2
    (Array([0.  , 0.5 , 0.18], dtype=float32), Array([ -inf, -0.69, -1.69], dtype=float32))
    >>> stats.chi2.cdf(x, 2).round(2), stats.chi2.sf(x, 2).round(2)
    (Array([0.  , 0.  , 0.63], dtype=float32), Array([1.  , 1.  , 0.37], dtype=float32))
    >>> stats.chi2.logsf(100.0, 2).round(2), stats.chi2.logcdf(-1.0, 2)
    (Array(-50., dtype=float32), Array(-inf, dtype=float32))
    >>> stats.chi2.cdf(21.0, 2, loc=1, scale=10) == stats.chi2.cdf(2.0, 2)
    Array(True, dtype=bool)
    """

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_density: Formula,
        cdf: Formula,
        sf: Formula | None = None,
        logcdf: Formula | None = None,
        logsf: Formula | None = None,
        support: tuple[float, float] = (-math.inf, math.inf),
        *,
        text: str,
        wide: bool = False,
    ):
        super().__init__(name, shapes, _LOCATION, text, wide)
        self._log_density, self._cdf, self._support = log_density, cdf, support
        # Of distributions that are symmetric about 0 those of the upper tail are those of the lower one.
        self._sf = sf or (lambda z, *shape: cdf(-z, *shape))
        self._logcdf = logcdf or (lambda z, *shape: _logarithm(self._cdf(z, *shape), self._sf(z, *shape)))
        if logsf is None and sf is None and logcdf is not None:
            logsf = lambda z, *shape: logcdf(-z, *shape)  # noqa: E731
        self._logsf = logsf or (lambda z, *shape: _logarithm(self._sf(z, *shape), self._cdf(z, *shape)))

    def _at(
        self, method: str, formula: Formula, ends: tuple[float, float], x: Any, args: Any, options: Any
    ) -> Array:
        """A formula of the standard distribution, which has the values `ends` below and above the support."""
        low, high = self._support

        def placed(x: Any, *parameters: Any) -> Any:
            *shape, loc, scale = parameters
            z = (x - loc) / scale
            inside = (z >= low) & (z <= high)
            middle = 0.0 if low == -math.inf else low + 0.5 if high == math.inf else (low + high) / 2
            value = formula(where(inside | tnp.isnan(z), z, middle), scale, *shape)
            return where(z < low, ends[0], where(z > high, ends[1], value))

        return self._called(method, placed, x, args, options)

    def logpdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the density at x."""
        density: Formula = lambda z, scale, *shape: self._log_density(z, *shape) - tnp.log(scale)  # noqa: E731
        return self._at("logpdf", density, (-math.inf, -math.inf), x, args, options)

    def pdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The density at x."""
        density: Formula = lambda z, scale, *shape: tnp.exp(self._log_density(z, *shape)) / scale  # noqa: E731
        return self._at("pdf", density, (0.0, 0.0), x, args, options)

    def cdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The probability of values up to x."""
        return self._at("cdf", lambda z, scale, *shape: self._cdf(z, *shape), (0.0, 1.0), x, args, options)

    def sf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The probability of values above x."""
        return self._at("sf", lambda z, scale, *shape: self._sf(z, *shape), (1.0, 0.0), x, args, options)

    def logcdf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of values up to x."""
        return self._at(
            "logcdf", lambda z, scale, *shape: self._logcdf(z, *shape), (-math.inf, 0.0), x, args, options
        )

    def logsf(self, x: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of values above x."""
        return self._at(
            "logsf", lambda z, scale, *shape: self._logsf(z, *shape), (0.0, -math.inf), x, args, options
        )


class Invertible(Continuous):
    """A continuous distribution with the inverses of `cdf` and `sf`, which take (q, loc=0, scale=1).

    >>> from tinyfn.scipy import stats
    >>> stats.norm.ppf(tnp.array([0.0, 0.5, 0.975, 1.5])).round(2)
    Array([-inf, 0.  , 1.96,  nan], dtype=float32)
    >>> stats.norm.isf(0.025, loc=100.0, scale=10.0).round(1)
    Array(119.6, dtype=float32)
    >>> stats.norm.cdf(stats.norm.ppf(0.25)).round(4)
    Array(0.25, dtype=float32)
    """

    def __init__(self, *args: Any, quantile: Formula, upper: Formula | None = None, **options: Any):
        super().__init__(*args, **options)
        self._quantile = quantile
        self._upper = upper or (lambda q: -quantile(q))

    def _inverse(self, method: str, formula: Formula, q: Any, args: Any, options: Any) -> Array:
        def placed(q: Any, loc: Any, scale: Any) -> Any:
            return loc + scale * where((q >= 0) & (q <= 1), formula(q), math.nan)

        return self._called(method, placed, q, args, options)

    def ppf(self, q: Any, *args: Any, **options: Any) -> Array:
        """The x at which `cdf` is q; NaN if q is not from 0 to 1."""
        return self._inverse("ppf", self._quantile, q, args, options)

    def isf(self, q: Any, *args: Any, **options: Any) -> Array:
        """The x at which `sf` is q; NaN if q is not from 0 to 1."""
        return self._inverse("isf", self._upper, q, args, options)


class Discrete(_Family):
    """A distribution of whole numbers from `least` on: the methods take (k, *shapes, loc=0).

    >>> from tinyfn.scipy import stats
    >>> stats.binom.pmf(tnp.array([0, 1, 2, 3]), 2, 0.5).round(4)
    Array([0.25, 0.5 , 0.25, 0.  ], dtype=float32)
    >>> stats.binom.logpmf(1.5, 2, 0.5)  # no whole number
    Array(-inf, dtype=float32)
    """

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_mass: Formula,
        greatest: Formula,
        least: int = 0,
        *,
        text: str,
        wide: bool = False,
    ):
        super().__init__(name, shapes, {"loc": 0}, text, wide)
        self._log_mass, self._greatest, self._least = log_mass, greatest, least

    def _mass(self, k: Any, *parameters: Any) -> Any:
        *shape, loc = parameters
        k = k - loc
        possible = (k >= self._least) & (k <= self._greatest(*shape)) & (k == tnp.floor(k))
        value = self._log_mass(where(possible, k, self._least), *shape)
        return where(tnp.isnan(k), math.nan, where(possible, value, -math.inf))

    def logpmf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The logarithm of the probability of k; -infinity for what is no whole number or out of range."""
        return self._called("logpmf", self._mass, k, args, options)

    def pmf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The probability of k."""
        return self._called("pmf", lambda *given: tnp.exp(self._mass(*given)), k, args, options)


class Cumulated(Discrete):
    """A discrete distribution with its cumulative probabilities.

    >>> from tinyfn.scipy import stats
    >>> stats.poisson.cdf(tnp.array([-1.0, 0.0, 1.5]), 1.0).round(4)
    Array([0.    , 0.3679, 0.7358], dtype=float32)
    >>> stats.poisson.pmf(0, 1.0).round(4), stats.poisson.logpmf(0, 1.0)
    (Array(0.3679, dtype=float32), Array(-1., dtype=float32))
    """

    def __init__(self, *args: Any, cumulated: Formula, **options: Any):
        super().__init__(*args, **options)
        self._cumulated = cumulated

    def cdf(self, k: Any, *args: Any, **options: Any) -> Array:
        """The probability of values up to k."""

        def placed(k: Any, *parameters: Any) -> Any:
            *shape, loc = parameters
            below = tnp.floor(k - loc)
            known = where((below >= 0) | tnp.isnan(below), below, 0.0)
            value = where(below < 0, 0.0, self._cumulated(known, *shape))
            return where(tnp.isnan(k), math.nan, value)

        return self._called("cdf", placed, k, args, options)


for _family in (Continuous, Invertible, Discrete, Cumulated):
    entry_methods(_family)
