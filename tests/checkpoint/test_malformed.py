"""Safetensors files that are malformed, odd or random are read and refused as by the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.checkpoint.files import DTYPES, build, entry
from tinyfn.checkpoint import SafetensorsError, safe_load, safe_load_metadata, safe_save

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
