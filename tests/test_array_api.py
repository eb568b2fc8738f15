"""What the Python array API standard asks for beyond NumPy's functions."""

from __future__ import annotations

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.trace.errors import TracerError


def test_namespace() -> None:
    x = tnp.ones(3)
    assert x.__array_namespace__() is tnp and x.__array_namespace__(api_version="2023.12") is tnp
    assert tnp.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match=r"version '2020.01'.*is not one of 2021.12"):
        x.__array_namespace__(api_version="2020.01")
    assert tinyfn.jit(lambda v: v.__array_namespace__().sin(v))(x).shape == (3,)
    for name in tnp.__all__:
        assert hasattr(tnp, name), name
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = tnp.no_such_name  # type: ignore[attr-defined]


def test_info() -> None:
    info = tnp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() == "cpu" and info.devices() == ("cpu",)
    assert info.default_dtypes() == {
        "real floating": np.float32, "complex floating": np.complex64, "integral": np.int32, "indexing": np.int32,
    }  # fmt: skip
    assert list(info.dtypes(kind=("bool", "complex floating"))) == ["bool", "complex64", "complex128"]
    assert len(info.dtypes()) == 13 and info.dtypes(kind="integral")["uint64"] == np.uint64
    with pytest.raises(ValueError, match="no kind 'text'"):
        info.dtypes(kind="text")
    assert tnp.zeros(64 * (1,)).ndim == 64


def test_devices() -> None:
    x = tnp.zeros(2, device="cpu")
    assert x.to_device("cpu") is x and x.device == "cpu"
    for function in (tnp.zeros, tnp.ones, tnp.empty, tnp.arange, tnp.eye, tnp.asarray):
        assert function(3, device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="no device 'tpu'"):
            function(3, device="tpu")
    with pytest.raises(ValueError, match="no device"):
        x.to_device("gpu")
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)
    with pytest.raises(ValueError, match="without a copy"):
        tnp.asarray(np.ones(2), copy=False)
    assert tnp.asarray(x, copy=False) is x


def test_dlpack() -> None:
    x = tnp.arange(3.0)
    assert np.from_dlpack(x).tolist() == [0, 1, 2] and not np.from_dlpack(x).flags.writeable
    x.__dlpack__(max_version=(0, 5))  # a copy, which may be written to
    with pytest.raises(BufferError, match="readonly"):
        x.__dlpack__(copy=False)


def test_zeros_of_remainders_have_the_divisors_sign() -> None:
    x = np.array([-0.0, 0.0, -0.0, 0.0, 3.0, -3.0, 7.5, -7.5, 1.0, -1.0, np.inf, 2.0, 0.0, 5e-324])
    y = np.array([1.0, -1.0, -2.0, 2.0, -3.0, 3.0, -2.0, 2.0, np.inf, np.inf, 1.0, 0.0, 0.0, 2.0])
    for dtype in (np.float64, np.float32, np.float16):
        for function in ("remainder", "floor_divide"):
            with np.errstate(all="ignore"):
                wanted = getattr(np, function)(x.astype(dtype), y.astype(dtype))
            ours = [tnp.asarray(v.astype(dtype)) for v in (x, y)]
            for found in (getattr(tnp, function)(*ours), tinyfn.jit(getattr(tnp, function))(*ours)):
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, wanted)
                np.testing.assert_array_equal(
                    np.signbit(found)[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)]
                )
    assert tinyfn.grad(lambda v: v % 3.0)(6.0) == 1 and float(tinyfn.grad(lambda v: 7.5 % v)(2.0)) == -3


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "float64", "bool", "complex64"])
def test_unique(dtype: str) -> None:
    x = np.array([[3, 1, 2, 3], [1, 7, 0, 1]]).astype(dtype)
    found = tnp.unique_all(x)
    values, indices, inverse, counts = np.unique(x, True, True, True)
    assert found.values.dtype == dtype and found.indices.dtype == np.int32
    for ours, wanted in zip(found, (values, indices, inverse, counts), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    size = 7
    by_size = tinyfn.jit(lambda v: tnp.unique_all(v, size=size))(x)
    n = len(values)
    np.testing.assert_array_equal(by_size.values, [*values, *[values[0]] * (size - n)])
    np.testing.assert_array_equal(by_size.counts, [*counts, *[0] * (size - n)])
    np.testing.assert_array_equal(by_size.indices, [*indices, *[indices[0]] * (size - n)])
    np.testing.assert_array_equal(by_size.inverse_indices, inverse)
    np.testing.assert_array_equal(tinyfn.jit(lambda v: tnp.unique(v, size=2))(x), values[:2])
    if dtype != "complex64":  # of which vmap makes no difference, but takes longer
        lanes = tinyfn.vmap(lambda v: tnp.unique(v, size=4, fill_value=0))(x)
        np.testing.assert_array_equal(lanes[1], [*np.unique(x[1]), *[0] * (4 - len(np.unique(x[1])))])


def test_unique_of_nan_and_of_nothing() -> None:
    x = np.array([np.nan, 1.0, np.nan, 1.0])
    assert tnp.unique_values(x).shape == (3,) and tnp.unique(x).shape == (2,)
    assert tnp.unique_counts(x, size=4).counts.tolist() == [2, 1, 1, 0]
    values, counts = tnp.unique(x, return_counts=True, size=4, fill_value=9.0)
    assert counts.tolist() == [2, 2, 0, 0] and values.tolist()[2:] == [9, 9]
    empty = tnp.unique_inverse(np.zeros((0, 2), np.float32), size=2)
    assert empty.values.tolist() == [0, 0] and empty.inverse_indices.shape == (0, 2)
    with pytest.raises(TracerError, match="give `size`"):
        tinyfn.jit(tnp.unique_values)(x)


def test_small_differences() -> None:
    assert type(tnp.meshgrid(tnp.arange(2))) is tuple and type(tnp.broadcast_arrays(1, tnp.ones(2))) is tuple
    info = tnp.finfo("float16")
    assert (info.bits, info.max, info.smallest_normal) == (16, 65504.0, 2.0**-14) and type(info.eps) is float
    assert tnp.finfo("bfloat16").eps == 2.0**-7 and "bfloat16" in repr(tnp.finfo("bfloat16"))
    for k in (-(2**40), 2**40):
        assert not tnp.eye(2, k=k).any() and tnp.tril(tnp.ones((2, 2)), k).any() == (k > 0)
        assert tnp.tri(2, k=k).all() == (k > 0)
    for function in (tnp.cumulative_sum, tnp.cumulative_prod):
        assert function(np.array([1, 2, 3], np.int8)).dtype == np.int32
        assert function(np.ones((2, 3)), axis=1, include_initial=True).shape == (2, 4)
        with pytest.raises(ValueError, match="needs an axis"):
            function(np.ones((2, 3)))
    assert tnp.cumulative_prod(tnp.arange(1, 4), include_initial=True).tolist() == [1, 1, 2, 6]
    for shape, mask in (((0, 1), (0, 0)), ((2, 3), (0,)), ((2, 3), (2, 0))):
        assert tnp.zeros(shape)[np.zeros(mask, bool)].shape == np.zeros(shape)[np.zeros(mask, bool)].shape
    with pytest.raises(IndexError, match="axis 3 is out of bounds"):
        tnp.expand_dims(tnp.ones(2), 3)


def test_where_the_standard_leaves_a_choice() -> None:
    """Floor division of and by infinities is Python's; read-only memory is not handed to who can't know that it is."""
    inf = np.float32(np.inf)
    x, y = (
        np.array([inf, -inf, inf, 1, -1, 1, -1], np.float32),
        np.array([2, 2, -2, inf, inf, -inf, -inf], np.float32),
    )
    with np.errstate(invalid="ignore"):
        wanted = x // y
    for found in (tnp.asarray(x) // tnp.asarray(y), tinyfn.jit(tnp.floor_divide)(x, y)):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(np.asarray(found)[3:]), np.signbit(wanted[3:]))
    with pytest.raises(BufferError, match="readonly"):
        tnp.ones(2).__dlpack__(copy=False)
    assert (
        type(tnp.ones(2).__dlpack__()).__name__
        == type(tnp.ones(2).__dlpack__(copy=False, max_version=(1, 0))).__name__
    )
