"""debug.print and callback, io_callback and pure_callback, checks and breakpoints: when they happen, in what order, how often."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.test_errors import line_of, message
from tinyfn import checks, debug, lax

F32 = tinyfn.ShapeDtypeStruct((), np.float32)


def printed(capsys: Any, call: Callable[[], Any]) -> list[str]:
    capsys.readouterr()
    call()
    lines: list[str] = capsys.readouterr().out.splitlines()
    return lines


def f(x: Any) -> Any:
    debug.print("first {}", x)
    y = tnp.sin(x)
    debug.print("then {y:.2f} of {name}", y=y, name="sin")
    return y * y


def twice(x: Any) -> Any:
    f(x)  # whose result nobody wants
    return f(x + 1)


X = np.float32(0.5)
ONCE = ["first 0.5", "then 0.48 of sin"]
TWICE = [*ONCE, "first 1.5", "then 1.00 of sin"]

WRAPS: list[Any] = [
    lambda f: f,
    tinyfn.jit,
    tinyfn.grad,
    tinyfn.value_and_grad,
    lambda f: tinyfn.jit(tinyfn.grad(f)),
    lambda f: tinyfn.grad(tinyfn.jit(f)),
    lambda f: tinyfn.jit(tinyfn.grad(tinyfn.jit(f))),
    lambda f: tinyfn.jit(lambda x: tinyfn.jit(tinyfn.grad(tinyfn.jit(f)))(x)),
    lambda f: tinyfn.grad(tinyfn.grad(f)),
    lambda f: tinyfn.jit(tinyfn.grad(tinyfn.grad(f))),
    lambda f: tinyfn.jit(tinyfn.hessian(f)),
    lambda f: tinyfn.jacfwd(f),
    lambda f: lambda x: tinyfn.jvp(f, (x,), (x,)),
    lambda f: tinyfn.jit(lambda x: tinyfn.jvp(tinyfn.jit(f), (x,), (x,))),
    lambda f: lambda x: tinyfn.linearize(f, x)[1](x),
    lambda f: lambda x: [tinyfn.vjp(f, x)[1](x) for _ in range(1)],
    lambda f: tinyfn.jit(tinyfn.grad(tinyfn.remat(f))),
    lambda f: tinyfn.grad(tinyfn.remat(tinyfn.jit(f))),
    lambda f: tinyfn.jit(lambda x: tinyfn.linearize(tinyfn.remat(f), x)[1](x)),
    lambda f: lambda x: tinyfn.vmap(f)(x[None]),
    lambda f: tinyfn.jit(tinyfn.vmap(tinyfn.grad(f), in_axes=None, axis_size=3)),
    lambda f: tinyfn.jit(lambda x: lax.map(f, x[None])),
    lambda f: tinyfn.jit(tinyfn.grad(lambda x: lax.map(f, x[None]).sum())),
    lambda f: lambda x: tinyfn.linearize(lambda x: lax.map(f, x[None]), x)[1](x),
    lambda f: lambda x: tinyfn.vjp(lambda x: lax.map(f, x[None])[0], x)[1](x),
    lambda f: tinyfn.jit(lambda x: lax.cond(x > 0, f, lambda x: 1.0 * twice(-x), x)),
    lambda f: tinyfn.jit(tinyfn.grad(lambda x: lax.cond(x > 0, f, lambda x: 1.0 * twice(-x), x))),
    lambda f: tinyfn.jit(lambda x: lax.while_loop(lambda c: c[1] < 1, lambda c: (f(c[0]), c[1] + 1), (x, 0))),
    lambda f: tinyfn.jit(
        tinyfn.grad(
            lambda x: lax.while_loop(lambda c: c[1] < 1, lambda c: (f(c[0]), c[1] + 1), (x, 0), max_steps=20)[
                0
            ]
        )
    ),
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("function, expected", [(f, ONCE), (twice, TWICE)])
def test_prints_once_for_each_run_in_order_under_every_transform(
    wrap: Any, function: Any, expected: list[str], capsys: Any
) -> None:
    g = wrap(function)
    for _ in range(3):  # traced, from the cache, by the fast path
        assert printed(capsys, lambda: g(tnp.asarray(X))) == expected


@pytest.mark.parametrize("jit", [lambda f: f, tinyfn.jit])
def test_results_and_derivatives_are_what_they_are_without(jit: Any, capsys: Any) -> None:
    def silent(x: Any) -> Any:
        return tnp.sin(x + 1) ** 2

    def loud(x: Any) -> Any:
        return lax.scan(lambda c, _: (twice(c), c), x, None, length=3)

    def quiet(x: Any) -> Any:
        return lax.scan(lambda c, _: (silent(c), c), x, None, length=3)

    xs = np.linspace(0, 2, 5, dtype=np.float32)
    for a, b in zip(jit(tinyfn.vmap(loud))(xs), jit(tinyfn.vmap(quiet))(xs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for of in (tinyfn.grad, tinyfn.jacfwd):
        got = jit(tinyfn.vmap(of(lambda x: loud(x)[0])))(xs)
        np.testing.assert_allclose(got, jit(tinyfn.vmap(of(lambda x: quiet(x)[0])))(xs), rtol=1e-5)


@pytest.mark.parametrize("jit", [lambda f: f, tinyfn.jit])
def test_lanes_and_steps_in_order(jit: Any, capsys: Any) -> None:
    x = np.arange(4, dtype=np.int32).reshape(2, 2)

    def show(v: Any, w: Any) -> Any:
        debug.print("{} {}", v, w)
        return v

    lines = printed(capsys, lambda: jit(tinyfn.vmap(tinyfn.vmap(show, (0, None)), (0, None)))(x, 7))
    assert lines == ["0 7", "1 7", "2 7", "3 7"]
    lines = printed(capsys, lambda: jit(tinyfn.vmap(tinyfn.vmap(show, (0, None)), (1, None)))(x, 7))
    assert lines == ["0 7", "2 7", "1 7", "3 7"]
    lines = printed(
        capsys,
        lambda: jit(lambda x: lax.scan(lambda c, v: (show(c + v, v), None), x[0], x, reverse=True))(x[:, :1]),
    )
    assert lines == ["[2] [2]", "[2] [0]"]
    assert printed(capsys, lambda: jit(tinyfn.vmap(lambda v: show(v, 1)))(x[:0, 0])) == []
    lines = printed(capsys, lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, c: show(c + i, i), 0))(3))
    assert lines == ["0 0", "1 1", "3 2"]


@pytest.mark.parametrize("jit", [lambda f: f, tinyfn.jit])
def test_functions_without_results_or_arguments(jit: Any, capsys: Any) -> None:
    def hi() -> None:
        debug.print("hi")

    both = jit(lambda: (jit(hi)(), jit(hi)())[:0])
    assert printed(capsys, lambda: both()) == ["hi", "hi"]
    assert jit(hi)() is None
    chosen = jit(lambda p, x: lax.cond(p, lambda x: debug.print("yes {}", x), lambda x: None, x))
    assert printed(capsys, lambda: (chosen(True, 1), chosen(False, 2), chosen(True, 3))) == ["yes 1", "yes 3"]
    show = lambda v: debug.print("{}", v)
    assert printed(capsys, lambda: jit(lambda x: lax.map(show, x))(np.arange(3))) == ["0", "1", "2"]
    assert printed(capsys, lambda: jit(tinyfn.vmap(show))(np.arange(3))) == ["0", "1", "2"]
    assert printed(capsys, lambda: jit(lambda: (debug.print("{}", 1), {"a": None})[1])()) == ["1"]


def test_effects_of_both_branches_of_a_batched_cond_are_in_order(capsys: Any) -> None:
    def g(p: Any) -> Any:
        debug.print("before")
        y = lax.cond(p, lambda: (debug.print("true"), 1)[1], lambda: (debug.print("false"), 2)[1])
        debug.print("after")
        return y

    lines = printed(capsys, lambda: tinyfn.jit(tinyfn.vmap(g))(np.array([True, False])))
    assert lines == ["before", "false", "true", "after"]


def test_callback_gets_arrays_that_it_may_keep_and_trees() -> None:
    kept: list[Any] = []

    def keep(tree: Any, scale: Any, *, name: str) -> str:
        kept.append((tree["a"][0], np.asarray(scale), name))
        return "ignored"

    @tinyfn.jit
    def g(x: Any) -> Any:
        debug.callback(keep, {"a": [x * 2]}, 3, name="n")
        return x + 1

    for i in range(4):
        g(np.full(1000, i, np.float32))
    assert [float(a[0]) for a, _, _ in kept] == [0.0, 2.0, 4.0, 6.0]
    assert all(isinstance(a, tinyfn.Array) and s == 3 and n == "n" for a, s, n in kept)


def test_a_callback_may_compute_with_arrays_while_something_is_traced() -> None:
    seen = []

    def look(x: Any) -> None:
        seen.append(float(tinyfn.jit(tnp.sum)(x * 2)))

    def g(x: Any) -> Any:
        debug.callback(look, x)
        y = x * tinyfn.pure_callback(lambda x: np.asarray(tnp.sin(x)), F32, lax.stop_gradient(x))
        return x if y > 0 else -y  # which asks for the value in the trace

    tinyfn.grad(g)(X)
    assert seen == [1.0]


@pytest.mark.parametrize("jit", [lambda f: f, tinyfn.jit])
def test_pure_callback(jit: Any) -> None:
    def host(x: Any, n: Any) -> Any:
        return {"sin": np.sin(x), "n": int(n)}

    def g(x: Any) -> Any:
        like = {"sin": tinyfn.ShapeDtypeStruct(x.shape, x.dtype), "n": np.int32(0)}
        return tinyfn.pure_callback(host, like, x, n=3)

    x = np.linspace(0, 1, 5, dtype=np.float32)
    got = jit(g)(x)
    np.testing.assert_array_equal(got["sin"], np.sin(x))
    assert got["n"].dtype == np.int32 and got["n"].item() == 3


@pytest.mark.parametrize(
    "method, shapes", [("sequential", [()] * 3), ("expand_dims", [(3,)]), ("broadcast_all", [(3,)])]
)
def test_pure_callback_under_vmap(method: str, shapes: Any) -> None:
    seen: list[Any] = []

    def host(x: Any, y: Any) -> Any:
        seen.append((x.shape, y.shape))
        return np.asarray(x) * np.asarray(y)

    g = tinyfn.jit(
        tinyfn.vmap(lambda x, y: tinyfn.pure_callback(host, F32, x, y, vmap_method=method), (0, None))
    )
    assert g(np.array([1, 2, 3], np.float32), np.float32(2)).tolist() == [2, 4, 6]
    other = {"sequential": (), "expand_dims": (1,), "broadcast_all": (3,)}[method]
    assert seen == [(s, other) for s in shapes]


def test_pure_callback_with_a_derivative_of_its_own() -> None:
    def host(x: Any) -> Any:
        return tinyfn.pure_callback(lambda x: np.sin(x), F32, x, vmap_method="sequential")

    sin = tinyfn.custom_jvp(host)
    sin.defjvp(lambda p, t: (sin(*p), tnp.cos(*p) * t[0]))
    for g in (tinyfn.grad(sin), tinyfn.jit(tinyfn.grad(sin))):
        np.testing.assert_allclose(g(X), np.cos(X), rtol=1e-6)
    xs = np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(tinyfn.jit(tinyfn.vmap(tinyfn.grad(sin)))(xs), np.cos(xs), rtol=1e-6)


def test_io_callback_happens_once_for_each_call_and_its_result_is_used() -> None:
    count = [0]

    def next_number() -> Any:
        count[0] += 1
        return np.int32(count[0])

    def draw() -> Any:
        return tinyfn.experimental.io_callback(
            next_number, tinyfn.ShapeDtypeStruct((), np.int32), ordered=True
        )

    @tinyfn.jit
    def g(x: Any) -> Any:
        a, b = draw(), draw()
        draw()
        return x + a * 10 + b

    assert [g(0).item() for _ in range(3)] == [12, 45, 78] and count == [9]
    assert tinyfn.jit(lambda: lax.scan(lambda c, _: (c, draw()), 0, None, length=3)[1])().tolist() == [
        10,
        11,
        12,
    ]
    assert tinyfn.vmap(lambda x: x * draw())(np.arange(1, 3)).tolist() == [13, 26]


@pytest.mark.parametrize("inner", [lambda f: f, tinyfn.jit, lambda f: lambda x: lax.map(f, x[None])[0]])
def test_what_happened_while_values_were_asked_for_does_not_happen_again(inner: Any, capsys: Any) -> None:
    count = [0]

    def number() -> Any:
        count[0] += 1
        return np.float32(count[0])

    def g(x: Any) -> Any:
        y = inner(f)(x)
        n = tinyfn.io_callback(number, F32)
        if y > 0 and n > 0:
            debug.print("positive")
        return y * n

    for of in (
        tinyfn.grad,
        lambda g: tinyfn.grad(tinyfn.grad(g)),
        lambda g: lambda x: tinyfn.vjp(g, x)[1](x),
    ):
        count[0] = 0
        assert printed(capsys, lambda of=of: of(g)(tnp.asarray(X))) == [*ONCE, "positive"]
        assert count == [1]
    np.testing.assert_allclose(tinyfn.grad(g)(X), 2 * np.sin(2 * X), rtol=1e-6)


# What the errors say.


def host(x: Any) -> Any:
    return np.asarray(x, np.float64)


def promise(x: Any) -> Any:
    return tinyfn.pure_callback(host, {"y": F32}, x)


def test_wrong_results_are_named() -> None:
    line = line_of(promise, "pure_callback")
    here = f"test_effects.py:{line} (in promise)"
    message(
        TypeError,
        lambda: tinyfn.jit(promise)(X),
        "pure_callback of host",
        here,
        "returned float64[]",
        "structure",
        "{'y': *}",
    )

    def of(result: Any) -> Any:
        return lambda: tinyfn.jit(lambda x: tinyfn.pure_callback(lambda x: result, {"y": F32}, x))(X)

    message(TypeError, of({"y": np.zeros(2)}), "float64[2]", "result['y']", "float32[]", ".astype('float32')")
    message(ValueError, of({"y": np.zeros(2, np.float32)}), "float32[2]", "result['y']", "float32[]", "shape")
    message(
        TypeError,
        lambda: tinyfn.pure_callback(host, "no", X),
        "result_shape_dtypes",
        "ShapeDtypeStruct",
        "'no'",
    )
    message(TypeError, lambda: tinyfn.pure_callback(3, F32, X), "takes a function, not int")  # type: ignore[arg-type]
    message(ValueError, lambda: tinyfn.pure_callback(host, F32, X, vmap_method="all"), "vmap_method", "'all'")


def plain(x: Any) -> Any:
    return tinyfn.pure_callback(host, F32, x)


@pytest.mark.parametrize("wrap", [lambda f: f, tinyfn.jit])
def test_no_derivative_and_no_vmap_name_the_fix(wrap: Any) -> None:
    g, here = wrap(plain), f"test_effects.py:{line_of(plain, 'pure_callback')} (in plain)"
    for call in (lambda: tinyfn.grad(g)(X), lambda: tinyfn.jvp(g, (X,), (X,))):
        message(
            TypeError, call, "pure_callback of host", here, "no derivative", "custom_jvp", "stop_gradient"
        )
    message(
        NotImplementedError,
        lambda: tinyfn.vmap(g)(X[None]),
        "pure_callback of host",
        here,
        "vmap_method='sequential'",
    )


def test_a_result_that_would_have_to_be_computed_again() -> None:
    def g(x: Any) -> Any:
        return tnp.sin(x * tinyfn.io_callback(lambda: np.float32(2), F32))

    assert np.isclose(tinyfn.jit(tinyfn.grad(g))(X).item(), 2 * np.cos(1))
    line = line_of(test_a_result_that_would_have_to_be_computed_again, "io_callback(")
    message(
        TypeError,
        lambda: tinyfn.grad(tinyfn.remat(g))(X),
        "io_callback of <lambda>", "computed again", "checkpoint", f"test_effects.py:{line} (in g)", "outside",
    )  # fmt: skip


def test_format_strings_are_checked_when_they_are_traced() -> None:
    def of(*args: Any, **kwargs: Any) -> Any:
        return lambda: tinyfn.jit(lambda x: debug.print(*args, **kwargs))(X)

    here = "test_effects.py"
    message(ValueError, of("{} {b}", 1), "debug.print", "fields without an argument: b", here)
    message(ValueError, of("{}", 1, b=2), "no field for the arguments b", here)
    message(ValueError, of("{", 1), "no format string", here)
    message(TypeError, of(3), "format string first", "not int", here)
    message(ValueError, lambda: tinyfn.jit(lambda x: debug.print(f"{x}"))(X), "f-string", "'x = {}', x", here)
    debug.print("{{}} {0} {0:>{w}} {a[0]}", 1, w=4, a=[5])


def checked(x: Any) -> Any:
    checks.check(x > 0, "x must be positive, not {x}: {why}", x=x, why="log")
    return tnp.log(x)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f, tinyfn.jit, tinyfn.grad, lambda f: tinyfn.jit(tinyfn.grad(f)),
        lambda f: tinyfn.vmap(f, axis_size=2, in_axes=None),
        lambda f: tinyfn.jit(lambda x: tinyfn.vmap(tinyfn.grad(f))(tnp.stack([x + 3, x]))),
        lambda f: tinyfn.jit(lambda x: lax.scan(lambda c, _: (f(c), None), x + 2, None, length=2)),
    ],
)  # fmt: skip
def test_checks_raise_with_the_values_and_the_line(wrap: Any) -> None:
    g = wrap(checked)
    g(np.float32(3.0))
    line = line_of(checked, "checks.check")
    text = message(
        checks.CheckError,
        lambda: g(np.float32(-2.0)),
        "x must be positive, not ",
        f"test_effects.py:{line} (in checked)",
    )
    assert text.count(": log") == 1
    g(np.float32(3.0))


def test_checks_of_arrays_say_which_elements() -> None:
    g = tinyfn.jit(lambda x: (checks.check(x < 2, "too large"), x)[1])
    message(
        checks.CheckError,
        lambda: g(np.arange(4).reshape(2, 2)),
        "too large (2 of 4 elements, the first at index (1, 0))",
    )
    message(TypeError, lambda: checks.check(1.0, "no"), "check takes a bool, not float32[]", "x > 0")
    assert issubclass(checks.CheckError, ValueError)
    from tinyfn.experimental import checkify

    checkify.check(True, "fine")


def test_breakpoint_gets_the_values_and_the_callers_variables(monkeypatch: Any) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(debug, "hook", seen.append)

    @tinyfn.jit
    def g(x: Any) -> Any:
        y = x * 2
        name, helper = "n", object()
        debug.breakpoint(more={"a": y + 1})
        return y, helper and name and None

    g(X)
    g(np.float32(2.0))
    assert len(seen) == 2 and set(seen[0]) == {"x", "y", "name", "more"}
    assert seen[0]["y"].item() == 1.0 and seen[1]["more"]["a"].item() == 5.0 and seen[1]["name"] == "n"


def test_breakpoint_opens_pdb(monkeypatch: Any, capsys: Any) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("p x.item() + 1\nc\n"))

    @tinyfn.jit
    def g(x: Any) -> Any:
        debug.breakpoint()
        return x * 2

    before = signal.getsignal(signal.SIGINT)
    assert g(X).item() == 1.0
    assert signal.getsignal(signal.SIGINT) is before  # Ctrl-C interrupts the program, as before
    out = capsys.readouterr().out
    assert "debug.breakpoint: there are x" in out and "1.5" in out


def test_disable_jit_prints_at_once(capsys: Any) -> None:
    def g(x: Any) -> Any:
        debug.print("a {}", x)
        print("b")
        return x

    with tinyfn.disable_jit():
        assert printed(capsys, lambda: tinyfn.jit(g)(1)) == ["a 1", "b"]
