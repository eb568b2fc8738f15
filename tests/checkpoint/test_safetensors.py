"""safetensors files: byte for byte as the reference package writes them, as strict, atomic, lazy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn.checkpoint.safetensors as module
from tests.checkpoint.files import DTYPES, SHAPES, Lazy, assert_same, build, entry, make, raw_bytes
from tinyfn.checkpoint import Header, SafetensorsError, safe_load, safe_load_metadata, safe_save

# Round trips with the reference


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype_byte_equal_both_ways(tmp_path: Path, code: str) -> None:
    tensors = {f"t{index}": make(DTYPES[code], shape, index) for index, shape in enumerate(SHAPES)}
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    safe_save(tensors, ours, {"format": "np"})
    safetensors.numpy.save_file(tensors, theirs, {"format": "np"})
    assert ours.read_bytes() == theirs.read_bytes()

    loaded = safe_load(theirs)
    assert list(loaded) == list(tensors)
    for name, array in tensors.items():
        assert_same(loaded[name], array)
        assert not np.asarray(loaded[name]).flags.writeable
        with pytest.raises(ValueError):
            np.asarray(loaded[name]).flags.writeable = True
    assert {info.dtype for info in safe_load_metadata(ours).tensors.values()} == {code}

    reference = dict(safetensors.deserialize(ours.read_bytes()))
    for name, array in tensors.items():
        assert bytes(reference[name]["data"]) == raw_bytes(array)
        assert reference[name]["dtype"] == code


def test_all_dtypes_in_one_file_are_ordered_as_the_reference_orders_them(tmp_path: Path) -> None:
    names = ["b", "a", "é", "Z", "", "a.b", "\U0001f600", "\ufb01", '"quoted\\', "tab\t\x00\x7f/"]
    tensors = {
        f"{name}{code}{shape}": make(dtype, shape)
        for name in names
        for code, dtype in DTYPES.items()
        for shape in ((2,), ())
    }
    safe_save(tensors, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == safetensors.numpy.save(tensors)
    for name, array in safe_load(tmp_path / "f").items():
        assert_same(array, tensors[name])


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"é\n": 'x"\\\x01'}])
@pytest.mark.parametrize("tensors", [{}, {"a": np.zeros((0, 3))}, {"a": np.float32(3.5)}])
def test_metadata_and_small_files(
    tmp_path: Path, tensors: dict[str, Any], metadata: dict[str, str] | None
) -> None:
    safe_save(tensors, tmp_path / "f", metadata)
    raw = (tmp_path / "f").read_bytes()
    if not tensors and metadata == {}:
        # The reference writes `{},"__metadata__":{}}` here, which it cannot read itself.
        assert raw == build('{"__metadata__":{}}     ')
    else:
        assert raw == safetensors.numpy.save({k: np.asarray(v) for k, v in tensors.items()}, metadata)
    header = safe_load_metadata(tmp_path / "f")
    assert header.metadata == metadata
    assert header.data_start % 8 == 0
    assert header.file_size == len(raw)


def test_several_metadata_entries_keep_their_order_and_round_trip(tmp_path: Path) -> None:
    metadata = {"z": "1", "a": "2", "m": "3"}
    safe_save({"t": np.arange(3)}, tmp_path / "f", metadata)
    assert list(safe_load_metadata(tmp_path / "f").metadata or {}) == ["z", "a", "m"]
    with safetensors.safe_open(tmp_path / "f", "np") as file:
        assert file.metadata() == metadata


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda s: s != "__metadata__")
ARRAYS = st.builds(
    make,
    st.sampled_from(list(DTYPES.values())),
    st.lists(st.integers(0, 4), max_size=4).map(tuple),
    st.integers(0, 1000),
)


@settings(max_examples=150, deadline=None)
@given(tensors=st.dictionaries(NAMES, ARRAYS, max_size=6), metadata=st.none() | st.dictionaries(NAMES, NAMES))
def test_random_round_trip(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, Any], metadata: dict[str, str] | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    safe_save(tensors, path, metadata)
    if metadata is None or len(metadata) == 1 or (tensors and not metadata):
        assert path.read_bytes() == safetensors.numpy.save(tensors, metadata)
    loaded = safe_load(path)
    assert sorted(loaded) == sorted(tensors)
    for name, array in tensors.items():
        assert_same(loaded[name], array)
    header = safe_load_metadata(path)
    assert header.metadata == metadata
    assert list(header.tensors) == list(loaded)
    raw = path.read_bytes()
    reference = dict(safetensors.deserialize(raw))
    assert {name: bytes(value["data"]) for name, value in reference.items()} == {
        name: raw_bytes(array) for name, array in tensors.items()
    }
    safe_save(loaded, path, header.metadata)
    assert path.read_bytes() == raw


def test_header_order_need_not_be_data_order(tmp_path: Path) -> None:
    header = {"b": entry("U8", (2,), (3, 5)), "a": entry("U8", (3,), (0, 3))}
    (tmp_path / "f").write_bytes(build(header, b"\1\2\3\4\5"))
    loaded = safe_load(tmp_path / "f")
    assert list(loaded) == ["b", "a"]
    assert loaded["b"].tolist() == [4, 5]
    assert loaded["a"].tolist() == [1, 2, 3]


def test_unaligned_data(tmp_path: Path) -> None:
    header = {"a": entry("U8", (1,), (0, 1)), "b": entry("F32", (2,), (1, 9))}
    data = b"\7" + np.array([1.5, -2], np.float32).tobytes()
    (tmp_path / "f").write_bytes(build(header, data))
    loaded = safe_load(tmp_path / "f")
    assert loaded["b"].tolist() == [1.5, -2]
    safe_save(loaded, tmp_path / "g")
    assert_same(safe_load(tmp_path / "g")["b"], np.array([1.5, -2], np.float32))


def test_header_describes_without_reading_data(tmp_path: Path) -> None:
    safe_save({"w": np.zeros((3, 4), np.float16), "s": np.int64(3)}, tmp_path / "f", {"k": "v"})
    header = safe_load_metadata(str(tmp_path / "f"))
    assert isinstance(header, Header)
    assert header.metadata == {"k": "v"}
    assert header.tensors["s"] == module.TensorInfo("I64", (), (0, 8))
    assert header.tensors["w"] == module.TensorInfo("F16", (3, 4), (8, 32))
    assert header.tensors["w"].nbytes == 24
    assert header.file_size == header.data_start + 32
    raw = (tmp_path / "f").read_bytes()
    assert header.data_start == 8 + int.from_bytes(raw[:8], "little")


# What can be written


def test_layouts_and_byte_orders(tmp_path: Path) -> None:
    base = np.arange(2 * 300 * 1001, dtype=np.float32).reshape(2, 300, 1001)
    cases = {
        "transposed": base.T,
        "fortran": np.asfortranarray(base),
        "strided": base[:, ::3, ::-2],
        "broadcast": np.broadcast_to(np.float32(2), (3, 4)),
        "big_endian": base.astype(">f4"),
        "big_endian_strided": base.astype(">f4")[:, ::2],
        "big_endian_scalar": np.array(5, ">i2"),
        "complex": (base[0, :3, :5] + 2j).astype(">c8").T,
        "bfloat16": base[:, :50].astype(ml_dtypes.bfloat16).T,
        "fp8": base[0, :5, :7].astype(ml_dtypes.float8_e4m3fn).T,
        "bool": (base[0] > 9).T,
    }
    safe_save(cases, tmp_path / "f")
    loaded = safe_load(tmp_path / "f")
    for name, array in cases.items():
        native = array.astype(array.dtype.newbyteorder("=")) if array.dtype.kind != "V" else array
        assert_same(loaded[name], np.ascontiguousarray(native).reshape(array.shape))
    reference = dict(safetensors.deserialize((tmp_path / "f").read_bytes()))
    contiguous = base[:, ::3, ::-2].tobytes()
    assert bytes(reference["strided"]["data"]) == contiguous


@pytest.mark.parametrize("described", [False, True])
def test_anything_with_array_protocol(tmp_path: Path, described: bool) -> None:
    value = Lazy(np.arange(6.0).reshape(2, 3), described)
    safe_save({"x": value, "scalar": np.float16(2)}, tmp_path / "f")
    assert_same(safe_load(tmp_path / "f")["x"], value.array)
    assert value.calls == (1 if described else 2)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2, np.complex128),
        np.zeros(2, object),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, ml_dtypes.int4),
        np.zeros(2, ml_dtypes.float8_e4m3),
        [1.0, 2.0],
        3.0,
        "text",
        None,
        np.float32,
    ],
    ids=repr,
)
def test_unsupported_values_name_the_tensor(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TypeError, match=r"'layers\.bad'"):
        safe_save({"good": np.zeros(3), "layers.bad": value}, tmp_path / "f")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("tensors", "metadata", "error"),
    [
        ({3: np.zeros(1)}, None, TypeError),
        ({b"x": np.zeros(1)}, None, TypeError),
        ({"\ud800": np.zeros(1)}, None, ValueError),
        ({"__metadata__": np.zeros(1)}, None, ValueError),
        ({"x": np.zeros(1)}, {"step": 3}, TypeError),
        ({"x": np.zeros(1)}, {3: "step"}, TypeError),
        ({"x": np.zeros(1)}, {"nested": {"a": "b"}}, TypeError),
        ({"x": np.zeros(1)}, {"step": None}, TypeError),
        ({"x": np.zeros(1)}, {"step": "\udfff"}, ValueError),
    ],
)
def test_names_and_metadata_are_checked_before_any_file_is_touched(
    tmp_path: Path, tensors: Any, metadata: Any, error: type[Exception]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    before = os.stat(tmp_path).st_mtime_ns
    with pytest.raises(error):
        safe_save(tensors, path, metadata)
    assert path.read_bytes() == b"old"
    assert os.stat(tmp_path).st_mtime_ns == before


def test_a_header_too_large_to_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HEADER_SIZE", 64)
    safe_save({"a": np.zeros(1)}, tmp_path / "f")
    with pytest.raises(ValueError, match="header would have"):
        safe_save({"a" * 64: np.zeros(1)}, tmp_path / "g")
    assert os.listdir(tmp_path) == ["f"]


def test_the_error_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(SafetensorsError("some/file", "reason")))
    assert (error.path, error.reason) == ("some/file", "reason")
    assert "'some/file': reason" in str(error)
