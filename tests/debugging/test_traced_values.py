"""What is said where a traced value is asked for its number: in which function, for which argument, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.test_errors import line_of, message
from tinyfn import lax
from tinyfn.trace.errors import TracerError

jit, grad, vmap = tinyfn.jit, tinyfn.grad, tinyfn.vmap
x = tnp.ones(3)


def branch(value: Any) -> Any:
    if value > 0:
        return value
    return -value


HERE = f"{__file__}:{line_of(branch, 'if value')} (in branch): can't use it as a condition"
DEFINED = f"{__file__}:{line_of(branch, 'def branch')}"


def rule_jvp(where: str) -> Any:
    f = tinyfn.custom_jvp(lambda a: a * 2)

    @f.defjvp
    def rule(primals: Any, directions: Any) -> Any:
        branch(primals[0] if where == "primals" else directions[0])
        return f(*primals), directions[0]

    return f


def rule_vjp(where: str) -> Any:
    f = tinyfn.custom_vjp(lambda a: a * 2)

    def forward(first: Any) -> Any:
        if where == "forward":
            branch(first)
        return first * 2, {"kept": first}

    def backward(residuals: Any, ct: Any) -> Any:
        branch(residuals["kept"] if where == "residuals" else ct if where == "ct" else tnp.float32(1))
        return (ct,)

    f.defvjp(forward, backward)
    return f


def rule_vmap() -> Any:
    f = tinyfn.custom_batching.custom_vmap(lambda a: a * 2)
    f.def_vmap(lambda size, batched, lanes: (branch(lanes[0]) * lanes, True))
    return f


# The call, in what it is traced, the argument to blame, the reason.
EVERYWHERE: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    "jit": (lambda: jit(branch)(1.0), f"in jit of branch ({DEFINED})", "value", "only when the compiled function runs"),
    "nested jit": (lambda: jit(lambda v: jit(branch)(v * 2))(1.0), "in jit of branch", "value", "compiled function runs"),
    "jit of grad": (lambda: jit(grad(branch))(1.0), "in jit of branch", "value", "compiled function runs"),
    "grad of jit": (lambda: grad(jit(branch))(1.0), "in jit of branch", "value", "compiled function runs"),
    "jit around grad": (lambda: jit(lambda w: grad(branch)(w))(1.0), "in jit of <lambda>", "w", "compiled function runs"),
    "remat": (lambda: jit(tinyfn.remat(branch))(1.0), "in jit of branch", "value", "compiled function runs"),
    "jvp": (lambda: jit(lambda v: tinyfn.jvp(branch, (v,), (v,)))(1.0), "in jit of <lambda>", "v", "compiled function runs"),
    "linearize": (lambda: jit(lambda v: tinyfn.linearize(branch, v))(1.0), "in jit of <lambda>", "v", "compiled function"),
    "hessian": (lambda: jit(tinyfn.hessian(branch))(1.0), "in jit of branch", "value", "compiled function runs"),
    "vmap": (lambda: vmap(branch)(x), f"in vmap of branch ({DEFINED})", "value", "may differ from lane to lane"),
    "vmap of grad": (lambda: vmap(grad(branch))(x), "in vmap of branch", "value", "lane to lane"),
    "jit of vmap": (lambda: jit(vmap(branch))(x), "in vmap of branch", "value", "lane to lane"),
    "scan's carry": (lambda: lax.scan(lambda c, a: (branch(c), a), 1.0, x), "in scan of <lambda>", "c", "traced once"),
    "scan's x": (lambda: lax.scan(lambda c, a: (branch(a["k"]), c), 1.0, {"k": x}), "in scan", "a['k']", "for all steps"),
    "map": (lambda: lax.map(branch, x), "in map of branch", "value", "for all elements"),
    "fori_loop": (lambda: lax.fori_loop(0, 3, lambda i, c: c + branch(i), 0), "in fori_loop", "i", "for all steps"),
    "traced fori_loop": (lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, c: branch(c), 0))(3), "in fori_loop", "c", "steps"),
    "while_loop": (lambda: lax.while_loop(lambda c: c < 3, branch, 1.0), "in while_loop of branch", "value", "for all steps"),
    "condition": (lambda: lax.while_loop(lambda c: branch(c) < 3, lambda c: c, 1.0), "in while_loop", "c", "for all steps"),
    "cond": (lambda: lax.cond(x[0] > 0, branch, lambda v: v, x[1]), "in cond of branch", "value", "before one of them"),
    "switch": (lambda: lax.switch(0, [branch, branch], 1.0), "in switch of branch", "value", "before one of them is chosen"),
    "make_graph": (lambda: tinyfn.make_graph(branch)(1.0), "in make_graph of branch", "value", "while the function is traced"),
    "eval_shape": (lambda: tinyfn.eval_shape(branch, 1.0), "in eval_shape of branch", "value", "while the function is traced"),
    "jvp rule": (lambda: jit(grad(rule_jvp("primals")))(1.0), "in jit of", "a", "compiled function runs"),
    "jvp rule's tangent": (lambda: grad(rule_jvp("t"))(1.0), "in custom_jvp of jvp_rule", "directions[0]", "before there are"),
    "forward rule": (lambda: jit(grad(rule_vjp("forward")))(1.0), "in jit of", "a", "compiled function runs"),
    "backward rule": (lambda: grad(rule_vjp("ct"))(1.0), "in custom_vjp of backward", "ct", "before there are cotangents"),
    "residuals": (lambda: grad(rule_vjp("residuals"))(1.0), "in custom_vjp of backward", "residuals['kept']", "cotangents"),
    "vmap rule": (lambda: jit(vmap(rule_vmap()))(x), "in custom_vmap of", "lanes", "for all lanes at once"),
    "solver": (
        lambda: jit(lambda b: lax.custom_linear_solve(lambda v: branch(v), b, lambda m, r: r))(1.0),
        "in custom_linear_solve of matvec", "v", "not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_condition_in_every_transform(name: str) -> None:
    call, owner, argument, reason = EVERYWHERE[name]
    text = message(
        tinyfn.TracerBoolConversionError, call, HERE, owner, f"argument `{argument}`", reason, "Instead: "
    )
    assert "traced values" not in text and len(text.splitlines()) == 2


@dataclass
class Model:
    weight: Any
    depth: Any


def test_arguments_are_named_as_they_are_passed() -> None:
    error = tinyfn.TracerBoolConversionError
    message(
        error,
        lambda: jit(lambda *args: branch(args[1]))(1.0, 2.0),
        "argument `args[1]`",
        "static_argnums of jit",
    )
    message(
        error,
        lambda: jit(lambda **kw: branch(kw["b"]))(a=1.0, b=2.0),
        "argument `b`",
        "static_argnames=['b']",
    )
    message(
        error,
        lambda: jit(lambda m: branch(m.depth))(Model(1.0, 2.0)),
        "argument `m.depth`",
        "tinyfn.tree.static()",
    )
    message(error, lambda: jit(lambda *, o: branch(o["k"][1]))(o={"k": (1.0, 2.0)}), "argument `o['k'][1]`")
    message(
        error,
        lambda: jit(lambda a, b: branch(a * b))(1.0, 2.0),
        "arguments `a`, `b`",
        "static_argnames=['a', 'b']",
    )
    message(
        error, lambda: jit(lambda s: branch(s.sum()))(x), "argument `s`", "compute it outside and pass it in"
    )
    text = message(
        error,
        lambda: jit(lambda p: branch(sum(p)))([1.0] * 40),
        "`p[0]`, `p[1]`, `p[2]`, `p[3]`, `p[4]` and 35 more",
    )
    assert "`p[5]`" not in text

    class Layer:
        def __call__(self, value: Any, flag: Any) -> Any:
            return branch(flag)

    message(error, lambda: jit(Layer())(1.0, True), "argument `flag`")
    message(error, lambda: jit(Layer().__call__)(1.0, True), "argument `flag`", "static_argnames=['flag']")


FIXES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "if": (lambda a: 1 if a > 0 else 2, "tinyfn.lax.cond"),
    "while": (lambda a: [a for _ in iter(lambda: bool(a > 0), False)], "tinyfn.lax.while_loop"),
    "and": (lambda a: (a > 0) and a, "tinyfn.numpy.where"),
    "not": (lambda a: not a, "tinyfn.numpy.where"),
    "max": (lambda a: max(a, 0), "tinyfn.numpy.minimum, maximum"),
    "sorted": (lambda a: sorted([a, a + 1]), "sort instead of"),
    "any": (lambda a: any([a > 0]), "x.any()"),
    "in": (lambda a: a in [1, 2], "as a condition"),
    "range": (lambda a: list(range(a.astype(int))), "tinyfn.lax.fori_loop instead of range"),
    "list[i]": (lambda a: [1, 2][a.astype(int)], "instead of a list"),
    "slice": (lambda a: x[: a.astype(int)], "tinyfn.lax.dynamic_slice"),
    "shape": (lambda a: tnp.zeros(a.astype(int)), "length or count"),
    "float": (lambda a: float(a), "Python's float and math"),
    "int": (lambda a: int(a), "can't make a Python int of it"),
    "complex": (lambda a: complex(a), "can't make a Python complex of it"),
    "math": (lambda a: __import__("math").sin(a), "Python's float and math"),
    "format": (lambda a: f"{a:.2f}", "tinyfn.debug.print"),
    "round": (lambda a: round(a), "item()"),
    "tolist": (lambda a: a.tolist(), "look at it outside"),
    "NumPy": (lambda a: np.sin(a), "tinyfn.numpy instead of NumPy"),
    "asarray": (lambda a: np.asarray(a), "tinyfn.pure_callback"),
    "mask": (lambda a: x[x > a], "nonzero(mask, size=...)"),
    "pickle": (lambda a: __import__("pickle").dumps(a), "can't pickle"),
}


@pytest.mark.parametrize("name", FIXES)
def test_what_was_attempted_and_the_fix(name: str) -> None:
    function, words = FIXES[name]
    text = message(TracerError, lambda: jit(function)(np.float32(1)), words, __file__, "jit of <lambda>")
    assert "Array(" not in text and len(text) < 900


def test_an_effect_does_not_happen_while_its_function_is_traced_for_later() -> None:
    count = [0]

    def number() -> Any:
        count[0] += 1
        return np.float32(count[0])

    def draw() -> Any:
        return tinyfn.io_callback(number, tinyfn.ShapeDtypeStruct((), np.float32))

    for call in (lambda: jit(lambda: branch(draw()))(), lambda: lax.map(lambda v: v * branch(draw()), x)):
        message(
            tinyfn.TracerBoolConversionError, call, "it depends on what io_callback of number gives", HERE
        )
    message(TypeError, lambda: tinyfn.eval_shape(lambda: branch(draw())), "what io_callback of number gives")
    assert count == [0]
    assert grad(lambda v: v * branch(draw()))(1.0).item() == 1.0 and count == [1]  # now, once


LEAKS: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "jit": (lambda kept: jit(lambda a: kept.append(a))(x), "jit"),
    "grad": (lambda kept: grad(lambda a: (kept.append(a), a)[1])(1.0), "grad"),
    "vmap": (lambda kept: vmap(lambda a: (kept.append(a), a)[1])(x), "vmap"),
    "scan": (lambda kept: lax.scan(lambda c, a: (kept.append(a), (c, a))[1], 0.0, x), "scan"),
    "cond": (lambda kept: lax.cond(x[0] > 0, lambda: (kept.append(x[0]), 1)[1], lambda: 2), "cond"),
}
USES: dict[str, Callable[[Any], Any]] = {
    "+": lambda a: a + 1, "[]": lambda a: a.reshape(-1)[0], "float": float, "bool": bool, "NumPy": np.asarray, "sum": tnp.sum,
    "jit": lambda a: jit(lambda b: b)(a), "in jit": lambda a: jit(lambda b: b + a)(x),
    "in grad": lambda a: grad(lambda b: b * a)(1.0),
}  # fmt: skip


@pytest.mark.parametrize("where", LEAKS)
@pytest.mark.parametrize("use", USES)
def test_leaks_say_from_which_function(where: str, use: str) -> None:
    leak, transform = LEAKS[where]
    kept: list[Any] = []
    leak(kept)
    text = message(
        tinyfn.UnexpectedTracerError, lambda: USES[use](kept[0]), f"in {transform} of <lambda> ({__file__}:",
        "return it from the function", "a global, an attribute or a list",
    )  # fmt: skip
    assert text.startswith(f"at {__file__}:")
    assert "Tracer(" in repr(kept[0]) and kept[0].dtype == np.float32  # which are no use


def test_what_depends_on_no_argument_is_known() -> None:
    """So that an error always has arguments, or effects, to name."""

    @tinyfn.jit
    def f(x: Any) -> Any:
        bound = tnp.zeros(3).sum() + 1
        return x if bound > 0 and int(bound) == 1 else -x

    assert f(2.0) == 2.0
