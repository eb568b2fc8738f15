"""Special functions that are compositions of array operations: against goldens of mpmath, edges, derivatives, transforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.against_numpy import check_derivatives
from tinyfn.scipy import special

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "special_composed.json").read_text())
INF, NAN = np.inf, np.nan


def named(name: str) -> Any:
    """The function of a name, or a part of its result: `fresnel_0`, `wofz_imag`, and `bessel_jn_5` for the order 5."""
    whole, _, part = name.rpartition("_")
    if whole == "bessel_jn":
        return lambda x: special.bessel_jn(x, v=int(part))[int(part)]
    if whole == "wofz":
        return lambda x, y: getattr(special.wofz(x + 1j * y), part)
    if whole == "sph_harm_y":
        return lambda n, m, *angles: getattr(
            special.sph_harm_y(n.astype(int), m.astype(int), *angles, n_max=12), part
        )
    return (lambda x: getattr(special, whole)(x)[int(part)]) if part.isdigit() else getattr(special, name)


# How far results may be off, of themselves or of the greatest if it is not as good everywhere.
RELATIVE = {
    "expn": 2e-14, "fresnel_0": 2e-15, "fresnel_1": 2e-15, "hyp1f1": 5e-14, "hyp2f1": 2e-14, "wofz_real": 2e-14,
    # exp(-h²/2) takes the error of h² with it
    "owens_t": 2e-13,
}  # fmt: skip
ABSOLUTE = {
    "bessel_jn_0": 1e-15, "bessel_jn_1": 1e-15, "bessel_jn_5": 1e-15, "bessel_jn_40": 1e-15, "wofz_imag": 2e-15,
    "sph_harm_y_real": 4e-15, "sph_harm_y_imag": 4e-15,
}  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", GOLDENS)
def test_values(name: str, jit: bool) -> None:
    function = tinyfn.jit(named(name)) if jit else named(name)
    found = function(*[np.array(a) for a in GOLDENS[name]["arguments"]])
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        found, np.array(GOLDENS[name]["values"]), RELATIVE.get(name, 0), ABSOLUTE.get(name, 0)
    )


@pytest.mark.parametrize("name", ["expn", "fresnel_1", "hyp1f1", "hyp2f1", "owens_t", "bessel_jn_1"])
@pytest.mark.parametrize("dtype", [tnp.float32, tnp.bfloat16])
def test_narrow_dtypes_are_rounded_once(name: str, dtype: Any) -> None:
    args = [tnp.asarray(np.array(a), dtype) for a in GOLDENS[name]["arguments"]]
    found = named(name)(*args)
    wanted = named(name)(*[a.astype("float64") for a in args])
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted.astype(dtype)))


EDGES: list[tuple[str, tuple[Any, ...], float]] = [
    ("expn", (0.0, 0.0), INF), ("expn", (1.0, 0.0), INF), ("expn", (3.0, 0.0), 0.5), ("expn", (0.0, INF), 0.0),
    ("expn", (2.0, INF), 0.0), ("expn", (2.0, -1.0), NAN), ("expn", (-1.0, 1.0), NAN), ("expn", (1.5, 1.0), NAN),
    ("expn", (2.0, NAN), NAN), ("expn", (0.0, 2.0), float(np.exp(-2.0) / 2)),
    ("fresnel_0", (INF,), 0.5), ("fresnel_1", (-INF,), -0.5), ("fresnel_0", (0.0,), 0.0), ("fresnel_1", (NAN,), NAN),
    ("owens_t", (0.0, 1.0), 0.125), ("owens_t", (0.0, INF), 0.25), ("owens_t", (INF, 1.0), 0.0), ("owens_t", (3.0, 0.0), 0.0),
    ("owens_t", (0.0, -INF), -0.25), ("owens_t", (NAN, 1.0), NAN), ("owens_t", (1.0, NAN), NAN),
    ("bessel_jn_0", (0.0,), 1.0), ("bessel_jn_5", (0.0,), 0.0), ("bessel_jn_1", (INF,), 0.0), ("bessel_jn_1", (NAN,), NAN),
    ("wofz_real", (0.0, 0.0), 1.0), ("wofz_real", (INF, 0.0), 0.0), ("wofz_imag", (0.0, 1e30), 0.0),
    ("wofz_imag", (1e30, 0.0), float(1 / np.sqrt(np.pi) / 1e30)), ("wofz_real", (NAN, 0.0), NAN),
    ("wofz_real", (0.0, -40.0), INF),
    ("hyp1f1", (1.0, 2.0, 0.0), 1.0), ("hyp1f1", (0.0, 2.0, 3.0), 1.0), ("hyp1f1", (1.0, -1.0, 0.5), INF),
    ("hyp1f1", (-1.0, -2.0, 0.5), 1.25), ("hyp1f1", (1.0, 2.0, INF), INF), ("hyp1f1", (1.0, 2.0, -INF), 0.0),
    ("hyp1f1", (1.0, 2.0, NAN), NAN), ("hyp1f1", (2.0, 2.0, -1000.0), 0.0), ("hyp2f1", (1.0, 1.0, 2.0, 1.0), INF),
    ("hyp2f1", (0.5, 0.5, 2.0, 1.0), 4 / np.pi), ("hyp2f1", (1.0, 1.0, 2.0, 1.5), NAN), ("hyp2f1", (1.0, 1.0, -1.0, 0.5), INF),
    ("hyp2f1", (-2.0, 1.0, 2.0, 0.9), 0.37), ("hyp2f1", (-1.0, 1.0, -2.0, 0.5), 1.25), ("hyp2f1", (1.0, 2.0, 3.0, 0.0), 1.0),
    ("hyp2f1", (1.0, 2.0, 3.0, NAN), NAN), ("hyp2f1", (2.0, -1.0, 3.0, -6.0), 5.0),
]  # fmt: skip


@pytest.mark.parametrize("name, args, wanted", EDGES)
def test_edges(name: str, args: tuple[Any, ...], wanted: float) -> None:
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            found = named(name)(*[np.array(a, dtype) for a in args])
            np.testing.assert_allclose(found, dtype(wanted), rtol=1e-6, atol=1e-300)


DIFFERENTIATED: dict[str, list[list[float]]] = {
    "fresnel_0": [[-2.3, 0.0, 1.2, 4.0]], "fresnel_1": [[-2.3, 0.0, 1.2, 4.0]],
    "owens_t": [[0.5, -1.0, 2.0, 0.0], [0.3, 2.0, -1.5, 0.7]], "bessel_jn_0": [[-3.0, 0.0, 2.0, 30.0]],
    "bessel_jn_5": [[-3.0, 0.0, 2.0, 30.0]], "wofz_real": [[-2.0, 0.0, 0.3, 5.0], [0.3, 0.0, 2.0, -0.2]],
    "wofz_imag": [[-2.0, 0.0, 0.3, 5.0], [0.3, 0.0, 2.0, -0.2]],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name: str) -> None:
    check_derivatives(named(name), *[np.array(a) for a in DIFFERENTIATED[name]], tolerance=1e-5)


@pytest.mark.parametrize(
    "name, args", [("hyp1f1", (0.7, 1.5, [-2.0, 90.0])), ("hyp2f1", (0.5, 1.5, 2.2, [-0.7, 0.8]))]
)
def test_derivatives_of_hypergeometric_functions(name: str, args: tuple[Any, ...]) -> None:
    function, count = named(name), len(args)
    args = tuple([np.full(2, a) for a in args])
    found = tinyfn.grad(lambda *xs: function(*xs).sum(), tuple(range(count)))(*args)
    for i in range(count):
        high, low = (
            np.asarray(function(*[a + s * (i == j) for j, a in enumerate(args)])) for s in (1e-5, -1e-5)
        )
        np.testing.assert_allclose(found[i], (high - low) / 2e-5, rtol=1e-6)
    second = tinyfn.grad(lambda x: tinyfn.grad(lambda x: function(*args[:-1], x).sum())(x).sum())(args[-1])
    factor = np.prod([a[0] * (a[0] + 1) for a in args[:-2]]) / (args[-2] * (args[-2] + 1))
    above = [a + 2 for a in args[:-1]]
    np.testing.assert_allclose(second, factor * np.asarray(function(*above, args[-1])), rtol=1e-10)


def test_derivatives_in_some_arguments() -> None:
    check_derivatives(
        lambda x: special.expn(np.array([0.0, 1.0, 2.0, 5.0]), x), np.array([0.7, 1.3, 3.0, 0.2])
    )
    assert float(tinyfn.grad(lambda n: special.expn(n, 1.0))(2.0)) == 0.0
    harmonic = lambda theta, phi: special.sph_harm_y(np.array([3, 5]), np.array([-2, 1]), theta, phi)
    check_derivatives(harmonic, np.array([0.7, 2.0]), np.array([0.3, 4.0]))
    z = np.array([0.3 + 0.5j, -2 + 0.1j, 0.0, 3j])
    check_derivatives(special.wofz, z)
    slope = tinyfn.jvp(special.wofz, (z,), (np.ones(4, complex),))[1]
    np.testing.assert_allclose(slope, -2 * z * special.wofz(z) + 2j / np.sqrt(np.pi), rtol=1e-12)
    # Far out, where that is a difference of near numbers, by the asymptotic series
    far = np.array([1e5 + 1e5j, 1e12j])
    slope = tinyfn.jvp(special.wofz, (far,), (np.ones(2, complex),))[1]
    np.testing.assert_allclose(slope, -1j / (np.sqrt(np.pi) * far * far), rtol=1e-9)


def test_transforms() -> None:
    x = np.array([0.1, 0.5, 0.9], np.float32)
    mapped = tinyfn.jit(tinyfn.vmap(special.hyp2f1, (None, None, 0, 0)))(1.0, 1.0, x + 1, x)
    np.testing.assert_array_equal(mapped, special.hyp2f1(1.0, 1.0, x + 1, x))
    orders = tinyfn.vmap(lambda x: special.bessel_jn(x, v=3))(x)
    np.testing.assert_array_equal(orders, special.bessel_jn(x, v=3).T)
    with_gradient = tinyfn.jit(tinyfn.vmap(tinyfn.grad(special.hyp1f1, 2), (None, None, 0)))(1.0, 2.0, x)
    np.testing.assert_allclose(with_gradient, special.hyp1f1(2.0, 3.0, x) / 2, rtol=1e-6)
    assert special.hyp2f1(1, 2, 3, np.zeros((0, 2))).shape == (0, 2)
    assert special.bessel_jn(np.zeros((2, 0)), v=1).shape == (2, 2, 0)
    assert special.wofz(1).dtype == np.complex64 and special.wofz(np.zeros((2, 3))).dtype == np.complex128
    assert special.sph_harm_y(np.arange(3)[:, None], 0, np.zeros(2, np.float32), 0.0).shape == (3, 2)


def test_errors() -> None:
    for call in (
        lambda: special.fresnel(1j),
        lambda: special.hyp1f1(1.0, 1j, 1.0),
        lambda: special.bessel_jn(1j, v=1),
        lambda: special.sph_harm_y(1, 1, 1j, 0.0),
    ):
        with pytest.raises(TypeError, match=r"special\.\w+ takes real numbers, not .*complex64"):
            call()
    with pytest.raises(TypeError, match=r"special\.bessel_jn needs a whole number as v, not 1\.5"):
        special.bessel_jn(1.0, v=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 or more, not -1"):
        special.bessel_jn(1.0, v=-1)
    with pytest.raises(TypeError, match=r"special\.sph_harm_y needs integers as m, not float32\[\]"):
        special.sph_harm_y(1, 1.0, 0.0, 0.0)
    with pytest.raises(TypeError, match="n_max where n is traced"):
        tinyfn.jit(lambda n: special.sph_harm_y(n, 1, 0.0, 0.0))(2)
    with pytest.raises(NotImplementedError, match="jacfwd"):
        special.sph_harm_y(1, 0, 0.0, 0.0, diff_n=1)  # type: ignore[arg-type]
