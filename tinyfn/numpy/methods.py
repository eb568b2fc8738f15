"""The methods and operators of arrays that are functions of this namespace."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace import prims
from ..trace.array import Array, install
from ..trace.indexing import At, getitem
from ..trace.prims.complex_numbers import REAL_TYPE
from . import (
    arithmetic,
    common,
    contraction,
    conversion,
    cumulative,
    floats,
    indexing,
    joining,
    logic,
    ordering,
    positions,
    rearranging,
    reductions,
    shapes,
    statistics,
    triangles,
)
from .common import bind


def _reshape(self: Array, *shape: Any, order: str = "C") -> Array:
    """The elements in another shape, given as one tuple or as several sizes; one size may be -1.

    >>> tnp.arange(6).reshape(2, -1)
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    return shapes.reshape(
        self, shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape, order
    )


def _transpose(self: Array, *axes: Any) -> Array:
    """The axes in another order, given as one tuple or as several numbers, or in reverse.

    >>> x = tnp.zeros((2, 3, 4))
    >>> x.transpose().shape, x.transpose(1, 0, 2).shape
    ((4, 3, 2), (3, 2, 4))
    """
    if not axes or axes[0] is None:
        return shapes.transpose(self)
    return shapes.transpose(self, axes[0] if isinstance(axes[0], (tuple, list)) else axes)


def _view(self: Array, dtype: Any = None) -> Array:
    """The same bits read as another dtype, row-major and the lowest first: of another width, the last axis is longer or shorter.

    As bool everything but 0 is True. Raises ValueError where the last axis does not hold whole elements, or where there is none.

    >>> tnp.array([1.0]).view(tnp.int32) == 127 << 23
    Array([ True], dtype=bool)
    >>> tnp.array([1, 258], tnp.int16).view(tnp.uint8)
    Array([1, 0, 2, 1], dtype=uint8)
    """
    if dtype is None:
        return self
    target = dtypes.canonical(dtype)
    if self.dtype is dtypes.bool_:
        return self if target is dtypes.bool_ else _view(common.cast(self, dtypes.uint8), target)
    if target is dtypes.bool_:
        return logic.not_equal(_view(self, dtypes.uint8), 0)
    if self.dtype.itemsize == target.itemsize:
        return bind(prims.bitcast, (self,), {"dtype": target})
    old, new = self.dtype.itemsize, target.itemsize
    if self.ndim == 0 or (old < new and self.shape[-1] * old % new):
        attempt = f"view of {common.described(self)} as {target.name}"
        raise ValueError(f"{attempt}: a last axis of a multiple of {new} bytes is needed{common.at_user()}")
    *lead, n = self.shape
    if dtypes.kind(self.dtype) == "complex":
        parts = joining.stack([floats.real(self), floats.imag(self)], -1)
        return _view(shapes.reshape(parts, (*lead, 2 * n)), target)
    if dtypes.kind(target) == "complex":
        pairs = shapes.reshape(_view(self, REAL_TYPE[target]), (*lead, n * old // new, 2))
        return bind(prims.complex_, (pairs[..., 0], pairs[..., 1]), {})
    from ..lax.bits import bitcast_convert_type

    if old > new:
        return shapes.reshape(bitcast_convert_type(self, target), (*lead, n * old // new))
    return bitcast_convert_type(shapes.reshape(self, (*lead, n * old // new, new // old)), target)


def _array_namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    """The module of functions that work on it, by the Python array API standard.

    >>> tnp.zeros(2).__array_namespace__() is tnp
    True
    """
    from . import inspection

    return inspection.namespace(api_version)


def _to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
    """The array itself, since there is one device, "cpu"; raises ValueError for another.

    >>> x = tnp.zeros(2)
    >>> x.to_device("cpu") is x
    True
    """
    common.check_device(device, "to_device")
    if stream is not None:
        raise ValueError(f"to_device: the CPU has no streams{common.at_user()}")
    return self


def _copy_to_host_async(self: Array) -> None:
    """Nothing: values are in the host's memory when an array is made.

    >>> tnp.zeros(2).copy_to_host_async()
    """


def _tobytes(self: Array, order: str = "C") -> bytes:
    """The bytes of the elements in order.

    >>> tnp.array([1, 2], tnp.uint8).tobytes() == bytes([1, 2])
    True
    """
    return self.value.tobytes(order)  # type: ignore[arg-type]


def _compress(self: Array, condition: Any, axis: int | None = None, **options: Any) -> Array:
    """The slices along an axis for which a 1-d condition holds; `size` and `fill_value` as for `tinyfn.numpy.compress`.

    >>> tnp.array([[1, 2], [3, 4]]).compress(tnp.array([False, True]), axis=0)
    Array([[3, 4]], dtype=int32)
    """
    return positions.compress(condition, self, axis, **options)


def _round(self: Array, ndigits: int | None = None) -> Any:
    if ndigits is None and self.ndim == 0:
        return round(self.item())
    return floats.round(self, ndigits or 0)


def _deepcopy(self: Array, memo: Any) -> Array:
    return conversion.copy(self)


_METHODS: dict[str, Any] = {
    "__getitem__": getitem,
    "__round__": _round,
    "__copy__": conversion.copy,
    "__deepcopy__": _deepcopy,
    "__array_namespace__": _array_namespace,
    "to_device": _to_device,
    "copy_to_host_async": _copy_to_host_async,
    "tobytes": _tobytes,
    "at": property(At),
    "view": _view,
    "T": property(shapes.transpose),
    "mT": property(shapes.matrix_transpose),
    "real": property(floats.real),
    "imag": property(floats.imag),
    "reshape": _reshape,
    "transpose": _transpose,
    "ravel": shapes.ravel,
    "flatten": shapes.ravel,
    "swapaxes": shapes.swapaxes,
    "squeeze": shapes.squeeze,
    "diagonal": triangles.diagonal,
    "repeat": rearranging.repeat,
    "trace": triangles.trace,
    "copy": conversion.copy,
    "astype": conversion.astype,
    "sum": reductions.sum,
    "mean": statistics.mean,
    "prod": reductions.prod,
    "max": reductions.max,
    "min": reductions.min,
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "std": statistics.std,
    "var": statistics.var,
    "ptp": reductions.ptp,
    "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod,
    "clip": arithmetic.clip,
    "round": floats.round,
    "conj": floats.conjugate,
    "conjugate": floats.conjugate,
    "dot": contraction.dot,
    "take": indexing.take,
    "sort": ordering.sort,
    "argsort": ordering.argsort,
    "nonzero": positions.nonzero,
    "searchsorted": ordering.searchsorted,
    "choose": indexing.choose,
    "compress": _compress,
    "argpartition": ordering.argpartition,
}

install(_METHODS)
