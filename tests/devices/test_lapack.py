"""Decompositions by LAPACK's routines within programs: what NumPy gives, and with no Python between two kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax, linalg
from tinyfn.scipy import linalg as systems
from tinyfn.trace.prim import REGISTRY
from tinyfn.trace.prims import lapack, matrices
from tinyfn.transforms.executable import alone

needs_routines = pytest.mark.skipif(
    lapack.library() is None, reason="NumPy's LAPACK is not to be found by name"
)
DECOMPOSITIONS = [
    name for name, op in REGISTRY.items() if isinstance(op, matrices.Decomposition) and op.decomposition
]
EPSILON = {"float32": 1e-4, "float64": 1e-10}


def close(x: Any, y: Any) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert x.dtype == y.dtype and x.shape == y.shape
    tolerance = EPSILON.get(x.dtype.name, 1e-4)
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)


def positive(n: int, dtype: str, lead: tuple[int, ...] = ()) -> np.ndarray:
    a = np.random.default_rng(n).normal(size=(*lead, n, n))
    return (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(dtype)


@needs_routines
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_routines_give_what_numpy_gives(name: str) -> None:
    op: Any = REGISTRY[name]
    by_routines = 0
    for args, params, *_ in op.samples():
        found, expected = op.reference(*args, **params), op.by_numpy(*args, **params)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        if name in ("svd", "eigh", "qr"):  # vectors are determined up to signs
            found, expected = abs(found), abs(expected)
        if name != "svd" or not params["full"]:  # and further ones of full factors not at all
            close(found, np.asarray(expected))
        types = tuple([(np.asarray(a).dtype, np.shape(a)) for a in args])
        by_routines += matrices._steps(op, types, tuple(params.items())) is not None
    assert by_routines >= 5


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky": linalg.cholesky,
    "solve": lambda a: linalg.solve(a, a[..., :2] + 1),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "eigh": linalg.eigh,
    "svd": linalg.svd,
    "thin svd": lambda a: linalg.svd(a[..., :2], full_matrices=False),
    "wide svd": lambda a: linalg.svd(a[..., :2, :]),
    "qr": linalg.qr,
    "tall qr": lambda a: linalg.qr(a[..., :2], mode="complete"),
    "wide qr": lambda a: linalg.qr(a[..., :2, :]),
    "lu": systems.lu,
    "lu_factor": lambda a: systems.lu_factor(a[..., ::-1, :]),
    "cho_solve": lambda a: systems.cho_solve(systems.cho_factor(a), a[..., :1]),
    "triangular": lambda a: systems.solve_triangular(a, a, lower=True, unit_diagonal=False),
    "adjoint": lambda a: systems.solve_triangular(a, a, trans="T", unit_diagonal=True),
    "pinv": linalg.pinv,
    "gradient": lambda a: tinyfn.grad(lambda a: tnp.sum(tnp.sin(linalg.cholesky(a))))(a),
    "eigenvalues' gradient": lambda a: tinyfn.grad(lambda a: tnp.sum(linalg.eigvalsh(a) ** 2))(a),
}


@needs_routines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_programs_call_routines_themselves(what: str, dtype: str) -> None:
    function = tinyfn.jit(FUNCTIONS[what])
    for n, lead in ((3, ()), (1, ()), (5, (4,)), (4, (2, 3))):
        a = tnp.asarray(positive(n, dtype, lead))
        if not lead:
            assert "NumPy" not in repr(function.lower(a)) and "LAPACK" in repr(function.lower(a))
        with np.errstate(all="ignore"):
            expected = FUNCTIONS[what](a)
        for x, y in zip(tinyfn.tree.leaves(function(a)), tinyfn.tree.leaves(expected), strict=True):
            close(x, y)


@needs_routines
def test_the_table_names_the_routines() -> None:
    lowered = tinyfn.jit(lambda a: linalg.solve(a, a)).lower(tnp.ones((3, 3)))
    assert "sgesv" in str(lowered) and "by LAPACK" in str(lowered) and "output" not in str(lowered)
    assert "1 call of LAPACK" in lowered.summary


@needs_routines
def test_what_has_no_result_is_nan_and_the_rest_of_the_batch_is_right() -> None:
    good, bad = positive(3, "float32"), np.zeros((3, 3), np.float32)
    a = tnp.asarray(np.stack([good, bad, -good, good * np.nan]))
    for f, found in ((linalg.inv, [1, 0, 1, 0]), (linalg.cholesky, [1, 0, 0, 0])):
        result = np.asarray(tinyfn.jit(f)(a))
        assert [np.isfinite(r).all() for r in result] == [bool(v) for v in found]
        close(result[0], f(tnp.asarray(good)))
    triangle = tinyfn.jit(lambda a: systems.solve_triangular(a, tnp.ones((4, 3, 1)), lower=True))(a)
    assert np.isnan(np.asarray(triangle)[1]).all() and np.isfinite(np.asarray(triangle)[0]).all()
    assert np.asarray(tinyfn.jit(linalg.det)(a))[1] == 0


@needs_routines
def test_loops_with_routines_run_natively() -> None:
    """A Kalman filter's step has an inverse; the loop is one step of the program, and arguments keep their values."""
    a = tnp.asarray(positive(3, "float64"))
    before = np.array(a)

    def run(a: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            c = linalg.inv(c) + linalg.cholesky(c) @ a / 50
            return c @ c.T, linalg.det(c)

        return lax.scan(step, a, None, length=7)

    function = tinyfn.jit(run)
    assert function.lower(a).summary == "0 kernels, 1 loop or branch"
    with tinyfn.disable_jit():
        expected = run(a)
    for x, y in zip(tinyfn.tree.leaves(function(a)), tinyfn.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-7)
    np.testing.assert_array_equal(a, before)
    gradient = tinyfn.jit(tinyfn.grad(lambda a: run(a)[1].sum()))
    numerical = tinyfn.jit(lambda a: run(a)[1].sum())
    direction = np.asarray(positive(3, "float64")) / 10
    h = 1e-5
    slope = (float(numerical(a + h * direction)) - float(numerical(a - h * direction))) / (2 * h)
    np.testing.assert_allclose(float((np.asarray(gradient(a)) * direction).sum()), slope, rtol=1e-5)


@needs_routines
def test_routines_write_over_donated_arguments() -> None:
    function = tinyfn.jit(lambda a: linalg.cholesky(a), donate_argnums=0)
    a = tnp.asarray(positive(4, "float32"))
    expected = np.linalg.cholesky(np.asarray(a, np.float64))
    np.testing.assert_allclose(function(a), expected, rtol=1e-5)
    with pytest.raises(RuntimeError, match="donated"):
        a + 1


def test_without_routines_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a = positive(3, "float32", (2,))
    monkeypatch.setattr(lapack, "library", lambda: None)
    matrices._steps.cache_clear()
    function = tinyfn.jit(lambda a: linalg.inv(linalg.cholesky(a)))
    try:
        assert "2 calls of NumPy" in function.lower(a).summary
        close(function(a), np.linalg.inv(np.linalg.cholesky(a)))
    finally:
        matrices._steps.cache_clear()


@needs_routines
def test_the_op_of_a_call_is_as_what_native_code_does() -> None:
    """Kernels are timed, and written for other devices, with the call step by step."""
    a = positive(4, "float64", (3,))
    arguments = ("U", 4, lapack.Write(0, 0), 4, lapack.Write(1))
    graph = tinyfn.make_graph(lambda a: a)(a)
    results = lapack.call("potrf", [graph.inputs[0]], arguments, (4, 4), lapack.INFO)
    node = results[0].src[0]
    factor, info = lapack.lapack.reference(a, **node.params)
    assert alone(node).run([a])[0].shape == (3, 4, 4) and not info.any()
    close(np.tril(factor), np.linalg.cholesky(a))


@needs_routines
def test_wrong_library_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy.linalg._umath_linalg as linked

    monkeypatch.setattr(linked, "__file__", "/nowhere/there/is/none.so")
    assert lapack.library.__wrapped__() is None
