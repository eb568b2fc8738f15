"""Names that users of JAX look for in `jax.ad_checkpoint`."""

from . import checkpoint_policies
from .trace.errors import entry_points
from .transforms.remat import checkpoint_name, print_saved_residuals, saved_residuals
from .transforms.remat import remat as checkpoint

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals", "saved_residuals"]


entry_points(globals())
