"""Ahead of time: what a jitted function becomes for given arguments, to look at, and compiled before its first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..devices import default_device
from ..trace import dtype as dtypes
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.tracing import current_trace, describe_function
from .arguments import Arguments
from .inspection import described

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from .jit import Jitted


def lower(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """What a call with these arguments would run; they may be arrays or anything with a shape and a dtype.

    A dimension may be a `Variable`: what is compiled then takes arrays of any size within its bounds."""
    given, static = jitted.arguments(args, kwargs, described)
    program = jitted.program(given, static, args, kwargs)
    if any(not isinstance(n, int) for array in given.arrays for n in array.shape):
        for node, name in zip(program.compiled.inputs, given.names(), strict=False):
            node.arg.name = node.arg.name or f"argument `{name}`"  # for messages about sizes

    def compile() -> Compiled:
        program.prepare()
        return Compiled(jitted, program, given, args, kwargs)

    return lowered(program.compiled, given.names(), compile)


def lowered(graph: Graph, names: Sequence[str] = (), compile: Callable[[], Any] | None = None) -> Lowered:
    """A simplified graph as kernels for the default device; `names` are those of its arguments."""
    from ..devices import cpu
    from ..lower.lowered import Backend, Lowered, renderer_of
    from ..lower.target import host_target

    def assembly(text: str) -> str:
        return cpu.assembly(text, host_target())

    device = "cuda" if default_device() == "cuda" else "cpu"
    hidden = [f"captured{i}" for i in range(len(graph.captured))]
    backend = Backend(renderer_of(device), assembly if device == "cpu" else None, compile)
    return Lowered(graph, backend, [*names, *hidden] if names else ())


def _fits(given: Any, expected: Any) -> bool:
    """Whether an argument has the shape (where that is known), the dtype and the weakness that it was compiled for."""
    if given == expected:
        return True
    (shape, *rest), (wanted, *others) = given, expected
    sizes_fit = all(n == m for n, m in zip(shape, wanted, strict=False) if isinstance(m, int))
    return rest == others and len(shape) == len(wanted) and sizes_fit


class Compiled:
    """A function that was compiled for arguments of one structure, with these shapes and dtypes. Made by `Lowered.compile`.

    It takes the arguments without the static ones; raises TypeError if they are others than it was compiled for, and ValueError
    if the size of a symbolic dimension is out of its bounds, or not the same everywhere."""

    def __init__(
        self, jitted: Jitted, program: Any, given: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ):
        self.device = default_device()
        self._jitted, self._program = jitted, program
        self._tree, self._signature = given.tree, given.signature()
        self._is_symbolic = any(not isinstance(n, int) for shape, *_ in self._signature for n in shape)
        self._static = {i: value for i, value in enumerate(args) if i in jitted.static_argnums}
        self._static_named = {name: value for name, value in kwargs.items() if name in jitted.static_argnames}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rest = iter(args)
        positions = range(len(args) + len(self._static))
        everything = tuple([self._static[i] if i in self._static else next(rest) for i in positions])
        named = {**kwargs, **self._static_named}
        given, _ = self._jitted.arguments(everything, named)
        if given.tree != self._tree or not all(map(_fits, given.signature(), self._signature)):
            raise TypeError(self._difference(given))
        if self._is_symbolic and current_trace() is not None:
            return self._jitted(*everything, **named)
        return self._jitted.run(self._program, given, everything, named)

    def _difference(self, given: Arguments) -> str:
        name = f"the compiled {describe_function(self._jitted.function)}"
        if given.tree != self._tree:
            return (
                f"{name} is called with arguments of another structure at {user_line()}: {given.tree}, but it was compiled "
                f"for {self._tree}"
            )
        differences = [
            f"argument `{given.name(i)}` is {dtypes.describe(a[1], a[0], a[2])}, but it was compiled for "
            f"{dtypes.describe(b[1], b[0], b[2])}"
            for i, (a, b) in enumerate(zip(given.signature(), self._signature, strict=True))
            if not _fits(a, b)
        ]
        return f"{name} is called at {user_line()} with other arguments: {'; '.join(differences)}"

    def __repr__(self) -> str:
        avals = ", ".join(dtypes.describe(dtype, shape, weak) for shape, dtype, weak in self._signature)
        return f"<Compiled {describe_function(self._jitted.function)}({avals}) on {self.device}>"
