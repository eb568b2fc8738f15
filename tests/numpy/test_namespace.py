"""Methods of arrays, functions of functions, files, and the namespace as a whole."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import close, numbers
from tinyfn.transforms import jit


def test_vectorize_and_apply() -> None:
    x, y = numbers("float32", (3, 4)), numbers("float32", (4,), seed=1)
    close(tnp.vectorize(lambda a, b: a * b + 1)(x, y), x * y + 1)
    close(tnp.vectorize(lambda a, b: a * b)(x[:, :1], y), x[:, :1] * y)
    close(tnp.vectorize(lambda a, b: tnp.dot(a, b), signature="(n),(n)->()")(x, y), x @ y)
    close(tnp.vectorize(lambda a, k: a * k, excluded={1})(x, 3), x * 3)
    for axis in (0, 1):
        close(tnp.apply_along_axis(tnp.cumsum, axis, tnp.asarray(x)), np.cumsum(x, axis))
        close(tnp.apply_along_axis(tnp.max, axis, tnp.asarray(x)), np.max(x, axis))


def test_methods() -> None:
    x = numbers("float32", (2, 3))
    a = tnp.asarray(x)
    for name in (
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "argmax",
        "argmin",
        "std",
        "var",
        "cumsum",
        "ravel",
        "flatten",
        "squeeze",
        "round",
        "copy",
        "conj",
    ):
        close(getattr(a, name)(), getattr(x, name)())
        close(jit(lambda v: getattr(v, name)())(a), getattr(x, name)())
    close(a.reshape(3, 2), x.reshape(3, 2))
    close(a.reshape((3, -1)), x.reshape(3, 2))
    close(a.transpose(1, 0), x.T)
    close(a.transpose((1, 0)), x.T)
    close(a.T @ a, x.T @ x)
    close(a.clip(-1, 1), x.clip(-1, 1))
    close(a.take(tnp.array([0, 1]), 1), x[:, :2])
    close(a.sort(), np.sort(x))
    close(a.argsort(0), np.argsort(x, 0))
    close(a.compress(tnp.array([True, False, True]), 1), x[:, ::2])
    close(np.take_along_axis(x, np.asarray(a.argpartition(1, 1)), 1)[:, 1], np.median(x, 1))
    close(a.swapaxes(0, 1), x.T)
    close(a.dot(a.T), x @ x.T)
    close(a.repeat(2, 0), x.repeat(2, 0))
    assert bool((a > 5).any()) is False and bool((a < 5).all())
    assert a.astype("int32").dtype == np.int32 and a.view("int32").dtype == np.int32
    assert a.real is a and a.imag.sum() == 0
    assert [p.tolist() for p in divmod(tnp.array([7, -7]), 2)] == [[3, -4], [1, 1]]
    assert [p.tolist() for p in divmod(7, tnp.array([2, 3]))] == [[3, 2], [1, 1]]
    assert x[0, 0] in a and len(a) == 2 and [row.shape for row in a] == [(3,), (3,)]
    close(np.ones(3, np.float32) * a, x)
    with pytest.raises(TypeError):
        a + "1"
    assert pickle.loads(pickle.dumps(a)).tolist() == a.tolist()


@pytest.mark.parametrize("old", ["bool", "uint8", "int16", "float32", "int64", "complex64", "complex128"])
def test_views(old: str) -> None:
    x = numbers("float64", (3, 16), 0, 9).astype(old)
    for new in ("uint8", "int16", "uint32", "float32", "float64", "complex64", "complex128"):
        wanted = x.view(new)
        for found in (tnp.asarray(x).view(new), jit(lambda x, new=new: x.view(new))(x)):
            assert found.dtype == new and found.shape == wanted.shape
            np.testing.assert_array_equal(np.asarray(found).view(np.uint8), wanted.view(np.uint8))
    assert tnp.asarray(x).view(bool).tolist() == (x.view(np.uint8) != 0).tolist()
    assert tnp.zeros((0, 16), old).view("int32").shape == np.zeros((0, 16), old).view("int32").shape
    with pytest.raises(ValueError, match=r"a last axis of a multiple of 16 bytes is needed.*test_namespace"):
        tnp.ones((2, 3), "int8").view("complex128")
    with pytest.raises(ValueError, match=r"view of float32\[\] as int8"):
        tnp.ones(()).view("int8")


def test_files(tmp_path: Any) -> None:
    x = tnp.arange(6.0).reshape(2, 3)
    tnp.save(tmp_path / "x.npy", x)
    assert tnp.load(tmp_path / "x.npy").tolist() == x.tolist()
    tnp.savez(tmp_path / "x.npz", x, y=x)
    with tnp.load(tmp_path / "x.npz") as archive:
        assert archive["y"].tolist() == x.tolist()


def test_exported_names_exist_and_are_documented() -> None:
    for name in tnp.__all__:
        value = getattr(tnp, name)
        if (
            callable(value)
            and not isinstance(value, type)
            and getattr(value, "__module__", "").startswith("tinyfn")
        ):
            assert value.__doc__, name


def test_dlpack_shares_memory_both_ways() -> None:
    """Zero-copy on the CPU: out as a read-only view, in as an array over the other library's memory."""

    def address(a: np.ndarray[Any, Any]) -> int:
        return int(a.__array_interface__["data"][0])

    x = tnp.arange(6.0).reshape(2, 3)
    view = np.from_dlpack(x)
    assert address(view) == address(np.asarray(x)) and not view.flags.writeable
    ours = np.arange(6.0, dtype=np.float32)
    assert address(np.asarray(tnp.from_dlpack(ours))) == address(ours)
    assert address(np.asarray(tnp.from_dlpack(ours, copy=True))) != address(ours)
    assert x.__dlpack_device__() == (1, 0)
