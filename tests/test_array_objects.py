"""Arrays as objects: what Python, NumPy and other libraries ask of them."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import jit
from tinyfn.trace.errors import DeletedArrayError


def address(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def test_numpy_sees_the_memory() -> None:
    x = tnp.arange(6.0).reshape(2, 3)
    view = np.asarray(x)
    assert not view.flags.writeable and address(np.asarray(x)) == address(view)
    assert np.asarray(x, copy=True).flags.writeable and address(np.asarray(x, copy=True)) != address(view)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    # A function of NumPy gives NumPy's arrays, an operator ours.
    assert type(np.sin(x)) is np.ndarray and type(np.ones(3) + x) is type(x * np.ones(3)) is type(x)
    for dtype in (ml_dtypes.bfloat16, np.bool_, np.complex64):
        assert np.asarray(tnp.ones(2, dtype)).dtype == dtype


def test_dlpack_and_copies() -> None:
    ours = tnp.arange(4.0)
    assert address(np.from_dlpack(ours)) == address(np.asarray(ours))
    assert address(np.from_dlpack(ours, copy=True)) != address(np.asarray(ours))
    theirs = np.arange(4.0)
    theirs.flags.writeable = False
    for copies in (None, False):
        assert address(np.asarray(tnp.from_dlpack(theirs, copy=copies))) == address(theirs)
    assert address(np.asarray(tnp.from_dlpack(theirs, copy=True))) != address(theirs)
    assert ours.__dlpack_device__() == (1, 0)
    with pytest.raises((BufferError, TypeError)):
        tinyfn.jit(lambda x: x + len(x.__dlpack__()))(ours)


def test_an_array_passed_in_is_not_shared() -> None:
    theirs = np.arange(3.0)
    ours = tnp.asarray(theirs)
    theirs[0] = 9
    assert ours.tolist() == [0, 1, 2]


def test_as_python_numbers() -> None:
    x = tnp.array([[1.5, 2.0], [3.0, 4.0]])
    assert x[0, 0].item() == 1.5 and x.item(3) == 4.0 and x.item(1, 0) == 3.0 and type(x.item(0)) is float
    assert float(x[0, 1]) == 2.0 and int(x[1, 0]) == 3 and complex(x[0, 1]) == 2 + 0j and bool(x[0, 0])
    assert (
        f"{x[0, 0]:.2f}" == "1.50" and operator.index(tnp.array(2)) == 2 and ["a", "b"][tnp.array(1)] == "b"
    )
    assert tnp.array(True).item() is True and type(tnp.array(2).item()) is int
    assert x.tolist() == [[1.5, 2.0], [3.0, 4.0]] and x.tobytes() == np.asarray(x).tobytes()
    assert [row.tolist() for row in x] == x.tolist() and len(x) == 2 and next(reversed(x[0])) == 2.0
    for call, error in (
        (lambda: bool(x), ValueError), (lambda: float(x), TypeError), (lambda: operator.index(x), TypeError),
        (lambda: operator.index(x[0, 0]), TypeError), (lambda: x.item(), ValueError), (lambda: len(x[0, 0]), TypeError),
        (lambda: iter(x[0, 0]), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            call()


def test_arrays_are_no_keys() -> None:
    with pytest.raises(TypeError, match=r"not hashable; at .*test_array_objects.*item\(\)"):
        hash(tnp.ones(2))
    with pytest.raises(TypeError, match="not hashable"):
        {tnp.array(1.0)}


def test_pickles_and_copies() -> None:
    for x in (tnp.arange(6).reshape(2, 3), tnp.ones((0, 2), "bfloat16"), tnp.array(1.0), tnp.asarray(2.0)):
        for again in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
            assert again.dtype == x.dtype and again.weak_type == x.weak_type
            np.testing.assert_array_equal(again, x)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(tnp.ones(2), protocol)).tolist() == [1, 1]


def test_a_copy_outlives_a_donation() -> None:
    add = jit(lambda x: x + 1, donate_argnums=0)
    for copied in (tnp.array, tnp.copy, copy.copy, copy.deepcopy, lambda x: x.copy(), lambda x: tnp.array(x, copy=True),
                   lambda x: tnp.asarray(x, copy=True), lambda x: x.astype(x.dtype, copy=True),
                   lambda x: tnp.array(x, x.dtype, ndmin=x.ndim), lambda x: tnp.array(np.asarray(x))):  # fmt: skip
        for x in (tnp.arange(5000.0).reshape(50, 100), tnp.ones((0, 2), "bfloat16"), tnp.asarray(2)):
            expected = np.array(x)
            again = copied(x)
            assert (
                type(again) is type(x)
                and again.dtype is x.dtype
                and not np.may_share_memory(again.value, x.value)
            )
            add(x)
            assert x.is_deleted() and not again.is_deleted()
            np.testing.assert_array_equal(again, expected)
            with pytest.raises(DeletedArrayError):
                copied(x)
    x = tnp.ones(3)
    for same in (
        tnp.array(x, copy=False),
        tnp.asarray(x),
        tnp.asarray(x, "float32", copy=False),
        x.astype("float32"),
    ):
        assert same is x
    # A trace has no memory: what is copied in it is the value itself, captured arrays too.
    assert jit(
        lambda y: tuple(f(y) is y and f(x) is x for f in (tnp.array, tnp.copy, copy.copy, copy.deepcopy))
    )(x) == ((True,) * 4)
    # The memory of a NumPy array that can't be written to is shared by asarray alone.
    buffer = np.arange(3.0)
    buffer.flags.writeable = False
    assert np.may_share_memory(tnp.asarray(buffer).value, buffer)
    assert not np.may_share_memory(tnp.array(buffer).value, buffer) and not np.may_share_memory(
        tnp.copy(buffer).value, buffer
    )


def test_where_it_is() -> None:
    x = tnp.ones((2, 3, 4))
    assert x.block_until_ready() is x and x.copy_to_host_async() is None and x.device == "cpu"
    assert (x.T.shape, x.mT.shape, x.nbytes, x.itemsize, x.size, x.ndim) == (
        (4, 3, 2),
        (2, 4, 3),
        96,
        4,
        24,
        3,
    )


class Wrapped:
    """Another library's object, that says which array it stands for."""

    def __init__(self, array: Any):
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array


@pytest.mark.parametrize("make", [tnp.asarray, np.asarray], ids=["ours", "numpy"])
def test_objects_that_stand_for_arrays(make: Any) -> None:
    values = np.array([1.0, 2.0, 3.0], np.float32)
    x, w = tnp.asarray(values), Wrapped(make(values))
    for function in (tnp.sin, tnp.sum, tnp.asarray, lambda v: tnp.add(v, 1), lambda v: tnp.where(True, v, 0),
                     lambda v: tnp.concatenate([v, v]), lambda v: tnp.array([v, v]), lambda v: tnp.matmul(v, v),
                     lambda v: tnp.zeros((2, 3)).at[0].set(v), tinyfn.jit(lambda v: v * 2), tinyfn.vmap(tnp.cos),
                     lambda v: x + v, lambda v: v - x, lambda v: v < x, tinyfn.grad(lambda v: tnp.sum(v**2)),
                     tinyfn.jit(lambda u: u * w), lambda v: tinyfn.jvp(tnp.sin, (v,), (v,))[1]):  # fmt: skip
        np.testing.assert_array_equal(function(w), function(x))


def test_traced_arrays_may_be_wrapped() -> None:
    result = tinyfn.grad(lambda x: tnp.sum(tnp.sin(Wrapped(x)) * Wrapped(x)))(tnp.ones(2))
    np.testing.assert_allclose(result, np.full(2, np.sin(1) + np.cos(1)), rtol=1e-6)
