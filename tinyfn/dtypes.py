"""Dtypes: their kinds beside NumPy's, and how they promote."""

from .numpy import issubdtype, promote_types, result_type
from .trace.dtype import canonical as canonicalize_dtype
from .trace.dtype import extended, float0, prng_key

__all__ = [
    "canonicalize_dtype",
    "extended",
    "float0",
    "issubdtype",
    "prng_key",
    "promote_types",
    "result_type",
]
