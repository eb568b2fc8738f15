"""`tinyfn.fft` under the name that it has in NumPy."""

from ..fft import *  # noqa: F403
from ..fft import __all__ as __all__
