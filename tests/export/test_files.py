"""Files are not trusted: one that is damaged, or made to do harm, is refused with one error, or is a function like another."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.export import Exported, ExportError, deserialize, export, load
from tinyfn.export.checks import check_node
from tinyfn.export.graphs import GraphReader, GraphWriter
from tinyfn.export.values import check_shape
from tinyfn.trace import dtype as dtypes
from tinyfn.trace import prims
from tinyfn.trace.graph import Graph
from tinyfn.trace.prim import REGISTRY, Primitive, Sample
from tinyfn.trace.uop import input_node, output

from .functions import CASES

GOLDEN = Path(__file__).parents[1] / "goldens"


def blob(name: str) -> bytes:
    case = CASES[name]
    return export(tinyfn.jit(case.function, **case.options))(*case.args).serialize()


SMALL = ("scan", "custom_vjp", "cond", "python numbers", "gather and scatter")
BLOBS = {name: blob(name) for name in SMALL}


def parts(data: bytes) -> tuple[dict[str, Any], Any, bytes]:
    """The header of a file, its program, and the arrays' bytes."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["program"]), data[8 + length :]


def put_together(header: dict[str, Any], program: Any, rest: bytes) -> bytes:
    """A file with another program, and its right checksum."""
    text = program if isinstance(program, str) else json.dumps(program)
    metadata = {
        **header["__metadata__"],
        "program": text,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    raw = json.dumps({**header, "__metadata__": metadata}).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + rest


def check(data: bytes) -> Exported | None:
    """The function of a file, which is one like any other, or None where the file is refused as it should be."""
    try:
        loaded = deserialize(data)
    except ExportError as error:
        assert str(error)
        return None
    loaded.graph.check()
    assert deserialize(loaded.serialize()).serialize() == loaded.serialize()
    return loaded


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.data())
def test_bytes_that_changed(name: str, data: Any) -> None:
    changed = bytearray(BLOBS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(changed))


@settings(max_examples=30)
@given(st.sampled_from(SMALL), st.floats(0, 1), st.binary(max_size=8))
def test_files_that_are_cut_short(name: str, share: float, tail: bytes) -> None:
    whole = BLOBS[name]
    cut = whole[: int(share * len(whole))] + tail
    if len(cut) != len(whole):
        assert check(cut) is None


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in JSON data: what holds it, and its index or key."""
    stack = [value]
    while stack:
        held = stack.pop()
        if isinstance(held, (dict, list)):
            for key in held if isinstance(held, dict) else range(len(held)):
                yield held, key
                stack.append(held[key])


WORDS = [
    None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 62, 1 << 80, 1.5, "", "x", "n", "clip", "float32", "bool", "complex64",
    "float32[3]", "float32[]", "add", "scan", "const", "output", "pure_callback", "io_callback", "start", "after", "where",
    [], [0], [1, 1], [[]], {}, {"graph": 0}, {"graph": 1}, {"rules": [0]}, {"rules": None}, {"host": "argsort"},
    {"host": "system"}, {"array": "captured0"}, {"dtype": "float64"}, {"dim": "n"}, {"dim": "2**9"}, {"bits": "00"},
]  # fmt: skip


def tampered(program: Any, choice: random.Random) -> Any:
    """A program with a few parts replaced, removed, repeated or exchanged."""
    program = copy.deepcopy(program)
    for _ in range(choice.choice([1, 1, 2, 4])):
        everywhere = list(places(program))
        held, key = choice.choice(everywhere)
        other, at = choice.choice(everywhere)
        kind = choice.randrange(6)
        if kind == 0:
            held[key] = choice.choice(WORDS)
        elif kind == 1:
            held[key] = copy.deepcopy(other[at])
        elif kind == 2:
            del held[key]
        elif kind == 3 and isinstance(held, list):
            held.insert(key, copy.deepcopy(held[key]))
        elif type(held[key]) is int:
            held[key] += choice.choice([-2, -1, 1, 2])
        elif isinstance(held[key], str) and held[key]:
            i = choice.randrange(len(held[key]))
            held[key] = held[key][:i] + choice.choice("0n[]9, *") + held[key][i + 1 :]
    return program


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.integers(0, 1 << 32))
def test_programs_that_are_tampered_with(name: str, seed: int) -> None:
    header, program, rest = parts(BLOBS[name])
    check(put_together(header, tampered(program, random.Random(seed)), rest))


def changed(path: list[Any], value: Any, name: str = "scan") -> bytes:
    header, program, rest = parts(BLOBS[name])
    held = program
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return put_together(header, program, rest)


MANY = [["x", i] for i in range(3)]


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "header too small"),
        (b"\x80\x04K\x01." * 9, "not an exported function"),
        (changed(["primitives", "tanh"], 2), "version 2 of the operation 'tanh' is not known here, but 1"),
        (changed(["primitives", "warp"], 1), "the operation 'warp' is not known here: a newer tinyfn"),
        (changed(["primitives"], {}), "is not in the file's list of primitives"),
        (changed(["graphs"], []), "has no graph"),
        (changed(["extra"], 1), "the program needs the fields tinyfn, platforms"),
        (changed(["graphs", 0, "inputs", 0, 1], [8, -8]), r"-8 is not a size"),
        (changed(["graphs", 0, "inputs", 0, 1], [1 << 40, 1 << 40]), "larger than any memory"),
        (changed(["graphs", 0, "inputs", 0, 0], "object"), "'object' is not a dtype"),
        (changed(["graphs", 0, "inputs", 0, 1], ["n"]), "unknown variable 'n'"),
        (changed(["graphs", 0, "nodes", 0, 1], [99]), "99 is not the number of a node before it"),
        (changed(["graphs", 0, "nodes", 0, 1], [-1]), "-1 is not the number of a node before it"),
        (changed(["graphs", 0, "nodes", 0, 2], "float64[8]"), "it is said to be float64"),
        (changed(["graphs", 1, "nodes", 0, 3, "graph"], {"graph": 1}), "there is no graph 1 before graph 1"),
        (changed(["graphs", 1, "nodes", 0, 3, "length"], 5), "scan of 5 steps is given xs"),
        (changed(["graphs", 1, "nodes", 0, 3, "graph"], {"host": "system"}), "is not a parameter"),
        (changed(["graphs", 1, "outputs"], [3]), "an output that is several results"),
        (changed(["captured"], []), "run of|has .* leaves|not as many names"),
        (changed(["captured"], ["captured9"]), "there is no array 'captured9'"),
        (changed(["names"], ["h"]), "not as many names"),
        (changed(["weak"], [1, 0, 0]), "`weak` is not about these"),
        (changed(["donated"], [7]), "donates arguments that there are not"),
        (changed(["platforms"], ["tpu"]), r"platforms are cpu, cuda"),
        (changed(["variables"], {"n": [3, 2]}), "is not a symbolic dimension"),
        (changed(["variables"], {"__import__('os')": [1, 2]}), "is not a symbolic dimension"),
        (changed(["in_tree"], [["class", "Evil", 2, ""], 2]), "has a class of the name 'Evil'"),
        (changed(["in_tree"], [["tuple", 1 << 60]]), "leaves, where there are"),
        (changed(["in_tree"], [["list", 2], 1, ["none"]]), "leaves, where there are|not that of a call"),
    ],
)
def test_what_is_refused_and_why(data: bytes, words: str) -> None:
    with pytest.raises(ExportError, match=words):
        deserialize(data)


def test_damage_is_found_by_the_checksum_and_other_versions_by_their_number(tmp_path: Path) -> None:
    whole = BLOBS["scan"]
    with pytest.raises(ExportError, match="is damaged"):
        deserialize(whole.replace(b"tanh", b"sinh"))
    with pytest.raises(ExportError, match="version 9 of the format, and this tinyfn reads version 1"):
        deserialize(whole.replace(b'"tinyfn.export":"1"', b'"tinyfn.export":"9"'))
    tinyfn.checkpoint.safe_save({"x": np.ones(3)}, tmp_path / "plain")
    with pytest.raises(ExportError, match="a safetensors file without a program"):
        load(tmp_path / "plain")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    header, _, rest = parts(whole)
    for text in ("", "[" * 100_000, "nothing", "NaN", '{"tinyfn": 1e999}', "1" * 10_000):
        with pytest.raises(ExportError):
            deserialize(put_together(header, text, rest))


def test_graphs_that_explode_when_they_are_inlined_are_refused() -> None:
    header, program, rest = parts(BLOBS["python numbers"])
    aval = ["float32", [3]]
    graphs = [{"name": "g", "inputs": [aval], "nodes": [["add", [0, 0], "float32[3]"]], "outputs": [1]}]
    for i in range(30):
        calls = [["call", [0], ["float32[3]"], {"graph": {"graph": i}}], ["output", [1, 0], "float32[3]"]]
        again = [["call", [2], ["float32[3]"], {"graph": {"graph": i}}], ["output", [3, 0], "float32[3]"]]
        graphs.append({"name": "g", "inputs": [aval], "nodes": calls + again, "outputs": [4]})
    program |= {"graphs": graphs, "primitives": {"add": 1, "call": 1}}
    with pytest.raises(ExportError, match="which is too much"):
        deserialize(put_together(header, program, rest))


def test_nothing_runs_when_a_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for primitive in REGISTRY.values():
        monkeypatch.setattr(primitive, "reference", None, raising=False)
    for data in BLOBS.values():
        deserialize(data)


# Primitives


def graph_of(primitive: Primitive, sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    values = [np.asarray(a) for a in sample.args]
    inputs = [input_node(dtypes.canonical(v.dtype), v.shape) for v in values]
    node = primitive.node(*inputs, **sample.params)
    several = isinstance(node.dtype, tuple)
    return Graph(inputs, [output(node, i) for i in range(len(node.dtype))] if several else [node]), values


def all_primitives() -> list[Primitive]:
    from tinyfn.export.graphs import _load_all

    _load_all()
    return [p for p in REGISTRY.values() if type(p).__module__.startswith("tinyfn.")]


CALLBACKS = ("pure_callback", "io_callback")


def test_every_primitive_can_be_written_and_read() -> None:
    """All samples of all primitives: the graph that is read gives the same bits."""
    for primitive in all_primitives():
        for sample in primitive.samples():
            graph, values = graph_of(primitive, sample)
            writer = GraphWriter()
            if primitive.name in CALLBACKS:
                with pytest.raises(ExportError, match="can't hold the Python function"):
                    writer.add(graph)
                continue
            writer.add(graph)
            data = json.loads(json.dumps([writer.versions, writer.graphs], allow_nan=False))
            reader = GraphReader(data[0], writer.arrays, {})
            read = [reader.add(each) for each in data[1]][-1]
            with np.errstate(all="ignore"):
                pairs = zip(graph.run(values), read.run(values), strict=True)
            assert all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs), primitive


def mutated(value: Any, choice: random.Random) -> Any:
    if type(value) is int:
        return choice.choice([value - 1, value + 1, -1, 0, 1, 2, 3, 7, -value])
    if isinstance(value, str):
        return choice.choice(["clip", "fill", "set", "irfft", ""])
    if isinstance(value, np.dtype):
        return choice.choice(dtypes.ALL)
    if type(value) is not tuple:
        return value
    items, kind = list(value), choice.randrange(5)
    at = choice.randrange(len(items)) if items else 0
    if items and kind < 2:
        items[at] = mutated(items[at], choice)
    elif items and kind == 2:
        items.pop(at)
    elif kind == 3:
        items.append(choice.choice([*items, 0, 1, ()]))
    else:
        choice.shuffle(items)
    return tuple(items)


def test_rules_accept_no_parameters_with_which_the_operation_can_not_be_done() -> None:
    """What a file says, the rule for the result has to check: kernels trust it."""
    choice = random.Random(0)
    for primitive in all_primitives():
        samples = [s for s in primitive.samples() if s.params] if primitive.name not in CALLBACKS else []
        if primitive.name == "while_loop":
            continue  # might never end
        for sample in samples * (1 + 60 // len(samples) if samples else 0):
            params = dict(sample.params)
            name = choice.choice(list(params))
            params[name] = mutated(params[name], choice)
            try:
                graph, values = graph_of(primitive, Sample(sample.args, params))
                check_node(graph.outputs[0].src[0] if graph.outputs[0].src else graph.outputs[0])
                for node in graph.outputs:
                    check_shape(node.dtype, node.shape)
            except Exception:
                continue
            if all(np.prod(node.shape) < 1e6 for node in graph.outputs):
                with np.errstate(all="ignore"):
                    found = graph.run(values)
                for node, value in zip(graph.outputs, found, strict=True):
                    assert (node.dtype, node.shape) == (value.dtype, value.shape), (primitive, params)


def test_files_of_the_first_version_can_be_read_for_ever() -> None:
    """A file as the first version wrote it, with results. If this fails, old files can't be read: see docs/export.md."""
    golden = load(GOLDEN / "exported_v1.safetensors")
    expected = json.loads((GOLDEN / "exported_v1.json").read_text())
    results = golden.call(tnp.arange(12.0).reshape(3, 4) / 7, {"k": tnp.asarray(2)})
    for name, value in expected.items():
        np.testing.assert_allclose(
            np.asarray(results[name], np.float64), value, rtol=1e-6, atol=1e-6, err_msg=name
        )
    assert prims is not None and set(results) == set(expected)
