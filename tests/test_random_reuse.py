"""The checker that a key is used once, and the functions that name keys' implementation."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import checkpoint, disable_jit, grad, jit, lax, random, vmap
from tinyfn.random import KeyReuseError, check_key_reuse


def test_both_lines_are_named() -> None:
    key = random.key(3)
    with check_key_reuse():
        random.normal(key, (3,))  # first
        with pytest.raises(KeyReuseError) as caught:
            random.uniform(key)  # second
    lines = Path(__file__).read_text().splitlines()
    first, second = (
        1 + next(i for i, text in enumerate(lines) if text.endswith(f"# {n}")) for n in ("first", "second")
    )
    found = [int(n) for n in re.findall(r"test_random_reuse\.py:(\d+)", str(caught.value))]
    assert found == [second, first]
    assert "random.uniform" in str(caught.value) and "random.normal" in str(caught.value)
    assert "the key with the words 0, 3" in str(caught.value) and "split" in str(caught.value)


def twice(key: Any) -> Any:
    return random.normal(key) + random.normal(key)


def once(key: Any) -> Any:
    first, second = random.split(key)
    return random.normal(first) + random.normal(second)


def in_loop(key: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, total: total + random.normal(key), np.float32(0))


def in_carry(key: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        following, own = random.split(state)
        return following, random.normal(own)

    return lax.scan(step, key, None, length=3)[1].sum()


def in_branches(key: Any) -> Any:
    return lax.cond(random.normal(random.fold_in(key, 1)) > 0, random.normal, random.uniform, key)


def in_branches_closed_over(key: Any) -> Any:
    test = random.normal(random.fold_in(key, 1)) > 0
    return lax.cond(test, lambda: random.normal(key), lambda: random.uniform(key))


def before_a_branch(key: Any) -> Any:
    return lax.cond(random.normal(key) < 100, lambda: random.normal(key), lambda: random.uniform(key))


def folded(key: Any) -> Any:
    return random.normal(random.fold_in(key, 0)) + random.normal(random.fold_in(key, 1))


def folded_twice(key: Any) -> Any:
    return random.normal(random.fold_in(key, 1)) + random.normal(random.fold_in(key, 1))


def of_one_seed(_: Any) -> Any:
    return random.normal(random.key(7)) + random.normal(random.key(7))


def a_part_twice(key: Any) -> Any:
    keys = random.split(key, 3)
    return random.normal(keys[1]) + random.normal(keys[1])


def after_splitting(key: Any) -> Any:
    return random.normal(random.split(key)[0]) + random.normal(key)


def cloned(key: Any) -> Any:
    return random.normal(key) + random.normal(random.clone(key))


def carried_on(key: Any) -> Any:
    return lax.scan(lambda k, _: (k, random.normal(k)), key, None, length=3)[1].sum()


def carried_and_used_twice(key: Any) -> Any:
    def step(k: Any, _: Any) -> Any:
        return random.fold_in(k, 1), random.normal(k) + random.normal(k)

    return lax.scan(step, key, None, length=3)[1].sum()


def stepped_over_twice(key: Any) -> Any:
    keys = random.split(key, 3)
    return lax.scan(lambda t, k: (t + random.normal(k) + random.normal(k), None), np.float32(0), keys)[0]


def in_a_while_loop(key: Any) -> Any:
    step = lambda s: (s[0], s[1] + 1 + 0 * random.normal(s[0]))
    return lax.while_loop(lambda s: s[1] < 3, step, (key, np.float32(0)))[1]


def after_a_loop(key: Any) -> Any:
    keys = random.split(key, 3)
    total = lax.scan(lambda t, k: (t + random.normal(k), None), np.float32(0), keys)[0]
    return total + random.normal(keys[1])


def mapped_twice(key: Any) -> Any:
    keys = random.split(key, 3)
    return (
        vmap(random.normal)(keys) + vmap(lambda k: grad(lambda x: x * random.normal(k))(np.float32(1)))(keys)
    ).sum()


def mapped_and_indexed(key: Any) -> Any:
    keys = random.split(key, 3)
    return vmap(lambda k: random.normal(random.clone(k)) + random.normal(k))(keys).sum() + random.normal(
        keys[2]
    )


def mapped_once(key: Any) -> Any:
    keys = random.split(key, (3, 2))
    each = vmap(vmap(lambda k, x: random.normal(k) * x, in_axes=(0, None)), in_axes=(1, 0), out_axes=1)
    return each(keys, np.float32([1, 2])).sum() + random.normal(random.fold_in(key, 99))


def shared_by_lanes(key: Any) -> Any:
    return vmap(lambda x: x + random.normal(key))(np.arange(3, dtype=np.float32)).sum()


def folded_in_lanes(key: Any) -> Any:
    return vmap(lambda i: random.normal(random.fold_in(key, i)))(np.arange(3)).sum()


def one_in_all_lanes(key: Any) -> Any:
    return vmap(random.normal)(tnp.stack([key, key])).sum()


def split_until_large(key: Any) -> Any:
    def step(s: Any) -> Any:
        following, own = random.split(s[0])
        return following, s[1] + 0.1 + abs(random.normal(own))

    return lax.while_loop(lambda s: s[1] < 2, step, (key, np.float32(0)))[1]


def in_some_lanes_again(key: Any) -> Any:
    """The second step uses the key of the first one, in lanes that have a second step."""

    def step(s: Any) -> Any:
        i, k, total = s
        return i + 1, lax.select(i == 1, random.split(k)[0], k), total + 0.1 + abs(random.normal(k))

    return lax.while_loop(lambda s: s[2] < 2, step, (0, random.clone(key), np.float32(0)))[2]


def in_nested_loops(key: Any) -> Any:
    def inner(k: Any, _: Any) -> Any:
        following, own = random.split(k)
        return following, random.normal(own)

    def outer(k: Any, _: Any) -> Any:
        first, second = random.split(k)
        return first, lax.scan(inner, second, None, length=2)[1].sum()

    return lax.scan(outer, key, None, length=2)[1].sum()


def in_nested_loops_again(key: Any) -> Any:
    outer = lambda k, _: (k, lax.map(lambda i: random.normal(random.fold_in(k, i)), np.arange(2)).sum())
    return lax.scan(outer, key, None, length=2)[1].sum()


def in_a_branch_of_a_loop(key: Any) -> Any:
    def step(state: Any, i: Any) -> Any:
        following, own = random.split(state)
        return following, lax.cond(i == 1, random.normal, lambda k: np.float32(0), own)

    return lax.scan(step, key, np.arange(3))[1].sum()


def handed_to_a_branch_again(key: Any) -> Any:
    test = random.normal(key) < 100
    return lax.cond(test, random.normal, lambda k: np.float32(0), key)


def in_a_checkpointed_loop(key: Any) -> Any:
    return checkpoint(in_carry)(key)


def in_a_checkpointed_loop_again(key: Any) -> Any:
    return checkpoint(carried_on)(key)


def in_a_checkpointed_while_loop(key: Any) -> Any:
    return checkpoint(split_until_large)(key)


def over_a_traced_range(key: Any) -> Any:
    last = (random.fold_in(key, 5) == key).astype("int32") + 3
    return lax.fori_loop(0, last, lambda i, total: total + random.normal(key), np.float32(0))


CASES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    f.__name__: (f, wrong)
    for f, wrong in (
        (twice, True), (once, False), (in_loop, True), (in_carry, False), (in_branches, False),
        (in_branches_closed_over, False), (before_a_branch, True), (folded, False),
        (folded_twice, True), (of_one_seed, True), (a_part_twice, True), (after_splitting, True), (cloned, False),
        (carried_on, True), (carried_and_used_twice, True), (stepped_over_twice, True), (in_a_while_loop, True),
        (after_a_loop, True), (mapped_twice, True), (mapped_and_indexed, True), (mapped_once, False), (shared_by_lanes, False),
        (folded_in_lanes, False), (one_in_all_lanes, True),
        (split_until_large, False), (in_some_lanes_again, True), (in_nested_loops, False), (in_nested_loops_again, True),
        (in_a_branch_of_a_loop, False), (handed_to_a_branch_again, True), (in_a_checkpointed_loop, False),
        (in_a_checkpointed_loop_again, True), (over_a_traced_range, True), (in_a_checkpointed_while_loop, False),
    )
}  # fmt: skip


@pytest.mark.parametrize("way", ["eager", "jit", "grad", "vmap", "grad of vmap"])
@pytest.mark.parametrize("name", CASES)
def test_uses(name: str, way: str) -> None:
    function, wrong = CASES[name]
    key = random.key(3)
    if "grad" in way and name == "in_a_checkpointed_while_loop":
        return  # it has no reverse mode
    if way == "grad":
        run: Any = lambda: grad(lambda x: x * function(key))(np.float32(1.0))
    elif way == "vmap":
        keys = random.split(key, 2)
        run = lambda: vmap(function)(keys)
    elif way == "grad of vmap":
        keys = random.split(key, 2)
        run = lambda: grad(lambda x: (vmap(function)(keys) * x).sum())(np.float32(1.0))
    else:
        called = jit(function) if way == "jit" else function
        run = lambda: called(key)
    expected = run()
    with check_key_reuse():
        if wrong:
            with pytest.raises(KeyReuseError, match=r"test_random_reuse\.py"):
                run()
        else:
            np.testing.assert_allclose(run(), expected, rtol=1e-5)


def test_calls_of_a_jitted_function_count() -> None:
    draw, key = jit(random.normal), random.key(1)
    draw(key)
    with check_key_reuse():
        draw(key)
        with pytest.raises(KeyReuseError):
            draw(key)
        with check_key_reuse():  # a block of its own
            draw(key)
    with check_key_reuse():
        draw(key)
    draw(key)
    assert not disable_jit.is_on
    with pytest.raises(ZeroDivisionError), check_key_reuse():
        raise ZeroDivisionError
    draw(key)
    draw(key)


def test_samplers_made_of_others_are_one_use() -> None:
    with check_key_reuse():
        keys = iter(random.split(random.key(0), 8))
        random.poisson(next(keys), 3.0)
        random.binomial(next(keys), 30.0, 0.5)
        random.gamma(next(keys), 2.0)
        random.permutation(next(keys), 4)
        own = next(keys)
        random.poisson(key=own, lam=3.0)
        with pytest.raises(KeyReuseError, match=r"random\.ball.*random\.poisson"):
            random.ball(own, 3)
        with pytest.raises(TypeError, match="takes one key"):
            random.normal(np.float32(3))
        with pytest.raises(TypeError, match="vmap"):
            random.normal(random.split(next(keys)))


def test_every_sampler_is_checked() -> None:
    none = {
        "KeyReuseError",
        "PRNGKey",
        "check_key_reuse",
        "clone",
        "fold_in",
        "key",
        "key_data",
        "key_dtype",
        "key_impl",
        "wrap_key_data",
    }
    for name in set(random.__all__) - none:
        assert hasattr(getattr(random, name), "__wrapped__"), name


def test_other_threads_are_not_checked() -> None:
    key, found = random.key(1), []
    with check_key_reuse():
        thread = threading.Thread(target=lambda: found.append(float(twice(key))))
        thread.start()
        thread.join()
    assert len(found) == 1


def test_implementation_names() -> None:
    key = random.key(5, impl="threefry2x32")
    assert random.key_impl(key) == "threefry2x32" == random.key_impl(random.split(key, 3))
    assert random.wrap_key_data(random.key_data(key), impl="threefry2x32") == key == random.clone(key)
    for call in (lambda: random.PRNGKey(0, impl="rbg"), lambda: random.wrap_key_data(key, impl="rbg")):
        with pytest.raises(ValueError, match="threefry2x32"):
            call()
    with pytest.raises(TypeError, match="uint32"):
        random.key_impl(np.zeros(3, np.float32))
    assert tinyfn.random.clone(jit(random.clone)(key)).shape == ()
