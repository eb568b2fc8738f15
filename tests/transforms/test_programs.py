"""Laws that hold for every program: checked on random ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyfn
from tests.agreement import assert_jit_agrees
from tests.transforms.programs import Program, close, directional, normal, programs, same, total
from tinyfn.trace.array import as_array
from tinyfn.trace.show import run_source
from tinyfn.trace.simplify import simplify

many = settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def arrays(values: list[np.ndarray], dtype: str = "float64") -> list[Any]:
    return [as_array(np.asarray(v, dtype)) for v in values]


@many
@given(programs())
def test_jit_agrees_with_eager(program: Program) -> None:
    for dtype in ("float64", "float32"):
        assert_jit_agrees(program, *arrays(program.points(), dtype))


@many
@given(programs())
def test_simplify_keeps_the_bits(program: Program) -> None:
    points = program.points()
    graph = tinyfn.make_graph(tinyfn.value_and_grad(program.scalar, tuple(range(len(points)))))(*points)
    values = [*points, *[array.value for array in graph.captured]]
    for found, expected in zip(simplify(graph).check().run(values), graph.run(values), strict=True):
        same(found, expected)


@many
@given(programs())
def test_printed_source_runs_and_agrees(program: Program) -> None:
    points = program.points()
    graph = tinyfn.make_graph(tinyfn.grad(program.scalar))(*points)
    hidden = list(graph.captured)
    name = str(graph).rstrip().rsplit("\ndef ", 1)[-1].removeprefix("def ").split("(", 1)[0]
    (found,) = run_source(str(graph), name)(*arrays(points), *hidden)
    same(found, tinyfn.grad(program.scalar)(*points))


@many
@given(programs())
def test_grad_is_the_limit_of_differences(program: Program) -> None:
    points, directions = program.points(), program.directions()
    gradients = tinyfn.grad(program.scalar, tuple(range(len(points))))(*points)
    found = sum(float(np.sum(np.asarray(g) * t)) for g, t in zip(gradients, directions, strict=True))
    close(found, directional(program.scalar, points, directions), 1e-6)


@many
@given(programs())
def test_vjp_is_the_transpose_of_jvp(program: Program) -> None:
    points, directions = program.points(), program.directions()
    value, tangent = tinyfn.jvp(program, tuple(points), tuple(directions))
    again, pullback = tinyfn.vjp(program, *points)
    same(value, again)
    (cotangent,) = normal(program.seed + 7, value.shape)
    backward = sum(
        float(np.sum(np.asarray(g) * t)) for g, t in zip(pullback(cotangent), directions, strict=True)
    )
    close(np.sum(cotangent * np.asarray(tangent)), backward, 1e-10)


@many
@given(programs())
def test_linearize_is_jvp(program: Program) -> None:
    points = program.points()
    value, linear = tinyfn.linearize(program, *points)
    for salt in (1, 2):
        directions = program.directions(salt)
        expected, tangent = tinyfn.jvp(program, tuple(points), tuple(directions))
        same(value, expected)
        close(linear(*directions), tangent)


@many
@given(programs())
def test_vmap_is_a_loop(program: Program) -> None:
    lanes = [program.points(), program.directions(1), program.directions(2)]
    batches = [np.stack(column) for column in zip(*lanes, strict=True)]
    found = tinyfn.vmap(program)(*batches)
    close(found, np.stack([np.asarray(program(*arrays(lane))) for lane in lanes]), 1e-13)


@many
@given(programs())
def test_vmap_over_some_arguments_and_other_axes(program: Program) -> None:
    points = arrays(program.points())
    first = np.stack([program.points()[0], program.directions()[0]], axis=-1)
    axes = (-1, *[None] * (len(points) - 1))
    found = tinyfn.vmap(program, in_axes=axes, out_axes=-1)(first, *points[1:])
    expected = [np.asarray(program(as_array(first[..., lane]), *points[1:])) for lane in (0, 1)]
    close(found, np.stack(expected, axis=-1), 1e-13)


@many
@given(programs())
def test_vmap_of_grad_is_grad_of_the_sum(program: Program) -> None:
    lanes = [program.points(), program.directions()]
    batches = [np.stack(column) for column in zip(*lanes, strict=True)]
    positions = tuple(range(len(batches)))
    mapped = tinyfn.vmap(tinyfn.grad(program.scalar, positions))(*batches)
    summed = tinyfn.grad(lambda *xs: total(tinyfn.vmap(program.scalar)(*xs)), positions)(*batches)
    for a, b in zip(mapped, summed, strict=True):
        close(a, b, 1e-11)


@many
@given(programs())
def test_jit_and_vmap_commute(program: Program) -> None:
    batches = [np.stack([x, t]) for x, t in zip(program.points(), program.directions(), strict=True)]
    inside, outside = tinyfn.vmap(tinyfn.jit(program))(*batches), tinyfn.jit(tinyfn.vmap(program))(*batches)
    close(inside, outside, 1e-13)


@many
@given(programs(most_steps=5))
def test_the_second_derivative_is_symmetric_and_that_of_differences(program: Program) -> None:
    points, u, v = program.points(), program.directions(1), program.directions(2)

    def along(direction: list[np.ndarray]) -> Callable[..., Any]:
        return lambda *xs: tinyfn.jvp(program.scalar, xs, tuple(direction))[1]

    uv = tinyfn.jvp(along(u), tuple(points), tuple(v))[1]
    vu = tinyfn.jvp(along(v), tuple(points), tuple(u))[1]
    close(uv, vu, 1e-9)
    gradients = tinyfn.grad(along(u), tuple(range(len(points))))(*points)
    close(sum(float(np.sum(np.asarray(g) * t)) for g, t in zip(gradients, v, strict=True)), uv, 1e-9)
    close(uv, directional(along(u), points, v), 1e-5)


@many
@given(programs())
def test_remat_does_not_change_gradients(program: Program) -> None:
    points = program.points()
    positions = tuple(range(len(points)))
    plain = tinyfn.value_and_grad(program.scalar, positions)(*points)
    again = tinyfn.value_and_grad(tinyfn.remat(program.scalar), positions)(*points)
    same(plain[0], again[0])
    for a, b in zip(plain[1], again[1], strict=True):
        close(a, b, 1e-13)


class Drawn:
    """A policy that keeps what ops give at random, but always the same."""

    __name__ = "drawn"

    def __init__(self, seed: int):
        self.seed = seed

    def __call__(self, primitive: Any, *arguments: Any, **_: Any) -> bool:
        shapes = tuple([a.shape for a in arguments])
        return zlib.crc32(f"{self.seed}{primitive.name}{shapes}".encode()) % 3 == 0


@settings(many, max_examples=15)
@given(programs(), st.integers(0, 9))
def test_a_policy_does_not_change_gradients(program: Program, seed: int) -> None:
    points, directions = program.points(), program.directions()
    positions = tuple(range(len(points)))
    kept = tinyfn.remat(program.scalar, policy=Drawn(seed))
    plain = tinyfn.value_and_grad(program.scalar, positions)(*points)
    again = tinyfn.value_and_grad(kept, positions)(*points)
    same(plain[0], again[0])
    for a, b in zip(plain[1], again[1], strict=True):
        close(a, b, 1e-13)
    nested = tinyfn.remat(lambda *xs: tinyfn.jit(kept)(*xs), policy=Drawn(seed + 1))
    along = tinyfn.jvp(program.scalar, tuple(points), tuple(directions))[1]
    close(tinyfn.linearize(nested, *points)[1](*directions), along, 1e-12)
    for a, b in zip(plain[1], tinyfn.grad(nested, positions)(*points), strict=True):
        close(a, b, 1e-13)


TRANSFORMED: dict[str, Callable[[Program], Callable[..., Any]]] = {
    "grad": lambda f: tinyfn.grad(f.scalar),
    "jvp": lambda f: lambda *xs: tinyfn.jvp(f, xs, xs),
    "vjp": lambda f: lambda *xs: (lambda pair: pair[1](pair[0]))(tinyfn.vjp(f, *xs)),
    "linearize": lambda f: lambda *xs: tinyfn.linearize(f, *xs)[1](*xs),
    "vmap": lambda f: tinyfn.vmap(f, in_axes=None, axis_size=2),
    "jit": tinyfn.jit,
    "remat": tinyfn.remat,
    "jacfwd": tinyfn.jacfwd,
    "jacrev": tinyfn.jacrev,
    "hessian": lambda f: tinyfn.hessian(f.scalar),
    "grad of remat of jit": lambda f: tinyfn.grad(tinyfn.remat(tinyfn.jit(f.scalar))),
    "grad of grad of remat with a policy": lambda f: tinyfn.grad(
        lambda *xs: total(tinyfn.grad(tinyfn.remat(f.scalar, policy=Drawn(3)))(*xs) ** 2)
    ),
    "vmap of grad of jit": lambda f: tinyfn.vmap(
        tinyfn.grad(tinyfn.jit(f.scalar)), in_axes=None, axis_size=2
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@settings(many, max_examples=15)
@given(program=programs(most_steps=5))
def test_every_transform_gives_a_sound_graph(name: str, program: Program) -> None:
    points = program.points()
    transformed = TRANSFORMED[name](program)
    graph = tinyfn.make_graph(transformed)(*points).check()
    computed = graph.run([*points, *[array.value for array in graph.captured]])
    for found, expected in zip(computed, tinyfn.tree.leaves(transformed(*points)), strict=True):
        close(found, expected, 1e-13)
