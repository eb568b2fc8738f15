"""cond and switch against Python's if, under all transforms; what a lane does not take leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.flow import WAYS, device, numbers, same_trees, scalar_of, transforms
from tests.transforms.programs import array, close
from tinyfn import lax

Function = Callable[..., Any]
__all__ = ["device"]


def python_switch(index: int, branches: list[Function], *operands: Any) -> Any:
    return branches[min(max(index, 0), len(branches) - 1)](*operands)


def program(switch: Function, index: int) -> Function:
    """Branches that use different operands, close over tracers, and have results without derivatives."""

    def f(x: Any, y: Any, w: Any) -> Any:
        scale = tnp.cos(w)

        def product(x: Any, y: Any) -> Any:
            return {"a": tnp.sin(x) * y * scale, "b": x, "n": tnp.array(1, "int32")}

        def only_y(x: Any, y: Any) -> Any:
            return {"a": y, "b": tnp.tanh(y * w) * y, "n": tnp.array(2, "int32")}

        def neither(x: Any, y: Any) -> Any:
            return {"a": tnp.zeros(2, "float64"), "b": x * 0.0 + 1.0, "n": tnp.array(3, "int32")}

        return switch(index, [product, only_y, neither, product], x, y)

    return f


@pytest.mark.parametrize("index", [-2, 0, 1, 2, 7])
@pytest.mark.parametrize("way", WAYS)
def test_switch_is_a_choice(way: str, index: int) -> None:
    transform = transforms((numbers(0, 2), numbers(1, 2), numbers(2)))[way]
    same_trees(transform(program(lax.switch, index)), transform(program(python_switch, index)))


@pytest.mark.parametrize("way", [way for way in WAYS if "vmap" not in way and "jit" not in way])
@pytest.mark.parametrize("shift", [-5.0, 5.0])
def test_cond_on_a_value_is_if(way: str, shift: float) -> None:
    def by_cond(x: Any, y: Any) -> Any:
        return lax.cond((x + shift).sum() > 0, lambda: tnp.sin(x) * y, lambda: x / y)

    def by_if(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y if shift > 0 else x / y

    transform = transforms((numbers(0, 2), numbers(1, 2)))[way]
    same_trees(transform(by_cond), transform(by_if))


@pytest.mark.parametrize("way", WAYS)
def test_predicates_of_a_batch(way: str) -> None:
    """Under vmap the lanes take different branches; elsewhere it is a choice for each element by where."""

    def by_cond(x: Any, y: Any) -> Any:
        def one(x: Any, y: Any) -> Any:
            return lax.switch(
                (x > -0.3).astype("int32") + (x > 0.6),
                [
                    lambda x, y: (tnp.sin(x) * y, y),
                    lambda x, y: (x + y, x * y),
                    lambda x, _: (x * x, x * 0.0),
                ],
                x,
                y,
            )

        return tinyfn.vmap(one, in_axes=(0, None))(x, y)

    def by_where(x: Any, y: Any) -> Any:
        low, high = x <= -0.3, x > 0.6
        first = tnp.where(low, tnp.sin(x) * y, tnp.where(high, x * x, x + y))
        return first, tnp.where(low, y, tnp.where(high, 0.0 * x, x * y))

    transform = transforms((numbers(0, 7), numbers(1)))[way]
    same_trees(transform(by_cond), transform(by_where))


def poisoned(x: Any, w: Any) -> Any:
    """Where x is not positive, the branch for positive x overflows, divides by zero and takes roots of what is negative."""

    def of_positive(x: Any) -> Any:
        return tnp.exp(-w * x) * tnp.sqrt(x) / x + tnp.log(x) ** 3 + x**w

    return lax.cond(x > 0, of_positive, lambda x: x * w, x)


@pytest.mark.parametrize("transform", [lambda f: f, tinyfn.jit], ids=["eager", "jit"])
def test_branches_not_taken_leave_no_nan(transform: Function) -> None:
    x, w = array([0.0, 2.0, -1.0, -800.0, 0.5, -1e300]), array(1.25)

    def by_lane(f: Function) -> np.ndarray:
        return np.array([np.asarray(f(lane, w)) for lane in x])

    def gradient(argnum: int) -> Function:
        return tinyfn.grad(poisoned, argnum)

    lanes = {"in_axes": (0, None)}
    close(transform(tinyfn.vmap(poisoned, **lanes))(x, w), by_lane(poisoned))
    for argnum in (0, 1):
        one = gradient(argnum)
        found = transform(tinyfn.vmap(one, **lanes))(x, w)
        assert np.isfinite(np.asarray(found)).all()
        close(found, by_lane(one), 1e-11)
    # Derivatives of what is summed over lanes, first and second, in what they share too.
    total = lambda x, w: tinyfn.vmap(poisoned, **lanes)(x, w).sum()
    for_x, for_w = transform(tinyfn.grad(total, (0, 1)))(x, w)
    close(for_x, by_lane(gradient(0)), 1e-11)
    close(for_w, by_lane(gradient(1)).sum(), 1e-11)
    second = transform(tinyfn.grad(lambda x, w: tinyfn.grad(total, 1)(x, w)))(x, w)
    close(second, by_lane(tinyfn.grad(gradient(1))), 1e-10)
    close(
        transform(lambda x, w: tinyfn.jvp(lambda x: tinyfn.grad(total)(x, w), (x,), (tnp.ones_like(x),))[1])(
            x, w
        ),
        by_lane(tinyfn.grad(gradient(0))),
        1e-10,
    )


def test_a_branch_that_no_lane_takes() -> None:
    """What all lanes share gets no derivative from it."""
    x = array([-1.0, -2.0])
    f = lambda w: tinyfn.vmap(lambda x: lax.cond(x > 0, lambda: tnp.exp(w) * x, lambda: x * w))(x).sum()
    assert float(tinyfn.grad(f)(array(1000.0))) == -3.0
    empty = tinyfn.vmap(lambda x: lax.cond(x > 0, lambda: x * 2.0, lambda: x))
    assert empty(tnp.zeros(0)).shape == (0,)


def test_loops_in_a_branch_end_for_lanes_that_do_not_take_it() -> None:
    def halvings(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] != 0.0, lambda c: (tnp.floor(c[0] / 2.0), c[1] + 1), (x, 0))[1]

    # The loop never ends for -1 (floor(-0.5) is -1).
    f = tinyfn.vmap(lambda x: lax.cond(x >= 0, halvings, lambda x: -1, x))
    np.testing.assert_array_equal(f(tnp.array([-1.0, 9.0, 0.0, -5.0])), [-1, 4, 0, -1])


def test_one_branch_runs() -> None:
    """A batched predicate makes all run, and any other only the one that is chosen, also for a batch of operands."""

    def counts(index: Any) -> list[int]:
        graph = tinyfn.make_graph(
            lambda i, x: tinyfn.vmap(lambda y: lax.switch(i, [tnp.sin, tnp.cos], y))(x)
        )(index, tnp.ones(3))
        return [sum(node.op.name == name for node in graph.nodes()) for name in ("cond", "sin")]

    assert counts(1) == [1, 0]
    graph = tinyfn.make_graph(tinyfn.vmap(lambda i, x: lax.switch(i, [tnp.sin, tnp.cos], x)))(
        tnp.arange(3), tnp.ones(3)
    )
    assert not any(node.op.name == "cond" for node in graph.nodes())


def test_predicates_of_all_kinds() -> None:
    f = lambda pred: int(lax.cond(pred, lambda: 1, lambda: 2))
    assert [f(p) for p in (True, False, 1, 0, 0.5, 0.0, -1, np.bool_(True), tnp.array(False), np.nan)] == [
        1, 2, 1, 2, 1, 2, 1, 1, 2, 1
    ]  # fmt: skip
    many = [lambda i=i: tnp.array(i) for i in range(300)]
    for index, wanted in (
        (np.int8(-3), 0), (np.uint8(200), 200), (np.int64(2**40), 299), (np.uint64(2**63), 299), (7, 7), (-(2**40), 0),
    ):  # fmt: skip
        index = index if not isinstance(index, int) else tnp.array(index, "int64")
        assert int(lax.switch(index, many)) == wanted


def test_an_operand_by_keyword() -> None:
    assert lax.cond(True, lambda x: x + 1, lambda x: x, operand=3) == 4
    assert lax.cond(False, lambda x: 1, lambda x: 2, operand=None) == 2
    assert lax.switch(1, [lambda x: x, lambda x: 2 * x], operand=5) == 10
    with pytest.raises(TypeError, match="cond: give operands by position, or one as `operand`, not both"):
        lax.cond(True, lambda x, y: x, lambda x, y: y, 1, operand=2)


def test_weak_results_take_the_dtype_of_the_others() -> None:
    result = lax.cond(True, lambda: 1, lambda: tnp.array(2.5, "float16"))
    assert result.dtype == np.float16 and float(result) == 1.0
    weak = lax.cond(True, lambda: 1, lambda: 2)
    assert weak.weak_type and weak.dtype == np.int32


def test_results_of_jit_on_devices(device: str) -> None:
    args = (numbers(0, 2), numbers(1, 2), numbers(2))
    for index in (0, 1, 2):
        for way in ("jit", "jit of grad", "jit of vmap of grad", "grad of jit"):
            transform = transforms(args)[way]
            same_trees(transform(program(lax.switch, index)), transform(program(python_switch, index)))


def test_index_is_read_when_it_runs() -> None:
    f = tinyfn.jit(tinyfn.grad(lambda x, i: lax.switch(i, [tnp.sin, tnp.cos, lambda x: x * x], x)))
    assert [round(float(f(0.5, i)), 5) for i in (0, 1, 2)] == [0.87758, -0.47943, 1.0]
    assert f.cache_info().misses == 1


def test_residuals_share_places() -> None:
    """Branches with different residuals of one dtype and shape keep them in the same results."""
    f = scalar_of(lambda x: lax.switch(0, [lambda x: tnp.sin(tnp.exp(x)), lambda x: tnp.tanh(tnp.cos(x))], x))
    graph = tinyfn.make_graph(tinyfn.grad(f))(numbers(0, 3))
    forward = next(n for n in graph.nodes() if n.op.name == "cond")
    assert len(forward.dtype) <= 4  # type: ignore[arg-type]  # one result, and what one branch keeps


def test_printed_branches_run() -> None:
    from tinyfn.trace.show import run_source

    x = numbers(0, 3)
    graph = tinyfn.make_graph(tinyfn.grad(lambda x, i: lax.switch(i, [tnp.sin, tnp.cos], x).sum()))(
        x, 1
    ).check()
    text = str(graph)
    assert "branches=(" in text
    (found,) = run_source(text, text.rstrip().rsplit("\ndef ", 1)[-1].split("(", 1)[0])(x, tnp.array(1))
    close(found, -np.sin(np.asarray(x)))


@pytest.mark.parametrize(
    "call, error, parts",
    [
        (lambda: lax.cond(tnp.ones(3) > 0, lambda: 1, lambda: 2), TypeError, ["scalar predicate", "bool[3]", ".any()"]),
        (
            lambda: lax.cond(True, lambda: {"a": tnp.ones(3)}, lambda: {"a": tnp.ones(4)}), TypeError,
            ["result['a']", "float32[4] in false_fun", "float32[3] in true_fun", "same shape"],
        ),
        (
            lambda: lax.cond(True, lambda: {"a": tnp.ones(3)}, lambda: {"b": tnp.ones(3)}), TypeError,
            ["same structure", "true_fun", "missing keys ['b']", "extra keys ['a']"],
        ),
        (lambda: lax.cond(True, lambda: 1, lambda: (1, 2)), TypeError, ["same structure"]),
        (lambda: lax.cond(True, 1, 2), TypeError, ["functions as branches", "int"]),
        (lambda: lax.cond(True, lambda x: x, lambda x: x, object()), TypeError, ["cond", "object"]),
        (lambda: lax.switch(0.5, [lambda: 1]), TypeError, ["integer scalar", "float32[]"]),
        (lambda: lax.switch(tnp.arange(2), [lambda: 1]), TypeError, ["integer scalar", "int32[2]"]),
        (lambda: lax.switch(0, []), ValueError, ["at least one"]),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], error: type[Exception], parts: list[str]) -> None:
    with pytest.raises(error) as info:
        call()
    for part in [*parts, __file__]:
        assert part in str(info.value)


def test_a_strong_dtype_that_differs() -> None:
    with pytest.raises(TypeError, match=re.escape("branch 1 `<lambda>`")) as info:
        lax.switch(0, [lambda: tnp.ones(2, "int32"), lambda: tnp.ones(2, "float64")])
    assert ".astype('float64')" in str(info.value)


def test_a_value_in_a_branch_is_not_known() -> None:
    def branch(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(tinyfn.TracerBoolConversionError, match="cond of branch"):
        lax.cond(True, branch, branch, 1.0)
