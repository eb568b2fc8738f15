"""Policies of checkpoint: what they name is computed once and kept, all else is computed again, and derivatives do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close, normal
from tinyfn import checkpoint_policies as policies
from tinyfn import lax
from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, print_saved_residuals, saved_residuals
from tinyfn.trace import prims
from tinyfn.trace.graph import Graph
from tinyfn.trace.prims.extern import HostFunction
from tinyfn.transforms.inlining import inline_checkpoints

grad, value_and_grad, jit, vmap, jvp = tinyfn.grad, tinyfn.value_and_grad, tinyfn.jit, tinyfn.vmap, tinyfn.jvp


class Counted:
    """cos(x), by a function that counts how often it runs; as something without a derivative."""

    def __init__(self) -> None:
        self.calls = 0

        def compute(x: np.ndarray) -> np.ndarray:
            self.calls += 1
            return np.cos(x)

        self.host = HostFunction("counted_cos", compute, lambda x: (x.dtype, x.shape))

    def __call__(self, x: Any) -> Any:
        return prims.extern(prims.stop_gradient(x), function=self.host)


def keep_counted(primitive: Any, *_: Any, **__: Any) -> bool:
    return bool(primitive is prims.extern)


def all_nodes(graph: Graph) -> list[Any]:
    """All nodes of a graph and of those that it holds, each graph as often as there are nodes which hold it."""
    found = []
    for node in graph.nodes():
        found.append(node)
        for value in getattr(node, "params", {}).values() if node.src else ():
            for held in value if isinstance(value, tuple) else (value,):
                if isinstance(held, Graph):
                    found += all_nodes(held)
    return found


def count(graph: Graph, name: str) -> int:
    return sum(getattr(node.op, "name", "") == name for node in all_nodes(graph))


def dots_in_gradient(function: Callable[..., Any], *args: Any) -> int:
    return count(tinyfn.make_graph(value_and_grad(function))(*args), "dot_general")


W, X = normal(3, (3, 3), (3,))


def network(w: Any, x: Any) -> Any:
    """Two layers; the second is jitted, and the first is named."""
    hidden = checkpoint_name(tnp.sin(w @ x), "hidden")
    return tnp.sum(jit(lambda h: tnp.tanh(w @ h))(hidden) ** 2)


# For each policy what is kept beside the arguments, with the number of sines and tanhs computed again. Two forward products and
# three backward ones are computed in any case.
TABLE = [
    (None, [], 2, 1, 1),
    (policies.nothing_saveable, [], 2, 1, 1),
    (policies.everything_saveable, ["sin", "sub", "mul", "cos"], 0, 0, 0),
    (policies.dots_saveable, ["dot_general", "dot_general"], 0, 1, 1),
    (policies.checkpoint_dots, ["dot_general", "dot_general"], 0, 1, 1),
    (policies.dots_with_no_batch_dims_saveable, ["dot_general", "dot_general"], 0, 1, 1),
    (policies.save_only_these_names("hidden"), ["sin"], 2, 0, 1),
    (policies.save_only_these_names("other"), [], 2, 1, 1),
    (policies.save_any_names_but_these("other"), ["sin"], 2, 0, 1),
    (policies.save_any_names_but_these("hidden"), [], 2, 1, 1),
    (
        policies.save_anything_except_these_names("hidden"),
        ["dot_general", "sub", "mul", "cos"],
        0,
        1,
        0,
    ),
    (
        policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("hidden")),
        ["dot_general", "sin", "dot_general"],
        0,
        0,
        1,
    ),
    (lambda primitive, *_, **__: primitive.name == "tanh", ["tanh"], 1, 1, 0),
]


@pytest.mark.parametrize(
    ("policy", "kept", "dots", "sines", "tanhs"),
    TABLE,
    ids=[getattr(t[0], "__name__", "none") for t in TABLE],
)
def test_what_is_kept_and_what_is_computed_again(
    policy: Any, kept: list[str], dots: int, sines: int, tanhs: int
) -> None:
    w, x = array(W), array(X)
    f = checkpoint(network, policy=policy)
    found = [origin for _, origin in saved_residuals(f, w, x)]
    assert found[:2] == ["from the argument w", "from the argument x"]
    assert [origin.split("the result of ")[1].split(" at ")[0] for origin in found[2:]] == kept
    graph = tinyfn.make_graph(value_and_grad(f))(w, x)
    assert count(graph, "dot_general") == 2 + 3 + dots
    assert count(graph, "sin") == 1 + sines
    assert count(graph, "tanh") == 1 + tanhs


@pytest.mark.parametrize("policy", [TABLE[i][0] for i in (2, 3, 6, 10, 11)], ids=lambda p: p.__name__)
def test_values_and_derivatives_do_not_change(policy: Any) -> None:
    one, many = (array(W), array(X)), (array(W), array(np.stack([X, 2 * X])))
    f = checkpoint(network, policy=policy)
    close(f(*one), network(*one))
    single: list[Any] = [
        lambda f: grad(f, (0, 1)),
        lambda f: jit(grad(f, (0, 1))),
        lambda f: tinyfn.jacfwd(f, (0, 1)),
        lambda f: tinyfn.hessian(f, 1),
        lambda f: lambda w, x: tinyfn.linearize(f, w, x)[1](w, x),
        lambda f: lambda w, x: tinyfn.jvp(f, (w, x), (w, x))[1],
    ]
    batched: list[Any] = [
        lambda f: vmap(grad(f, (0, 1)), in_axes=(None, 0)),
        lambda f: grad(lambda w, x: vmap(f, in_axes=(None, 0))(w, x).sum(), (0, 1)),
    ]
    for derivative, given in [*[(d, one) for d in single], *[(d, many) for d in batched]]:
        expected = tinyfn.tree.leaves(derivative(network)(*given))
        for a, b in zip(tinyfn.tree.leaves(derivative(f)(*given)), expected, strict=True):
            close(a, b)


def test_a_kept_value_is_computed_once_when_it_runs() -> None:
    for policy, calls in ((None, 2), (policies.everything_saveable, 1), (keep_counted, 1)):
        for transform in (lambda f: f, jit):
            cos = Counted()
            f = checkpoint(lambda x, cos=cos: x * cos(x), policy=policy)
            close(transform(value_and_grad(f))(array(0.5))[1], np.cos(0.5))
            assert cos.calls == calls


def test_linearize_keeps_what_the_policy_says() -> None:
    for policy, calls in ((policies.nothing_saveable, 4), (keep_counted, 1)):
        cos = Counted()
        _, linear = tinyfn.linearize(checkpoint(lambda x, cos=cos: x * cos(x), policy=policy), array(0.5))
        for _ in range(3):
            close(linear(array(2.0)), 2 * np.cos(0.5))
        assert cos.calls == calls


def test_linearize_keeps_what_the_steps_of_a_scan_give() -> None:
    def loop(cos: Any, x: Any) -> Any:
        return lax.scan(lambda c, _: (tnp.sin(c * cos(c)), None), x, None, length=4)[0]

    plain = jvp(lambda x: loop(lambda x: lax.stop_gradient(tnp.cos(x)), x), (array(0.5),), (array(2.0),))[1]
    for policy, calls in ((None, 4 + 3 * 4), (keep_counted, 4), (policies.everything_saveable, 4)):
        cos = Counted()
        _, linear = tinyfn.linearize(checkpoint(lambda x, cos=cos: loop(cos, x), policy=policy), array(0.5))
        for _ in range(3):
            close(linear(array(2.0)), plain)
        assert cos.calls == calls


@pytest.mark.parametrize("reverse", [False, True])
def test_what_the_steps_of_a_scan_keep_is_stacked(reverse: bool) -> None:
    def loop(cos: Any, policy: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            new = tnp.sin(carry * cos(carry + x))
            return new, new * x

        def f(carry: Any, xs: Any) -> Any:
            last, ys = lax.scan(body, carry, xs, reverse=reverse)
            return last + ys.sum()

        return checkpoint(f, policy=policy) if policy != "no checkpoint" else f

    args = array(0.3), array([0.1, 0.2, 0.3, 0.4, 0.5])
    plain = grad(loop(lambda x: lax.stop_gradient(tnp.cos(x)), "no checkpoint"), (0, 1))(*args)
    for policy, calls in (
        ("no checkpoint", 5),
        (None, 10),
        (keep_counted, 5),
        (policies.everything_saveable, 5),
    ):
        for transform in (lambda f: f, jit):
            cos = Counted()
            found = transform(value_and_grad(loop(cos, policy), (0, 1)))(*args)[1]
            for a, b in zip(found, plain, strict=True):
                close(a, b)
            assert cos.calls == calls


def test_dots_of_a_scan_are_kept() -> None:
    def f(w: Any, x: Any) -> Any:
        def body(h: Any, _: Any) -> Any:
            return tnp.tanh(w @ h), None

        return lax.scan(body, x, None, length=4)[0].sum()

    args = array(W), array(X)
    assert dots_in_gradient(f, *args) == 3
    assert dots_in_gradient(checkpoint(f), *args) == 4
    kept = checkpoint(f, policy=policies.dots_saveable)
    assert dots_in_gradient(kept, *args) == 3
    shapes = [struct.shape for struct, _ in saved_residuals(kept, *args)]
    assert shapes == [(3, 3), (3,), (4, 3)]
    for transform in (lambda f: f, jit):
        close(transform(grad(kept))(*args), grad(f)(*args))
    close(
        vmap(grad(kept), in_axes=(None, 0))(args[0], array(np.stack([X, -X])))[1], grad(f)(args[0], array(-X))
    )


@pytest.mark.parametrize("index", [0, 1, 2])
def test_each_branch_keeps_its_own(index: int) -> None:
    def branches(cos: Any) -> list[Any]:
        return [
            lambda x, y: tnp.sin(x * cos(y)),
            lambda x, y: x * tnp.exp(y),
            lambda x, y: cos(x) * cos(cos(y)) * y * x,
        ]

    def f(cos: Any, x: Any, y: Any) -> Any:
        return lax.switch(index, branches(cos), x, y)

    args = array(0.5), array(0.7)
    plain = grad(lambda *a: f(lambda x: lax.stop_gradient(tnp.cos(x)), *a), (0, 1))(*args)
    once = (1, 0, 3)[index]
    for policy, calls in ((None, 2 * once), (keep_counted, once), (policies.everything_saveable, once)):
        for transform in (lambda f: f, jit):
            cos = Counted()
            chosen = checkpoint(lambda *a, cos=cos: f(cos, *a), policy=policy)
            found = transform(value_and_grad(chosen, (0, 1)))(*args)[1]
            for a, b in zip(found, plain, strict=True):
                close(a, b)
            assert cos.calls == calls


def test_a_while_loop_with_max_steps() -> None:
    def f(w: Any, x: Any) -> Any:
        return lax.while_loop(
            lambda h: tnp.sum(h * h) > 1e-3, lambda h: tnp.sin(w @ h), x, max_steps=20
        ).sum()

    args = array(0.5 * W), array(X)
    for policy in (None, policies.dots_saveable, policies.everything_saveable):
        close(grad(checkpoint(f, policy=policy))(*args), grad(f)(*args))


def test_nested_checkpoints_each_by_their_policy() -> None:
    def nested(cos: Any, inner: Any, outer: Any) -> Any:
        def layer(x: Any) -> Any:
            return tnp.sin(x * cos(x))

        return checkpoint(lambda x: checkpoint(layer, policy=inner)(x) * cos(2 * x), policy=outer)

    expected = grad(nested(lambda x: lax.stop_gradient(tnp.cos(x)), None, None))(array(0.5))
    # Forward two; in the second pass the outer one, and the inner one for its own derivative or for what it keeps.
    for inner, outer, calls in (
        (None, None, 4),
        (keep_counted, None, 4),
        (None, keep_counted, 3),
        (keep_counted, keep_counted, 2),
        (policies.everything_saveable, policies.everything_saveable, 2),
    ):
        cos = Counted()
        close(grad(nested(cos, inner, outer))(array(0.5)), expected)
        assert cos.calls == calls, (inner, outer, cos.calls)


def test_custom_rules_within() -> None:
    cos = Counted()

    @tinyfn.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defvjp(lambda x: (tnp.sin(x), (cos(x), x)), lambda kept, ct: (3.0 * kept[0] * ct,))

    @tinyfn.custom_jvp
    def g(x: Any) -> Any:
        return tnp.sin(x)

    g.defjvp(lambda primals, tangents: (g(*primals), 3.0 * cos(*primals) * tangents[0]))
    for function in (f, g):
        for policy, calls in ((None, 1), (keep_counted, 1), (policies.everything_saveable, 1)):
            cos.calls = 0
            close(grad(checkpoint(lambda x: 2.0 * function(x), policy=policy))(array(0.5)), 6 * np.cos(0.5))
            assert cos.calls == calls, (function, policy, cos.calls)


def test_names_of_trees_and_of_every_dtype() -> None:
    tree = {"a": array([1.0, 2.0]), "b": (array([1, 2], "int32"), array(True, "bool")), "c": None}
    named = checkpoint_name(tree, "x")
    assert named["b"][0].dtype == np.int32 and named["b"][1].dtype == np.bool_ and named["c"] is None
    close(jit(lambda t: checkpoint_name(t, "x"))(tree)["a"], [1.0, 2.0])
    close(vmap(grad(lambda x: checkpoint_name(x * x, "x")))(array([1.0, 2.0])), [2.0, 4.0])
    assert "checkpoint_name" not in str(jit(lambda x: checkpoint_name(x, "x") * 2).graph(array(1.0)))
    with pytest.raises(TypeError, match="takes a str as the name"):
        checkpoint_name(array(1.0), 3)  # type: ignore[arg-type]


def test_without_prevent_cse_a_program_may_merge_what_is_computed_again() -> None:
    def f(x: Any) -> Any:
        return tnp.sin(tnp.exp(x))

    for prevent, exponentials in ((True, 2), (False, 1)):
        step = jit(value_and_grad(checkpoint(f, prevent_cse=prevent)))
        close(step(array(0.5))[1], np.cos(np.exp(0.5)) * np.exp(0.5))
        compiled = step.graph(array(0.5))
        assert count(compiled, "exp") == exponentials
        assert (count(compiled, "checkpoint") > 0) is prevent


def test_static_arguments() -> None:
    seen = []

    def power(x: Any, n: Any, name: str = "p") -> Any:
        seen.append((type(n), name))
        return x**n

    close(grad(checkpoint(power, static_argnums=(1,)))(array(2.0), 3), 12.0)
    close(jit(grad(lambda x: checkpoint(power, static_argnums=1)(x, 3)))(array(2.0)), 12.0)
    close(
        grad(lambda x: checkpoint(power, static_argnames=("n", "name"))(x, n=3, name="q"))(array(2.0)), 12.0
    )
    close(grad(checkpoint(power, static_argnums=(-2, -1)))(array(2.0), 2, "r"), 4.0)
    assert all(t is int for t, _ in seen) and {name for _, name in seen} == {"p", "q", "r"}
    with pytest.raises(ValueError, match="static_argnums has 5"):
        checkpoint(power, static_argnums=5)
    with pytest.raises(TypeError, match="argument `name` is a str"):
        grad(lambda x: checkpoint(power)(x, 3, "q"))(array(2.0))


def test_wrong_options() -> None:
    with pytest.raises(TypeError, match=r"policy must be a function.*dots_saveable"):
        checkpoint(network, policy="dots_saveable")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="prevent_cse must be True or False"):
        checkpoint(network, prevent_cse=1)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match="the policy <lambda> of checkpoint must return True or False, but for"
    ):
        grad(checkpoint(network, policy=lambda *_, **__: None))(array(W), array(X))  # type: ignore[arg-type, return-value]


def test_residuals_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(
        checkpoint(network, policy=policies.save_only_these_names("hidden")), array(W), array(X)
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "float64[3,3] from the argument w"
    assert lines[1] == "float64[3] from the argument x"
    assert lines[2].startswith("float64[3] from 'hidden', the result of sin at ") and lines[2].endswith(
        "(in network)"
    )
    bias = array([1.0, 2.0, 3.0])
    found = saved_residuals(lambda x: tnp.exp(x) * bias, tinyfn.ShapeDtypeStruct((3,), "float32"))
    assert "from an array that is closed over" in [origin for _, origin in found]


def test_the_module_can_be_called_with_options() -> None:
    f = tinyfn.checkpoint(network, policy=tinyfn.checkpoint_policies.dots_saveable)
    assert dots_in_gradient(f, array(W), array(X)) == 5


def scans_of(graph: Graph) -> list[Graph]:
    return [node.params["graph"] for node in all_nodes(graph) if getattr(node.op, "name", "") == "scan"]


def test_checkpoints_are_part_of_a_loops_body_where_nothing_merges_them() -> None:
    def loss(w: Any, x: Any) -> Any:
        body = checkpoint(lambda h, _: (tnp.tanh(w @ h), None))
        return lax.scan(body, x, None, length=5)[0].sum()

    forward, backward = scans_of(jit(value_and_grad(loss)).graph(array(W), array(X)))
    for body in (forward, backward):
        assert count(body, "checkpoint") == 1
        assert count(inline_checkpoints(body), "checkpoint") == 0
    # A gradient within the body has both passes in it: there the second one stays apart.
    body = jit(
        lambda w, x: lax.scan(lambda h, _: (h - grad(checkpoint(network), 1)(w, h), None), x, None, length=3)[
            0
        ]
    )
    (both,) = scans_of(body.graph(array(W), array(X)))
    once = inline_checkpoints(both)
    assert count(once, "checkpoint") <= 1
    both_used = jit(lambda w, x: value_and_grad(checkpoint(network))(w, x)).graph(array(W), array(X))
    assert count(both_used, "checkpoint") == 1 and count(both_used, "tanh") == 2


def test_a_checkpoint_with_an_effect_keeps_its_place() -> None:
    seen: list[str] = []

    def note(text: str) -> Callable[[Any], None]:
        return lambda _: seen.append(text)

    @checkpoint
    def inner(x: Any) -> Any:
        tinyfn.debug.callback(note("inner"), x)
        return x * x

    def f(x: Any) -> Any:
        tinyfn.debug.callback(note("before"), x)
        inner(x)  # what it gives is not used
        tinyfn.debug.callback(note("after"), x)
        return inner(x)

    for transform in (lambda f: f, jit, grad, lambda f: jit(value_and_grad(f))):
        seen.clear()
        transform(f)(array(2.0))
        assert seen == ["before", "inner", "after", "inner"]


def test_a_program_with_checkpoints_takes_less_memory() -> None:
    def block(h: Any, w: Any) -> Any:
        return h + tnp.tanh(tnp.sin(h @ w) * tnp.exp(-((h @ w) ** 2))) @ w.T

    def memory(wrap: Any) -> int:
        def loss(weights: Any, h: Any) -> Any:
            for w in weights:
                h = wrap(block)(h, w)
            return (h * h).mean()

        weights = [array(np.eye(8, 64) * 0.1, "float32")] * 6
        compiled = jit(value_and_grad(loss)).lower(weights, array(np.ones((128, 8)), "float32")).compile()
        return int(compiled.memory_analysis().temp_size_in_bytes)

    assert memory(checkpoint) < memory(lambda f: f) / 3


def attention(q: Any, k: Any, v: Any) -> Any:
    return (tnp.einsum("bqk,bkd->bqd", tinyfn.nn.softmax(tnp.einsum("bqd,bkd->bqk", q, k)), v) ** 2).sum()


def recurrent(w: Any, x: Any) -> Any:
    def body(h: Any, _: Any) -> Any:
        h = checkpoint_name(tnp.tanh(h @ w), "hidden")
        return h, h.sum()

    h, ys = lax.scan(body, x, None, length=6)
    return h.sum() + ys.sum()


def branching(w: Any, x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda: tnp.sin(x @ w).sum(), lambda: 2 * tnp.cos(x @ w).sum())


# The shapes that JAX 0.10.2 keeps for the same functions beside the arguments (jax.ad_checkpoint.print_saved_residuals).
KEPT_BY_JAX = [
    (
        attention,
        [(2, 3, 4)] * 3,
        {"nothing": [], "dots": [(2, 3, 3), (2, 3, 4)], "no batch": [], "hidden": []},
    ),
    (
        recurrent,
        [(4, 4), (5, 4)],
        {"nothing": [], "dots": [(6, 5, 4)], "no batch": [(6, 5, 4)], "hidden": [(6, 5, 4)]},
    ),
    (branching, [(4, 4), (5, 4)], {"nothing": [], "dots": [(5, 4)], "no batch": [(5, 4)], "hidden": []}),
]


@pytest.mark.parametrize(
    ("function", "shapes", "kept"), KEPT_BY_JAX, ids=lambda p: getattr(p, "__name__", "")
)
def test_what_is_kept_is_what_jax_keeps(function: Any, shapes: Any, kept: Any) -> None:
    args = [tinyfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    for name, policy in (
        ("nothing", None),
        ("dots", policies.dots_saveable),
        ("no batch", policies.dots_with_no_batch_dims_saveable),
        ("hidden", policies.save_only_these_names("hidden")),
    ):
        found = [struct.shape for struct, _ in saved_residuals(checkpoint(function, policy=policy), *args)]
        assert sorted(found) == sorted([*shapes, *kept[name]])
