"""while_loop, and fori_loop with traced bounds, against Python loops, under all transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.flow import FORWARD_WAYS, WAYS, device, leaves, numbers, same_trees, transforms
from tests.transforms.programs import array, close
from tinyfn import lax

Function = Callable[..., Any]
__all__ = ["device"]


def python_while(condition: Function, body: Function, init: Any, max_steps: int | None = None) -> Any:
    """What while_loop means, for numbers that are known."""
    value, steps = init, 0
    while steps != max_steps and bool(condition(value)):
        value = body(value)
        steps += 1
    return value


def counted(loop: Function, steps: int, **options: Any) -> Function:
    """A number of steps that depends on a counter alone, with a carry that has no derivative, and one that depends on another."""

    def f(w: Any, x: Any) -> Any:
        scale = tnp.cos(w)

        def step(carry: Any) -> Any:
            return {
                "x": tnp.sin(carry["x"] * scale) + x,
                "n": carry["n"] + 1,
                "sum": carry["sum"] * 0.5 + carry["x"],
                "fixed": carry["fixed"],
            }

        first = {"x": x, "n": tnp.array(0), "sum": tnp.zeros(2, "float64"), "fixed": tnp.ones((), "float64")}
        return loop(lambda carry: carry["n"] < steps, step, first, **options)

    return f


ARGS = (numbers(0), numbers(1, 2))


@pytest.mark.parametrize("way", FORWARD_WAYS)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_while_is_a_loop(way: str, steps: int) -> None:
    transform = transforms(ARGS)[way]
    same_trees(transform(counted(lax.while_loop, steps)), transform(unrolled(steps)))


def unrolled(steps: int) -> Function:
    """The loop as it is when the number of steps is known to Python."""

    def loop(condition: Function, body: Function, init: Any, max_steps: int | None = None) -> Any:
        value = init
        for _ in range(steps if max_steps is None else min(steps, max_steps)):
            value = body(value)
        return value

    return counted(loop, steps)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps, most", [(0, 4), (3, 3), (5, 40), (4, 1000)])
def test_bounded_while_has_reverse_mode(way: str, steps: int, most: int) -> None:
    transform = transforms(ARGS)[way]
    same_trees(transform(counted(lax.while_loop, steps, max_steps=most)), transform(unrolled(steps)), 1e-8)


@pytest.mark.parametrize("most", [0, 1, 2, 15, 16, 17, 31, 40, 256, 300])
def test_it_ends_after_max_steps(most: int) -> None:
    """Exactly, in the value and in derivatives, whatever the tree of nested scans that it is made of."""

    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[1] < 290, lambda c: (c[0] * x + 0.25, c[1] + 1), (x, 0), max_steps=most
        )

    x, steps = 0.99, min(most, 290)
    value, slope = x, 1.0
    for _ in range(steps):
        value, slope = value * x + 0.25, slope * x + value
    for way in (f, tinyfn.jit(f)):
        assert int(way(array(x))[1]) == steps
        close(way(array(x))[0], value, 1e-11)
        close(tinyfn.grad(lambda x: way(x)[0])(array(x)), slope, 1e-11)
        close(tinyfn.jvp(lambda x: way(x)[0], (array(x),), (array(1.0),))[1], slope, 1e-11)


def newton(a: Any, **options: Any) -> Any:
    """The square root by Newton's method: lanes take different numbers of steps."""

    def going(carry: Any) -> Any:
        x, _ = carry
        return abs(x * x - a) > 1e-9 * a

    return lax.while_loop(going, lambda c: ((c[0] + a / c[0]) * 0.5, c[1] + 1), (a, 0), **options)


def test_lanes_end_one_by_one(device: str) -> None:
    a = array([1.5, 2.0, 1e-8, 100.0, 0.5])
    for transform in (tinyfn.vmap, lambda f: tinyfn.jit(tinyfn.vmap(f))):
        root, steps = transform(newton)(a)
        close(root, np.sqrt(np.asarray(a)), 1e-8)
        assert [int(n) for n in steps] == [int(newton(lane)[1]) for lane in a]
        assert len({int(n) for n in steps}) > 2
        _, slope = transform(lambda a: tinyfn.jvp(lambda a: newton(a)[0], (a,), (array(1.0),)))(a)
        close(slope, 0.5 / np.sqrt(np.asarray(a)), 1e-6)
        slope = transform(tinyfn.grad(lambda a: newton(a, max_steps=64)[0]))(a)
        close(slope, 0.5 / np.sqrt(np.asarray(a)), 1e-6)
        slope = tinyfn.grad(lambda a: transform(lambda a: newton(a, max_steps=64))(a)[0].sum())(a)
        close(slope, 0.5 / np.sqrt(np.asarray(a)), 1e-6)


def test_what_lanes_share_stays_shared() -> None:
    """A condition that is the same for all lanes is not batched, and neither is a counter."""
    graph = tinyfn.make_graph(
        tinyfn.vmap(lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2.0, c[1] + 1), (x, 0)))
    )(tnp.ones(4))
    (loop,) = [n for n in graph.nodes() if n.op.name == "while_loop"]
    assert loop.shape == ((4,), ())
    assert loop.params["condition"].outputs[0].op.name == "lt"
    # Nor is what the body hands on as it is, where the condition differs.
    graph = tinyfn.make_graph(
        tinyfn.vmap(
            lambda x, y: lax.while_loop(lambda c: c[0] < 9.0, lambda c: (c[0] * 2.0, c[1]), (x, y)),
            in_axes=(0, None),
        )
    )(tnp.ones(4), tnp.ones(3))
    (loop,) = [n for n in graph.nodes() if n.op.name == "while_loop"]
    assert loop.shape == ((4,), (3,))


def test_loops_in_loops_end_for_lanes_that_are_done() -> None:
    """The inner loop would not end on the values of lanes that are done with the outer one."""

    def inner(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] != 0, lambda c: (c[0] - 1, c[1] + c[0]), (x, 0))[1]

    def outer(x: Any) -> Any:
        # Ends at -1, from which the inner loop would count down without an end (for 2**32 steps).
        return lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] - 1, c[1] + inner(c[0])), (x, 0))[1]

    found = tinyfn.vmap(outer)(tnp.array([3, 0, -1, 5], "int32"))
    np.testing.assert_array_equal(found, [6 + 3 + 1, 0, 0, 15 + 10 + 6 + 3 + 1])


def test_bounded_loops_of_lanes_stop_when_all_are_done() -> None:
    """With room for many more steps than any lane takes, the reverse pass does not run them all."""
    ran: list[int] = []
    original = tinyfn.transforms.loops.Scan.execute

    def execute(self: Any, prepare: Any, args: Any, **params: Any) -> Any:
        ran.append(params["length"])
        return original(self, prepare, args, **params)

    tinyfn.transforms.loops.Scan.execute = execute  # type: ignore[method-assign]
    try:
        f = tinyfn.vmap(tinyfn.grad(lambda a: newton(a, max_steps=10**6)[0]))
        close(f(array([2.0, 3.0])), 0.5 / np.sqrt([2.0, 3.0]), 1e-6)
    finally:
        tinyfn.transforms.loops.Scan.execute = original  # type: ignore[method-assign]
    assert 4 < sum(ran) < 1000


def test_reverse_mode_without_a_bound() -> None:
    def double_up(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 3.0, lambda c: c * 2.0, x)

    with pytest.raises(TypeError) as info:
        tinyfn.grad(double_up)(1.0)
    for part in ("while_loop", "max_steps", "scan", "fori_loop", __file__):
        assert part in str(info.value)
    with pytest.raises(TypeError, match="max_steps"):
        tinyfn.jit(tinyfn.grad(lambda x, n: lax.fori_loop(0, n, lambda i, y: y * x, x)))(1.0, 3)
    # It is no matter where nothing is pulled back through the loop.
    assert float(tinyfn.grad(lambda x: tinyfn.stop_gradient(double_up(x)) * x)(1.0)) == 4.0

    def counts(x: Any) -> Any:
        return x + lax.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] * 2.0, c[1] + 1), (x, 0))[1]

    assert float(tinyfn.grad(counts)(1.0)) == 1.0
    close(tinyfn.jacfwd(double_up)(1.0), 4.0)


@pytest.mark.parametrize("way", FORWARD_WAYS)
def test_fori_loop_with_traced_bounds(way: str) -> None:
    def program(x: Any, y: Any) -> Any:
        upper = (x.sum() * 0).astype("int32") + 5
        return tinyfn.jit(
            lambda n: lax.fori_loop(2, n, lambda i, c: (tnp.sin(c[0]) * y + i, c[1] + i), (x, 0))
        )(upper)

    def wanted(x: Any, y: Any) -> Any:
        c, n = x, tnp.array(0)
        for i in range(2, 5):
            c, n = tnp.sin(c) * y + i, n + i
        return c, n

    transform = transforms((numbers(0, 2), numbers(1, 2)))[way]
    same_trees(transform(program), transform(wanted), 1e-9)


def test_results_of_jit_on_devices(device: str) -> None:
    for way in ("jit", "jit of vmap", "jit of grad", "jit of vmap of grad"):
        transform = transforms(ARGS)[way]
        found, wanted = (transform(f) for f in (counted(lax.while_loop, 4, max_steps=20), unrolled(4)))
        same_trees(found, wanted, 1e-9)


def test_weak_values() -> None:
    result = lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + tnp.ones((), "float16")), (0, 0))
    assert result[0].weak_type and result[1].dtype == np.float16 and int(result[1]) == 5


def test_printed_loops_run() -> None:
    from tinyfn.trace.show import run_source

    graph = tinyfn.make_graph(newton)(array(2.0)).check()
    text = str(graph)
    root, _ = run_source(text, text.rstrip().rsplit("\ndef ", 1)[-1].split("(", 1)[0])(array(2.0))
    close(root, np.sqrt(2.0))


@pytest.mark.parametrize(
    "call, error, parts",
    [
        (lambda: lax.while_loop(lambda c: c, lambda c: c, 1), TypeError, ["condition", "one bool", "int32[]"]),
        (lambda: lax.while_loop(lambda c: c > 0, lambda c: c, tnp.ones(3)), TypeError, ["bool[3]", ".any()"]),
        (lambda: lax.while_loop(lambda c: (), lambda c: c, 1), TypeError, ["nothing"]),
        (
            lambda: lax.while_loop(lambda c: True, lambda state: {"h": state["h"][:1]}, {"h": tnp.ones(3)}), TypeError,
            ["while_loop", "`state['h']` is float32[3] before and float32[1] after"],
        ),
        (lambda: lax.while_loop(lambda c: True, lambda c: (c, c), 1.0), TypeError, ["structure"]),
        (lambda: lax.while_loop(lambda c: True, lambda c: c, 1.0, max_steps=-1), ValueError, ["max_steps -1"]),
        (lambda: lax.while_loop(lambda c: c if c > 0 else -c, lambda c: c, 1.0), tinyfn.TracerError, ["while_loop"]),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], error: type[Exception], parts: list[str]) -> None:
    with pytest.raises(error) as info:
        call()
    for part in [*parts, __file__]:
        assert part in str(info.value)


def test_no_carry() -> None:
    assert lax.while_loop(lambda c: False, lambda c: c, ()) == ()
    assert leaves(lax.while_loop(lambda c: False, lambda c: c, {"a": None})) == []
