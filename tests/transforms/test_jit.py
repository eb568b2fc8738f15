"""jit: what is traced again and what is not, static and donated arguments, and that results are what eager code gives."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
from tests.transforms.programs import array, close, same, total
from tinyfn.trace import prims, pytree
from tinyfn.trace.array import Array

jit = tinyfn.jit


def counted(*options: Any, **keywords: Any) -> tuple[Any, list[int]]:
    """A jitted x * scale + shift, and how often it was traced."""
    count = [0]

    @jit(*options, **keywords)
    def f(x: Any, scale: Any = 2.0, *, shift: Any = 0.0) -> Any:
        count[0] += 1
        return x * scale + shift

    return f, count


# Signatures.


def test_one_trace_for_one_signature() -> None:
    f, count = counted()
    for value in (1.0, 2.0, 3.0):
        same(f(array([value, 1.0])), np.array([2 * value, 2.0]))
    assert count == [1]
    info = f.cache_info()
    assert (info.hits, info.misses, info.size) == (2, 1, 1)


def test_another_shape_dtype_structure_or_weakness_is_another_signature() -> None:
    count = [0]

    @jit
    def f(tree: Any) -> Any:
        count[0] += 1
        return pytree.leaves(tree)[0] * 2

    different = [
        array([1.0]), array([1.0, 2.0]), array([[1.0]]), array([1.0], "float32"), array(1.0, "float32"), 1.0, 1, True,
        [array([1.0])], {"a": array([1.0])}, {"b": array([1.0])}, (array([1.0]), None),
    ]  # fmt: skip
    for expected, argument in enumerate(different, 1):
        f(argument)
        f(argument)
        assert count == [expected]


def test_the_order_of_keywords_and_of_dict_keys_does_not_matter() -> None:
    count = [0]

    @jit
    def f(*, a: Any, b: Any) -> Any:
        count[0] += 1
        return a["x"] - b + a["y"]

    x, y, b = array(1.0), array(2.0), array(5.0)
    close(f(a={"x": x, "y": y}, b=b), -2.0)
    close(f(b=b, a={"y": y, "x": x}), -2.0)
    assert count == [1]


def test_python_and_numpy_inputs() -> None:
    f, count = counted()
    assert f(np.float32(2.0)).dtype == np.float32
    assert f(np.ones(2, np.float16)).dtype == np.float16
    assert f(np.array([1, 2])).dtype == np.float32
    assert f(3).dtype == np.float32 and f(3).weak_type
    assert f(True).dtype == np.float32
    assert count == [5]
    changing = np.zeros(2)
    result = f(changing)
    changing[:] = 7.0
    same(result, np.zeros(2))


def test_weak_results_promote_as_eager_ones_do() -> None:
    half = array([1.0, 2.0], "float16")
    for f in (lambda x: x * 2.0, lambda x: x + x, prims.sin, lambda x: 3.0):
        assert (jit(f)(2.0) * half).dtype == np.float16
        assert (jit(f)(array(2.0, "float32")) * array([1.0], "float32")).dtype == np.float32


@dataclasses.dataclass(frozen=True)
class Config:
    depth: int
    name: str = "default"


class State(NamedTuple):
    step: Any
    params: Any


def test_any_tree_in_and_out() -> None:
    @jit
    def f(state: Any) -> Any:
        return (
            State(state.step + 1, {"w": [state.params["w"][0] * 2.0, None]}),
            "constant".__len__(),
            state.step,
        )

    state, length, step = f(State(array(1, "int32"), {"w": [array([1.0, 2.0]), None]}))
    assert isinstance(state, State) and int(state.step) == 2 and int(length) == 8 and int(step) == 1
    same(state.params["w"][0], np.array([2.0, 4.0]))
    assert state.params["w"][1] is None


def test_nested_lists_are_not_frozen() -> None:
    # tinygrad issue 10850.
    f = jit(lambda ts: ts[0] + 1)
    assert [int(f([array(i, "int32")])) for i in range(5)] == [1, 2, 3, 4, 5]


def test_arrays_in_a_trace_have_all_the_methods_of_arrays() -> None:
    names = [name for name in dir(Array) if not name.startswith("_")]
    kept: list[Any] = []

    @tinyfn.make_graph
    def look(x: Any) -> Any:
        kept.extend(
            name for name in names if callable(getattr(Array, name)) and not callable(getattr(x, name))
        )
        return x

    look(array(np.ones((2, 2))))
    assert kept == []
    close(jit(lambda x: x.trace())(array(np.ones((2, 2)))), 2.0)


# Decorators, methods, names.


def test_as_a_decorator_with_and_without_options() -> None:
    @jit
    def plain(x: Any) -> Any:
        """Twice."""
        return x + x

    @jit(static_argnames="n")
    def with_options(x: Any, n: int) -> Any:
        return x * n

    @partial(jit, static_argnums=1)
    def with_partial(x: Any, n: int) -> Any:
        return x * n

    assert float(plain(array(2.0))) == 4.0 and plain.__name__ == "plain" and plain.__doc__ == "Twice."
    assert float(with_options(array(2.0), 3)) == 6.0 and float(with_options(array(2.0), n=4)) == 8.0
    assert float(with_partial(array(2.0), 3)) == 6.0
    assert repr(plain) == "<jit of plain>"
    assert float(jit(partial(lambda a, b: a - b, b=1.0))(array(3.0))) == 2.0
    assert float(jit(jit(plain))(array(2.0))) == 4.0


def test_methods_with_a_static_self() -> None:
    class Model:
        def __init__(self, factor: float):
            self.factor = factor
            self.traces = 0

        @partial(jit, static_argnums=0)
        def __call__(self, x: Any) -> Any:
            self.traces += 1
            return x * self.factor

    first, second = Model(2.0), Model(3.0)
    for _ in range(2):
        assert (float(first(array(1.0))), float(second(array(1.0)))) == (2.0, 3.0)
    assert (first.traces, second.traces) == (1, 1)


def test_methods_of_registered_classes() -> None:
    @pytree.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weight: Any

        @jit
        def apply(self, x: Any) -> Any:
            return x * self.weight

    close(Layer(array(3.0)).apply(array(2.0)), 6.0)
    close(tinyfn.grad(lambda layer: layer.apply(array(2.0)))(Layer(array(3.0))).weight, 2.0)


def test_attributes_of_a_callable_object_hide_nothing() -> None:
    class Model:
        def __init__(self) -> None:
            self.lower, self.trace, self._run, self.size = 1.0, 2.0, None, 3

        def __call__(self, x: Any) -> Any:
            return x * self.lower

    model = jit(Model())
    assert float(model(array(2.0))) == float(model.lower(array(2.0)).compile()(array(2.0))) == 2.0
    assert model.size == 3
    gradient = tinyfn.grad(lambda x: x * x)
    assert jit(gradient).__wrapped__ is gradient


# Static arguments.


def test_static_arguments_by_position_and_by_name() -> None:
    f, count = counted(static_argnums=(1,))
    x = array(3.0)
    assert [float(f(x, n)) for n in (2, 3, 2)] == [6.0, 9.0, 6.0]
    assert count == [2]
    assert float(f(x, scale=5)) == 15.0
    assert [float(f(x)) for _ in range(2)] == [6.0, 6.0]


def test_static_values_that_are_equal_but_not_the_same_are_told_apart() -> None:
    x = array([1, 2], "int32")
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert [f(x, n).dtype.name for n in (2, 2.0, True, 2)] == ["int32", "float32", "int32", "int32"]
    g = jit(lambda x, n: x * n[0][0], static_argnums=1)
    assert [g(x, n).dtype.name for n in (((2,),), ((2.0,),), ((2,),))] == ["int32", "float32", "int32"]
    h = jit(lambda x, n: x * n, static_argnames="n")
    assert [np.signbit(float(h(array(1.0), n=n))) for n in (0.0, -0.0)] == [False, True]


def test_static_objects_are_compared_by_value_also_after_they_changed() -> None:
    traces = []

    class Setting:
        """Mutable, with a hash of its value."""

        def __init__(self, value: float):
            self.value = value

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Setting) and self.value == other.value

        def __hash__(self) -> int:
            return hash(self.value)

    @jit(static_argnames="setting")
    def f(x: Any, setting: Any) -> Any:
        traces.append(setting.value)
        return x * setting.value

    setting = Setting(2.0)
    assert float(f(array(1.0), setting)) == 2.0
    assert float(f(array(1.0), Setting(2.0))) == 2.0
    setting.value = 3.0
    assert float(f(array(1.0), setting)) == 3.0
    assert float(f(array(1.0), Setting(2.0))) == 2.0
    setting.value = 2.0
    assert float(f(array(1.0), setting)) == 2.0
    assert traces[:2] == [2.0, 3.0]
    assert float(jit(lambda x, c: x * c.depth, static_argnums=1)(array(1.0), Config(4))) == 4.0


def test_static_arguments_under_other_transforms() -> None:
    f = jit(lambda x, n: x**n, static_argnums=1)
    close(tinyfn.grad(f)(array(2.0), 3), 12.0)
    close(tinyfn.vmap(lambda x: f(x, 2))(array([1.0, 2.0])), [1.0, 4.0])


# Donation.


def test_donated_arguments_are_gone() -> None:
    f = jit(lambda state, x: (state[0] + x, state[1]), donate_argnums=0)
    state, x = (array([1.0]), array([5.0])), array([2.0])
    new = f(state, x)
    same(new[0], np.array([3.0]))
    same(new[1], np.array([5.0]))
    assert all(a.is_deleted() for a in state) and not x.is_deleted()
    assert repr(state[0]) == "Array(<donated>)"
    named = jit(lambda *, x: x * 2.0, donate_argnames="x")
    y = array([1.0])
    named(x=y)
    assert y.is_deleted()


def test_a_result_that_is_a_donated_input_lives_on() -> None:
    x = array([1.0, 2.0])
    y = jit(lambda x: x, donate_argnums=0)(x)
    assert x.is_deleted()
    same(y, np.array([1.0, 2.0]))


def test_nothing_is_donated_within_a_trace_or_by_a_failed_call() -> None:
    f = jit(lambda x: x * x, donate_argnums=0)
    x = array(3.0)
    close(tinyfn.grad(lambda y: f(y) + y)(x), 7.0)
    assert not x.is_deleted()

    @jit(donate_argnums=0)
    def broken(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken(x)
    assert not x.is_deleted()


# Results.


def test_earlier_results_survive_later_calls() -> None:
    # tinygrad issue 7020.
    f, _ = counted()
    a = f(array([1.0]))
    b = f(array([2.0]))
    same(a, np.array([2.0]))
    same(b, np.array([4.0]))
    shift = jit(lambda ring, x: [ring[1], ring[2], x])
    ring = [array([0.0])] * 3
    for i in range(1, 6):
        ring = shift(ring, array([float(i)]))
    assert [float(np.asarray(r)[0]) for r in ring] == [3.0, 4.0, 5.0]


def test_results_can_not_be_written_to() -> None:
    result = jit(lambda x: x * 2.0)(array([1.0]))
    assert type(result) is Array
    with pytest.raises(ValueError):
        np.asarray(result)[0] = 1.0
    with pytest.raises(TypeError, match="immutable"):
        result[0] = 1.0


def test_outputs_that_are_inputs_constants_or_repeated() -> None:
    x = array([1.0, 2.0])
    a, b, c, d = jit(lambda x: (x, x, 1.5, x * 1.0))(x)
    same(a, x)
    same(b, x)
    same(c, np.float32(1.5))
    same(d, x)
    assert jit(lambda: ())() == () and jit(lambda x: None)(x) is None


# What a function closes over.


def test_closed_over_arrays_are_inputs_not_constants() -> None:
    big = array(np.arange(10.0))
    f = jit(lambda x: x + big)
    f(array(np.ones(10)))
    graph = f.graph(array(np.ones(10)))
    assert len(graph.captured) == 1 and graph.captured[0] is big
    close(tinyfn.grad(lambda w: total(jit(lambda x: x * w)(big)))(array(np.ones(10))), np.arange(10.0))


def test_closed_over_tracers_are_not_kept_in_the_cache() -> None:
    scale: list[Any] = [None]
    f = jit(lambda x: x * scale[0])

    def outer(s: Any, x: Any) -> Any:
        scale[0] = s
        return f(x) + f(x)

    for s in (2.0, 3.0):
        close(tinyfn.grad(outer)(array(s), array(5.0)), 10.0)
        close(tinyfn.grad(outer, (0, 1))(array(s), array(5.0)), (10.0, 2 * s))
        close(jit(outer)(array(s), array(5.0)), 10 * s)
    close(tinyfn.vmap(outer, in_axes=(0, None))(array([1.0, 2.0]), array(5.0)), [10.0, 20.0])
    assert f.cache_info().size == 0
    scale[0] = array(7.0)
    close(f(array(2.0)), 14.0)
    assert f._cache_size() == f.cache_info().size == 1


def test_a_jitted_function_within_others_is_traced_once() -> None:
    f, count = counted()
    x = array([1.0, 2.0])
    for _ in range(2):
        tinyfn.grad(lambda x: total(f(x)))(x)
        tinyfn.jit(lambda x: f(x) + f(x))(x)
        f(x)
    assert count == [1]


# The cache.


def test_a_failed_trace_is_not_cached() -> None:
    # mlx issue 3624.
    fail = [True]

    @jit
    def f(x: Any) -> Any:
        if fail[0]:
            raise ZeroDivisionError
        return x + 1.0

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            f(array(1.0))
    assert f.cache_info().size == 0
    fail[0] = False
    close(f(array(1.0)), 2.0)


def test_the_cache_drops_the_least_recently_used() -> None:
    count = [0]

    def f(x: Any) -> Any:
        count[0] += 1
        return x + 1.0

    jitted = jit(f, cache_size=2)
    one, two, three = (array(np.ones(n)) for n in (1, 2, 3))
    for x in (one, two, one, three):  # drops two
        jitted(x)
    assert count == [3] and jitted.cache_info().size == 2
    jitted(one)
    assert count == [3]
    jitted(two)
    assert count == [4]
    jitted.clear_cache()
    assert jitted.cache_info().size == 0
    close(jitted(one), [2.0])


def test_the_cache_can_say_why_it_missed() -> None:
    @jit(static_argnames="mode")
    def f(params: Any, x: Any, mode: str = "a") -> Any:
        return params["w"] * x

    def last(*args: Any, **kwargs: Any) -> str:
        f(*args, **kwargs)
        return f.cache_info().last_miss

    assert f.cache_info().last_miss == "not called yet"
    assert last({"w": array(1.0)}, array([1.0])) == "f: the first call"
    assert last({"w": array(1.0)}, array([1.0, 2.0])) == "f: argument `x`: float64[1] → float64[2]"
    assert (
        last({"w": array(1.0, "float32")}, array([1.0])) == "f: argument `params['w']`: float64[] → float32[]"
    )
    assert last({"w": array(1.0)}, 1.0) in (
        "f: argument `x`: float64[1] → float32[]*",
        "f: argument `x`: float64[2] → float32[]*",
    )
    assert last({"w": array(1.0)}, array([1.0]), mode="b") == "f: static argument `mode`: not given → 'b'"
    assert last({"w": array(1.0)}, array([1.0]), mode="c") == "f: static argument `mode`: 'b' → 'c'"
    assert (
        last({"v": array(1.0), "w": array(1.0)}, array([1.0]))
        == "f: argument `params['v']`: not there → float64[]"
    )


def test_two_functions_of_one_name_do_not_share_results() -> None:
    # mlx issue 3940: a cache keyed by id(function) gives another function's result after that one is gone.
    for i in range(50):
        f = jit(make_shift(i))
        assert float(f(array(0.0))) == float(i)
        del f


def make_shift(i: int) -> Any:
    def f(x: Any) -> Any:
        return x + float(i)

    return f


def test_one_trace_for_many_learning_rates() -> None:
    # optax issue 577.
    traces = [0]

    @jit
    def step(params: Any, rate: Any) -> Any:
        traces[0] += 1
        return params - rate * tinyfn.grad(lambda p: total(p * p))(params)

    for rate in np.linspace(0.1, 1.0, 10):
        close(step(array([1.0, 2.0]), float(rate)), [1 - 2 * rate, 2 - 4 * rate], 1e-6)
    assert traces == [1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0, 1e-45])
def test_no_rewrite_changes_special_values(value: float) -> None:
    def f(x: Any) -> Any:
        return (
            x * 0.0,
            x - x,
            x + 0.0,
            x * 1.0,
            x / 1.0,
            prims.neg(prims.neg(x)),
            0.0 - x,
            x * -1.0,
            x + (-x),
            x - 0.0,
        )

    x = array([value, 1.0], "float32")
    for found, expected in zip(jit(f)(x), f(x), strict=True):
        same(found, expected)
