"""Optimizers: pairs of pure functions on pytrees, `init(params)` and `step(params, grads, state)`."""

from ..trace.errors import entry_points
from .adam import adam, adamw, lamb
from .base import Optimizer, set_learning_rate
from .group import Group, group
from .sgd import lars, muon, newton_schulz, sgd

__all__ = [
    "Group", "Optimizer", "adam", "adamw", "group", "lamb", "lars", "muon", "newton_schulz",
    "set_learning_rate", "sgd",
]  # fmt: skip

entry_points(globals())
