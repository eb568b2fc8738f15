"""`tinyfn.linalg` under the name that it has in NumPy."""

from ..linalg import *  # noqa: F403
from ..linalg import __all__ as __all__
