"""What every renderer tells of its target: the limits that schedules keep to, and the operations that need no formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..trace.scalar import ScalarOp
from .nest import Kernel
from .program import ProgramSpec, specify
from .tensor_cores import TensorCore

if TYPE_CHECKING:
    from .codegen import Code


class Renderer:
    """Writes kernels in the language of a device. A renderer is a class with these attributes and methods."""

    device: str = ""  # the device's name, as `set_default_device` takes it
    language: str = ""  # of the code: "LLVM IR", "CUDA C"
    # Whether threads work in groups that can wait for each other (has_local) and share memory (has_shared).
    has_local: bool = True
    has_shared: bool = True
    # The most groups in a launch, and threads in a group, along x, y and z; None where there is no such limit.
    global_max: tuple[int, int, int] | None = (2**31 - 1,) * 3
    local_max: tuple[int, int, int] | None = (2**31 - 1,) * 3
    shared_max: int = 32768  # bytes of memory that a group can share
    tensor_cores: tuple[TensorCore, ...] = ()
    # How each operation that the target has is written. What is not here is taken apart into others.
    code_for_op: Mapping[ScalarOp, Any] = {}

    def program(self, kernel: Kernel) -> ProgramSpec:
        """The kernel's code, and what there is to know of it."""
        raise NotImplementedError(f"{type(self).__name__} needs a `program`")

    def render(self, kernel: Kernel) -> Any:
        """The kernel's code, and what a launch needs."""
        raise NotImplementedError(f"{type(self).__name__} needs a `render`")

    def supports(self, op: ScalarOp) -> bool:
        """Whether the target has an operation."""
        return op in self.code_for_op

    def __reduce__(self) -> Any:
        return type(self), ()


class CpuRenderer(Renderer):
    """LLVM IR for the machine that this process runs on. Its threads share nothing and take points as they come."""

    device = "cpu"
    language = "LLVM IR"
    has_local = False
    has_shared = False
    global_max = None
    local_max = None
    shared_max = 0

    def render(self, kernel: Kernel) -> Code:
        """The kernel's code, and what a call needs."""
        from .codegen import generate
        from .target import host_target

        return generate(kernel, host_target())

    def program(self, kernel: Kernel) -> ProgramSpec:
        """The kernel's code, and what there is to know of it."""
        code = self.render(kernel)
        return specify(kernel, self.device, code.ir, code.arguments, (code.points,), None, code.opts)
