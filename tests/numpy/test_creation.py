"""Types and promotion, and the making of arrays."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn import ShapeDtypeStruct
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.errors import TracerError
from tinyfn.transforms import grad, jit, vmap

# Types

NAMED = [getattr(tnp, d.name if d is not dtypes.bool_ else "bool_") for d in dtypes.ALL]


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_named_dtypes_are_dtypes(named: Any) -> None:
    x = tnp.ones(2, named)
    own = dtypes.canonical(named)
    assert isinstance(own, np.dtype) and x.dtype is own and named.dtype is own and np.dtype(named) == own
    assert x.dtype == named and named == x.dtype and not named != x.dtype and not x.dtype != named
    assert named in {x.dtype} and x.dtype in {named} and hash(named) == hash(own) and named in (own,)
    assert named == str(named) and named == own.type and (named == tnp.int8) == (own.name == "int8")
    assert (
        not named.__eq__(None) and np.zeros(3, named).dtype == own and np.zeros(3).astype(named).dtype == own
    )
    assert tnp.ones(2).astype(named).dtype is own and tnp.zeros_like(tnp.ones(2), named).dtype is own
    assert tnp.issubdtype(named, named) and tnp.isdtype(named, named) and tnp.isdtype(own, (named, tnp.int8))
    assert tnp.issubdtype(named, tnp.number) == (own is not dtypes.bool_)
    assert ShapeDtypeStruct((3,), named) == ShapeDtypeStruct((3,), own) and tnp.result_type(named) is own
    if dtypes.is_inexact(own):
        assert tnp.finfo(named) is tnp.finfo(own)
    elif dtypes.is_integer(own):
        assert tnp.iinfo(named).max == tnp.iinfo(own).max == np.iinfo(named).max
    for again in (pickle.loads(pickle.dumps(named)), copy.copy(named), copy.deepcopy(named)):
        assert again is named
    assert eval(repr(named), {"tinyfn": tinyfn}) is named and str(named) == own.name == named.name


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_named_dtypes_make_arrays(named: Any) -> None:
    for made in (
        named(1),
        named(1.0),
        named(True),
        named(np.float64(1)),
        named(tnp.asarray(1)),
        jit(lambda: named(1))(),
    ):
        assert (
            type(made) is tnp.ndarray
            and made.shape == ()
            and made.dtype is named.dtype
            and not made.weak_type
        )
        assert made.item() == 1
    for several in (
        named([1, 0]),
        named(np.array([1, 0])),
        named(tnp.array([1.0, 0.0])),
        jit(named)(tnp.array([1, 0])),
    ):
        assert several.dtype is named.dtype and several.shape == (2,) and several[0].item() == 1
    x = tnp.ones(3, named)
    assert named(x) is x


def test_named_dtypes_as_functions() -> None:
    assert tnp.int32(3.7).item() == 3 and tnp.bool_(2).item() is True and tnp.bool is tnp.bool_
    assert tnp.float64(0.1).item() == 0.1 and tnp.float32(0.1).item() == np.float32(0.1)
    assert (tnp.float16(1) * tnp.float32(2)).dtype == tnp.float32 and (
        2.0 * tnp.bfloat16(1)
    ).dtype == tnp.bfloat16
    assert tnp.single is tnp.float32 and tnp.int_ is tnp.int32 and tnp.complex_(1j).item() == 1j
    close(grad(lambda x: (tnp.float64(x) ** 2).sum())(tnp.float32([1, 2])), [2, 4])
    close(vmap(tnp.int8)(tnp.float32([1.5, 2.5])), [1, 2])
    cast = jit(lambda x, to: to(x) + tnp.int8(1), static_argnames="to")
    assert (
        cast(tnp.ones(2), tnp.int8).dtype == tnp.int8 and cast(tnp.ones(2), tnp.float16).dtype == tnp.float16
    )
    with pytest.raises(OverflowError, match=r"300 does not fit into int8; at .*test_creation"):
        tnp.int8(300)
    with pytest.raises(TypeError, match=r"ScalarType.*test_creation"):
        tnp.float32(tnp.int8)
    with pytest.raises(TypeError, match=r"argument `x` is a ScalarType.*static argument"):
        jit(lambda x: x)(tnp.float32)


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.NARROW_FLOATS])
def test_constants_of_storage_floats_within_jit(dtype: str) -> None:
    @jit
    def made(x: Any) -> Any:
        one = tnp.array(1, dtype)
        return (
            one,
            tnp.full(3, 2, dtype),
            tnp.where(x > 0, one, tnp.array(2, dtype)),
            tnp.pad(x.astype(dtype), 1),
        )

    for found, expected in zip(made(tnp.array([1.0, -1.0])), (1, [2, 2, 2], [1, 2]), strict=False):
        assert found.dtype == dtype and found.tolist() == expected


def test_a_cast_to_a_named_dtype_is_not_weak() -> None:
    for x in (tnp.asarray(1), tnp.asarray(1.0), 1, 1.0):
        for dtype in ("int32", "float32", "complex64", "float16"):
            for cast in (tnp.asarray, tnp.astype):
                assert not cast(x, dtype).weak_type and not jit(lambda: cast(x, dtype))().weak_type
                assert not jit(lambda x: cast(x, dtype))(x).weak_type
    assert (tnp.asarray(1).astype("float32") * tnp.ones(2, "float16")).dtype == np.float32


def test_promotion() -> None:
    assert (tnp.ones(2, "float16") + 1.0).dtype == np.float16
    assert (tnp.ones(2, "int8") + 1).dtype == np.int8
    assert (tnp.ones(2, "int32") + 1.0).dtype == np.float32
    assert (tnp.ones(2, "float64") * tnp.ones(2)).dtype == np.float64
    assert (tnp.ones(2, "bfloat16") + tnp.ones(2, "float16")).dtype == np.float32
    assert tnp.result_type(tnp.int32, tnp.float16) == np.float16
    assert tnp.result_type(tnp.ones(2, "uint8"), 1.0) == np.float32
    assert tnp.promote_types("int8", "uint8") == np.int16
    assert tnp.promote_types("float64", "float32") == np.float64
    assert tnp.promote_types("int64", "int32") == np.int64
    assert tnp.promote_types("bfloat16", float) == tnp.bfloat16
    assert (1 + tnp.asarray(2.0)).weak_type and not (1 + tnp.array(2.0)).weak_type
    assert (True + tnp.array([True, False])).dtype == bool
    with pytest.raises(OverflowError):
        tnp.ones(2, "uint8") + 300


def test_python_numbers_keep_their_precision_beside_float64() -> None:
    x = numbers("float64", (4,), 0.5, 2.0)
    agree(
        lambda m, x: (
            x + 0.1,
            m.full_like(x, 0.1),
            m.where(x > 1, x, 0.1),
            m.clip(x, 0.7, 1.1),
            m.hypot(x, 0.1),
            m.logaddexp(0.1, x),
            m.quantile(x, 0.3),
            m.percentile(x, 30.0),
            m.trapezoid(x, dx=0.1),
            m.gradient(x, 0.1),
            m.pad(x, 1, constant_values=0.1),
            m.sum(x, initial=0.1),
            m.linspace(x, 0.1, 3),
            m.nan_to_num(m.log(x - x[0]), nan=0.1, neginf=0.3),
            m.array([0.1, 0.2], dtype="float64"),
            m.full((2,), 0.1, dtype="float64"),
            m.logspace(x, 0.3, 3, base=2.7),
            m.linalg.norm(x, 2.3),
            m.round(x, 2),
        ),
        x,
        tolerance=1e-13,
    )
    assert tnp.finfo("float64").max == tnp.nan_to_num(tnp.array(np.inf, "float64"))
    assert tnp.astype(0.1, "float64") == np.float64(0.1)


def test_questions_about_types() -> None:
    assert tnp.issubdtype(tnp.float32, tnp.floating) and tnp.issubdtype(tnp.bfloat16, tnp.floating)
    assert tnp.issubdtype("int8", tnp.integer) and not tnp.issubdtype("uint8", tnp.signedinteger)
    assert tnp.issubdtype(tnp.floating, tnp.inexact) and not tnp.issubdtype(bool, tnp.number)
    assert tnp.issubdtype(tnp.int64, tnp.int64) and not tnp.issubdtype(tnp.int64, tnp.int32)
    assert tnp.isdtype(tnp.bfloat16, "real floating") and tnp.isdtype("int8", ("bool", "integral"))
    assert float(tnp.finfo(tnp.bfloat16).eps) == 0.0078125 and tnp.iinfo("int16").max == 32767
    assert (
        tnp.can_cast("int8", "int16")
        and not tnp.can_cast("float64", "float32")
        and tnp.can_cast("bfloat16", "float32")
    )
    assert tnp.isscalar(1.0) and tnp.isscalar(tnp.array(1)) and not tnp.isscalar(tnp.ones(1))
    assert not tnp.iscomplexobj(tnp.ones(2)) and tnp.isrealobj(1.0)
    assert (
        tnp.ndim(tnp.ones((2, 3))),
        tnp.shape(1.0),
        tnp.size(tnp.ones((2, 3))),
        tnp.size(tnp.ones((2, 3)), 1),
    ) == (2, (), 6, 3)
    assert tnp.pi == np.pi and tnp.newaxis is None and np.isnan(tnp.nan)


# Creation


def test_array() -> None:
    assert tnp.array([1.0, 2]).dtype == np.float32 and tnp.array([1, True]).dtype == np.int32
    assert tnp.array([True]).dtype == bool and tnp.array([]).dtype == np.float32
    assert (
        tnp.array([1, 2], dtype="int64").dtype == np.int64 and tnp.array([1.5], "float64").dtype == np.float64
    )
    assert (
        not tnp.array(1.0).weak_type
        and tnp.asarray(1.0).weak_type
        and not tnp.asarray(1.0, "float32").weak_type
    )
    assert tnp.array(np.array([1.0])).dtype == np.float64
    assert tnp.array([np.float64(1.0), 2.0]).dtype == np.float64
    assert tnp.array([np.float16(1.0), 2.0]).dtype == np.float16
    assert tnp.array([[tnp.array(1), 2], [3, 4.5]]).dtype == np.float32
    close(tnp.array([tnp.ones(2), [3, 4]]), [[1, 1], [3, 4]])
    close(jit(lambda x: tnp.array([[x, 2], [3, x * 2]]))(5.0), [[5, 2], [3, 10]])
    assert jit(lambda x: tnp.array([x, 2.0]))(tnp.array(5, "int8")).dtype == np.float32
    close(grad(lambda x: tnp.sum(tnp.array([x, x * x])))(3.0), 7.0)
    close(tnp.array(range(3)), [0, 1, 2])
    assert tnp.array([1.7, -1.7], "int32").tolist() == [1, -1]
    assert tnp.array(1, ndmin=2).shape == (1, 1)
    mutable = np.zeros(3, np.float32)
    kept = tnp.asarray(mutable)
    mutable[0] = 1
    assert kept.tolist() == [0, 0, 0]
    close(tnp.from_dlpack(np.arange(3.0)), [0, 1, 2])
    assert tnp.copy(kept).tolist() == [0, 0, 0] and tnp.astype(kept, "int8").dtype == np.int8
    with pytest.raises(ValueError, match="inhomogeneous"):
        tnp.array([[1], [1, 2]])
    with pytest.raises(OverflowError):
        tnp.array([2**40])
    with pytest.raises(TypeError):
        tnp.array(["a"])


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_constant_arrays(name: str) -> None:
    function = getattr(tnp, name)
    for shape in (3, (), (2, 3), (0, 2)):
        x = function(shape)
        assert x.shape == np.zeros(shape).shape and x.dtype == np.float32
        if name != "empty":
            close(jit(lambda: function(shape, "int64"))(), getattr(np, name)(shape, "int64"))
    like = getattr(tnp, name + "_like")
    assert like(tnp.ones((2, 3), "int8")).dtype == np.int8
    assert like(np.ones((2, 3)), "float16", (4,)).shape == (4,)
    with pytest.raises(ValueError, match="negative"):
        function((-1,))
    with pytest.raises(TracerError):
        jit(lambda n: function(n))(3)


def test_full() -> None:
    assert tnp.full((2,), 7).dtype == np.int32 and tnp.full((2,), 7, "float16").dtype == np.float16
    close(tnp.full((2, 3), tnp.array([1, 2, 3])), np.full((2, 3), [1, 2, 3]))
    close(tnp.full_like(tnp.ones(3), 2.5), [2.5] * 3)


def test_ranges() -> None:
    for arguments in ((5,), (2, 5), (5, 2), (1, 10, 3), (10, 1, -4), (0,)):
        agree(lambda m: m.arange(*arguments))
        assert tnp.arange(*arguments).dtype == np.int32
    agree(lambda m: m.arange(0.5, 3, 0.5))
    assert jit(lambda x: tnp.arange(x.shape[0], dtype="int8"))(tnp.ones(3)).tolist() == [0, 1, 2]
    with pytest.raises(OverflowError):
        tnp.arange(2**31, 2**31 + 2)
    with pytest.raises(TracerError, match=r"test_creation.*arange"):
        jit(tnp.arange)(3)
    assert tnp.arange(3.0).dtype == np.float32 and tnp.arange(3, dtype="int8").dtype == np.int8
    for num, endpoint in ((5, True), (5, False), (1, True), (0, True)):
        agree(lambda m: m.linspace(0.0, 2.0, num, endpoint))
        agree(
            lambda m, a, b: m.linspace(a, b, num, endpoint, axis=-1),
            np.array([0.0, 1.0]),
            np.array([3.0, -1.0]),
        )
    agree(lambda m: m.linspace(0.0, 1.0, 4, retstep=True))
    agree(lambda m: m.linspace(0, 10, 4, dtype="int32"))
    agree(lambda m: m.logspace(0.0, 2.0, 4))
    for start, stop in ((1.0, 1000.0), (-1, -16), (1j, 1000j), (1, -4 + 0j)):
        for num, endpoint in ((4, True), (4, False), (1, True), (0, True)):
            agree(lambda m: m.geomspace(start, stop, num, endpoint))
            agree(lambda m, a, b: m.geomspace(a, b, num, endpoint), np.array(start), np.array(stop))
    assert tnp.geomspace(1, 1000, 4).tolist() == tnp.logspace(0, 3, 4).tolist() == [1, 10, 100, 1000]
    assert tnp.geomspace(tnp.float32(3.0), tnp.float32(700.0), 4)[-1] == 700  # exactly
    agree(lambda m, a, b: m.geomspace(a, b, 3, axis=-1), np.array([1.0, 2.0]), np.array([4.0, 8.0]))
    check_gradient(lambda m, a, b: m.geomspace(a, b, 4), np.array(1.0), np.array(3.0))
    with pytest.raises(ValueError, match=r"geomspace from 0 to 4.*test_creation"):
        tnp.geomspace(0, 4)
    check_gradient(lambda m, a, b: m.linspace(a, b, 4), np.array(1.0), np.array(3.0))


def test_grids() -> None:
    for n, m_, k in ((3, None, 0), (2, 4, 1), (4, 2, -1), (0, 2, 0)):
        agree(lambda m: m.eye(n, m_, k))
        agree(lambda m: m.tri(n, m_, k))
    agree(lambda m: m.identity(3))
    a, b, c = np.arange(2), np.arange(3.0), np.arange(4)
    for indexing in ("xy", "ij"):
        agree(lambda m, a, b, c: list(m.meshgrid(a, b, c, indexing=indexing)), a, b, c)
        agree(lambda m, a, b: list(m.meshgrid(a, b, indexing=indexing, sparse=True)), a, b)
    agree(lambda m: m.indices((2, 3)))
    agree(lambda m: m.fromfunction(lambda i, j: i * 10 + j, (2, 3)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "complex128"])
def test_copies_are_row_major_and_large_ones_begin_at_a_cache_line(dtype: str) -> None:
    for shape in [(), (0, 3), (5,), (4099,), (70, 129), (3, 1000, 7)]:
        for order in ("C", "F"):
            value = np.array(np.arange(math.prod(shape)).reshape(shape) % 2, dtype, order=order)
            view = np.asarray(tnp.asarray(value))
            np.testing.assert_array_equal(view, value)
            assert view.flags.c_contiguous and view.dtype == value.dtype
            assert view.nbytes < 4096 or view.ctypes.data % 64 == 0


def test_arrays_of_buffers_text_and_iterables(tmp_path: Any) -> None:
    data = np.arange(4, dtype=np.uint16)
    assert tnp.frombuffer(data.tobytes(), "uint16", 2, 2).tolist() == [1, 2]
    held = bytearray(data.tobytes())
    taken = tnp.frombuffer(held, "uint16")
    held[:] = bytes(8)
    assert taken.tolist() == [0, 1, 2, 3]
    data.tofile(tmp_path / "x.bin")
    assert tnp.fromfile(tmp_path / "x.bin", "uint16").tolist() == [0, 1, 2, 3]
    found = tnp.fromiter((i / 2 for i in range(3)), float)
    assert found.dtype == np.float32 and found.tolist() == [0, 0.5, 1]
    assert tnp.fromstring("1, 2.5", sep=",").tolist() == [1, 2.5]


def test_names_of_dtypes_and_print_options() -> None:
    widths = {
        "int_": 4,
        "uint": 4,
        "float_": 4,
        "complex_": 8,
        "single": 4,
        "double": 8,
        "csingle": 8,
        "cdouble": 16,
    }
    for name, width in widths.items():
        assert tnp.zeros(2, getattr(tnp, name)).dtype.itemsize == width, name
    assert tnp.issubdtype("float32", tnp.floating) and issubclass(np.str_, tnp.character)
    with tnp.printoptions(precision=2):
        assert repr(tnp.array([1 / 3])) == "Array([0.33], dtype=float32)"


NARROW = [d.name for d in dtypes.NARROW_FLOATS]


@pytest.mark.parametrize("name", NARROW)
def test_narrow_floats_are_storage(name: str) -> None:
    """Values are rounded to the nearest that there is, as ml_dtypes does, eagerly and under jit; nothing else is computed."""
    kind = getattr(tnp, name)
    x = np.array([0.5, 1.0, 1.75, 2.0], np.float32)
    wanted = x.astype(getattr(ml_dtypes, name))
    for stored in (tnp.asarray(x, kind), jit(lambda x: x.astype(kind))(x)):
        assert stored.dtype == kind and stored.dtype.itemsize == 1
        close(np.asarray(stored).astype(np.float32), wanted.astype(np.float32), 0)
        close(jit(lambda v: v.astype("float32"))(stored), wanted.astype(np.float32), 0)
        close(stored[1:3].reshape(2, 1).astype("float64"), wanted[1:3].reshape(2, 1).astype(np.float64), 0)
    with pytest.raises(TypeError):
        tnp.sin(tnp.asarray(x, kind))
    info = tnp.finfo(kind)
    assert info.max == float(ml_dtypes.finfo(getattr(ml_dtypes, name)).max)


BESIDE_WIDE_INTEGERS: dict[str, Any] = {
    "isin": lambda m, x, k: (m.isin(x, k), m.isin(k, x)),
    "searchsorted": lambda m, x, k: m.searchsorted(x, k),
    "outer": lambda m, x, k: m.outer(x, k) // k,
    "dot": lambda m, x, k: m.dot(x, k) // k,
    "append": lambda m, x, k: m.append(x, k),
    "sets": lambda m, x, k: (m.union1d(x, k), m.setdiff1d(x, k), m.intersect1d(x, k), m.setxor1d(x, k)),
    "where": lambda m, x, k: (m.where(x > 1, x, k), m.clip(x, 0, k), m.maximum(x, k), m.full_like(x, k)),
    "array_equal": lambda m, x, k: m.asarray(m.array_equal(x, k)),
    "pad": lambda m, x, k: m.pad(x, 1, constant_values=k),
}


@pytest.mark.parametrize("name", BESIDE_WIDE_INTEGERS)
@pytest.mark.parametrize(("dtype", "number"), [("uint32", 2**31), ("int64", 2**40), ("uint64", 2**63)])
def test_python_integers_may_be_as_wide_as_what_is_beside_them(name: str, dtype: str, number: int) -> None:
    x = np.array([1, 3, number], dtype)
    function = BESIDE_WIDE_INTEGERS[name]
    expected, found = function(np, x, np.array(number, dtype)), function(tnp, tnp.asarray(x), number)
    for a, b in zip(found if isinstance(found, tuple) else [found],
                    expected if isinstance(expected, tuple) else [expected], strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, b)
    assert tnp.asarray(x).at[0].set(number).tolist() == [number, 3, number]
    with pytest.raises(OverflowError):
        tnp.ones(2, "int8").at[0].set(300)
