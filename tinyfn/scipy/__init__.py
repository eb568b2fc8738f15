"""Functions with the names of `jax.scipy`: `special`."""

from __future__ import annotations

from . import special

__all__ = ["special"]
