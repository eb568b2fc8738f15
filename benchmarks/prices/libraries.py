"""tinyfn and JAX as one namespace of the names that rows use."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

MODULES = {
    "np": "numpy", "nn": "nn", "lax": "lax", "random": "random", "ops": "ops", "special": "scipy.special",
    "linalg": "scipy.linalg",
}  # fmt: skip


def load(name: str) -> Any:
    """The namespace of "tinyfn" or "jax"; `wait` returns when a result is there."""
    root = import_module(name)
    modules = {short: import_module(f"{name}.{module}") for short, module in MODULES.items()}
    if name == "jax":
        import_module("jax.lax.linalg")
    wait = root.block_until_ready if name == "jax" else lambda result: result
    transforms = {each: getattr(root, each) for each in ("jit", "vmap", "vjp", "custom_vjp")}
    return SimpleNamespace(**modules, **transforms, wait=wait, version=root.__version__)
