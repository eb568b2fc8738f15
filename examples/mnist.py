"""Train a small network on real handwritten digits, in a functional training loop.

    python examples/mnist.py                      train on the 5,000 MNIST digits in examples/data, and save the model
    python examples/mnist.py --load               restore the model in a new process and predict the same bits
    python examples/mnist.py --data FOLDER        train on IDX files: all of MNIST or of Fashion-MNIST

The folder has `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`,
each with or without `.gz`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import math
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import checkpoint, nn, optax_like, random

HERE = Path(__file__).parent
LAYERS = (28 * 28, 256, 128, 10)
BATCH = 100
LEARNING_RATE = 2e-3  # falls to 0 along half a cosine

Params = list[dict[str, tinyfn.Array]]


# The data


def read_idx(folder: Path, name: str) -> np.ndarray:
    """The array in an IDX file of unsigned bytes, the format that MNIST is distributed in."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                zeros, kind, ndim = struct.unpack(">HBB", file.read(4))
                if zeros != 0 or kind != 8:
                    sys.exit(f"{path} is not an IDX file of unsigned bytes")
                shape = struct.unpack(f">{ndim}I", file.read(4 * ndim))
                return np.frombuffer(file.read(), np.uint8).reshape(shape)
    sys.exit(f"{folder} has neither {name} nor {name}.gz")


def load_data(folder: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, test images and labels; images are uint8 [n, 28, 28]."""
    if folder is not None:
        parts = [
            read_idx(folder, f"{part}-{kind}")
            for part in ("train", "t10k")
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        ]
        return parts[0], parts[1], parts[2], parts[3]
    with np.load(HERE / "data" / "mnist5k.npz") as bundle:
        images, labels = bundle["images"], bundle["labels"]
    # The bundle is sorted by class: shuffle it, the same way each time, and hold 1,000 digits out.
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order]
    return images[:4000], labels[:4000], images[4000:], labels[4000:]


# The model: pure functions of a pytree of parameters


def init(key: Any) -> Params:
    """He-normal weights and zero biases."""
    layers = []
    for inputs, outputs in pairwise(LAYERS):
        key, layer_key = random.split(key)
        weights = random.normal(layer_key, (inputs, outputs)) * math.sqrt(2 / inputs)
        layers.append({"w": weights, "b": tnp.zeros(outputs)})
    return layers


def predict(params: Params, images: Any) -> Any:
    """Logits [n, 10] for uint8 images [n, 28, 28]."""
    x = images.reshape(images.shape[0], -1).astype("float32") / 255.0
    *hidden, last = params
    for layer in hidden:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss(params: Params, images: Any, labels: Any) -> Any:
    """The mean cross-entropy."""
    logits = nn.log_softmax(predict(params, images))
    return -tnp.mean(tnp.take_along_axis(logits, labels[:, None], axis=1))


def shift(key: Any, images: Any) -> Any:
    """Each image moved by up to two pixels each way: a function of one image, mapped over the batch."""

    def shift_one(offset: Any, image: Any) -> Any:
        return tinyfn.lax.dynamic_slice(tnp.pad(image, 2), (offset[0], offset[1]), (28, 28))

    offsets = random.randint(key, (images.shape[0], 2), 0, 5)
    return tinyfn.vmap(shift_one)(offsets, images)


# Training


def train(images: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> tuple[Params, list[float]]:
    """The trained parameters and the loss of each step."""
    steps = epochs * (len(images) // BATCH)
    optimizer = optax_like.adamw(lr=LEARNING_RATE, weight_decay=0.01)

    @tinyfn.jit
    def step(params: Params, state: Any, key: Any, batch_images: Any, batch_labels: Any, rate: Any) -> Any:
        value, grads = tinyfn.value_and_grad(loss)(params, shift(key, batch_images), batch_labels)
        params, state = optimizer.step(params, grads, optax_like.set_learning_rate(state, rate))
        return params, state, value

    key, params_key = random.split(random.key(seed))
    params = init(params_key)
    state = optimizer.init(params)
    shuffle = np.random.default_rng(seed)
    losses: list[float] = []
    with progress(steps) as advance:
        for _ in range(epochs):
            order = shuffle.permutation(len(images))
            for begin in range(0, len(order) - BATCH + 1, BATCH):
                chosen = order[begin : begin + BATCH]
                key, step_key = random.split(key)
                rate = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * len(losses) / steps))
                params, state, value = step(
                    params, state, step_key, images[chosen], labels[chosen].astype(np.int32), rate
                )
                losses.append(float(value))
                advance(losses[-1])
    return params, losses


class progress:
    """A progress bar that shows the loss; without tqdm, a line now and then."""

    def __init__(self, steps: int):
        self.steps, self.done = steps, 0
        try:
            from tqdm import tqdm

            self.bar: Any = tqdm(total=steps, unit="step")
        except ImportError:
            self.bar = None

    def __enter__(self) -> Any:
        return self.advance

    def advance(self, value: float) -> None:
        """One more step."""
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix(loss=f"{value:.3f}", refresh=False)
            self.bar.update()
        elif self.done % 100 == 0:
            print(f"step {self.done} of {self.steps}, loss {value:.3f}", flush=True)

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()


# What to look at


def picture(
    path: Path, losses: list[float], images: np.ndarray, labels: np.ndarray, guesses: np.ndarray
) -> bool:
    """The loss curve and misclassified digits as a PNG; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    wrong = np.flatnonzero(guesses != labels)[:12]
    figure = pyplot.figure(figsize=(10, 4), layout="constrained")
    curve, digits = figure.subfigures(1, 2)
    axes = curve.subplots()
    axes.plot(losses, color="0.8", linewidth=0.7)
    window = max(1, len(losses) // 50)
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    axes.plot(np.arange(window - 1, len(losses)), smooth, color="C0")
    axes.set(xlabel="step", ylabel="training loss", yscale="log", title="loss")
    digits.suptitle(f"misclassified: {int(np.sum(guesses != labels))} of {len(labels)}")
    grid = digits.subplots(3, 4).ravel()
    for cell in grid:
        cell.axis("off")
    for cell, index in zip(grid, wrong, strict=False):
        cell.imshow(images[index], cmap="gray_r")
        cell.set_title(f"{labels[index]}, taken for {guesses[index]}", fontsize=8)
    figure.savefig(path, dpi=120)
    return True


def main() -> None:
    """Train or load, then test."""
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with IDX files of MNIST or Fashion-MNIST (default: 5,000 MNIST digits)",
    )
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--output", type=Path, default=HERE / "output", help="folder for the model and the picture"
    )
    parser.add_argument(
        "--load", type=Path, nargs="?", const=True, help="restore a model instead of training one"
    )
    options = parser.parse_args()

    train_images, train_labels, test_images, test_labels = load_data(options.data)
    options.output.mkdir(parents=True, exist_ok=True)
    model = options.output / "digits.safetensors" if options.load in (None, True) else options.load

    if options.load:
        template = tinyfn.eval_shape(init, random.key(0))
        params = checkpoint.restore(model, like=template)
    else:
        begin = time.perf_counter()
        params, losses = train(train_images, train_labels, options.epochs, options.seed)
        print(
            f"trained on {len(train_images)} images for {options.epochs} epochs in {time.perf_counter() - begin:.1f} s"
        )

    logits = np.asarray(tinyfn.jit(predict)(params, test_images))
    guesses = logits.argmax(1)
    digest = hashlib.sha256(logits.tobytes()).hexdigest()
    if options.load:
        trained = (checkpoint.safe_load_metadata(model).metadata or {}).get("predictions")
        print(
            f"restored {model}; predictions are {'' if digest == trained else 'NOT '}the same bits as after training"
        )
    else:
        checkpoint.save(model, params, metadata={"predictions": digest})
        print(f"saved {model}")
        image = options.output / "digits.png"
        if picture(image, losses, test_images, test_labels, guesses):
            print(f"drew {image}")
    print(
        f"test accuracy: {100 * np.mean(guesses == test_labels):.2f} % of {len(test_labels)} held-out images"
    )


if __name__ == "__main__":
    main()
