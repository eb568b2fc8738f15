"""Exported functions give the same bits as the jitted ones: in this process, in another one, and under further transforms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.export import Exported, deserialize, export, load
from tinyfn.trace.array import Array, as_array, wrap

from .functions import CASES, MLP, TABLE, Case, W, X, clipped, mlp, normal, recurrent, softer


def exported(case: Case) -> Exported:
    return export(tinyfn.jit(case.function, **case.options))(*case.args)


def fresh(tree: Any) -> Any:
    """The tree with arrays that have memory of their own."""
    return tinyfn.tree.map(lambda x: wrap(x.value.copy(), x.weak_type) if isinstance(x, Array) else x, tree)


def dynamic(case: Case) -> tuple[Any, ...]:
    """The arguments that are not static."""
    static = case.options.get("static_argnums", ())
    return fresh(tuple([a for i, a in enumerate(case.args) if i not in static]))  # type: ignore[no-any-return]


def bits(tree: Any) -> list[Any]:
    leaves = [as_array(x) for x in tinyfn.tree.leaves(tree)]
    return [(str(x.dtype), x.shape, x.value.tobytes()) for x in leaves]


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    case = CASES[name]
    made = exported(case)
    read = deserialize(made.serialize())
    expected = tinyfn.jit(case.function, **case.options)(*fresh(case.args))
    for each in (made, read):
        result = each.call(*dynamic(case))
        assert bits(result) == bits(expected)
        assert tinyfn.tree.structure(result) == tinyfn.tree.structure(expected)
        assert bits(each.call(*dynamic(case))) == bits(expected)  # by the short path
    assert read.in_avals == made.in_avals and read.out_info == made.out_info and read.in_tree == made.in_tree
    assert read.donated == made.donated and str(read) == str(made) and read.serialize() == made.serialize()


LOADER = """
import pickle, sys
import tinyfn.export, tinyfn.tree
arguments = pickle.load(open(sys.argv[1] + "/arguments", "rb"))
results = {}
for name, args in arguments.items():
    loaded = tinyfn.export.load(f"{sys.argv[1]}/{name}.safetensors")
    leaves = tinyfn.tree.leaves(loaded.call(*args))
    results[name] = [(str(x.dtype), x.shape, x.value.tobytes()) for x in leaves]
assert not [m for m in sys.modules if m.startswith("tests") or m == "functions"], "the source is not here"
pickle.dump(results, open(sys.argv[1] + "/results", "wb"))
"""


def test_another_process_without_the_source(tmp_path: Path) -> None:
    import pickle

    for name, case in CASES.items():
        exported(case).save(tmp_path / f"{name}.safetensors")
    arguments = {name: dynamic(case) for name, case in CASES.items()}
    (tmp_path / "arguments").write_bytes(pickle.dumps(arguments))
    root = str(Path(tinyfn.__file__).parents[1])
    run = [sys.executable, "-c", LOADER, str(tmp_path)]
    # Which of its kernels OpenBLAS takes may be said there, and the last bits of what it solves depend on it.
    blas = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS")}
    environment = {"PYTHONPATH": root, "PATH": "", **blas}
    subprocess.run(run, check=True, cwd=tmp_path, env=environment, timeout=300)
    results = pickle.loads((tmp_path / "results").read_bytes())
    for name, case in CASES.items():
        expected = tinyfn.jit(case.function, **case.options)(*fresh(case.args))
        assert results[name] == bits(expected), name


def assert_close(a: Any, b: Any) -> None:
    assert tinyfn.tree.structure(a) == tinyfn.tree.structure(b)
    for x, y in zip(tinyfn.tree.leaves(a), tinyfn.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5)


def read(function: Any, *args: Any) -> Exported:
    return deserialize(export(tinyfn.jit(function))(*args).serialize())


def test_transforms_of_what_was_read() -> None:
    loaded = read(mlp, MLP, X)

    def by_file(params: Any) -> Any:
        return (loaded.call(params, X) ** 2).mean()

    def by_source(params: Any) -> Any:
        return (mlp(params, X) ** 2).mean()

    assert_close(tinyfn.grad(by_file)(MLP), tinyfn.grad(by_source)(MLP))
    assert_close(tinyfn.jit(tinyfn.grad(by_file))(MLP), tinyfn.jit(tinyfn.grad(by_source))(MLP))
    direction = tinyfn.tree.map(tnp.ones_like, MLP)
    assert_close(tinyfn.jvp(by_file, (MLP,), (direction,)), tinyfn.jvp(by_source, (MLP,), (direction,)))
    batch = tnp.stack([X, 2 * X])
    mapped = tinyfn.vmap(lambda x: loaded.call(MLP, x))(batch)
    assert_close(mapped, tinyfn.vmap(lambda x: mlp(MLP, x))(batch))
    small = read(lambda x: (tnp.sin(x) * x[::-1]).prod(), normal(3))
    assert_close(
        tinyfn.hessian(small.call)(normal(3)),
        tinyfn.hessian(lambda x: (tnp.sin(x) * x[::-1]).prod())(normal(3)),
    )
    h, xs = normal(8), normal(6, 8)
    loop = read(recurrent, h, xs)
    assert_close(
        tinyfn.grad(lambda h: loop.call(h, xs)[0].sum())(h),
        tinyfn.grad(lambda h: recurrent(h, xs)[0].sum())(h),
    )


def test_the_rules_of_custom_functions_are_in_the_file() -> None:
    jvp_rule = read(softer, X)
    assert_close(tinyfn.grad(lambda x: jvp_rule.call(x).sum())(X), tinyfn.nn.sigmoid(X))
    assert "rules" in export(softer)(X).serialize().decode("latin1")
    vjp_rule = read(lambda x: clipped(x, 0.5), X)
    assert_close(tinyfn.grad(lambda x: vjp_rule.call(x).sum())(X), tnp.full(X.shape, 0.5))
    twice = tinyfn.grad(lambda x: tinyfn.grad(lambda x: jvp_rule.call(x).sum())(x).sum())(X)
    assert_close(twice, tinyfn.nn.sigmoid(X) * (1 - tinyfn.nn.sigmoid(X)))


def test_the_exported_derivative() -> None:
    def function(params: Any, n: Any) -> Any:
        return {"y": tnp.sin(params["x"]) * params["s"], "n": n + 1}

    params = {"x": X, "s": tnp.asarray(2.0)}
    made = export(tinyfn.jit(function))(params, tnp.asarray(3))
    assert made.has_vjp()
    pulled = deserialize(deserialize(made.serialize(vjp_order=2)).vjp().serialize())
    ct = tnp.ones(X.shape)
    of_s, of_x, of_n = pulled.call(tnp.asarray(2.0), X, tnp.asarray(3), ct)
    assert_close((of_s, of_x), (tnp.sin(X).sum(), 2 * tnp.cos(X)))
    assert of_n is None and pulled.fun_name == "vjp_function"
    second = pulled.vjp().call(tnp.asarray(2.0), X, tnp.asarray(3), ct, tnp.zeros(()), ct)
    assert_close(second[1], -2 * tnp.sin(X))
    with pytest.raises(ValueError, match="vjp_order is the number of derivatives"):
        made.serialize(vjp_order=-1)


def test_an_exported_function_within_one(tmp_path: Path) -> None:
    inner = read(mlp, MLP, X)
    outer = read(lambda x: tinyfn.grad(lambda x: inner.call(MLP, x)[:, 0].sum())(x), X)
    assert_close(outer.call(X), tinyfn.grad(lambda x: mlp(MLP, x)[:, 0].sum())(X))


def test_captured_arrays_are_not_copied(tmp_path: Path) -> None:
    big = tnp.ones((1 << 20,))

    def function(x: Any) -> Any:
        return x * big[:3]

    made = export(function)(tnp.ones(3))
    assert made.graph.captured[0] is big
    made.save(tmp_path / "f")
    loaded = load(tmp_path / "f")
    base: Any = np.asarray(loaded.graph.captured[0])
    while isinstance(base, np.ndarray):
        base = base.base
    assert type(base).__name__ == "mmap"  # which the system reads as it is used
    blob = made.serialize()
    start = np.frombuffer(blob, np.uint8).__array_interface__["data"][0]
    inside = np.asarray(deserialize(blob).graph.captured[0]).__array_interface__["data"][0] - start
    assert 0 < inside < len(blob)
    np.testing.assert_array_equal(loaded.call(tnp.ones(3)), np.ones(3))


def test_the_file_is_one_of_safetensors(tmp_path: Path) -> None:
    made = export(lambda x: (x @ W, TABLE.astype("complex128") + x[0, 0]))(X)
    made.save(tmp_path / "f")
    header = tinyfn.checkpoint.safe_load_metadata(tmp_path / "f")
    assert header.metadata is not None and set(header.tensors) == {"captured0", "captured1"}
    program = json.loads(header.metadata["program"])
    assert program["names"] == ["x"] and program["primitives"]["dot_general"] == 1
    np.testing.assert_array_equal(tinyfn.checkpoint.safe_load(tmp_path / "f")["captured0"], W)
    assert (tmp_path / "f").read_bytes() == made.serialize()


def test_arrays_within_late_rules_are_in_the_file() -> None:
    numbers = np.arange(3.0, dtype="complex128")

    @tinyfn.custom_jvp
    def power(x: Any) -> Any:
        return x**3

    @power.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return power(primals[0]), tangents[0] * (
            3 * primals[0] ** 2 + 0 * power(primals[0]) + numbers.real.astype("float32") * 0
        )

    x = tnp.arange(3.0)
    loaded = read(lambda x: power(x).sum(), x)
    third = tinyfn.grad(tinyfn.grad(tinyfn.grad(lambda x: loaded.call(x * tnp.ones(3)))))
    assert_close(third(2.0), tnp.asarray(18.0))
    with pytest.raises(TypeError, match="is in the file of an exported function up to order 3"):
        tinyfn.grad(third)(2.0)
    second = tinyfn.grad(lambda x: tinyfn.grad(loaded.call)(x).sum())(x)
    assert_close(second, tinyfn.grad(lambda x: tinyfn.grad(lambda x: power(x).sum())(x).sum())(x))
