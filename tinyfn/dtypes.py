"""Dtypes: their kinds beside NumPy's, and how they promote."""

from .numpy import bfloat16, finfo, iinfo, issubdtype, promote_types, result_type
from .trace.dtype import canonical as canonicalize_dtype
from .trace.dtype import extended, float0, prng_key
from .trace.errors import TypePromotionError, entry_points

__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "prng_key",
    "promote_types",
    "result_type",
]


entry_points(globals())
