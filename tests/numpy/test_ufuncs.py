"""Functions of elements as objects with the methods of NumPy's ufuncs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn.transforms import grad, jit, vmap

BINARY = (
    "add", "multiply", "subtract", "maximum", "minimum", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip


def inputs(name: str) -> np.ndarray:
    return numbers("int32" if name.startswith("bitwise") else "float32", (3, 4, 2))


@pytest.mark.parametrize("name", BINARY)
def test_methods_agree_with_numpy(name: str) -> None:
    x = inputs(name)
    small = x[:, 0, 0]

    def methods(m: Any, x: Any) -> tuple[Any, ...]:
        f = getattr(m, name)
        return (
            f.reduce(x),
            f.reduce(x, axis=2),
            f.reduce(x, axis=-2, keepdims=True),
            f.accumulate(x, axis=1),
        )

    agree(methods, x)
    f, reference = getattr(tnp, name), getattr(np, name)
    close(f.outer(small, x[0]), reference.outer(small, x[0]))
    close(f.reduceat(x, [2, 0, 1, 1], axis=1), reference.reduceat(x, [2, 0, 1, 1], axis=1))
    expected = x.copy()
    reference.at(expected, (slice(None), np.array([0, 3, 0])), x[:, :3])
    close(f.at(x, (slice(None), np.array([0, 3, 0])), x[:, :3], inplace=False), expected)
    mask = numbers("bool", x.shape)
    first = 3 if x.dtype.kind == "i" else 0.5
    if not name.startswith("logical"):
        close(f.reduce(x, initial=first, where=mask), reference.reduce(x, initial=first, where=mask))
    close(f.reduce(x, axis=None, initial=first), reference.reduce(x.ravel(), initial=first))


def test_reduceat_has_no_indices_outside() -> None:
    for index in (3, -1):
        with pytest.raises(
            IndexError, match=r"reduceat of float32\[3\]: an index is not in 0 \.\. 2; at .*test_ufuncs"
        ):
            tnp.add.reduceat(tnp.ones(3), tnp.array([0, index]))


def test_reductions_of_nothing_are_the_identity() -> None:
    for name in BINARY:
        empty = inputs(name)[:0, 0]
        if name in ("subtract", "maximum", "minimum"):
            with pytest.raises(ValueError, match=r"test_ufuncs"):
                getattr(tnp, name).reduce(empty)
        else:
            close(getattr(tnp, name).reduce(empty), getattr(np, name).reduce(empty))
        close(getattr(tnp, name).accumulate(empty), getattr(np, name).accumulate(empty))
    assert tnp.bitwise_and.reduce(tnp.zeros((0,), "uint8")).tolist() == 255


def test_a_ufunc_is_a_function_with_a_name() -> None:
    assert isinstance(tnp.add, tnp.ufunc) and repr(tnp.add) == "<ufunc 'add'>" and tnp.add.__doc__
    assert (tnp.add.nin, tnp.add.nout, tnp.add.nargs, tnp.add.identity) == (2, 1, 3, 0)
    assert pickle.loads(pickle.dumps(tnp.add)) is tnp.add and copy.deepcopy(tnp.add) is tnp.add
    x = numbers("float32", (3, 2))
    close(jit(tnp.add)(x, x), x + x)
    close(vmap(tnp.add)(x, x), x + x)
    assert tnp.negative.at(tnp.ones(3), np.array([0, 1, 1]), inplace=False).tolist() == [-1, 1, 1]


def test_derivatives_go_through_the_methods() -> None:
    x = numbers("float64", (3, 4))
    check_gradient(lambda m, x: m.logaddexp.reduce(x, axis=1), x)
    check_gradient(lambda m, x: m.logaddexp.accumulate(x), x)
    check_gradient(lambda m, x: m.subtract.reduceat(x, np.array([0, 2]), axis=1), x)
    close(grad(lambda x: tnp.logaddexp.reduce(x, axis=None))(x), np.exp(x) / np.exp(x).sum())


def test_frompyfunc() -> None:
    f = tnp.frompyfunc(lambda a, b: a * b + 1, 2, 1)
    x = numbers("float32", (3, 4))
    close(f(x, x[0]), x * x[0] + 1)
    close(f.reduce(x), (x[0] * x[1] + 1) * x[2] + 1)
    close(f.outer(x[0], x[1]), x[0][:, None] * x[1] + 1)
    low, high = tnp.frompyfunc(lambda a: (a - 1, a + 1), 1, 2)(x)
    close(low, x - 1)
    close(high, x + 1)
    with pytest.raises(TypeError, match=r"reduce needs a function of two arguments with one result"):
        tnp.frompyfunc(lambda a: a, 1, 1).reduce(x)
    with pytest.raises(ValueError, match=r"nin=0 and nout=1"):
        tnp.frompyfunc(lambda: 0, 0, 1)


def test_at_gives_a_new_array() -> None:
    with pytest.raises(ValueError, match=r"inplace=False.*test_ufuncs"):
        tnp.add.at(tnp.ones(3), 0, 1.0)
    with pytest.raises(TypeError, match=r"takes 2 arguments"):
        tnp.add.at(tnp.ones(3), 0, inplace=False)
