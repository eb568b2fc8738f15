"""Where arrays are, and waiting for them: on the CPU, and never, since what a call returns is there.

Names that users of JAX look for at the top; `tinyfn` has them too."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .numpy import asarray
from .numpy.common import check_device
from .trace import pytree
from .trace.array import Array
from .trace.errors import entry_points
from .trace.interface import ShapeDtypeStruct

__all__ = [
    "block_until_ready",
    "copy_to_host_async",
    "default_backend",
    "device_get",
    "device_put",
    "effects_barrier",
    "typeof",
]

T = TypeVar("T")


def block_until_ready(x: T) -> T:
    """x, a pytree: all of its arrays are there already, since calls return when they have computed what they give.

    >>> tinyfn.block_until_ready({"x": tnp.ones(2)})
    {'x': Array([1., 1.], dtype=float32)}
    """
    return x


def copy_to_host_async(x: T) -> T:
    """x, a pytree: all of its arrays are on the host.

    >>> tinyfn.copy_to_host_async(tnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return x


def effects_barrier() -> None:
    """Nothing: the effects of a call have happened when it returns.

    >>> tinyfn.effects_barrier()
    """


def device_put(x: Any, device: Any = None) -> Any:
    """x, a pytree of arrays and numbers, as Arrays; raises ValueError for a device other than "cpu", where arrays are.

    >>> tinyfn.device_put({"x": np.ones(2, "float32"), "n": 3})
    {'x': Array([1., 1.], dtype=float32), 'n': Array(3, dtype=int32)}
    """
    check_device(device, "device_put")
    return pytree.map(lambda leaf: leaf if isinstance(leaf, Array) else asarray(leaf), x)


def device_get(x: Any) -> Any:
    """x, a pytree, with NumPy arrays in the place of Arrays; they share memory with these, and can't be written to.

    >>> tinyfn.device_get({"x": tnp.ones(2)})
    {'x': array([1., 1.], dtype=float32)}
    """
    return pytree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, Array) else leaf, x)


def default_backend() -> str:
    """The device on which jitted functions run: "cpu", unless TINYFN_DEVICE or `devices.set_default_device` says otherwise.

    >>> tinyfn.default_backend()
    'cpu'
    """
    from .transforms.executable import default_device

    return default_device()


def typeof(x: Any) -> ShapeDtypeStruct:
    """The shape and dtype of an array, a number, or what can be made an array.

    >>> tinyfn.typeof(tnp.ones((2, 3)))
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    >>> tinyfn.typeof(1.5)
    ShapeDtypeStruct(shape=(), dtype=float32)
    """
    array = asarray(x)
    return ShapeDtypeStruct(array.shape, array.dtype)


entry_points(globals())
