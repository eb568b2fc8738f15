"""The workloads as a user of each library would write them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, Protocol


class Run(Protocol):
    """One workload, set up: calls wait until the result is there."""

    def __call__(self) -> Any:
        """One call, whose result is to be shown or dropped."""

    def reset(self) -> None:
        """Start again from the inputs, where a call continues from the last one."""

    def shown(self, result: Any) -> Any:
        """What libraries are compared by: a tree of arrays."""


class Source(NamedTuple):
    """Where a library's workloads are: a module with a class whose methods are named as the kinds of workloads."""

    module: str
    environment: str  # the name of the environment in which it is found
    device: str | None = None  # tinyfn's


LIBRARIES = {
    "tinyfn": Source("jax_style", "tinyfn", "cpu"),
    # The oracle: the primitives' references, one by one, in float64.
    "reference": Source("jax_style", "tinyfn", "numpy"),
    "jax": Source("jax_style", "jax"),
    "torch": Source("torch_style", "torch"),
    "torch.compile": Source("torch_style", "torch"),
}


def load(name: str) -> Any:
    """Import a library; the workloads are methods of the result, which take inputs and give a Run."""
    return import_module(f"{__name__}.{LIBRARIES[name].module}").load(name)
