"""tinyfn.scipy.special: values against goldens of mpmath and SciPy, dtypes, edges, derivatives and jit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import check_derivatives
from tinyfn import lax
from tinyfn.scipy import special

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "special.json").read_text())
INF, NAN = np.inf, np.nan


def named(name: str) -> Any:
    """The function of a name, or one of its results: `sici_0`."""
    whole, _, part = name.rpartition("_")
    if part.isdigit():
        return lambda x: getattr(special, whole)(x)[int(part)]
    return getattr(special, name, None) or getattr(lax, name)


# How far float64 results may be off, of themselves: 1e-14 but for these.
RELATIVE = {
    # exp of large exponents, and near roots
    "erfcx": 1e-13, "betainc": 1e-12, "gammainc": 2e-13, "gammaincc": 2e-13, "ndtr": 1e-13, "comb": 1e-13, "kl_div": 1e-12,
}  # fmt: skip
ABSOLUTE = {"igamma_grad_a": 3e-15, "sici_1": 5e-15}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", GOLDENS)
def test_values(name: str, jit: bool) -> None:
    function = tinyfn.jit(named(name)) if jit else named(name)
    found = function(*[np.array(a) for a in GOLDENS[name]["arguments"]])
    assert found.dtype == np.float64
    absolute = ABSOLUTE.get(name, 0)
    np.testing.assert_allclose(
        found, np.array(GOLDENS[name]["values"]), 0 if absolute else RELATIVE.get(name, 1e-14), absolute
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", GOLDENS)
def test_narrow_dtypes(name: str, dtype: str) -> None:
    """Within a few units of float32, rounded to half precision, of the float64 result for the same arguments."""
    narrow = np.dtype(getattr(ml_dtypes, dtype, dtype))
    with np.errstate(over="ignore"):
        args = [np.array(a).astype(narrow) for a in GOLDENS[name]["arguments"]]
    wanted = np.asarray(named(name)(*[a.astype(np.float64) for a in args]))
    info = ml_dtypes.finfo(narrow)
    # Where a composition subtracts numbers of about this size.
    absolute = {"betaln": 4, "kl_div": 4, "rel_entr": 4, "boxcox": 4, "boxcox1p": 4, "logit": 1}.get(
        name, 0
    ) * 2e-7
    relative = 2e-5 if name in ("i0", "i1", "comb", "poch", "beta", "ndtr", "polygamma", "log_ndtr") else 2e-6
    with np.errstate(over="ignore"):
        rounded = wanted.astype(narrow).astype(np.float64)
    for function in (named(name), tinyfn.jit(named(name))):
        found = function(*args)
        assert found.dtype == narrow
        found = np.asarray(found).astype(np.float64)
        compared = np.isfinite(rounded) & np.isfinite(found)
        error = np.abs(found[compared] - wanted[compared])
        bound = (
            (relative + float(info.eps)) * np.abs(np.where(compared, wanted, 0)) + absolute + float(info.tiny)
        )
        assert (error <= bound[compared]).all()
        # What is infinite or NaN is so everywhere, but next to the greatest number.
        certain = (
            np.isnan(wanted)
            | (np.abs(wanted) < 0.99 * float(info.max))
            | (np.abs(wanted) > 1.01 * float(info.max))
        )
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found)[certain], np.isinf(rounded)[certain])


EDGES: list[tuple[str, tuple[Any, ...], float]] = [
    ("gammaln", (0.0,), INF), ("gammaln", (-3.0,), INF), ("gammaln", (INF,), INF), ("gammaln", (-INF,), INF),
    ("gammaln", (1.0,), 0.0), ("gammaln", (2.0,), 0.0), ("gammaln", (NAN,), NAN), ("gamma", (0.0,), INF),
    ("gamma", (-0.0,), -INF), ("gamma", (-1.0,), NAN), ("gamma", (INF,), INF), ("gamma", (-INF,), NAN),
    ("gamma", (200.0,), INF), ("digamma", (0.0,), -INF), ("digamma", (-0.0,), INF), ("digamma", (-2.0,), NAN),
    ("digamma", (INF,), INF), ("digamma", (-INF,), NAN), ("gammasgn", (-0.0,), -1.0), ("gammasgn", (-2.0,), NAN),
    ("loggamma", (-0.5,), NAN),
    ("loggamma", (-1.5,), NAN), ("loggamma", (-0.0,), INF), ("i0e", (INF,), 0.0), ("i1e", (-INF,), 0.0), ("i0", (0.0,), 1.0),
    ("ndtri", (0.0,), -INF), ("ndtri", (1.0,), INF), ("ndtri", (0.5,), 0.0), ("ndtri", (1.5,), NAN),
    ("ndtri", (-0.5,), NAN), ("ndtr", (INF,), 1.0), ("ndtr", (-INF,), 0.0), ("log_ndtr", (-INF,), -INF),
    ("log_ndtr", (INF,), 0.0), ("log_ndtr", (NAN,), NAN), ("logit", (0.0,), -INF), ("logit", (1.0,), INF),
    ("logit", (2.0,), NAN), ("xlogy", (0.0, 0.0), 0.0), ("xlogy", (0.0, INF), 0.0), ("xlogy", (0.0, NAN), NAN),
    ("xlogy", (1.0, 0.0), -INF), ("xlog1py", (0.0, -1.0), 0.0), ("xlog1py", (0.0, -2.0), 0.0), ("entr", (0.0,), 0.0),
    ("entr", (-1.0,), -INF), ("entr", (NAN,), NAN), ("rel_entr", (0.0, 0.0), 0.0), ("rel_entr", (1.0, 0.0), INF),
    ("rel_entr", (NAN, 1.0), NAN), ("kl_div", (0.0, 2.0), 2.0), ("kl_div", (-1.0, 2.0), INF), ("zeta", (1.0, 2.0), INF),
    ("zeta", (0.5, 2.0), NAN), ("zeta", (2.0, 0.0), INF),
    ("zeta", (2.0, -1.5), 9.379246644989124), ("zeta", (3.0, -2.5), 0.0541020258208641),
    ("zeta", (2.5, -1.5), NAN), ("zeta", (2.0, -1e6 - 0.5), NAN), ("polygamma", (1.0, -1.5), 9.379246644989124),
    ("zeta", (INF, 2.0), 0.0),
    ("gammainc", (0.0, 1.0), 1.0), ("gammainc", (1.0, 0.0), 0.0), ("gammainc", (2.0, INF), 1.0),
    ("gammainc", (INF, 2.0), 0.0), ("gammainc", (-1.0, 2.0), NAN), ("gammainc", (1.0, -2.0), NAN),
    ("gammainc", (0.0, 0.0), NAN), ("gammaincc", (1.0, 0.0), 1.0), ("gammaincc", (2.0, INF), 0.0),
    ("betainc", (1.0, 2.0, 0.0), 0.0), ("betainc", (1.0, 2.0, 1.0), 1.0), ("betainc", (1.0, 2.0, 1.5), NAN),
    ("betainc", (0.0, 2.0, 0.5), 1.0), ("betainc", (0.0, 2.0, 0.0), 0.0), ("betainc", (2.0, 0.0, 0.5), 0.0),
    ("betainc", (2.0, 0.0, 1.0), 1.0), ("betainc", (2.0, INF, 0.5), 1.0), ("betainc", (INF, 2.0, 0.5), 0.0),
    ("betainc", (0.0, 0.0, 0.5), NAN), ("betainc", (0.0, INF, 0.5), 1.0), ("betainc", (INF, INF, 0.5), NAN),
    ("poch", (-2.5, 1.0), -2.5), ("poch", (-2.5, 3.0), -1.875), ("poch", (0.5, -1.0), -2.0), ("poch", (-1.0, 1.0), -1.0),
    ("poch", (-1.0, 2.0), 0.0), ("poch", (-3.0, 2.0), 6.0), ("poch", (-1.0, -2.0), 1 / 6), ("poch", (-4.0, 0.0), 1.0),
    ("poch", (1e30, 1.0), 1e30), ("poch", (2.5, -4.5), INF), ("poch", (3.0, NAN), NAN),
    ("betainc", (-1.0, 2.0, 0.5), NAN), ("betainc", (1.0, 2.0, NAN), NAN), ("factorial", (-1.0,), 0.0),
    ("erfcx", (INF,), 0.0), ("erfcx", (-INF,), INF), ("erfcx", (NAN,), NAN), ("erfcx", (0.0,), 1.0), ("dawsn", (INF,), 0.0),
    ("dawsn", (-0.0,), 0.0), ("exp1", (0.0,), INF), ("exp1", (INF,), 0.0), ("exp1", (-1.0,), NAN), ("exp1", (NAN,), NAN),
    ("expi", (0.0,), -INF), ("expi", (INF,), INF), ("expi", (-INF,), 0.0), ("expi", (NAN,), NAN), ("spence", (1.0,), 0.0),
    ("spence", (0.0,), np.pi**2 / 6), ("spence", (2.0,), -(np.pi**2) / 12), ("spence", (INF,), -INF),
    ("spence", (-1.0,), NAN), ("sici_0", (INF,), np.pi / 2), ("sici_0", (-INF,), -np.pi / 2), ("sici_0", (0.0,), 0.0),
    ("sici_1", (INF,), 0.0), ("sici_1", (0.0,), -INF), ("sici_1", (NAN,), NAN),
    ("boxcox", (2.0, 0.0), float(np.log(2.0))), ("boxcox1p", (1.0, 0.0), float(np.log(2.0))),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name, args, wanted", EDGES)
def test_edges(name: str, args: tuple[Any, ...], wanted: float, dtype: Any) -> None:
    arrays = [np.array(a, dtype) for a in args]
    for function in (named(name), tinyfn.jit(named(name))):
        np.testing.assert_allclose(function(*arrays), dtype(wanted), rtol=1e-6, atol=1e-15)


DIFFERENTIATED = {
    "gammaln": [[-2.3, -0.4, 0.3, 1.0, 2.0, 4.5, 30.0]], "digamma": [[-2.3, -0.4, 0.3, 1.46, 2.0, 4.5, 30.0]],
    "gamma": [[-2.3, -0.4, 0.3, 1.0, 2.0, 4.5]], "i0e": [[-9.0, -0.4, 0.3, 7.9, 20.0]], "i1e": [[-9.0, 0.0, 0.3, 7.9]],
    "i0": [[-2.0, 0.5]], "i1": [[-2.0, 0.5]], "ndtr": [[-3.0, 0.5]], "ndtri": [[0.02, 0.3, 0.5, 0.95]],
    "log_ndtr": [[-30.0, -12.0, -2.0, 0.5, 5.0]], "logit": [[0.1, 0.6]], "entr": [[0.3, 2.0]],
    "betaln": [[0.3, 2.0, 30.0], [40.0, 3.0, 2.0]], "beta": [[0.3, 2.0], [1.5, 3.0]], "xlogy": [[0.3, 0.0], [1.5, 3.0]],
    "xlog1py": [[0.3, 0.0], [1.5, 3.0]], "rel_entr": [[0.3, 2.0], [1.5, 3.0]], "kl_div": [[0.3, 2.0], [1.5, 3.0]],
    "boxcox": [[0.3, 2.0], [1.5, 3.0]], "boxcox1p": [[0.3, 2.0], [1.5, 3.0]], "poch": [[0.3, 2.0], [1.5, 0.0]],
    "erfcx": [[-2.0, 0.0, 2.5, 5.0, 9.99, 10.01]], "dawsn": [[-3.0, 0.0, 0.5, 4.0, 9.99, 10.01, -12.0]],
    "exp1": [[0.3, 2.0, 5.0, 9.0]], "expi": [[-2.0, 0.3, 2.0, 5.0, 9.0]], "spence": [[0.1, 0.9, 1.0, 1.0005, 1.002, 3.0]],
    "sici_0": [[-5.0, 0.0, 0.009, 0.02, 3.0, 9.0]], "sici_1": [[0.3, 3.0, 9.0, -5.0]],
    "factorial": [[0.3, 3.0]], "multigammaln": [[3.3, 7.0]],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name: str) -> None:
    extra = {"d": 3} if name == "multigammaln" else {}
    check_derivatives(lambda *a: named(name)(*a, **extra), *[np.array(a) for a in DIFFERENTIATED[name]])


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_derivatives_of_incomplete_gamma_functions(name: str) -> None:
    a, x = np.array([0.2, 3.0, 3.0, 50.0]), np.array([0.3, 2.0, 9.0, 55.0])
    step = 1e-5
    for i in range(2):
        shift = [step * (i == 0), step * (i == 1)]
        high, low = (named(name)(a + s * shift[0], x + s * shift[1]) for s in (1, -1))
        found = tinyfn.grad(lambda a, x: tnp.sum(named(name)(a, x)), i)(a, x)
        np.testing.assert_allclose(found, (high - low) / (2 * step), rtol=1e-6, atol=1e-9)
    mixed = tinyfn.grad(lambda x: tnp.sum(tinyfn.grad(lambda a: tnp.sum(named(name)(a, x)))(a)))(x)
    other = tinyfn.jacfwd(lambda a: tinyfn.grad(lambda x: tnp.sum(named(name)(a, x)))(x))(a)
    np.testing.assert_allclose(mixed, np.diagonal(other), rtol=1e-9)


def test_derivatives_that_exist_in_some_arguments() -> None:
    check_derivatives(lambda x: special.betainc(2.0, 3.5, x), np.array([0.2, 0.7]))
    check_derivatives(lambda q: special.zeta(3.0, q), np.array([0.2, 7.0]))
    check_derivatives(lambda x: special.polygamma(2.0, x), np.array([0.5, 7.0]))
    with pytest.raises(NotImplementedError, match="regularized_incomplete_beta with respect to a"):
        tinyfn.grad(lambda a: special.betainc(a, 2.0, 0.5))(1.0)
    with pytest.raises(NotImplementedError, match="zeta with respect to its exponent"):
        tinyfn.grad(lambda x: special.zeta(x, 2.0))(3.0)


def test_derivatives_far_out_are_no_differences() -> None:
    """By their asymptotic series: -1/(√π x²) and -1/(2x²)."""
    x = np.array([1e4, 1e6])
    np.testing.assert_allclose(
        tinyfn.grad(lambda x: special.erfcx(x).sum())(x), -(np.pi**-0.5) / x**2, rtol=1e-7
    )
    np.testing.assert_allclose(tinyfn.grad(lambda x: special.dawsn(x).sum())(x), -0.5 / x**2, rtol=1e-7)


def test_bernoulli() -> None:
    known = [1, -1 / 2, 1 / 6, 0, -1 / 30, 0, 1 / 42, 0, -1 / 30, 0, 5 / 66, 0, -691 / 2730]
    for n in (0, 1, 2, 5, 12):
        found = special.bernoulli(n)
        assert found.dtype == np.float32 and found.shape == (n + 1,)
        np.testing.assert_allclose(found, known[: n + 1], rtol=1e-7)
    # B60 = -1215233140483755572040304994079820246041491/56786730; B66 and all that follow are beyond float32.
    found = np.asarray(special.bernoulli(402))
    np.testing.assert_allclose(found[60], -1215233140483755572040304994079820246041491 / 56786730, rtol=1e-7)
    assert np.isinf(found[66::2]).all() and (np.sign(found[62::2]) == np.resize([1, -1], 171)).all()
    with pytest.raises(ValueError, match="0 or more"):
        special.bernoulli(-1)


def test_large_shapes_of_incomplete_gamma_functions() -> None:
    """Temme's expansion takes over at 200,000: the two methods agree there."""
    for shift in (-900.0, 0.0, 300.0):
        a = np.array([2e5 - 1e-6, 2e5])
        below, above = np.asarray(special.gammainc(a, a + shift))
        np.testing.assert_allclose(below, above, rtol=1e-8)


def test_gradients_of_gamma_samples() -> None:
    """Of x with P(a, x) fixed, by differences."""
    a, x, step = np.array([0.5, 3.0]), np.array([0.2, 4.0]), 1e-6
    level = np.asarray(special.gammainc(a, x))
    moved = x.copy()
    for _ in range(20):
        density = tinyfn.grad(lambda x: tnp.sum(special.gammainc(a + step, x)))(moved)
        moved = moved - np.asarray((special.gammainc(a + step, moved) - level) / density)
    np.testing.assert_allclose(lax.random_gamma_grad(a, x), (moved - x) / step, rtol=1e-4)
    assert lax.random_gamma_grad(np.array([0.5, 1.0, 3.0]), np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_the_module_is_an_attribute() -> None:
    assert tinyfn.scipy.special is special


def test_promotion_batching_and_weak_types() -> None:
    assert special.gammaln(np.arange(3)).dtype == np.float32
    assert special.betaln(np.ones(3, np.float16), 2.0).dtype == np.float16
    assert special.xlogy(np.ones((3, 1), np.float32), np.ones(4)).shape == (3, 4)
    x = np.array([[0.5, 1.5], [2.5, 3.5]])
    for function in (special.gammaln, special.ndtri, lambda v: special.gammainc(v, 2.0)):
        np.testing.assert_array_equal(tinyfn.vmap(function, in_axes=1, out_axes=1)(x), function(x))
    assert tnp.shape(special.digamma(np.ones((0, 2)))) == (0, 2)
    np.testing.assert_allclose(special.logsumexp(np.log([1.0, 2.0]), b=np.array([3.0, 4.0])), np.log(11.0))


def test_gradients_do_not_become_nan_where_a_branch_is_not_taken() -> None:
    for function, x in ((special.log_ndtr, -INF), (special.entr, 0.5), (special.log_ndtr, 30.0)):
        assert not np.isnan(tinyfn.grad(function)(x))
    assert not np.isnan(tinyfn.grad(lambda x: special.xlogy(x, 0.0))(0.0))
    assert not np.isnan(tinyfn.grad(special.i1e)(0.0))
    assert float(tinyfn.grad(special.i1e)(0.0)) == 0.5
