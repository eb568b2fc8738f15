"""Modules under the names that they have elsewhere, so that a port is a change of imports; and trees as vectors."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.flatten_util import ravel_pytree


@pytest.mark.parametrize("name", ["linalg", "fft"])
def test_modules_of_the_numpy_namespace(name: str) -> None:
    """`import tinyfn.numpy.linalg` and `from tinyfn.numpy.linalg import ...` work, with the functions of `tinyfn.linalg`."""
    code = f"from tinyfn.numpy.{name} import *; import tinyfn.numpy.{name} as a; import tinyfn.numpy as m; a.__all__; m.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)
    alias, module = (importlib.import_module(f"{package}.{name}") for package in ("tinyfn.numpy", "tinyfn"))
    for member in module.__all__:
        assert getattr(alias, member) is getattr(module, member) is getattr(getattr(tnp, name), member)


def test_modules_on_demand() -> None:
    for code in (
        "tinyfn.lax.linalg.triangular_solve",
        "tinyfn.scipy.linalg.expm",
        "tinyfn.tree_util.tree_map",
    ):
        subprocess.run([sys.executable, "-c", f"import tinyfn; {code}"], check=True)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = tinyfn.lax.linear


def test_a_tree_as_a_vector() -> None:
    tree = {
        "w": tnp.arange(6.0).reshape(2, 3),
        "b": [np.arange(2, dtype=np.int32), 1.5, tnp.ones((0, 2))],
        "n": None,
    }
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.float32 and vector.tolist() == [0, 1, 1.5, 0, 1, 2, 3, 4, 5]
    for back in (unravel(vector), tinyfn.jit(unravel)(vector)):
        assert tinyfn.tree.structure(back) == tinyfn.tree.structure(tree)
        for a, b in zip(tinyfn.tree.leaves(back), tinyfn.tree.leaves(tree), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == tnp.asarray(b).dtype
    assert ravel_pytree({"a": np.arange(3)})[0].dtype == np.int64
    empty, back = ravel_pytree([None, {}])
    assert empty.shape == (0,) and back(empty) == [None, {}]
    with pytest.raises(
        ValueError, match=r"unravel takes a vector of 9 elements, not float32\[8\].*test_alias"
    ):
        unravel(vector[1:])


def test_derivatives_of_a_function_of_a_vector() -> None:
    params = {"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([0.5, -1.0])}
    vector, unravel = ravel_pytree(params)
    x = np.array([1.0, 2.0])

    def loss(p: dict[str, tnp.ndarray]) -> tnp.ndarray:
        return tnp.sum((p["w"] @ x + p["b"]) ** 2)

    hessian = tinyfn.hessian(lambda v: loss(unravel(v)))(vector)
    gradient = tinyfn.grad(lambda v: loss(unravel(v)))(vector)
    np.testing.assert_allclose(gradient, ravel_pytree(tinyfn.grad(loss)(params))[0])
    # With residuals r = W x + b the Hessian is 2 J^T J: J is the identity for b, and x in each row for W.
    jacobian = np.hstack([np.eye(2), np.kron(np.eye(2), x)])
    np.testing.assert_allclose(hessian, 2 * jacobian.T @ jacobian, atol=1e-12)
