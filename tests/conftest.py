"""Settings for all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tinyfn.devices import default_device, set_default_device

# Every program that a test compiles is checked against the specs of the compiler's stages.
os.environ["TINYFN_VERIFY"] = "1"
# A busy machine is no reason to fail; and what is merged is tested on the same examples each time.
settings.register_profile("tinyfn", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile("tinyfn")


@pytest.fixture
def step_by_step() -> Iterator[None]:
    """Jitted functions are not compiled: for tests of tracing, and of graphs for which LLVM takes long."""
    before = default_device()
    set_default_device("numpy")
    yield
    set_default_device(before)
