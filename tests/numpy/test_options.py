"""Options of functions that ports use: weights, sizes under jit, and others, against NumPy's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn.transforms import jit


def test_weighted_covariances() -> None:
    x, y = numbers("float64", (3, 6)), numbers("float64", (2, 6), seed=1)
    counts, weights = np.array([1, 2, 0, 3, 1, 1]), numbers("float64", (6,), 0.1, 2.0)
    for options in ({"fweights": counts}, {"aweights": weights}, {"fweights": counts, "aweights": weights}):
        for more in ({}, {"bias": True}, {"ddof": 0}, {"ddof": 2}):
            agree(lambda m, x, y, o=options, p=more: m.cov(x, y, **o, **p), x, y, tolerance=1e-12)
    check_gradient(lambda m, x, w: m.cov(x, aweights=w), x, weights)
    z = (x + 1j * numbers("float64", (3, 6), seed=2)).astype(np.complex128)
    np.testing.assert_allclose(tnp.cov(z, aweights=weights), np.cov(z, aweights=weights), rtol=1e-12)
    for function in (lambda m: m.cov(z), lambda m: m.corrcoef(z)):
        np.testing.assert_allclose(function(tnp), function(np), rtol=1e-12)
    assert tnp.cov(x, dtype="float32").dtype == tnp.corrcoef(x, dtype="float32").dtype == np.float32
    with pytest.raises(
        ValueError, match=r"aweights float64\[5\] is not one for each of 6 observations.*test_options"
    ):
        tnp.cov(x, aweights=weights[:5])


def test_spread_about_a_given_mean() -> None:
    x = numbers("float64", (3, 4))
    x[0, 1] = np.nan
    for name in ("nanvar", "nanstd"):
        close(
            getattr(tnp, name)(x, 1, mean=np.ones((3, 1))),
            getattr(np, name)(x, 1, mean=np.ones((3, 1))),
            1e-12,
        )
    close(tnp.var(x[1:], mean=0.5), np.var(x[1:], mean=0.5), 1e-12)


def test_selections_of_a_size() -> None:
    x, holds = numbers("float32", (4, 3)), np.array([True, False, True, False])
    found = jit(lambda x, c: tnp.compress(c, x, 0, size=3, fill_value=9))(x, holds)
    close(found, np.concatenate([x[holds], np.full((1, 3), 9)]))
    close(jit(lambda x, c: tnp.compress(c, x, 0, size=1))(x, holds), x[:1])
    close(jit(lambda x: tnp.extract(x > 0, x, size=12))(x), np.append(x[x > 0], np.zeros((x <= 0).sum())))
    close(tnp.compress(np.array([False, True]), x, 1), x[:, 1:2])
    for axis in (0, 1, None):
        places = np.array([2, 0, -3])[: 3 if axis == 0 else 2]
        deleted = jit(lambda x, p, axis=axis: tnp.delete(x, p, axis, assume_unique_indices=True))(x, places)
        close(deleted, np.delete(x, places, axis))
    square = jit(lambda m: tnp.mask_indices(3, lambda ones, k: m, size=4))(tnp.triu(tnp.ones((3, 3)), 1))
    assert [a.tolist() for a in square] == [[0, 0, 1, 0], [1, 2, 2, 0]]


def test_fits_with_what_they_are_worth() -> None:
    x = np.linspace(-1, 1, 9)
    y = np.stack([np.sin(3 * x), np.exp(x)], 1)
    for values in (y, y[:, 0]):
        for cov in (True, "unscaled"):
            found, wanted = tnp.polyfit(x, values, 3, cov=cov), np.polyfit(x, values, 3, cov=cov)
            for a, b in zip(found, wanted, strict=True):
                close(a, b, 1e-9)
        for a, b in zip(
            tnp.polyfit(x, values, 3, full=True), np.polyfit(x, values, 3, full=True), strict=True
        ):
            close(a, b, 1e-9)
    w = numbers("float64", (9,), 0.5, 2.0)
    for a, b in zip(
        tnp.polyfit(x, y[:, 0], 2, w=w, cov=True), np.polyfit(x, y[:, 0], 2, w=w, cov=True), strict=True
    ):
        close(a, b, 1e-9)
    with pytest.raises(ValueError, match="nothing to scale"):
        tnp.polyfit(x[:3], y[:3, 0], 2, cov=True)


def test_polynomials_without_leading_zeros() -> None:
    p, q = np.array([0.0, 0.0, 2.0, 1.0]), np.array([0.0, 3.0])
    assert tnp.polymul(p, q, trim_leading_zeros=True).tolist() == np.polymul(p, q).tolist() == [6, 3]
    quotient, rest = tnp.polydiv(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0]), trim_leading_zeros=True)
    assert quotient.tolist() == [1, 2] and rest.tolist() == [0]


def test_arguments_that_say_nothing_here() -> None:
    x: Any = np.array([1.0, 2.0, 1.0])
    assert tnp.unique(x, sorted=False).tolist() == [1, 2] and tnp.round(x, 1, out=None).tolist() == x.tolist()
    assert tnp.isin(x, 2.0, method="compare_all").tolist() == [False, True, False]
    assert (
        tnp.digitize(x, x[:2], method="sort").tolist() == [1, 2, 1] and tnp.trace(tnp.eye(2), out=None) == 2
    )
    assert tnp.array([1], device="cpu").tolist() == [1] and tnp.gradient(x, edge_order=1).shape == (3,)
    assert tnp.promote_types(a="int8", b="float16") == np.float16
    sign, logarithm = tnp.linalg.slogdet(np.eye(2), method="lu")
    assert (float(sign), float(logarithm)) == (1.0, 0.0)
    lower = np.array([[4.0, 99.0], [2.0, 3.0]])
    close(
        tnp.linalg.cholesky(lower, symmetrize_input=False),
        np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 3.0]])),
        1e-12,
    )
    singular = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    assert tnp.linalg.lstsq(singular, np.ones(3), numpy_resid=True)[1].shape == (0,)
    with pytest.raises(NotImplementedError, match="edge_order"):
        tnp.gradient(x, edge_order=2)


def test_results_are_not_written_into_out() -> None:
    """Every function that has NumPy's `out` refuses to be given one, instead of leaving it as it is."""
    functions = {
        name: getattr(tnp, name)
        for name in tnp.__all__
        if inspect.isfunction(getattr(tnp, name))
        and "out" in inspect.signature(getattr(tnp, name)).parameters
    }
    functions |= {f"add.{name}": getattr(tnp.add, name) for name in ("reduce", "accumulate", "reduceat")}
    assert len(functions) > 40
    x = tnp.ones((2, 2))
    for function in functions.values():
        needed = [
            p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind < 2
        ]
        with pytest.raises(TypeError, match=r"\w+: `out` must be None; at .*test_options"):
            function(*[x] * len(needed), out=np.zeros(2))
    with pytest.raises(TypeError, match="sum: `out` must be None"):
        x.sum(out=np.zeros(()))


def test_sort_has_no_fields_to_order_by() -> None:
    for function in (tnp.sort, tnp.argsort):
        with pytest.raises(ValueError, match="`order` names fields"):
            function(tnp.ones(2), order="f")
