"""What the Python array API standard lets programs ask of this namespace: its version, dtypes, devices and capabilities."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..trace import dtype as dtypes
from .common import at_user, check_device

VERSION = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", VERSION)

_KINDS: dict[str, tuple[dtypes.DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.SIGNED + dtypes.UNSIGNED,
    "real floating": (dtypes.float32, dtypes.float64),
    "complex floating": dtypes.COMPLEX,
    "numeric": (*dtypes.SIGNED, *dtypes.UNSIGNED, dtypes.float32, dtypes.float64, *dtypes.COMPLEX),
}


def namespace(version: str | None = None) -> ModuleType:
    """`tinyfn.numpy`; raises ValueError for a version of the standard that it does not follow."""
    if version is not None and version not in VERSIONS:
        raise ValueError(
            f"version {version!r} of the array API standard is not one of {', '.join(VERSIONS)}{at_user()}"
        )
    return sys.modules[__package__]


class Info:
    """The answers of `__array_namespace_info__`, by the Python array API standard."""

    def capabilities(self) -> dict[str, Any]:
        """Whether boolean masks index arrays and results' shapes may depend on values (both do outside of jit).

        >>> tnp.__array_namespace_info__().capabilities()["boolean indexing"]
        True
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are unless a device is given.

        >>> tnp.__array_namespace_info__().default_device()
        'cpu'
        """
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """All devices.

        >>> tnp.__array_namespace_info__().devices()
        ('cpu',)
        """
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.DType]:
        """The dtypes of arrays made without a dtype, by kind.

        >>> tnp.__array_namespace_info__().default_dtypes()["real floating"]
        dtype('float32')
        """
        check_device(device, "default_dtypes")
        return {
            "real floating": dtypes.DEFAULT_FLOAT,
            "complex floating": dtypes.DEFAULT_COMPLEX,
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.DEFAULT_INT,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.DType]:
        """The standard's dtypes by name, of one kind (a string as for `isdtype`, or a tuple of them) or of all.

        >>> list(tnp.__array_namespace_info__().dtypes(kind="signed integer"))
        ['int8', 'int16', 'int32', 'int64']
        """
        check_device(device, "dtypes")
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for one in kinds:
            if one not in _KINDS:
                raise ValueError(
                    f"dtypes: there is no kind {one!r}; choose of {', '.join(_KINDS)}{at_user()}"
                )
        return {dtype.name: dtype for one in kinds for dtype in _KINDS[one]}


def __array_namespace_info__() -> Info:
    """The namespace's capabilities, devices and dtypes, as the Python array API standard has them.

    >>> tnp.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int32')
    """
    return Info()
