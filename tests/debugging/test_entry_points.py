"""What users call leaves errors with their own lines alone, and none without the line where it was called."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from scripts import names
from tinyfn import lax, random, tree
from tinyfn.trace.errors import code_of, entry_point, summary

PACKAGE = os.path.dirname(tinyfn.__file__) + os.sep
x, m = tnp.ones(3), tnp.ones((2, 3))


class Foolish:
    """What nothing takes."""


FOOLISH: list[tuple[Any, ...]] = [
    (Foolish(),),
    (Foolish(), Foolish()),
    (Foolish(),) * 3,
    ("text",),
    ("text", "text"),
]
MODULES = {
    title: module
    for title, module in names.modules().items()
    # Debugging prints, profiles are written, devices are chosen: these are no functions of arrays.
    if title.rpartition(".")[2] not in ("debug", "profiler", "devices", "errors")
}
# A function of Python's for keeping results, which is called for every dtype that is named.
NOT_ONE = {"canonicalize_dtype"}


def functions(title: str, module: ModuleType) -> Iterator[Callable[..., Any]]:
    for name in names.public(module):
        value = getattr(module, name)
        ours = str(getattr(value, "__module__", None)).startswith("tinyfn")
        if callable(value) and not isinstance(value, type) and ours and name not in NOT_ONE:
            yield value


@pytest.mark.parametrize("title", MODULES)
def test_every_public_function_shows_users_lines_alone(title: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # since some write a file named "text"
    for function in functions(title, MODULES[title]):
        for args in FOOLISH:
            try:
                function(*args)
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                assert not [f for f in frames if f.filename.startswith(PACKAGE)], function
                text = f"{error} {' '.join(getattr(error, '__notes__', ()))}"
                assert __file__ in text or "argument" in text, (
                    function,
                    text,
                )  # Python's own of too many or too few


def test_there_are_many_of_them() -> None:
    assert sum(len(list(functions(*pair))) for pair in MODULES.items()) > 600


def failing(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as raised:
        call()
    return raised.value


# Errors that Python, NumPy or a rule raised: what was called on what, and where.
CALLED: dict[str, tuple[Callable[[], Any], str]] = {
    "Python's": (lambda: tnp.reshape(x, 1.5), "reshape(float32[3], 1.5): "),  # type: ignore[arg-type]
    "NumPy's": (lambda: tnp.ones((10**12, 10**12)), "ones((1000000000000, 1000000000000)): "),
    "a rule's": (lambda: x.astype("float8_e5m2") + x, "add(float8_e5m2[3], float32[3]): "),
    "by name": (lambda: tnp.zeros(2, dtype="float33"), "zeros(2, dtype='float33'): "),
    "an axis": (lambda: tnp.cumsum(m, axis=2), "cumsum(float32[2,3], axis=2): axis 2 is out of bounds"),
    "a method": (lambda: m.sum(axis=5), "sum(float32[2,3], axis=5): "),
    "an operator": (lambda: random.key(0) * 2, "mul(key<threefry2x32>[], 2): "),
    "an index": (lambda: x[0.5:], "getitem(float32[3], slice(0.5, None, None)): "),  # type: ignore[misc]
    "a module": (
        lambda: random.normal(random.key(0), (3.5,)),
        "random.normal(key<threefry2x32>[], (3.5,)): ",
    ),
    "a tree": (lambda: tree.map(3, [1]), "tree.map(3, [1]): "),  # type: ignore[arg-type]
    "of users": (lambda: tinyfn.vmap(lambda a, b: a)(x), "vmap of <lambda>(float32[3]): "),
    "of users in a loop": (
        lambda: lax.scan(lambda c: (c, c), x, x),
        "scan(<lambda>, float32[3], float32[3]): ",
    ),
    "jitted": (lambda: tinyfn.jit(lambda a: a)(x, b=1), "jit of <lambda>(float32[3], b=1): "),
    "no array": (
        lambda: tnp.where(x > 0, "a", x),
        "where(bool[3], 'a', float32[3]): a str is not an array or a number",
    ),
}


@pytest.mark.parametrize("name", CALLED)
def test_it_says_what_was_called_on_what(name: str) -> None:
    call, begin = CALLED[name]
    error = failing(call)
    assert str(error).startswith(begin), str(error)
    assert f"; at {__file__}:" in str(error) and "Array(" not in str(error)


def test_errors_without_a_text_of_their_own_get_a_note() -> None:
    error = failing(lambda: tnp.ones((10**6, 10**6)))
    assert isinstance(error, MemoryError)
    assert f"(in ones((1000000, 1000000)), at {__file__}:" in error.__notes__[0]


def test_a_program_that_does_not_fit_into_memory_says_which_array() -> None:
    f = tinyfn.jit(lambda a: a[:, None] * a[None])
    error = failing(lambda: f(tnp.ones(10**6)))
    assert isinstance(error, MemoryError) and error.__cause__ is None and error.__suppress_context__
    assert "no memory for float32[1000000,1000000], which takes" in str(error) and "batch_size" in str(error)


def test_errors_of_users_keep_their_text() -> None:
    def mine(a: Any) -> Any:
        raise ValueError("mine")

    for call in (
        lambda: tinyfn.jit(mine)(x), lambda: lax.map(mine, x), lambda: tree.map(mine, [1]), lambda: x.at[0].apply(mine),
        lambda: tnp.apply_along_axis(mine, 0, m), lambda: tnp.piecewise(x, [x > 0], [mine]),
    ):  # fmt: skip
        assert str(failing(call)) == "mine"


def test_an_error_of_ours_that_passes_several_is_told_once() -> None:
    error = failing(lambda: tinyfn.jit(tinyfn.vmap(lambda a: tnp.reshape(a, "a")))(m))
    assert str(error).count("; at ") == 1 and str(error).startswith("reshape(float32[3], 'a')")
    assert len(error.__notes__) == 1


def test_summaries_have_no_contents() -> None:
    assert (
        summary(x) == "float32[3]"
        and summary(np.zeros((2, 0))) == "float64[2,0]"
        and summary(np.float32) == "float32"
    )
    assert summary([x, (1, "a"), {"k": None}]) == "[float32[3], (1, 'a'), {'k': None}]"
    assert summary(list(range(9))) == "[0, 1, 2, 3, ...]" and summary((x,)) == "(float32[3],)"
    assert summary("a" * 99) == repr("a" * 21 + "...") and summary(Foolish()) == "a Foolish"
    assert summary([[[[1]]]]) == "[[a list]]" and summary(np.dtype("int8")) == "int8"


def test_public_functions_are_one_object_each_and_can_be_pickled() -> None:
    from tinyfn.numpy import reductions

    assert tnp.sum is reductions.sum
    for function in (tnp.sum, tnp.add, lax.add, random.normal, tree.map, tinyfn.grad, lax.broadcast_shapes):
        assert pickle.loads(pickle.dumps(function)) is function


def test_the_code_of_a_function_is_that_of_its_maker() -> None:
    def f() -> None: ...

    assert code_of(entry_point(f)) is f.__code__ and code_of(tinyfn.jit(tinyfn.grad(f))) is f.__code__
    assert code_of(tnp.sum) is None and code_of(len) is None


@pytest.mark.parametrize("other", [[1], (1,), {}, set(), "a", b"a", None])
def test_operators_say_what_they_do_not_take(other: Any) -> None:
    for symbol, call in {
        "+": lambda: x + other, "-": lambda: x - other, "/": lambda: other / x, "@": lambda: m @ other, "<": lambda: x < other,
    }.items():  # fmt: skip
        error = failing(call)
        assert isinstance(error, TypeError) and f"] {symbol} " in str(error) and __file__ in str(error)
        assert ("array(...)" in str(error)) == isinstance(other, (list, tuple))
    assert (x == other) is False and (x != other) is True


def test_lists_are_repeated_by_integers_as_ever() -> None:
    assert [0] * tnp.int32(2) == [0, 0] and tnp.int32(2) * (1,) == (1, 1)  # type: ignore[comparison-overlap]
    assert "float32[3] * a list" in str(failing(lambda: x * [1]))
