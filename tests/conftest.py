"""Settings for all tests."""

import os

from hypothesis import settings

# Every program that a test compiles is checked against the specs of the compiler's stages.
os.environ["TINYFN_VERIFY"] = "1"
# A busy machine is no reason to fail; and what is merged is tested on the same examples each time.
settings.register_profile("tinyfn", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile("tinyfn")
