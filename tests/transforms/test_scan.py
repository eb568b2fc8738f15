"""scan, fori_loop with known bounds, map and associative_scan against Python loops, under all transforms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.flow import WAYS, device, leaves, numbers, same_trees, transforms
from tests.transforms.programs import array, close
from tinyfn import lax

Function = Callable[..., Any]
__all__ = ["device"]


def python_scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> Any:
    """What scan means."""
    given = leaves(xs)
    count = given[0].shape[0] if given else length
    assert count
    carry, ys = init, []
    for i in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, tinyfn.tree.map(lambda x, i=i: x[i], xs))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tinyfn.tree.map(lambda *each: tnp.stack(each), *ys)


def recurrent(scan: Function, **options: Any) -> Function:
    """A recurrent network with what it closes over, a counter, and two results for each step."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        scale = tnp.cos(w).sum()

        def step(carry: Any, x: Any) -> Any:
            state, count = carry["state"], carry["count"]
            new = tnp.tanh(w @ state + x * scale)
            return {"state": new, "count": count + 1}, (new * x, state.sum())

        return scan(step, {"state": h, "count": tnp.array(0)}, xs, **options)

    return f


def half_of_the_carry(scan: Function, **options: Any) -> Function:
    """Of three carries one depends on the arguments, one on that, and one on nothing."""

    def f(x: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, b, c = carry
            return (tnp.sin(a) + x, b * 0.5 + a, c * 1.5), (b, c)

        return scan(step, (x, tnp.zeros(2, "float64"), tnp.ones((), "float64")), xs, **options)

    return f


def only_xs(scan: Function, **options: Any) -> Function:
    def f(w: Any, xs: Any) -> Any:
        return scan(lambda carry, x: (carry, {"y": tnp.exp(-w * x), "x": x}), (), xs, **options)

    return f


def without_xs(scan: Function, **options: Any) -> Function:
    def f(w: Any, h: Any) -> Any:
        return scan(lambda h, _: (tnp.sin(w * h) + h, h), h, None, length=4, **options)

    return f


def nested(scan: Function, **options: Any) -> Function:
    """A scan in a scan, whose inner one closes over the outer carry, within a jitted function and a checkpoint."""

    def f(w: Any, xs: Any) -> Any:
        @tinyfn.jit
        def inner(c: Any, x: Any) -> Any:
            return scan(lambda d, y: (tnp.tanh(d * w + y * c), d), c, tnp.stack([x, x * 2.0]))

        def outer(c: Any, x: Any) -> Any:
            total, each = tinyfn.remat(inner)(c, x)
            return total * 0.5 + c, each.sum()

        return scan(outer, w, xs, **options)

    return f


def custom(scan: Function, **options: Any) -> Function:
    """Functions with rules of their own in the body."""

    @tinyfn.custom_jvp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * tnp.cos(primals[0])))

    def g(w: Any, xs: Any) -> Any:
        return scan(lambda c, x: (f(c * w) + x, f(x)), w, xs, **options)

    return g


PROGRAMS: dict[str, tuple[Callable[..., Function], tuple[Any, ...]]] = {
    "recurrent": (recurrent, (numbers(0, 3, 3), numbers(1, 3), numbers(2, 4, 3))),
    "half of the carry": (half_of_the_carry, (numbers(3, 2), numbers(4, 5, 2))),
    "only xs": (only_xs, (numbers(5), numbers(6, 3, 2))),
    "without xs": (without_xs, (numbers(7, 2), numbers(8, 2))),
    "nested": (nested, (numbers(9, 2), numbers(10, 3, 2))),
    "custom": (custom, (numbers(11), numbers(12, 3))),
}
CASES = [
    pytest.param(name, reverse, way, id=f"{name}{' reversed' if reverse else ''}-{way}")
    for name in PROGRAMS
    for reverse in (False, True)
    for way in WAYS
    if not (reverse and name in ("without xs", "custom", "nested"))
]


@pytest.mark.parametrize("name, reverse, way", CASES)
def test_scan_is_a_loop(name: str, reverse: bool, way: str) -> None:
    program, args = PROGRAMS[name]
    transform = transforms(args)[way]
    same_trees(
        transform(program(lax.scan, reverse=reverse)), transform(program(python_scan, reverse=reverse)), 1e-9
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_jit_on_devices(device: str, name: str) -> None:
    program, args = PROGRAMS[name]
    for way in ("jit", "jit of grad", "jit of vmap of grad", "grad of jit"):
        transform = transforms(args)[way]
        same_trees(transform(program(lax.scan)), transform(program(python_scan)), 1e-9)


def test_no_steps() -> None:
    for way, transform in transforms([numbers(0, 2), numbers(1, 0, 2)]).items():
        found = transform(lambda h, xs: lax.scan(lambda c, x: (c * x, (c, x)), h, xs))
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in leaves(found)), way
    h = numbers(0, 2)
    carry, (a, b) = lax.scan(lambda c, x: (c * x, (c, x.sum())), h, tnp.zeros((0, 2), "float64"))
    same_trees((carry, a, b), (h, tnp.zeros((0, 2), "float64"), tnp.zeros(0, "float64")))
    gradient = tinyfn.grad(
        lambda h: lax.scan(lambda c, x: (c * x, None), h, tnp.zeros((0, 2), "float64"))[0].sum()
    )
    close(gradient(h), [1.0, 1.0])
    assert lax.scan(lambda c, x: (c, c), 0, None, length=0)[1].shape == (0,)


def test_empty_trees_and_none() -> None:
    assert lax.scan(lambda c, x: (c, None), (), None, length=3) == ((), None)
    carry, ys = lax.scan(lambda c, x: (c + 1, {"a": (), "b": [c, None]}), 5, {"none": None}, length=2)
    assert int(carry) == 7 and ys["a"] == () and ys["b"][1] is None
    np.testing.assert_array_equal(ys["b"][0], [5, 6])


def test_each_body_sees_its_step() -> None:
    """The body is traced once, however many steps there are."""
    traces: list[int] = []

    def body(c: Any, x: Any) -> Any:
        traces.append(1)
        return c + x, c

    xs = tnp.arange(1000.0)
    lax.scan(body, 0.0, xs)
    assert len(traces) == 1
    tinyfn.jit(tinyfn.grad(lambda x: lax.scan(body, x, xs)[0]))(1.0)
    assert len(traces) == 2


def test_weak_carries_take_the_dtype_of_the_body() -> None:
    for init, dtype in ((0, "float32"), (0, "float64"), (0, "int8"), (1.5, "float16")):
        carry, ys = lax.scan(lambda c, x: (c + x, c), init, tnp.arange(3).astype(dtype))
        assert carry.dtype == ys.dtype == np.dtype(dtype)
    carry, _ = lax.scan(lambda c, x: (c * 2, None), 1, None, length=3)
    assert carry.weak_type and carry.dtype == np.int32 and int(carry) == 8
    # One that depends on another that was weak.
    (a, b), _ = lax.scan(lambda c, x: ((c[0] + x, c[1] + c[0]), None), (0, 0), tnp.ones(3))
    assert a.dtype == b.dtype == np.float32 and float(b) == 3.0


class Pair(NamedTuple):
    left: Any
    right: Any


def test_carry_that_changes(request: Any) -> None:
    def step(state: Any, x: Any) -> Any:
        return {
            "h": state["h"].astype("float64"),
            "pair": Pair(state["pair"].left[:2], state["pair"].right),
        }, x

    with pytest.raises(TypeError) as info:
        lax.scan(step, {"h": tnp.zeros(3), "pair": Pair(tnp.zeros(3), tnp.zeros(()))}, tnp.zeros(4))
    message = str(info.value)
    for part in (
        "scan of step", "`state['h']` is float32[3] before and float64[3] after",
        "`state['pair'].left` is float32[3] before and float32[2] after", ".astype('float32')", __file__,
    ):  # fmt: skip
        assert part in message
    with pytest.raises(TypeError, match=re.escape("`c['b']`")):
        lax.scan(
            lambda c, x: ({**c, "b": (c["b"], c["b"])}, x), {"a": tnp.zeros(2), "b": tnp.zeros(2)}, length=2
        )
    with pytest.raises(TypeError, match="expected dict with keys"):
        lax.scan(lambda c, x: ({"a": c["a"]}, x), {"a": tnp.zeros(2), "b": tnp.zeros(2)}, length=2)
    with pytest.raises(TypeError, match=r"is int32\[\] before and float32"):
        lax.scan(lambda c, x: (c + x, c), tnp.array(0, "int32"), tnp.ones(2))


@pytest.mark.parametrize(
    "call, error, parts",
    [
        (lambda: lax.scan(lambda c, x: (c, x), 0), ValueError, ["length"]),
        (lambda: lax.scan(lambda c, x: c, 0, tnp.zeros(2)), TypeError, ["must return a pair"]),
        (lambda: lax.scan(lambda c, x: (c, x), 0, (tnp.zeros(2), tnp.zeros(3))), ValueError, ["`x[0]` has 2; `x[1]` has 3"]),
        (lambda: lax.scan(lambda c, x: (c, x), 0, tnp.zeros(2), length=3), ValueError, ["all have 3 elements", "`x` has 2"]),
        (lambda: lax.scan(lambda c, x: (c, x), 0, {"a": 1.0}), ValueError, ["`x['a']` is float32[]", "no leading axis"]),
        (lambda: lax.scan(lambda c, x: (c, x), 0, None, length=-1), ValueError, ["-1"]),
        (lambda: lax.scan(lambda c, x: (c, x), object(), tnp.zeros(2)), TypeError, ["`c`", "object"]),
        (lambda: lax.scan(lambda c, x: (c, object()), 0, tnp.zeros(2)), TypeError, ["object"]),
        (lambda: lax.map(lambda x: x, (tnp.zeros(2), tnp.zeros(3))), ValueError, ["map", "`x[1]` has 3"]),
        (lambda: lax.map(lambda x: x, tnp.zeros(2), batch_size=0), ValueError, ["batch_size"]),
        (lambda: lax.fori_loop(0, 3.5, lambda i, x: x, 0), TypeError, ["integers", "float32"]),
        (lambda: lax.fori_loop(0, 3, lambda i, y: (y, y), 0), TypeError, ["fori_loop", "`y`"]),
        (lambda: lax.fori_loop(0, 3, lambda i, y: y + 0.5, tnp.array(1)), TypeError, ["`y` is int32[] before and float32[]"]),
        (lambda: lax.associative_scan(lambda a, b: a, (tnp.zeros(2), tnp.zeros(3))), ValueError, ["sizes"]),
        (lambda: lax.associative_scan(lambda a, b: a.sum(), tnp.zeros(4)), TypeError, ["must give", "float32[2]"]),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], error: type[Exception], parts: list[str]) -> None:
    with pytest.raises(error) as info:
        call()
    for part in [*parts, __file__]:
        assert part in str(info.value)


def test_a_value_in_the_body_is_not_known() -> None:
    def step(c: Any, x: Any) -> Any:
        return (c if x > 0 else -c), x

    with pytest.raises(tinyfn.TracerBoolConversionError) as info:
        lax.scan(step, 1.0, tnp.ones(3))
    assert "scan of step" in str(info.value) and "lax.cond" in str(info.value)


def test_residuals_are_kept_as_they_must_be() -> None:
    """What is stacked: what the reverse pass reads, without what does not change, is given, or is a result anyway."""

    def stacked(f: Function, *args: Any) -> list[Any]:
        graph = tinyfn.make_graph(tinyfn.grad(f))(*args)
        (forward, *_) = [n for n in graph.nodes() if n.op.name == "scan"]
        body, carries = forward.params["graph"], forward.params["carries"]
        return [n.shape for n in body.outputs[carries:]]

    xs, w = numbers(0, 5, 3), numbers(1, 3, 3)

    def tanh_of_product(w: Any) -> Any:
        return lax.scan(lambda h, x: (tnp.tanh(w @ h + x), None), tnp.zeros(3, "float64"), xs)[0].sum()

    assert sorted(stacked(tanh_of_product, w)) == [(3,), (3,)]  # h before and after
    # cos(w) is the same at each step, and x is there.
    assert (
        stacked(
            lambda w: lax.scan(lambda h, x: (h + tnp.sin(w) @ x, None), tnp.zeros(3, "float64"), xs)[0].sum(),
            w,
        )
        == []
    )
    # With a checkpoint, the carry alone.
    step = tinyfn.remat(lambda h, x: (tnp.sin(tnp.cos(w @ h) * tnp.exp(x)), None))
    assert stacked(lambda h: lax.scan(step, h, xs)[0].sum(), xs[0]) == [(3,)]


def test_closing_over_tracers_of_everything() -> None:
    def f(scan: Function) -> Function:
        def g(a: Any, b: Any) -> Any:
            def in_grad(c: Any) -> Any:
                return scan(lambda h, x: (h * a + b * x * c, h), c, tnp.stack([a, b]))[0].sum()

            return tinyfn.jit(tinyfn.vmap(tinyfn.grad(in_grad), in_axes=0))(tnp.stack([a, b, a * b]))

        return g

    args = (numbers(0, 2), numbers(1, 2))
    for way, transform in transforms(args).items():
        same_trees(transform(f(lax.scan)), transform(f(python_scan)), 1e-8), way


def test_printed_loops_run() -> None:
    from tinyfn.trace.show import run_source

    args = PROGRAMS["recurrent"][1]
    f = tinyfn.make_graph(tinyfn.grad(lambda *xs: recurrent(lax.scan)(*xs)[0]["state"].sum()))
    graph = f(*args).check()
    text = str(graph)
    assert "scan(" in text and "@graph" in text
    (found,) = run_source(text, text.rstrip().rsplit("\ndef ", 1)[-1].split("(", 1)[0])(*args)
    (expected,) = graph.run([a.value for a in (*args, *graph.captured)])
    np.testing.assert_array_equal(found, expected)


# fori_loop


def python_fori(lower: int, upper: int, body: Function, init: Any) -> Any:
    value = init
    for i in range(lower, upper):
        value = body(i, value)
    return value


@pytest.mark.parametrize("way", WAYS)
def test_fori_loop_with_known_bounds(way: str) -> None:
    def program(fori: Function) -> Function:
        return lambda w, x: fori(2, 6, lambda i, c: (c[0] * w + i, c[1] + tnp.sin(c[0] * i)), (x, x * 0.0))

    transform = transforms((numbers(0, 2), numbers(1, 2)))[way]
    same_trees(transform(program(lax.fori_loop)), transform(program(python_fori)), 1e-9)


def test_bounds_of_fori_loop() -> None:
    count = lambda lower, upper: lax.fori_loop(lower, upper, lambda i, n: n + i, 0)
    assert int(count(5, 3)) == 0 and int(count(-2, 2)) == -2 and int(count(7, 8)) == 7
    assert int(count(np.int64(1), np.int64(4))) == 6
    assert int(count(tnp.array(1), tnp.array(4))) == 6
    assert int(tinyfn.jit(count)(1, 4)) == 6
    assert int(tinyfn.jit(count)(4, 1)) == 0
    # i is weak as Python's numbers are, and of the type of typed bounds.
    assert lax.fori_loop(0, 3, lambda i, x: x + i, tnp.zeros((), "int8")).dtype == np.int8
    bound = tnp.array(3, "int64")
    assert lax.fori_loop(0, bound, lambda i, x: i, tnp.zeros((), "int64")).dtype == np.int64
    many = tinyfn.vmap(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))(tnp.arange(5))
    np.testing.assert_array_equal(many, [0, 0, 1, 3, 6])
    gradient = tinyfn.grad(lambda x, n: lax.fori_loop(0, n, lambda i, y: y * x, 1.0))(2.0, 3)
    assert float(gradient) == 12.0  # under grad, bounds are known


# map and associative_scan


@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 7, 10])
@pytest.mark.parametrize("way", ["value", "jit", "grad", "vmap", "jvp"])
def test_map(way: str, batch_size: int | None) -> None:
    def mapped(w: Any, xs: Any) -> Any:
        return lax.map(
            lambda x: {"y": tnp.sin(x["a"] * w), "z": x["b"].sum()}, {"a": xs, "b": xs}, batch_size=batch_size
        )

    def wanted(w: Any, xs: Any) -> Any:
        return {"y": tnp.sin(xs * w), "z": xs.sum(1)}

    transform = transforms((numbers(0, 3), numbers(1, 7, 3)))[way]
    same_trees(transform(mapped), transform(wanted), 1e-12)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_map_over_nothing(batch_size: int | None) -> None:
    assert lax.map(lambda x: (x * 2, x.sum()), tnp.zeros((0, 3)), batch_size=batch_size)[1].shape == (0,)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_associative_scan(n: int, reverse: bool, axis: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 2) if axis == 0 else (2, n))
    found = lax.associative_scan(
        lambda a, b: {"sum": a["sum"] + b["sum"]}, {"sum": array(x)}, reverse=reverse, axis=axis
    )["sum"]
    turned = np.flip(x, axis) if reverse else x
    wanted = np.cumsum(turned, axis)
    close(found, np.flip(wanted, axis) if reverse else wanted)


def test_associative_scan_of_what_does_not_commute() -> None:
    """Products of matrices, first times second and so on."""
    x = np.random.default_rng(0).normal(size=(7, 2, 2))
    found = lax.associative_scan(tnp.matmul, array(x))
    product, wanted = np.eye(2), []
    for each in x:
        product = product @ each
        wanted.append(product)
    close(found, wanted)
    back = lax.associative_scan(tnp.matmul, array(x), reverse=True)
    product, wanted = np.eye(2), []
    for each in x[::-1]:
        product = product @ each
        wanted.append(product)
    close(back, wanted[::-1])
    sign = lax.associative_scan(tnp.maximum, tnp.array([-0.0, -0.0, np.nan, 1.0]))
    assert np.signbit(np.asarray(sign)[:2]).all() and np.isnan(np.asarray(sign)[2:]).all()


@pytest.mark.parametrize("way", ["jit", "grad", "vmap", "jvp", "grad of grad", "jit of vmap of grad"])
def test_linear_recurrence_by_associative_scan(way: str) -> None:
    """h[i] = a[i] h[i-1] + b[i], both ways."""

    def combined(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def by_prefixes(a: Any, b: Any) -> Any:
        return lax.associative_scan(combined, (a, b))[1]

    def by_steps(a: Any, b: Any) -> Any:
        return lax.scan(lambda h, ab: (h * ab[0] + ab[1],) * 2, b[0] * 0.0, (a, b))[1]

    transform = transforms((numbers(0, 6, 2), numbers(1, 6, 2)))[way]
    same_trees(transform(by_prefixes), transform(by_steps), 1e-9)


def test_the_graph_does_not_grow_with_the_steps() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (tnp.sin(c) * x, None), x, None, length=100_000)[0]

    assert len(tinyfn.make_graph(tinyfn.grad(f))(1.0).nodes()) < 40
