"""The emulator is for x86-64, and NVRTC is for where there are GPUs."""

from __future__ import annotations

import platform
import sys

if sys.platform != "linux" or platform.machine() != "x86_64":
    collect_ignore_glob = ["test_*.py"]
