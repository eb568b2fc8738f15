"""What every renderer tells of its target: the limits that schedules keep to, and the operations that need no formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..trace.scalar import ScalarOp
from .nest import Kernel
from .tensor_cores import TensorCore


class Renderer:
    """Writes kernels in the language of a device. A renderer is a class with these attributes, and `render`."""

    device: str = ""  # the device's name, as `set_default_device` takes it
    language: str = ""  # what `render` writes: "LLVM IR", "CUDA C"
    # Whether threads work in groups that can wait for each other (has_local) and share memory (has_shared).
    has_local: bool = True
    has_shared: bool = True
    # The most groups in a launch, and threads in a group, along x, y and z; None where there is no such limit.
    global_max: tuple[int, int, int] | None = (2**31 - 1,) * 3
    local_max: tuple[int, int, int] | None = (2**31 - 1,) * 3
    shared_max: int = 32768  # bytes of memory that a group can share
    vector_bytes: int = 16  # of the widest load
    tensor_cores: tuple[TensorCore, ...] = ()
    # How each operation that the target has is written. What is not here is taken apart into others.
    code_for_op: Mapping[ScalarOp, Any] = {}

    def render(self, kernel: Kernel) -> Any:
        """The code of a kernel."""
        raise NotImplementedError(f"{type(self).__name__} needs a `render`")

    def supports(self, op: ScalarOp) -> bool:
        """Whether the target has an operation."""
        return op in self.code_for_op

    def __reduce__(self) -> Any:
        return type(self), ()
