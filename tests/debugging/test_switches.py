"""disable_jit, no_tracing, log_compiles, debug_nans and debug_infs: what they do, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.test_errors import line_of, message
from tinyfn import lax
from tinyfn.trace import pytree, switches


@pytest.fixture(autouse=True)
def _switches_end_with_the_test() -> Iterator[None]:
    yield
    assert not switches.general_path


def x(*values: float) -> Any:
    return tnp.array(values, np.float32)


def test_disable_jit_calls_the_function_itself() -> None:
    seen = []

    @tinyfn.jit
    def f(a: Any) -> Any:
        seen.append(float(a[0]))  # which a traced value does not give
        return a * 2.0

    with tinyfn.disable_jit():
        assert f(x(3.0)).tolist() == [6.0]
        assert f(x(4.0)).tolist() == [8.0]
    assert seen == [3.0, 4.0]
    with pytest.raises(tinyfn.ConcretizationError):
        f(x(3.0))


def test_disable_jit_runs_loops_and_branches_in_python() -> None:
    seen: list[float] = []

    def step(carry: Any, v: Any) -> Any:
        seen.append(float(v))
        return carry + v, carry * v

    def both() -> Any:
        return lax.scan(step, np.float32(0.0), x(1.0, 2.0, 3.0), reverse=True)

    with tinyfn.disable_jit():
        carry, ys = both()
        assert seen == [3.0, 2.0, 1.0]
        assert lax.while_loop(lambda v: float(v) < 10, lambda v: v * 2, np.float32(1.0)).item() == 16.0
        assert lax.while_loop(lambda v: v < 10, lambda v: v * 2, np.float32(1.0), max_steps=2).item() == 4.0
        assert lax.fori_loop(0, 4, lambda i, v: v + int(i), np.float32(1.0)).item() == 7.0
        assert lax.cond(True, lambda v: float(v), lambda v: 1 / 0, np.float32(5.0)) == 5.0
        assert lax.switch(7, [lambda: 0, lambda: 1]) == 1
        assert lax.scan(lambda c, _: (c, None), 1.0, None, length=0)[0].item() == 1.0
    expected = np.cumsum([0, 3, 2], dtype=np.float32)[::-1] * np.array([1, 2, 3], np.float32)
    assert carry.item() == 6.0 and ys.tolist() == expected.tolist()
    with pytest.raises(tinyfn.ConcretizationError):
        both()


def test_disable_jit_leaves_loops_under_grad_what_they_are() -> None:
    def f(v: Any) -> Any:
        return lax.scan(lambda c, _: (c * v, None), np.float32(1.0), None, length=3)[0]

    with tinyfn.disable_jit():
        assert tinyfn.grad(tinyfn.jit(f))(2.0).item() == 12.0


def test_log_compiles_prints_each_trace_with_its_reason(capsys: Any) -> None:
    @tinyfn.jit
    def scaled(a: Any, scale: Any = 1.0) -> Any:
        return a * scale

    def call(n: int) -> Any:
        return scaled(np.ones(n, np.float32))

    with tinyfn.log_compiles():
        call(2)
        call(2)
        call(3)
    call(4)
    lines = capsys.readouterr().err.splitlines()
    line = line_of(call, "return scaled")
    assert len(lines) == 2
    assert (
        "tracing scaled: the first call; at" in lines[0] and f"test_switches.py:{line} (in call)" in lines[0]
    )
    assert "tracing scaled: argument `a`: float32[2] → float32[3]" in lines[1]
    assert scaled.cache_info().last_miss == "scaled: argument `a`: float32[3] → float32[4]"
    assert scaled.cache_info()[:3] == (1, 3, 3)


def test_reasons_that_are_not_in_the_shapes(capsys: Any) -> None:
    def scaled(a: Any, *, by: int = 1) -> Any:
        return a * by

    with tinyfn.log_compiles():
        jitted = tinyfn.jit(scaled, static_argnames="by")
        jitted(np.float32(1))
        jitted(1.0)
        jitted(1.0, by=2)
        for _ in range(2):
            tinyfn.jit(lambda a: a + 1)(1.0)
    lines = capsys.readouterr().err.splitlines()
    assert "argument `a`: float32[] → float32[]* (* is weak, as Python numbers are)" in lines[1]
    assert "static argument `by`: not given → 2" in lines[2]
    assert "a new function" not in lines[3]
    assert "the first call of a new function, of the definition at" in lines[4]
    assert (
        "test_switches.py" in lines[4]
        and "that was traced 1 time before: make and jit the function once" in lines[4]
    )


def test_explain_cache_misses_is_silent_about_first_calls(capsys: Any) -> None:
    with tinyfn.explain_cache_misses():
        jitted = tinyfn.jit(lambda a: a + 1)
        for n in (2, 2, 3):
            jitted(np.ones(n, np.float32))
    (line,) = capsys.readouterr().err.splitlines()
    assert "argument `a`: float32[2] → float32[3]" in line
    assert jitted._cache_size() == 2


def test_reasons_name_the_closest_signature_and_what_has_changed_in_words(capsys: Any) -> None:
    def scaled(a: Any, b: Any = 1.0, *rest: Any, mode: str = "fast", function: Any = None) -> Any:
        return pytree.leaves(a)[0] * b

    jitted = tinyfn.jit(scaled, static_argnames=("mode", "function"))
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: jitted(x(1, 2)), ""),
        (lambda: jitted(x(1, 2, 3)), "argument `a`: float32[2] → float32[3]"),
        (lambda: jitted(x(1, 2), 2.0), "argument `b`: not there → float32[]*"),
        (lambda: jitted(x(1, 2), 2.0, x(1)), "argument `rest[0]`: not there → float32[1]"),
        (lambda: jitted(x(1, 2), mode="slow"), "static argument `mode`: not given → 'slow'"),
        (lambda: jitted(x(1, 2), mode="right"), "static argument `mode`: 'slow' → 'right'"),
        (
            lambda: jitted({"w": x(1)}),
            "→ not there; argument `a['w']`: not there → float32[1]",
        ),
        (lambda: jitted({"w": x(1), "v": x(2)}), "argument `a['v']`: not there → float32[1]"),
        (lambda: jitted([x(5)]), "`a[0]`: not there → float32[1]"),
        (lambda: jitted((x(5),)), "argument `a`: [*] (where * is an array) → (*,) (where * is an array)"),
        (lambda: jitted([x(5)] * 9), "argument `a[1]`: not there → float32[1]"),
        (lambda: jitted(x(1, 2), function=branch), f"not given → branch ({__file__}:"),
        (lambda: jitted(x(1, 2), function=made()), "static argument `function`: branch ("),
        (lambda: jitted(x(1, 2), function=made()), "→ another one of inner ("),
    ]
    with tinyfn.explain_cache_misses():
        for call, reason in calls:
            call()
            assert reason in capsys.readouterr().err


def branch() -> None: ...


def made() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


def test_no_tracing_raises_with_the_reason() -> None:
    f = tinyfn.jit(lambda a, n: a * n, static_argnames="n")
    f(x(1.0), n=2)

    def again() -> Any:
        with tinyfn.no_tracing():
            assert f(x(2.0), n=2).tolist() == [4.0]
            f(x(1.0), n=3)

    line = line_of(again, "n=3")
    message(
        RuntimeError,
        again,
        "no_tracing",
        "static argument `n`: 2 → 3",
        f"test_switches.py:{line} (in again)",
        "before",
    )
    assert f(x(1.0), n=3).tolist() == [3.0] and f.cache_info().misses == 2


def of_log(a: Any) -> Any:
    b = a - 1.0
    c = tnp.log(b)
    return c.sum()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        tinyfn.jit,
        tinyfn.grad,
        tinyfn.value_and_grad,
        lambda f: tinyfn.jit(tinyfn.value_and_grad(f)),
        lambda f: tinyfn.grad(tinyfn.jit(f)),
        lambda f: lambda a: tinyfn.vmap(f)(a.reshape(1, 2)),
        lambda f: tinyfn.jit(lambda a: tinyfn.vmap(tinyfn.jit(f))(a.reshape(1, 2))),
        lambda f: lambda a: lax.scan(lambda c, v: (c, f(v.reshape(1))), 0.0, a),
        lambda f: lambda a: tinyfn.jvp(f, (a,), (a,)),
    ],
)
def test_debug_nans_names_the_operation_and_the_line(wrap: Callable[[Any], Any]) -> None:
    f = wrap(of_log)
    f(x(0.5, 3.0))  # which says nothing, and may be traced

    def call() -> Any:
        with tinyfn.debug_nans():
            return f(x(0.5, 3.0))

    line = line_of(of_log, "tnp.log")
    text = message(
        FloatingPointError,
        call,
        f"test_switches.py:{line} (in of_log)",
        "log of float32[",
        "made NaN",
        "where",
    )
    assert "0.5" not in text  # never the contents
    with tinyfn.debug_nans():
        f(x(2.0, 3.0))


def of_root(a: Any) -> Any:
    b = a * 1.0
    root = tnp.sqrt(b)
    return root.sum()


@pytest.mark.parametrize("wrap", [lambda f: f, tinyfn.jit, lambda f: lambda a: tinyfn.vmap(f)(a[None])])
def test_in_a_derivative_the_line_is_that_of_the_operation(wrap: Any) -> None:
    f = wrap(tinyfn.grad(of_root))

    def call() -> Any:
        with tinyfn.debug_infs():
            return f(x(0.0))

    line = line_of(of_root, "tnp.sqrt")
    message(FloatingPointError, call, f"test_switches.py:{line} (in of_root)", "made infinity in 1 of 1")
    with tinyfn.debug_nans():
        f(x(0.0))


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "jit": tinyfn.jit,
    "grad": lambda f: tinyfn.grad(lambda a: f(a).sum()),
    "jit of grad": lambda f: tinyfn.jit(tinyfn.grad(lambda a: f(a).sum())),
    "grad of jit": lambda f: tinyfn.grad(lambda a: tinyfn.jit(f)(a).sum()),
    "remat": lambda f: tinyfn.grad(lambda a: tinyfn.remat(f)(a).sum()),
    "vmap": tinyfn.vmap,
    "jit of vmap": lambda f: tinyfn.jit(tinyfn.vmap(f)),
    "vmap of grad": lambda f: tinyfn.vmap(tinyfn.grad(f)),
    "jvp": lambda f: lambda a: tinyfn.jvp(f, (a,), (a,)),
    "linearize": lambda f: lambda a: tinyfn.linearize(f, a),
    "vjp": lambda f: lambda a: tinyfn.vjp(f, a)[1](a),
    "jacfwd": tinyfn.jacfwd,
    "scan": lambda f: lambda a: lax.scan(lambda c, v: (c, f(v)), 0.0, a),
    "jit of scan": lambda f: tinyfn.jit(lambda a: lax.scan(lambda c, v: (c + f(v), f(v)), 0.0, a)),
    "grad of scan": lambda f: tinyfn.grad(lambda a: lax.scan(lambda c, v: (c + f(v), None), 0.0, a)[0]),
    "map": lambda f: lambda a: lax.map(f, a),
    "cond": lambda f: lambda a: lax.cond(a[0] < 0, f, lambda v: v, a),
    "while_loop": lambda f: (
        lambda a: lax.while_loop(lambda c: c[1] < 2, lambda c: (c[0] + f(c[0]), c[1] + 1), (a, 0))
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_debug_nans_lets_a_nan_be_that_a_mask_hides(name: str) -> None:
    def masked(a: Any) -> Any:
        return tnp.where(a > 0, tnp.log(a), 0.0)

    def spoiled(a: Any) -> Any:
        y = tnp.where(a > 0, tnp.log(a), 0.0)
        return y + tnp.sqrt(a)

    f, g = TRANSFORMED[name](masked), TRANSFORMED[name](spoiled)
    given = x(-1.0, 1.0)
    with tinyfn.debug_nans():
        f(given)
        line = line_of(spoiled, "tnp.sqrt")
        text = message(
            FloatingPointError, lambda: g(given), f"test_switches.py:{line} (in spoiled)", "made NaN"
        )
        assert "log" not in text  # which makes one too, and is not to blame


def test_debug_nans_looks_into_what_masks_the_results_of_loops() -> None:
    def f(a: Any) -> Any:
        logs = lax.map(tnp.log, a)
        return tnp.where(a > 0, logs, 0.0)

    for g in (f, tinyfn.jit(f), tinyfn.grad(lambda a: f(a).sum()), lambda a: tinyfn.vmap(f)(a[None])):
        with tinyfn.debug_nans():
            if g is not f:
                g(x(-1.0, 1.0))
            else:  # whose loop is an operation by itself
                message(
                    FloatingPointError, lambda g=g: g(x(-1.0, 1.0)), "log of float32[] made NaN in 1 of 1"
                )


def test_debug_nans_of_what_is_handed_on() -> None:
    nan = x(float("nan"))
    with tinyfn.debug_nans():
        message(
            FloatingPointError,
            lambda: tinyfn.jit(lambda a, b: (a, b))(1.0, nan),
            "the argument `b` has NaN",
            "as it is",
        )
        text = message(
            FloatingPointError, lambda: tinyfn.jit(lambda a: a + np.nan)(1.0), "add of float32[], float32[]"
        )
        assert "an argument has one already" in text
        assert tinyfn.jit(tnp.isnan)(nan).tolist() == [True]


def test_debug_nans_in_a_rule_names_its_line() -> None:
    f = tinyfn.custom_jvp(lambda a: a)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        slope = tnp.log(primals[0])
        return f(*primals), tangents[0] * slope

    with tinyfn.debug_nans():
        line = line_of(rule, "tnp.log")
        message(
            FloatingPointError,
            lambda: tinyfn.grad(f)(-1.0),
            f"test_switches.py:{line} (in rule)",
            "log of float32[]",
        )


def test_debug_nans_says_if_an_argument_has_one_already_and_minds_no_infinity() -> None:
    with tinyfn.debug_nans():
        assert np.isinf((x(1.0) / x(0.0)).item())
    with tinyfn.debug_infs():
        message(
            FloatingPointError, lambda: x(1.0) / x(0.0), "div of float32[1], float32[1]", "infinity in 1 of 1"
        )
    nan = x(float("nan"))
    with tinyfn.debug_nans():
        message(FloatingPointError, lambda: nan + 1.0, "an argument has one already")


def test_debug_nans_with_donated_arguments() -> None:
    f = tinyfn.jit(lambda a: tnp.log(a), donate_argnums=0)

    def call() -> Any:
        with tinyfn.debug_nans():
            return f(x(-1.0))

    message(FloatingPointError, call, "log of float32[1]", "made NaN")
    assert f(x(1.0)).tolist() == [0.0]


def test_switches_by_a_call_and_nested() -> None:
    tinyfn.debug_nans(True)
    try:
        with tinyfn.debug_nans(False):
            assert np.isnan(tnp.log(x(-1.0)).item())
        with pytest.raises(FloatingPointError):
            tnp.log(x(-1.0))
    finally:
        tinyfn.debug_nans(False)
    message(TypeError, lambda: tinyfn.disable_jit("yes"), "disable_jit takes True or False, not 'yes'")  # type: ignore[arg-type]
