"""What a program is made of, whatever the sizes of symbolic dimensions: steps, and the code of kernels and loops."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..lower import codegen
from ..lower.flow import FormOf, no_form, with_flow
from ..lower.group import group
from ..lower.nest import Host, Kernel, ProgramStep, View
from ..lower.target import host_target, usable_cores
from ..lower.timing import measuring
from .cpu import Module, compile_ir

if TYPE_CHECKING:
    from .loops import NativeFlow

ARENA = object()  # stands for the block of all temporaries among the arrays of a program


class Parts:
    """A graph's steps, and the code of its kernels.

    `form_of` says what an op is that may run natively. `flows` are those that do."""

    def __init__(self, graph: Any, form_of: FormOf = no_form, natively: bool = False):
        self.target = host_target()
        grouped = group(graph)
        if os.environ.get("TINYFN_VERIFY"):
            from ..lower.spec import verify

            verify(graph, grouped)
        self._form_of = form_of
        steps, self.flows = with_flow(grouped, graph.outputs, self._native)
        self.is_native = not any(isinstance(step, Host) for step in steps)
        if natively and not self.is_native:
            return  # nobody wants its code
        self.inputs: tuple[Any, ...] = graph.inputs
        # A result that is only seen in another shape is made in that shape.
        made_as = _only_views(graph, steps)
        self.shapes = {source: node.shape for node, source in made_as.items()}
        self.steps = [step for step in steps if not (isinstance(step, View) and step.node in made_as)]
        self.outputs = [made_as.get(node, node) for node in graph.outputs]
        self.modules: dict[str, Module] = {}  # hold the kernels' code
        several = sum(isinstance(step, Kernel) for step in self.steps) > 1
        # LLVM works on some kernels while the next one is rendered, unless what each takes is being measured.
        self.codes = self._compiled() if several and not measuring() else [self._code(s) for s in self.steps]

    def _native(self, node: Any) -> NativeFlow | None:
        form = self._form_of(node)
        if form is None:
            return None
        from .loops import native_flow

        return native_flow(form, self._of)

    def _of(self, graph: Any) -> Parts | None:
        """The parts of a graph that an op holds, if they are native."""
        make = partial(Parts, graph, self._form_of, natively=True)
        parts: Parts = graph.derive(("native parts", self._form_of), make)
        return parts if parts.is_native else None

    def _code(self, step: ProgramStep) -> codegen.Code | None:
        return codegen.generate(step, self.target) if isinstance(step, Kernel) else None

    def _compiled(self) -> list[codegen.Code | None]:
        """The codes of all steps, compiled by as many threads as there are cores meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        codes, made = [], {}
        with ThreadPoolExecutor(usable_cores(), "tinyfn-compile") as compiler:
            try:
                for step in self.steps:
                    code = self._code(step)
                    codes.append(code)
                    if code is not None and code.ir not in made:
                        made[code.ir] = compiler.submit(compile_ir, code.ir, self.target)
            except BaseException:  # an interrupt, for one: what waits is not wanted any more
                compiler.shutdown(wait=False, cancel_futures=True)
                raise
        self.modules = {text: module.result() for text, module in made.items()}
        return codes

    @property
    def code(self) -> int:
        """Bytes of machine code, of loops and branches too."""
        return sum(m.size for m in self.modules.values()) + sum(flow.code for flow in self.flows.values())

    def module(self, text: str) -> Module:
        """The machine code of a text, compiled once."""
        module = self.modules.get(text)
        if module is None:
            module = self.modules[text] = compile_ir(text, self.target)
        return module


def _only_views(graph: Any, steps: Sequence[ProgramStep]) -> dict[Any, Any]:
    """The views through which alone the results of kernels are seen, and those results."""
    taken = {*graph.inputs, *graph.outputs}
    read: set[Any] = set()  # by host ops
    for step in steps:
        if isinstance(step, Host):
            read.update(step.node.src)
            taken.update((step.node, *step.node.src))
    made: dict[Any, Any] = {}
    for step in steps:
        if not isinstance(step, View) or step.node not in graph.outputs or step.node in read:
            continue
        if step.source not in taken:
            taken.add(step.source)
            made[step.node] = step.source
    return made
