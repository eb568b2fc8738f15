"""Names that users of JAX look for in `jax.errors`, with this library's own."""

from .export import ExportError
from .random.reuse import KeyReuseError
from .trace.errors import ConcretizationError as ConcretizationTypeError
from .trace.errors import (
    DeletedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
)
from .trace.errors import TracerError as JAXTypeError
from .trace.indexing import NonConcreteBooleanIndexError

__all__ = [
    "ConcretizationTypeError",
    "DeletedArrayError",
    "ExportError",
    "JAXTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]
