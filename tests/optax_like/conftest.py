"""Settings for the tests of optimizers."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("FUSE_OPTIM", "OPTIM_DTYPE", "CONST_LR"):
        monkeypatch.delenv(variable, raising=False)
