"""What exported functions take: trees, symbolic sizes, donation, platforms; and the errors for what does not fit."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn.export import (
    ExportError,
    SymbolicScope,
    deserialize,
    export,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
    symbolic_args_specs,
    symbolic_shape,
)
from tinyfn.export.trees import decode_tree, encode_tree
from tinyfn.trace.errors import DeletedArrayError
from tinyfn.tree import static

SHAPE = tinyfn.ShapeDtypeStruct
F32 = "float32"


class Pair(NamedTuple):
    first: Any
    second: Any


class Unnamed(NamedTuple):
    first: Any


@dataclasses.dataclass
class Layer:
    w: Any
    kind: str = static(default="dense")
    sizes: tuple[int, ...] = static(default=(1, 2))


class Box:
    def __init__(self, items: Any, label: Any):
        self.items, self.label = items, label


tinyfn.tree.register_pytree_node(
    Box, lambda b: (tuple(b.items), b.label), lambda label, items: Box(items, label)
)
register_namedtuple_serialization(Pair, serialized_name="Pair")
register_pytree_node_serialization(Layer, serialized_name="Layer")
register_pytree_node_serialization(
    Box,
    serialized_name="Box",
    serialize_auxdata=lambda label: label.encode(),
    deserialize_auxdata=bytes.decode,
)


def read(function: Any, *args: Any, **kwargs: Any) -> Any:
    return deserialize(export(tinyfn.jit(function))(*args, **kwargs).serialize())


def test_registered_classes() -> None:
    def function(pair: Pair, layer: Layer, *, box: Box) -> Any:
        return (
            Layer(layer.w * pair.first, "other", (3,)),
            Box([box.items[0] + pair.second], "out"),
            Pair(None, box.items[1]),
        )

    args = (Pair(tnp.ones(2), tnp.zeros(2)), Layer(tnp.arange(2.0)))
    box = Box([tnp.ones(2), tnp.asarray(3)], "in")
    layer, out, pair = read(function, *args, box=box).call(*args, box=box)
    assert (layer.kind, layer.sizes, out.label, type(pair)) == ("other", (3,), "out", Pair)
    np.testing.assert_array_equal(layer.w, [0, 1])
    assert pair.first is None and pair.second == 3
    with pytest.raises(TypeError, match="arguments of another structure"):
        read(function, *args, box=box).call(args[0], Layer(tnp.ones(2), "conv"), box=box)


@pytest.mark.parametrize(
    "tree",
    [
        {"b": 1, "a": [2, (3,), {"z": None, "y": ()}]},
        {2: 1, 1: 2},
        {("a", 1): 1, ("a", 0): 2},
        {True: 1},
        {None: 1},
        OrderedDict([("z", 1), ("a", [])]),
        [[[]]],
        5,
        None,
        Pair(1, {"x": (2,)}),
        [Layer(1), Box([1, 2], "é")],
        {"é\n": 1, "": 2},
    ],
)
def test_structures(tree: Any) -> None:
    structure = tinyfn.tree.structure(tree)
    found = decode_tree(encode_tree(structure, "result"), "result", structure.num_leaves)
    assert found == structure and repr(found) == repr(structure)
    leaves = list(range(structure.num_leaves))
    assert repr(list(_paths(found.unflatten(leaves)))) == repr(list(_paths(structure.unflatten(leaves))))


def _paths(tree: Any) -> Any:
    return tinyfn.tree.leaves_with_path(tree)


def test_dicts_are_given_back_in_their_order() -> None:
    result = read(lambda x: {"z": x, "a": x, "m": x}, tnp.ones(1)).call(tnp.ones(1))
    assert list(result) == ["z", "a", "m"]


def test_classes_that_have_no_name_for_files() -> None:
    with pytest.raises(
        ExportError,
        match=r"in the structure of the arguments.*Unnamed has no name.*register_namedtuple_serial",
    ):
        export(lambda u: u.first)(Unnamed(tnp.ones(1)))
    with pytest.raises(
        ExportError, match=r"in the structure of the result.*defaultdict.*register_pytree_node_serialization"
    ):
        from collections import defaultdict

        export(lambda x: defaultdict(list, {"x": x}))(tnp.ones(1))
    with pytest.raises(ExportError, match=r"1\.5 is a float, and only None, bools"):
        export(lambda x: {1.5: x})(tnp.ones(1))


def test_registering_for_files() -> None:
    with pytest.raises(ValueError, match=r"Pair is already registered for files, as 'Pair'"):
        register_namedtuple_serialization(Pair, serialized_name="Other")
    with pytest.raises(ValueError, match="already registered"):
        register_pytree_node_serialization(Unnamed, serialized_name="Pair")
    with pytest.raises(ValueError, match="is no class of pytree nodes"):
        register_pytree_node_serialization(int, serialized_name="int")
    with pytest.raises(ValueError, match="is no NamedTuple"):
        register_namedtuple_serialization(Layer, serialized_name="Again")
    with pytest.raises(ValueError, match="belong together"):
        register_pytree_node_serialization(Unnamed, serialized_name="U", serialize_auxdata=lambda _: b"")


def test_static_and_donated_arguments() -> None:
    jitted = tinyfn.jit(lambda x, n, y: x * n + y, static_argnums=1, donate_argnums=0)
    loaded = deserialize(export(jitted)(SHAPE((64,), F32), 3, SHAPE((64,), F32)).serialize())
    x, y = tnp.ones(64), tnp.ones(64)
    np.testing.assert_array_equal(loaded.call(x, y), np.full(64, 4.0))
    with pytest.raises(DeletedArrayError):
        x + 1
    assert loaded.donated == (0,) and (y == 1).all()
    with pytest.raises(ValueError, match="an array that is donated is passed twice"):
        loaded.call(y, y)


@pytest.mark.parametrize(
    "args, words",
    [
        ((tnp.ones((2, 3)),), r"argument `x` is float32\[2,3\], but it was exported for float32\[3\]"),
        (
            (tnp.ones(3, "int32"),),
            r"the exported f is called at .*test_interface.*argument `x` is int32\[3\]",
        ),
        ((tnp.ones(3), 1), "arguments of another structure"),
        (({"x": tnp.ones(3)},), "arguments of another structure"),
        (("text",), "is a str, not an array"),
    ],
)
def test_other_arguments(args: Any, words: str) -> None:
    def f(x: Any) -> Any:
        return x + 1

    loaded = read(f, SHAPE((3,), F32))
    for _ in range(2):
        with pytest.raises(TypeError, match=words):
            loaded.call(*args)
        np.testing.assert_array_equal(loaded.call(np.ones(3, F32)), [2, 2, 2])


def test_what_a_file_cant_hold() -> None:
    def prints(x: Any) -> Any:
        tinyfn.debug.print("x is {}", x)
        return x

    with pytest.raises(
        ExportError, match=r"export of prints: the operation io_callback.*called at .*test_interface\.py:\d+"
    ):
        export(prints)(tnp.ones(3))
    called = lambda x: tinyfn.pure_callback(np.sin, x, x)
    with pytest.raises(
        ExportError, match=r"pure_callback.*test_interface\.py:\d+ .*can't hold the Python function"
    ):
        export(lambda x: tinyfn.lax.scan(lambda c, x: (c + called(x), None), x[0], x))(tnp.ones(3))

    def outer(y: Any) -> Any:
        return export(lambda x: x * y)(tnp.ones(3)).call(tnp.ones(3))

    with pytest.raises(ExportError, match="it closes over traced arrays; export it outside"):
        tinyfn.jit(outer)(tnp.ones(3))


def test_named_axes() -> None:
    def share(x: Any) -> Any:
        return x / tinyfn.lax.psum(x, "lanes")

    whole = read(tinyfn.vmap(share, axis_name="lanes"), tnp.arange(4.0))
    np.testing.assert_allclose(whole.call(tnp.arange(4.0)), np.arange(4) / 6, rtol=1e-6)
    with pytest.raises(
        ExportError, match="it uses the named axis 'lanes' of a vmap around it; export the function with"
    ):
        tinyfn.vmap(lambda x: export(share)(SHAPE((), F32)).call(x), axis_name="lanes")(tnp.arange(4.0))


def test_what_has_a_rule_for_vmap_is_mapped_by_its_operations() -> None:
    @tinyfn.custom_batching.custom_vmap
    def function(x: Any) -> Any:
        return tnp.sin(x)

    @function.def_vmap
    def rule(axis_size: int, batched: Any, x: Any) -> Any:
        raise AssertionError("the rule is a Python function, which is not in a file")

    loaded = read(function, tnp.asarray(1.0))
    x = tnp.arange(3.0)
    np.testing.assert_allclose(tinyfn.vmap(loaded.call)(x), np.sin(np.arange(3.0)), rtol=1e-6)


def test_nan_checks_look_into_exported_functions() -> None:
    loaded = read(lambda x: tnp.log(x) + 1, tnp.ones(3))
    with tinyfn.debug_nans(), pytest.raises(FloatingPointError, match="log"):
        loaded.call(-tnp.ones(3))


def test_platforms() -> None:
    made = export(tinyfn.jit(lambda x: x + 1), platforms=["cuda"])(tnp.ones(3))
    assert deserialize(made.serialize()).platforms == ("cuda",)
    with pytest.raises(ValueError, match="is for cuda and is called on cpu"):
        made.call(tnp.ones(3))
    assert export(lambda x: x)(tnp.ones(3)).platforms == ("cpu", "cuda")
    with pytest.raises(ValueError, match="platforms are cpu, cuda"):
        export(lambda x: x, platforms=["tpu"])


# Symbolic sizes


def test_symbolic_shapes() -> None:
    b, c = symbolic_shape("b, c", constraints=["b <= 64", "c >= 2"])
    assert b.arg == ("b", 1, 64) and c.arg == ("c", 2, 1 << 20)
    same = symbolic_shape(
        "(2*b + 1, (b + 3) // 4, max(b, c), c % 3, b*c - 1, 7)", constraints=["b<=64", "c>=2"]
    )
    assert same == (2 * b + 1, (b + 3) // 4, tinyfn.trace.sint.maximum(b, c), c % 3, b * c - 1, 7)  # type: ignore[attr-defined]
    assert symbolic_shape("_, b, ...", constraints=["b<=64"], like=SHAPE((5, 1, 3, 4), F32)) == (5, b, 3, 4)
    assert symbolic_shape(None, like=(3, 4)) == (3, 4)
    assert (
        symbolic_shape("") == () and symbolic_shape("max(b, 3)*2")[0] == symbolic_shape("(max(3, b))*2,")[0]
    )


def test_scopes_hold_constraints() -> None:
    scope = SymbolicScope(["b <= 8"])
    (b,) = symbolic_shape("b", scope=scope)
    assert b is symbolic_shape("b", constraints=["b <= 8"])[0]
    assert symbolic_args_specs((tnp.ones((2, 3)),), "b, _", ["c <= 2"], scope) == (SHAPE((b, 3), F32),)
    with pytest.raises(ValueError, match="is not understood"):
        SymbolicScope(["b"])


@pytest.mark.parametrize(
    "text, words",
    [
        ("b c", "is not a dimension"), ("b.real", "is not a dimension: it may have"), ("f(b)", "is not a dimension"),
        ("b / 2", "is not a dimension"), ("b // 0", "divided by 0"), ("'b'", "is not a dimension"), ("_, 3", "has '_'"),
        ("..., b", "'...'"), ("1.5", "is not a dimension"), ("(" * 300 + "b", "is not a dimension"),
        ("+".join(["b"] * 400), "too many parts"), ("b" * 2000, "too long"), ("__import__('os')", "is not a dimension"),
    ],
)  # fmt: skip
def test_texts_that_are_no_shapes(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        symbolic_shape(text)


def test_constraints_that_are_not_understood() -> None:
    for constraint in ("b", "b <= c", "2*b <= 4", "b <= 4; c"):
        with pytest.raises(ValueError, match="is not understood"):
            symbolic_shape("b", constraints=[constraint])
    with pytest.raises(ValueError, match="has no values"):
        symbolic_shape("b", constraints=["b <= 3", "b > 3"])


def test_a_symbolic_batch() -> None:
    w = tnp.asarray(np.random.default_rng(0).normal(size=(8, 3)).astype(F32))

    def function(x: Any, scale: Any) -> Any:
        return tnp.tanh(x @ w).mean(0) * scale, tnp.concatenate([x, x])

    specs = symbolic_args_specs((tnp.ones((2, 8)), 2.0), ("b, ...", None), constraints=["b <= 32"])
    assert specs[1] == SHAPE((), F32)
    loaded = deserialize(export(tinyfn.jit(function))(*specs).serialize())
    assert [str(aval.shape) for aval in loaded.out_avals] == ["(3,)", "(2*b, 8)"]
    for b in (1, 5, 32):
        x = tnp.asarray(np.random.default_rng(b).normal(size=(b, 8)).astype(F32))
        for found, wanted in zip(loaded.call(x, 2.0), function(x, 2.0), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        of_file = tinyfn.grad(lambda x: loaded.call(x, 2.0)[0].sum())(x)
        np.testing.assert_allclose(
            of_file, tinyfn.grad(lambda x: function(x, 2.0)[0].sum())(x), rtol=1e-5, atol=1e-6
        )
    with pytest.raises(ValueError, match=r"must be in \[1, 32\]"):
        loaded.call(tnp.ones((33, 8)), 2.0)
    with pytest.raises(TypeError, match=r"is float32\[4,7\], but it was exported for float32\[b,8\]"):
        loaded.call(tnp.ones((4, 7)), 2.0)
    pulled = deserialize(loaded.vjp().serialize())
    assert [str(aval.shape) for aval in pulled.in_avals] == ["(b, 8)", "()", "(3,)", "(2*b, 8)"]
    of_x, of_scale = pulled.call(tnp.ones((4, 8)), 2.0, tnp.ones(3), tnp.zeros((8, 8)))
    assert of_x.shape == (4, 8) and of_scale.shape == ()


def test_sizes_that_depend_on_each_other() -> None:
    n, m = symbolic_shape("n, 2*n + 1", constraints=["n <= 9"])
    loaded = read(lambda x, y: x.sum() + y.sum(), SHAPE((n,), F32), SHAPE((m,), F32))
    assert loaded.call(tnp.ones(4), tnp.ones(9)) == 13
    with pytest.raises(ValueError, match=r"has size 8 where the graph has 2\*n \+ 1 = 9"):
        loaded.call(tnp.ones(4), tnp.ones(8))


def test_a_scan_over_a_symbolic_length() -> None:
    (n,) = symbolic_shape("n", constraints=["n <= 16"])
    loaded = read(lambda x: tinyfn.lax.scan(lambda c, x: (c * 0.5 + x, c), 0.0, x), SHAPE((n,), F32))
    for size in (1, 7):
        total, steps = loaded.call(tnp.arange(float(size)))
        assert steps.shape == (size,)
        expected = 0.0
        for i in range(size):
            expected = expected * 0.5 + i
        np.testing.assert_allclose(total, expected)
