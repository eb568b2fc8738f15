"""Random chains of collectives over two named axes: against NumPy on the stacked lanes; gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close, directional
from tinyfn import lax

SIZE = 3  # of both axes, and of both axes of what each lane has, so that every collective keeps the shape
NAMES = {"i": 0, "j": 1}  # which axis of the stacked array the lanes are


class Step(NamedTuple):
    """An operation of one lane, and the same on the array of all lanes, of which `along` is the axis of the lanes meant."""

    lane: Callable[[Any, str], Any]
    stacked: Callable[[np.ndarray, int], np.ndarray]


def _numbers(x: np.ndarray, along: int) -> np.ndarray:
    return np.arange(SIZE).reshape([SIZE if axis == along else 1 for axis in range(x.ndim)])


def _everywhere(reduced: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(reduced, x.shape)


def _permuted(pairs: tuple[tuple[int, int], ...]) -> Step:
    def stacked(x: np.ndarray, along: int) -> np.ndarray:
        result = np.zeros_like(x)
        for origin, to in pairs:
            np.moveaxis(result, along, 0)[to] = np.moveaxis(x, along, 0)[origin]
        return result

    return Step(lambda x, name: lax.ppermute(x, name, pairs), stacked)


def _exchanged(axis: int) -> Step:
    return Step(
        lambda x, name: lax.pswapaxes(x, name, axis), lambda x, along: np.swapaxes(x, along, 2 + axis)
    )


def _sent(split: int, concat: int) -> Step:
    def stacked(x: np.ndarray, along: int) -> np.ndarray:
        # The lanes that receive, those that send, the other lanes, and the axis that stays.
        sent = np.moveaxis(x, (2 + split, along), (0, 1))
        result = np.moveaxis(sent, 1, -1 if concat == 1 else -2)
        return np.moveaxis(result, 0, along)

    return Step(lambda x, name: lax.all_to_all(x, name, split, concat), stacked)


STEPS = {
    "psum": Step(
        lambda x, name: lax.psum(x, name) / SIZE,
        lambda x, along: _everywhere(x.sum(along, keepdims=True) / SIZE, x),
    ),
    "pmean": Step(lax.pmean, lambda x, along: _everywhere(x.mean(along, keepdims=True), x)),
    "pmax": Step(lambda x, name: x - lax.pmax(x, name), lambda x, along: x - x.max(along, keepdims=True)),
    "pmin": Step(lambda x, name: x * lax.pmin(x, name), lambda x, along: x * x.min(along, keepdims=True)),
    "axis_index": Step(
        lambda x, name: x * (1 + lax.axis_index(name)), lambda x, along: x * (1 + _numbers(x, along))
    ),
    "gather": Step(
        lambda x, name: tnp.tanh(lax.all_gather(x, name, axis=1)).sum(1),
        lambda x, along: _everywhere(np.tanh(x).sum(along, keepdims=True), x),
    ),
    "scatter": Step(
        lambda x, name: lax.all_gather(lax.psum_scatter(x, name), name),
        lambda x, along: _everywhere(x.sum(along, keepdims=True), x),
    ),
    "tiled": Step(
        lambda x, name: lax.psum_scatter(
            lax.all_gather(x, name, axis=1, tiled=True), name, scatter_dimension=1, tiled=True
        ),
        lambda x, along: SIZE * x,
    ),
    "broadcast": Step(
        lambda x, name: lax.pbroadcast(x, name, 1),
        lambda x, along: _everywhere(np.take(x, [1], along), x),
    ),
    "cycle": _permuted(((0, 1), (1, 2), (2, 0))),
    "partly": _permuted(((2, 0), (0, 2))),
    "swap first": _exchanged(0),
    "swap second": _exchanged(1),
    "send": _sent(0, 1),
    "send back": _sent(1, 0),
    "sin": Step(lambda x, name: tnp.sin(x), lambda x, along: np.sin(x)),
}
CHAINS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from(sorted(NAMES))), min_size=1, max_size=6
)


def lane_of(steps: list[tuple[str, str]]) -> Callable[[Any], Any]:
    def lane(x: Any) -> Any:
        for name, axis in steps:
            x = STEPS[name].lane(x, axis)
        return x

    return lane


def over_all(lane: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return tinyfn.vmap(tinyfn.vmap(lane, axis_name="j"), axis_name="i")


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (SIZE,) * 4)


@settings(max_examples=30, deadline=None)
@given(CHAINS, st.integers(0, 100))
def test_chains_give_what_numpy_gives_on_the_stacked_lanes(steps: list[tuple[str, str]], seed: int) -> None:
    x = numbers(seed)
    expected = x
    for name, axis in steps:
        expected = STEPS[name].stacked(expected, NAMES[axis])
    close(over_all(lane_of(steps))(array(x)), expected, 1e-9)


@settings(max_examples=8, deadline=None)
@given(CHAINS, st.integers(0, 100))
def test_gradients_of_chains_are_limits_of_differences(steps: list[tuple[str, str]], seed: int) -> None:
    x, t, weights = numbers(seed), numbers(seed + 1), array(numbers(seed + 2))
    chain = over_all(lane_of(steps))

    def loss(x: Any) -> Any:
        return (chain(x) * weights).sum()

    expected = directional(loss, [x], [t])
    scale = max(1.0, abs(float(expected)))
    gradient = tinyfn.jit(tinyfn.grad(loss))(array(x))
    close((np.asarray(gradient) * t).sum() / scale, expected / scale, 1e-5)
    close(tinyfn.jvp(loss, (array(x),), (array(t),))[1] / scale, expected / scale, 1e-5)


@settings(max_examples=15, deadline=None)
@given(CHAINS, st.integers(0, 100))
def test_gradients_within_the_lanes_are_those_of_all_lanes(steps: list[tuple[str, str]], seed: int) -> None:
    x, lane = array(numbers(seed)), lane_of(steps)
    f = lambda x: (lane(x) ** 2).sum()
    inside = over_all(tinyfn.grad(f))(x)
    outside = tinyfn.grad(lambda x: over_all(f)(x).sum())(x)
    scale = max(1.0, float(np.abs(np.asarray(outside)).max()))
    close(np.asarray(inside) / scale, np.asarray(outside) / scale, 1e-9)
