"""Every primitive on its own samples: value, derivatives, batching and jit. A new primitive is tested with no edit here."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest

import tinyfn
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.array import Array, as_array
from tinyfn.trace.prim import REGISTRY, Primitive, Sample
from tinyfn.trace.prims import (  # noqa: F401  (registers them)
    convert,
    factorizations,
    fourier,
    incomplete,
    integrals,
    lu,
    reduce_sum,
    systems,
)
from tinyfn.transforms import batching_rules, structured, while_loops  # noqa: F401  (register the ops that hold graphs)

WIDE = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}


def run(primitive: Primitive, sample: Sample) -> list[Any]:
    """The sample's results, always as a list."""
    result = primitive(*map(as_array, sample.args), **sample.params)
    return result if isinstance(result, list) else [result]


CASES = [
    pytest.param(primitive, sample, id=f"{name}-{i}")
    for name, primitive in sorted(REGISTRY.items())
    for i, sample in enumerate(primitive.samples())
]
MAPPED = [
    pytest.param(*case.values, which, id=f"{case.id}-{which}")
    for case in CASES
    for which, least in (("all", 1), ("first", 2), ("last", 2))
    if len(case.values[1].args) >= least
]
DIFFERENTIABLE = [
    case
    for case in CASES
    if case.values[1].differentiable
    and any(np.asarray(a).dtype in WIDE for a in case.values[1].args)
    and any(dtypes.is_inexact(r.dtype) for r in run(case.values[0], case.values[1]))
]


def holds_graphs(sample: Sample) -> bool:
    """Whether there are graphs in the parameters, whose inputs have a fixed dtype."""
    values = [
        v for value in sample.params.values() for v in (value if isinstance(value, tuple) else (value,))
    ]
    return any(isinstance(v, tinyfn.Graph) for v in values)


def seed_of(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def outputs(primitive: Primitive, sample: Sample) -> Any:
    """The sample's op as a function of arrays that always gives a list."""

    def function(*args: Any) -> list[Any]:
        result = primitive(*args, **sample.params)
        return result if isinstance(result, list) else [result]

    function.__name__ = primitive.name
    return function


def in_float64(primitive: Primitive, sample: Sample) -> tuple[Any, list[np.ndarray]]:
    """The sample's function and arguments in double precision where they have single; its integer arguments are fixed."""
    given = [np.asarray(a) for a in sample.args]
    wide = [a.astype(WIDE.get(a.dtype, a.dtype)) for a in given]
    positions = [i for i, a in enumerate(wide) if a.dtype in WIDE.values()]
    function = outputs(primitive, sample)
    narrow = holds_graphs(sample)

    def of_floats(*floats: Any) -> list[Any]:
        args: list[Any] = [as_array(a) for a in wide]
        for i, x in zip(positions, floats, strict=True):
            args[i] = convert(x, dtype=dtypes.float32) if narrow else x
        results = [r for r in function(*args) if dtypes.is_inexact(r.dtype)]
        return [
            r if r.dtype in WIDE.values() else convert(r, dtype=WIDE.get(r.dtype, dtypes.float64))
            for r in results
        ]

    return of_floats, [wide[i] for i in positions]


def directions(generator: np.random.Generator, likes: Any) -> list[np.ndarray]:
    """Random arrays of the shapes and kinds of those given."""
    found = []
    for like in likes:
        direction = np.asarray(generator.normal(size=like.shape))
        found.append(
            direction + 1j * generator.normal(size=like.shape) if like.dtype.kind == "c" else direction
        )
    return found


def close(a: Any, b: Any, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def same(a: Any, b: Any) -> None:
    a, b = (as_array(x).value for x in (a, b))
    assert a.dtype == b.dtype and a.shape == b.shape
    if dtypes.is_float(a.dtype):
        a, b = a.astype(np.float64), b.astype(np.float64)  # NumPy does not know NaNs of bfloat16
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("primitive, sample", CASES)
def test_result_has_the_dtype_and_shape_of_the_rule(primitive: Primitive, sample: Sample) -> None:
    results = outputs(primitive, sample)(*map(as_array, sample.args))
    graph = tinyfn.make_graph(outputs(primitive, sample))(*map(as_array, sample.args)).check()
    assert [(r.dtype, r.shape) for r in results] == [(n.dtype, n.shape) for n in graph.outputs]


# A Python function that is called has no spelling.
@pytest.mark.parametrize("primitive, sample", [c for c in CASES if "called" not in c.values[1].params])
def test_printed_source_runs_and_gives_the_same(primitive: Primitive, sample: Sample) -> None:
    from tinyfn.trace.show import run_source

    function, args = outputs(primitive, sample), [as_array(a) for a in sample.args]
    graph = tinyfn.make_graph(function)(*args)
    text = str(graph)
    name = text.rstrip().rsplit("\ndef ", 1)[-1].removeprefix("def ").split("(", 1)[0]
    for eager, again in zip(function(*args), run_source(text, name)(*args), strict=True):
        same(eager, again)


@pytest.mark.parametrize("primitive, sample, which", MAPPED)
def test_vmap_is_a_loop(primitive: Primitive, sample: Sample, which: str) -> None:
    count = len(sample.args)
    generator = seed_of(primitive.name)
    mapped = {"all": range(count), "first": [0], "last": [count - 1]}[which]
    axes: list[Any] = [None] * count
    args = []
    for i, arg in enumerate(map(np.asarray, sample.args)):
        if i in mapped:
            # Three lanes with the sample's elements in other places, so that every lane is a valid argument.
            lanes = [
                generator.permutation(arg.reshape(-1)).reshape(arg.shape) if arg.dtype.kind == "f" else arg
                for _ in range(3)
            ]
            axes[i] = int(generator.integers(0, arg.ndim + 1))
            args.append(np.stack(lanes, axes[i]))
        else:
            args.append(arg)
    function = outputs(primitive, sample)
    batched = tinyfn.vmap(function, in_axes=tuple(axes))(*args)
    for lane in range(3):
        lane_args = [
            a if axis is None else np.take(a, lane, axis) for a, axis in zip(args, axes, strict=True)
        ]
        for got, want in zip(batched, function(*map(as_array, lane_args)), strict=True):
            assert got.dtype == want.dtype and got.shape[1:] == want.shape
            # Sums may be taken in another order; everything else is exact.
            tolerance = 1e-6 if want.dtype.kind in "fc" else 1e-2 if dtypes.is_float(want.dtype) else 0
            a, b = (
                v.astype(np.float64) if dtypes.is_float(want.dtype) else v
                for v in (got.value[lane], want.value)
            )
            if want.dtype is dtypes.key:
                np.testing.assert_array_equal(a, b)
                continue
            np.testing.assert_allclose(
                a, b, rtol=max(tolerance, 1e-3 if want.dtype == np.float16 else 0), atol=tolerance
            )


@pytest.mark.parametrize("primitive, sample", DIFFERENTIABLE)
def test_jvp_is_the_limit_of_differences(primitive: Primitive, sample: Sample) -> None:
    function, args = in_float64(primitive, sample)
    generator = seed_of(primitive.name)
    tangents = directions(generator, args)
    values, pushed = tinyfn.jvp(function, tuple(args), tuple(tangents))
    step = 1e-3 if holds_graphs(sample) else 1e-6
    above = function(*[as_array(a + step * t) for a, t in zip(args, tangents, strict=True)])
    below = function(*[as_array(a - step * t) for a, t in zip(args, tangents, strict=True)])
    assert len(values) == len(pushed)
    for direction, high, low in zip(pushed, above, below, strict=True):
        close(
            direction,
            (np.asarray(high) - np.asarray(low)) / (2 * step),
            1e-3 if holds_graphs(sample) else 2e-7 / step * 1e-1,
        )


@pytest.mark.parametrize("primitive, sample", DIFFERENTIABLE)
def test_vjp_is_the_transpose_of_jvp(primitive: Primitive, sample: Sample) -> None:
    function, args = in_float64(primitive, sample)
    generator = seed_of(primitive.name)
    tangents = directions(generator, args)
    _, pushed = tinyfn.jvp(function, tuple(args), tuple(tangents))
    _, pullback = tinyfn.vjp(function, *args)
    cts = directions(generator, pushed)
    gradients = pullback(cts)
    assert [(g.shape, g.dtype) for g in gradients] == [(a.shape, a.dtype) for a in args]
    # Of complex numbers the transpose is that for the pairing Re(cotangent * tangent).
    forward = sum(np.real(np.sum(ct * np.asarray(d))) for ct, d in zip(cts, pushed, strict=True))
    backward = sum(np.real(np.sum(np.asarray(g) * t)) for g, t in zip(gradients, tangents, strict=True))
    close(forward, backward, 1e-5 if holds_graphs(sample) else 1e-11)


@pytest.mark.parametrize("primitive, sample", DIFFERENTIABLE)
def test_second_order(primitive: Primitive, sample: Sample) -> None:
    """The jvp of the vjp, against differences of the vjp; and the vjp of the jvp against it."""
    function, args = in_float64(primitive, sample)
    generator = seed_of(primitive.name)
    tangents = directions(generator, args)
    cts = directions(generator, function(*map(as_array, args)))

    def gradient(*xs: Any) -> Any:
        return tinyfn.vjp(function, *xs)[1](list(cts))

    _, second = tinyfn.jvp(gradient, tuple(args), tuple(tangents))
    step = 1e-3 if holds_graphs(sample) else 1e-6
    above = gradient(*[as_array(a + step * t) for a, t in zip(args, tangents, strict=True)])
    below = gradient(*[as_array(a - step * t) for a, t in zip(args, tangents, strict=True)])
    for got, high, low in zip(second, above, below, strict=True):
        close(
            got,
            (np.asarray(high) - np.asarray(low)) / (2 * step),
            1e-2 if holds_graphs(sample) else 1e-6 if step == 1e-6 else 1e-3,
        )

    def directional(*xs: Any) -> Any:
        total: Any = 0.0
        for ct, d in zip(cts, tinyfn.jvp(function, xs, tuple(tangents))[1], strict=True):
            total = total + reduce_sum(tinyfn.numpy.real(d * ct), axes=tuple(range(d.ndim)))
        return total

    reverse_over_forward = (
        tinyfn.grad(directional, tuple(range(len(args))))(*map(as_array, args)) if cts else ()
    )
    for got, want in zip(reverse_over_forward, second, strict=True):
        close(got, want, 1e-4 if holds_graphs(sample) else 1e-9)


def test_every_primitive_has_samples_and_documentation() -> None:
    for name, primitive in REGISTRY.items():
        assert type(primitive).__doc__, name
        # A collective has no value without a vmap: tests/transforms/test_named_axes.py. Routines that decompositions call are
        # tested with these: tests/devices/test_lapack.py.
        assert primitive.family in ("collective", "foreign") or any(True for _ in primitive.samples()), name
        assert isinstance(as_array(1.0), Array)


def test_a_pickled_primitive_is_found_by_a_process_that_has_not_loaded_it() -> None:
    own = {
        name: primitive
        for name, primitive in REGISTRY.items()
        if type(primitive).__module__.startswith("tinyfn.")
    }
    pickled = {name: pickle.dumps(primitive) for name, primitive in own.items()}
    code = (
        "import pickle, sys\n"
        "from tinyfn.trace import prim\n"
        "for name, data in pickle.load(sys.stdin.buffer).items():\n"
        "    assert pickle.loads(data).name == name\n"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(pickled), check=True, timeout=100)
    assert {"scan", "cond", "while_loop", "fourier"} <= set(pickled)
