"""Ahead of time: what a jitted function becomes for given arguments, to look at, and compiled before its first call.

jit(f).trace(x)              a Traced: its graph, and the trees and types of arguments and results
jit(f).trace(x).lower()      the kernels (jit(f).lower(x) is short for it)
jit(f).lower(x).compile()    a Compiled: a function of such arguments, which never compiles again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..devices import default_device
from ..trace import dtype as dtypes
from ..trace import sint, switches
from ..trace.errors import entry_point
from ..trace.graph import Graph
from ..trace.interface import Described, Interface
from ..trace.tracing import current_trace, describe_function
from .arguments import Arguments
from .fast_call import MISS
from .inspection import described

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..trace.sint import Dimension
    from .jit import Jitted
    from .traced import TracedProgram


class _Call(NamedTuple):
    """A call for which a function is traced: what it was given, and what was made of it."""

    jitted: Jitted
    program: TracedProgram
    given: Arguments
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def trace(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """What a call with these arguments is traced to; they may be arrays or anything with a shape and a dtype.

    A dimension may be a `Variable`: what is compiled then takes arrays of any size within its bounds."""
    given, static = jitted._arguments(args, kwargs, described)
    program = jitted._program(given, static, args, kwargs)
    return Traced(_Call(jitted, program, given, args, kwargs))


class Traced(Described):
    """A jitted function traced for arguments of one structure, with these shapes and dtypes. Made by `jit(f).trace`.

    >>> traced = tinyfn.jit(lambda x, y: {"sum": x + y}, donate_argnums=1).trace(tnp.ones(3), 1.0)
    >>> traced.in_tree, traced.in_avals, traced.donated
    (PyTreeDef(((*, *), {})), (ShapeDtypeStruct(shape=(3,), dtype=float32), ShapeDtypeStruct(shape=(), dtype=float32)), (1,))
    >>> traced.out_tree, traced.out_info
    (PyTreeDef({'sum': *}), {'sum': ShapeDtypeStruct(shape=(3,), dtype=float32)})
    >>> print(traced.jaxpr)
    def _lambda(x0: "float32[3]", x1: "float32[]"):
        v2 = broadcast(x1, shape=(3,), axes=())  # float32[3]
        v3 = add(x0, v2)  # float32[3]
        return (v3,)
    >>> traced.lower().compile()(tnp.ones(3), 2.0)
    {'sum': Array([3., 3., 3.], dtype=float32)}
    """

    def __init__(self, call: _Call):
        self._call = call
        program = call.program
        self.graph = program.graph
        self.interface = Interface.of(program.graph, call.given.tree, program.out_tree, call.given.names())
        self.fun_name = self.interface.name

    @property
    def jaxpr(self) -> Graph:
        """The graph, by the name that users of JAX look for."""
        return self.graph

    @property
    def donated(self) -> tuple[int, ...]:
        """Which of the leaves of the arguments are donated."""
        return self._call.program.donated

    @property
    def _program(self) -> TracedProgram:
        """What runs it."""
        return self._call.program

    def lower(self) -> Lowered:
        """The kernels for the default device, as a table and as code; `compile()` of it makes the function."""
        program, names = self._program, self.interface.names
        if program.graph.is_symbolic:
            for node, name in zip(program.compiled.inputs, names, strict=False):
                node.arg.name = node.arg.name or f"argument `{name}`"  # for messages about sizes

        def compile() -> Compiled:
            program.prepare()
            return Compiled(self._call, made)

        made = lowered(program.compiled, names, compile, self.interface)
        return made

    def __repr__(self) -> str:
        return f"<Traced {self.graph!r}>"


def lowered(
    graph: Graph,
    names: Sequence[str] = (),
    compile: Callable[[], Any] | None = None,
    interface: Interface | None = None,
) -> Lowered:
    """A simplified graph as kernels for the default device; `names` are those of its arguments."""
    from ..devices import cpu
    from ..lower.lowered import Backend, Lowered, renderer_of
    from ..lower.target import host_target
    from .executable import form_of

    def assembly(text: str) -> str:
        return cpu.assembly(text, host_target())

    device = "cuda" if default_device() == "cuda" else "cpu"
    hidden = [f"captured{i}" for i in range(len(graph.captured))]
    backend = Backend(renderer_of(device), assembly if device == "cpu" else None, compile, form_of)
    return Lowered(graph, backend, [*names, *hidden] if names else (), interface)


class Compiled(Described):
    """A function that was compiled for arguments of one structure, with these shapes and dtypes. Made by `Lowered.compile`.

    It takes the arguments without the static ones; raises TypeError if they are others than it was compiled for, and ValueError
    if the size of a symbolic dimension is out of its bounds, or not the same everywhere. It never compiles again.

    >>> compiled = tinyfn.jit(lambda x: tnp.sum(x * x)).lower(tnp.ones(100)).compile()
    >>> compiled(tnp.ones(100))
    Array(100., dtype=float32)
    >>> compiled.cost_analysis()["flops"], compiled.memory_analysis().argument_size_in_bytes
    (200, 400)
    >>> try:
    ...     compiled(tnp.ones(101))
    ... except TypeError as error:
    ...     print(str(error).split(": ", 1)[1].split(". ")[0])
    argument `x` is float32[101], but it was compiled for float32[100]
    """

    def __init__(self, call: _Call, lowered: Lowered):
        self.device = default_device()
        self.interface: Interface = lowered.interface
        self._lowered, self._call = lowered, call
        jitted, self._program = call.jitted, call.program
        self._static = {i: value for i, value in enumerate(call.args) if i in jitted.static_argnums}
        self._static_named = {
            name: value for name, value in call.kwargs.items() if name in jitted.static_argnames
        }
        self._fast = None if self._static or self._static_named else self._program.fast(call.given)

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._fast is not None and not switches.general_path and current_trace() is None:
            result = self._fast(args, kwargs)
            if result is not MISS:
                return result
        rest = iter(args)
        positions = range(len(args) + len(self._static))
        everything = tuple([self._static[i] if i in self._static else next(rest) for i in positions])
        named = {**kwargs, **self._static_named}
        given, _ = self._call.jitted._arguments(everything, named)
        self.interface.check("compiled", given.tree, given.arrays)
        return self._call.jitted._run(self._program, given, everything, named)

    def as_text(self, stage: str = "source") -> str:
        """The program at a stage: "graph", "nests", "ops", "source" or "assembly"; see `Lowered.as_text`.

        >>> compiled = tinyfn.jit(lambda x: tnp.sum(x * x)).lower(tnp.ones(100)).compile()
        >>> print(compiled.as_text("graph"))
        def _lambda(x0: "float32[100]"):
            v1 = mul(x0, x0)  # float32[100]
            v2 = reduce_sum(v1, axes=(0,))  # float32[]
            return (v2,)
        """
        return self._lowered.as_text(stage)

    def cost_analysis(self) -> dict[str, Dimension]:
        """What a call does, by the names that JAX gives it, and more; see `Lowered.cost_analysis`."""
        return self._lowered.cost_analysis()

    def memory_analysis(self, **sizes: int) -> MemoryAnalysis:
        """How much memory a call takes, for these sizes of symbolic dimensions, by their names.

        Raises ValueError if one of them is missing, unknown or out of bounds.

        >>> n = tinyfn.Variable("n", 1, 1000)
        >>> compiled = tinyfn.jit(lambda x: x + 1).lower(tinyfn.ShapeDtypeStruct((n,), "float32")).compile()
        >>> memory = compiled.memory_analysis(n=10)
        >>> memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes
        (40, 40, 0)
        """
        return memory_analysis(self._program, sizes)

    def __str__(self) -> str:
        return str(self._lowered)

    def __repr__(self) -> str:
        avals = ", ".join(dtypes.describe(aval.dtype, aval.shape) for aval in self.in_avals)
        return f"<Compiled {describe_function(self._call.jitted.function)}({avals}) on {self.device}>"


class MemoryAnalysis(NamedTuple):
    """Bytes that one call of a compiled function takes, named as in JAX.

    `argument` is what the caller passes, `captured` the arrays that the function closed over, `output` all results, of which
    `alias` take the memory of donated arguments. `temp` is the most that is there at one time beside these: the block that
    temporaries share, and what goes between kernels and calls of references; not what such a call, or the step of a loop, needs
    within. `generated_code` is machine code and its constants.

    >>> table = tnp.ones(100)
    >>> compiled = tinyfn.jit(lambda x: tnp.sum(x * table)).lower(tnp.ones(100)).compile()
    >>> memory = compiled.memory_analysis()
    >>> memory.argument_size_in_bytes, memory.captured_size_in_bytes, memory.output_size_in_bytes
    (400, 400, 4)
    >>> memory.peak_memory_in_bytes
    804
    """

    argument_size_in_bytes: int
    captured_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int

    @property
    def peak_memory_in_bytes(self) -> int:
        """All arrays together."""
        held = self.argument_size_in_bytes + self.captured_size_in_bytes
        return held + self.output_size_in_bytes - self.alias_size_in_bytes + self.temp_size_in_bytes


def memory_analysis(program: TracedProgram, given: dict[str, int]) -> MemoryAnalysis:
    """The memory of a prepared program, for sizes of symbolic dimensions by their names."""
    graph = program.compiled
    variables = {v.arg[0]: v for v in sint.variables([n for node in graph.inputs for n in node.shape])}
    if given.keys() != variables.keys():
        wanted = ", ".join(f"{name} in [{v.arg[1]}, {v.arg[2]}]" for name, v in variables.items()) or "none"
        raise ValueError(
            f"memory_analysis of {graph.name} needs the sizes of its symbolic dimensions, {wanted}, and is given "
            f"{', '.join(given) or 'none'}"
        )
    sizes = {v: sint.evaluate(v, {v: given[name]}) for name, v in variables.items()}  # within bounds
    use = program.memory_use(sizes)

    def total(nodes: Sequence[Any]) -> int:
        return sum(sint.evaluate(sint.prod(node.shape), sizes) * node.dtype.itemsize for node in nodes)

    arguments = graph.arguments
    return MemoryAnalysis(
        total(arguments), total(graph.inputs[len(arguments) :]), total(graph.outputs), use.alias, use.temporary, use.code
    )  # fmt: skip
