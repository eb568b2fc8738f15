"""Names that users of JAX look for in `jax.experimental`."""

from . import checks as checkify
from .callbacks import io_callback
from .trace.errors import entry_points

__all__ = ["checkify", "io_callback"]


entry_points(globals())
