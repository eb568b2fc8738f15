"""The workloads: their inputs as NumPy arrays, what they cost at least, and what is asked of tinyfn.

How each library computes a workload is in `libraries/`: a function of the name `kind`, which takes the inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from typing import Any, NamedTuple

Tree = Any  # dicts, lists and tuples of NumPy arrays


class Goal(NamedTuple):
    """Time of tinyfn over time of a peer, at most."""

    peer: str
    what: str  # cached, cold (first call, empty caches) or warm (first call, code found on disk)
    ratio: float

    def __str__(self) -> str:
        return f"{self.what} <= {self.ratio} {self.peer}"


class Workload(NamedTuple):
    """What is run, and how it is judged. A cost of 0 means that nothing is claimed about it."""

    kind: str
    inputs: Callable[[], Tree]
    flops: float = 0  # that the mathematics needs
    bytes: float = 0  # that have to cross the memory bus, for arrays that no cache holds
    goals: tuple[Goal, ...] = ()
    # The greatest difference from float64 that is let pass, in each array relative to its largest element.
    tolerance: float = 1e-5


def normal(seed: int, *shape: int, scale: float = 1.0) -> Any:
    """Normal numbers as float32."""
    import numpy as np

    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)


def _vector() -> Tree:
    return {"x": normal(0, 10)}


def _vectors() -> Tree:
    return {"x": {f"leaf{i:02}": normal(i, 10) for i in range(40)}}


def _square() -> Tree:
    return {"x": normal(0, 4096, 4096)}


def _positive() -> Tree:
    import numpy as np

    # A sum of numbers of both signs would be small, and so rounding large beside it.
    return {"x": np.random.default_rng(0).random((4096, 4096), np.float32)}


def _norm() -> Tree:
    return {"x": normal(0, 4096, 4096), "scale": normal(1, 4096), "bias": normal(2, 4096)}


def _pair() -> Tree:
    return {"x": normal(0, 4096, 4096), "y": normal(1, 4096, 4096)}


def _factors(size: int) -> Callable[[], Tree]:
    return lambda: {"x": normal(0, size, size), "y": normal(1, size, size)}


def _images() -> Tree:
    return {"x": normal(0, 32, 16, 32, 32), "w": normal(1, 32, 16, 3, 3, scale=1 / 12)}


def adam_state(params: Tree) -> Tree:
    """Running means as in the midst of a training: a first step would be the gradient's sign, which rounding decides."""
    import numpy as np

    seeds = count(1000)

    def like(tree: Tree, of: Callable[[Any], Any]) -> Tree:
        if isinstance(tree, dict):
            return {key: like(value, of) for key, value in tree.items()}
        if isinstance(tree, list):
            return [like(value, of) for value in tree]
        return of(normal(next(seeds), *tree.shape))

    return {
        "m": like(params, lambda x: x * np.float32(1e-3)),
        "v": like(params, lambda x: x * x * np.float32(1e-5) + np.float32(1e-6)),
        "count": 10,
    }


def _mlp(sizes: tuple[int, ...], batch: int) -> Callable[[], Tree]:
    def inputs() -> Tree:
        import numpy as np

        params = [
            {"w": normal(i, rows, columns, scale=rows**-0.5), "b": normal(50 + i, columns, scale=0.1)}
            for i, (rows, columns) in enumerate(pairwise(sizes))
        ]
        labels = np.random.default_rng(0).integers(0, sizes[-1], batch).astype(np.int32)
        return {
            "params": params,
            "state": adam_state(params),
            "x": normal(99, batch, sizes[0]),
            "labels": labels,
        }

    return inputs


def _mlp_flops(sizes: tuple[int, ...], batch: int) -> float:
    weights = [rows * columns for rows, columns in pairwise(sizes)]
    # Forward, gradient by weights, gradient by activations but for the first layer's.
    return 2 * batch * (3 * sum(weights) - weights[0])


def _tensors() -> Tree:
    params = [normal(i, 316, 316) for i in range(100)]
    return {
        "params": params,
        "state": adam_state(params),
        "grads": [normal(200 + i, 316, 316, scale=1e-2) for i in range(100)],
    }


BLOCKS, WIDTH, HEADS, LENGTH, SEQUENCES, VOCABULARY = 4, 256, 8, 128, 8, 1000


def _transformer() -> Tree:
    import numpy as np

    seeds = iter(range(1000))

    def dense(rows: int, columns: int) -> Any:
        return normal(next(seeds), rows, columns, scale=rows**-0.5)

    def norm() -> Tree:
        return {
            "scale": 1 + normal(next(seeds), WIDTH, scale=0.1),
            "bias": normal(next(seeds), WIDTH, scale=0.1),
        }

    blocks = [
        {
            "norm1": norm(), "norm2": norm(), "q": dense(WIDTH, WIDTH), "k": dense(WIDTH, WIDTH),
            "v": dense(WIDTH, WIDTH), "out": dense(WIDTH, WIDTH), "up": dense(WIDTH, 4 * WIDTH),
            "down": dense(4 * WIDTH, WIDTH),
        }
        for _ in range(BLOCKS)
    ]  # fmt: skip
    params = {
        "tokens": normal(next(seeds), VOCABULARY, WIDTH, scale=0.1),
        "positions": normal(next(seeds), LENGTH, WIDTH, scale=0.1),
        "blocks": blocks,
        "norm": norm(),
    }
    tokens = np.random.default_rng(7).integers(0, VOCABULARY, (SEQUENCES, LENGTH + 1)).astype(np.int32)
    return {"params": params, "tokens": tokens}


STEPS = 10_000  # so that 100 us for all are 10 ns for one
LSTM_STEPS, LSTM_ROWS, LSTM_WIDTH = 200, 32, 128


def _recurrence() -> Tree:
    # The carry goes round a cycle that attracts it, so neither it nor a cotangent becomes 0 or grows without bound.
    return {"w": normal(91, 3, 3, scale=1.5), "h": normal(1091, 3), "steps": STEPS}


def _lstm() -> Tree:
    width = LSTM_WIDTH
    params = {
        "w": normal(0, width, 4 * width, scale=width**-0.5),
        "u": normal(1, width, 4 * width, scale=width**-0.5),
        "b": normal(2, 4 * width, scale=0.1),
    }
    return {"params": params, "x": normal(3, LSTM_STEPS, LSTM_ROWS, width)}


# Weights of a block (12 squares), scores and their use (whole, as libraries compute them), logits.
_FORWARD = (
    2.0 * SEQUENCES * LENGTH * (BLOCKS * (12 * WIDTH * WIDTH + 2 * LENGTH * WIDTH) + VOCABULARY * WIDTH)
)

_LSTM = 2.0 * LSTM_STEPS * LSTM_ROWS * 8 * LSTM_WIDTH**2

_N = 4.0 * 4096 * 4096  # bytes of a float32 array of 4096 x 4096
_SMALL, _LARGE = (64, 32, 10), (784, 512, 512, 10)


def _at_most(ratio: float, what: str = "cached") -> tuple[Goal, ...]:
    return (Goal("jax", what, ratio),)


WORKLOADS: dict[str, Workload] = {
    "eager_grad": Workload("eager_grad", _vector, goals=_at_most(0.5)),
    "eager_add": Workload("eager_add", _vector),
    "eager_index": Workload("eager_index", _vector),
    "dispatch_one": Workload("add_one", _vector, goals=_at_most(1.0)),
    "dispatch_dict_40": Workload("add_one", _vectors, goals=_at_most(0.7)),
    "exp": Workload("exp", _square, bytes=2 * _N, goals=_at_most(0.6)),
    "gelu": Workload("gelu", _square, bytes=2 * _N, goals=_at_most(0.6)),
    "sum_all": Workload("sum_all", _positive, bytes=_N),
    "sum_axis_0": Workload("sum_axis_0", _positive, bytes=_N),
    "softmax": Workload("softmax", _square, bytes=2 * _N, goals=_at_most(0.6)),
    "layer_norm": Workload("layer_norm", _norm, bytes=2 * _N, goals=_at_most(0.6)),
    "transpose_add": Workload("transpose_add", _pair, bytes=3 * _N, goals=_at_most(0.2)),
    **{
        f"matmul_{n}": Workload(
            "matmul", _factors(n), flops=2.0 * n**3, goals=_at_most(1.18) if n == 1024 else ()
        )
        for n in (128, 256, 512, 1024, 2048)
    },
    "conv_3x3": Workload("conv", _images, flops=2.0 * 32 * 32 * 32 * 32 * 16 * 9),
    "mlp_small_step": Workload(
        "mlp_step", _mlp(_SMALL, 32), flops=_mlp_flops(_SMALL, 32), tolerance=1e-4
    ),
    "mlp_large_step": Workload(
        "mlp_step", _mlp(_LARGE, 128), flops=_mlp_flops(_LARGE, 128), tolerance=1e-4,
        goals=_at_most(1.0) + _at_most(0.8, "cold") + _at_most(0.3, "warm"),
    ),
    "transformer_forward": Workload("transformer_forward", _transformer, flops=_FORWARD, tolerance=1e-4),
    "transformer_grad": Workload(
        "transformer_grad", _transformer, flops=3 * _FORWARD, tolerance=1e-3,
        goals=_at_most(1.0) + _at_most(0.7, "cold"),
    ),
    "scan_value": Workload("scan_value", _recurrence, tolerance=1e-3, goals=_at_most(1.0)),
    "scan_gradient": Workload("scan_gradient", _recurrence, tolerance=1e-2, goals=_at_most(1.0)),
    "lstm_forward": Workload("lstm_forward", _lstm, flops=_LSTM, tolerance=1e-4),
    # Not by the sequence itself, so that of the products by `w` one is missing.
    "lstm_gradient": Workload("lstm_gradient", _lstm, flops=2.5 * _LSTM, tolerance=1e-3),
    # Reads parameters, gradients and two means, writes all but the gradients.
    "adam_100": Workload("adam", _tensors, bytes=7 * 4.0 * 100 * 316 * 316),
}  # fmt: skip


def selected(names: list[str]) -> dict[str, Workload]:
    """The workloads of these names, or whose names begin with one of them and "_"; all if there is none.

    Raises KeyError with a name that selects nothing."""
    if not names:
        return dict(WORKLOADS)
    chosen: dict[str, Workload] = {}
    for name in names:
        found = {n: w for n, w in WORKLOADS.items() if n == name or n.startswith(f"{name}_")}
        if not found:
            raise KeyError(name)
        chosen |= found
    return {name: workload for name, workload in WORKLOADS.items() if name in chosen}
