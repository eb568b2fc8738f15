"""export, Exported, and reading it from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import __version__
from ..trace import dtype as dtypes
from ..trace import switches
from ..trace.array import wrap
from ..trace.errors import entry_methods, user_line
from ..trace.graph import Graph
from ..trace.interface import Described, Interface
from ..trace.sint import Variable
from ..trace.tracing import Tracer, current_trace
from ..trace.uop import UOp
from ..transforms import jit, vjp
from ..transforms.arguments import Arguments
from ..transforms.executable import platform
from ..transforms.fast_call import MISS
from ..transforms.jit import Jitted
from ..transforms.traced import TracedProgram
from . import container
from .errors import ExportError
from .graphs import GraphReader, GraphWriter, fields
from .trees import decode_tree, encode_tree

PLATFORMS = ("cpu", "cuda")
_MOST_VALUE = 1 << 40  # of a symbolic dimension


class Exported(Described):
    """A function as data: `call` it, `save` it, and `load` it elsewhere. Made by `export` and `load`.

    `in_tree`, `in_avals`, `out_tree` and `out_avals` say what it takes and gives, `graph` is what it computes.

    >>> exported = tinyfn.export.export(lambda x, y: {"sum": x + y})(tnp.ones(3), 2.0)
    >>> exported.fun_name, exported.platforms, exported.graph, exported.donated
    ('<lambda>', ('cpu', 'cuda'), <Graph <lambda>(float32[3], float32[]) -> (float32[3])>, ())
    >>> exported.in_tree, exported.args_info[0][0]
    (PyTreeDef(((*, *), {})), ShapeDtypeStruct(shape=(3,), dtype=float32))
    >>> exported.out_tree, exported.out_info
    (PyTreeDef({'sum': *}), {'sum': ShapeDtypeStruct(shape=(3,), dtype=float32)})
    >>> len(exported.in_avals), len(exported.out_avals)  # leaves
    (2, 1)
    >>> exported.call(tnp.ones(3), 2.0)
    {'sum': Array([3., 3., 3.], dtype=float32)}
    >>> tinyfn.grad(lambda x: exported.call(x, 2.0)["sum"].sum())(tnp.zeros(3))
    Array([1., 1., 1.], dtype=float32)
    """

    def __init__(self, program: TracedProgram, interface: Interface, platforms: Sequence[str]):
        self.interface = interface
        self.platforms = tuple(platforms)
        self._program = program
        self._fast: Any = None

    @property
    def fun_name(self) -> str:
        """The name of the function."""
        return self.interface.name

    @property
    def graph(self) -> Graph:
        """What it computes."""
        return self._program.graph

    @property
    def donated(self) -> tuple[int, ...]:
        """Which of the leaves of the arguments are donated."""
        return self._program.donated

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The result for arguments of the structure, dtypes and shapes that it was exported for, without static ones.

        It may be called within grad, vmap and jit. The first call compiles it. Raises TypeError for other arguments, ValueError
        for sizes of symbolic dimensions that are out of bounds or contradict each other.

        >>> exported = tinyfn.export.export(lambda x: x**2)(tnp.ones(2))
        >>> exported.call(tnp.array([1.0, 3.0]))
        Array([1., 9.], dtype=float32)
        >>> tinyfn.vmap(exported.call)(tnp.ones((5, 2))).shape
        (5, 2)
        """
        if self._fast is not None and not switches.general_path and current_trace() is None:
            result = self._fast(args, kwargs)
            if result is not MISS:
                return result
        given = Arguments("export", self._named(), args, kwargs)
        self.interface.check("exported", given.tree, given.arrays)
        if current_trace() is None and platform() not in self.platforms:
            raise ValueError(
                f"the exported {self.fun_name} is for {', '.join(self.platforms)} and is called on {platform()}, at {user_line()}"
            )
        results = self._program.results(given.arrays, self._program.donated_arrays(given.arrays))
        if current_trace() is None:
            if switches.general_path and switches.checks_values():
                self.graph.run(
                    [a.value for a in (*given.arrays, *self.graph.captured)]
                )  # raises where a NaN is made
            self._fast = self._program.fast(given)
        return self._program.unflatten(results)

    def _named(self) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> None: ...

        function.__name__ = self.fun_name
        return function

    def has_vjp(self) -> bool:
        """Whether it can be differentiated: always, since its graph is in the file, and the derivatives of that are known.

        >>> tinyfn.export.export(lambda x: x**2)(1.0).has_vjp()
        True
        """
        return True

    def vjp(self) -> Exported:
        """The reverse mode as an exported function: from the leaves of the arguments, and a cotangent for each leaf of the result
        that is a float, to a tuple of cotangents of the arguments' leaves, None for one that is no float.

        >>> pull_back = tinyfn.export.export(lambda x, n: n * x**2)(1.0, 3).vjp()
        >>> pull_back.call(5.0, 3, 1.0)
        (Array(30., dtype=float32), None)
        """
        inexact = [dtypes.is_inexact(aval.dtype) for aval in self.out_avals]
        count, tree = len(self.in_avals), self.in_tree

        def pull_back(*leaves: Any) -> tuple[Any, ...]:
            floats = [i for i, aval in enumerate(self.in_avals) if dtypes.is_inexact(aval.dtype)]

            def of_floats(*values: Any) -> list[Any]:
                flat = list(leaves[:count])
                for i, value in zip(floats, values, strict=True):
                    flat[i] = value
                args, kwargs = tree.unflatten(flat)
                results = self.out_tree.flatten_up_to(self.call(*args, **kwargs))
                return [result for result, flag in zip(results, inexact, strict=True) if flag]

            _, pullback = vjp(of_floats, *[leaves[i] for i in floats])
            found = dict(zip(floats, pullback(list(leaves[count:])), strict=True))
            return tuple([found.get(i) for i in range(count)])

        pull_back.__name__ = f"vjp_{self.fun_name}"
        cotangents = [aval for aval, flag in zip(self.out_avals, inexact, strict=True) if flag]
        return export(jit(pull_back), platforms=self.platforms)(*self.in_avals, *cotangents)

    def serialize(self, vjp_order: int = 0) -> bytes:
        """The function as bytes, which `deserialize` reads.

        `vjp_order` is there for code that was written for JAX: derivatives of any order are had from the file as it is.

        >>> blob = tinyfn.export.export(lambda x: 2 * x)(1.0).serialize()
        >>> type(blob), tinyfn.export.deserialize(blob).call(4.0)
        (<class 'bytes'>, Array(8., dtype=float32))
        """
        if not isinstance(vjp_order, int) or vjp_order < 0:
            raise ValueError(f"vjp_order is the number of derivatives that are wanted, not {vjp_order!r}")
        return container.dump(*_data(self))

    def save(self, path: container.Path) -> None:
        """Write the function to a file, which `load` reads and which appears whole or not at all.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tinyfn.export.export(lambda x: 2 * x)(1.0).save(os.path.join(folder, "double.safetensors"))
        ...     print(os.listdir(folder))
        ['double.safetensors']
        """
        container.write(path, *_data(self))

    def __str__(self) -> str:
        return str(self.graph)

    def __repr__(self) -> str:
        return f"<Exported {self.graph!r} for {', '.join(self.platforms)}>"


entry_methods(Exported, "call", "vjp", "serialize", "save")


def export(function: Any, *, platforms: Sequence[str] | None = None) -> Callable[..., Exported]:
    """A function of arguments, or of shapes and dtypes in their place, that gives the jitted function as an `Exported`.

    Dimensions may be symbolic, see `symbolic_shape`. What the function closed over is in the file. `platforms` says where it may
    be called, "cpu" and "cuda" if it is not given. Raises ExportError for what a file can't hold: Python functions, which
    callbacks and `debug.print` call, and classes without a name for files.

    >>> exported = tinyfn.export.export(tinyfn.jit(lambda x: 2 * x))(tinyfn.ShapeDtypeStruct((3,), "float32"))
    >>> exported.call(tnp.ones(3))
    Array([2., 2., 2.], dtype=float32)

    With any number of rows:

    >>> shape = tinyfn.export.symbolic_shape("b, 3")
    >>> summed = tinyfn.export.export(lambda x: x.sum(1))(tinyfn.ShapeDtypeStruct(shape, "float32"))
    >>> summed.call(tnp.ones((2, 3))), summed.call(tnp.ones((4, 3)))
    (Array([3., 3.], dtype=float32), Array([3., 3., 3., 3.], dtype=float32))
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    chosen = PLATFORMS if platforms is None else tuple(platforms)
    if not chosen or any(name not in PLATFORMS for name in chosen):
        raise ValueError(f"export: platforms are {', '.join(PLATFORMS)}, not {platforms!r}")

    def exported(*args: Any, **kwargs: Any) -> Exported:
        traced = jitted.trace(*args, **kwargs)
        program = traced._program
        if any(isinstance(array, Tracer) for array in program.graph.captured):
            raise ExportError(
                f"export of {program.graph.name}, at {user_line()}: it closes over traced arrays; export it outside of the "
                "transformed function"
            )
        if program.graph.axis_names:
            names = ", ".join(map(repr, sorted(program.graph.axis_names, key=str)))
            raise ExportError(
                f"export of {program.graph.name}, at {user_line()}: it uses the named axis {names} of a vmap around it; export "
                "the function with the vmap"
            )
        # Of its own, for it is kept as long as the Exported and not in the cache of the jitted function.
        own = TracedProgram(program.graph, program.out_tree, program.weak, program.donated)
        result = Exported(own, traced.interface, chosen)
        _data(result)  # raises for what can't be written
        return result

    return exported


def _data(exported: Exported) -> tuple[Any, dict[str, Any]]:
    """The program as data, and the arrays."""
    interface, graph = exported.interface, exported.graph
    writer = GraphWriter()
    number = writer.add(graph)
    assert number == len(writer.graphs) - 1, "a graph comes after those that it holds"
    captured = {f"captured{i}": array for i, array in enumerate(graph.captured)}
    program = {
        "tinyfn": __version__,
        "platforms": list(exported.platforms),
        "variables": {name: list(v.arg[1:3]) for name, v in writer.variables.items()},
        "primitives": dict(sorted(writer.versions.items())),
        "graphs": writer.graphs,
        "captured": list(captured),
        "in_tree": encode_tree(interface.in_tree, "arguments"),
        "out_tree": encode_tree(interface.out_tree, "result"),
        "names": list(interface.names),
        "weak": list(exported._program.weak),
        "donated": list(exported._program.donated),
    }
    return program, {**captured, **writer.arrays}


_FIELDS = {
    "tinyfn": str, "platforms": list, "variables": dict, "primitives": dict, "graphs": list, "captured": list, "in_tree": list,
    "out_tree": list, "names": list, "weak": list, "donated": list,
}  # fmt: skip


def load(path: container.Path) -> Exported:
    """The function in a file. Nothing is run, and its arrays are read when they are first used.

    Raises ExportError for a file that is damaged, is something else, or has what this version does not know, and OSError if it
    can't be opened. Calling the function computes what the file says, and does nothing else.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "double.safetensors")
    ...     tinyfn.export.export(lambda x: 2 * x)(1.0).save(path)
    ...     print(tinyfn.export.load(path).call(3.0))
    6.0
    """
    return _read(*container.read(path))


def deserialize(blob: bytes | bytearray) -> Exported:
    """The function of the bytes that `Exported.serialize` gave; raises ExportError as `load` does.

    >>> blob = tinyfn.export.export(lambda x: 2 * x)(1.0).serialize()
    >>> tinyfn.export.deserialize(blob).call(3.0)
    Array(6., dtype=float32)
    """
    return _read(*container.read(bytes(blob)))


def _read(program: Any, arrays: dict[str, np.ndarray]) -> Exported:
    data = dict(zip(_FIELDS, fields(program, "the program", _FIELDS), strict=True))
    variables = {name: _variable(name, bounds) for name, bounds in data["variables"].items()}
    reader = GraphReader(data["primitives"], arrays, variables)
    graphs = [reader.add(each) for each in data["graphs"]]
    if not graphs:
        raise ExportError("the program has no graph")
    graph = graphs[-1]
    captured = [reader.array(name) for name in data["captured"]]
    arguments = len(graph.inputs) - len(captured)
    if arguments < 0:
        raise ExportError(f"{graph.name} has fewer inputs than captured arrays")
    hidden = graph.inputs[arguments:]
    values = [container.restored(array, node.dtype) for array, node in zip(captured, hidden, strict=True)]
    for value, node in zip(values, hidden, strict=True):
        if value.dtype is not node.dtype or value.shape != node.shape:
            raise ExportError(
                f"a captured array is {dtypes.describe(value.dtype, value.shape)}, where {node!r} is needed"
            )
    closed = Graph(graph.inputs, graph.outputs, [wrap(value) for value in values], graph.name)
    in_tree = decode_tree(data["in_tree"], "arguments", arguments)
    out_tree = decode_tree(data["out_tree"], "result", len(graph.outputs))
    names, weak, donated, platforms = (data[key] for key in ("names", "weak", "donated", "platforms"))
    _check_lists(graph, arguments, names, weak, donated, platforms)
    if in_tree._nodes[:1] != ((tuple, 2, None),):
        raise ExportError("the structure of the arguments is not that of a call")
    interface = Interface.of(closed, in_tree, out_tree, names)
    return Exported(TracedProgram(closed, out_tree, tuple(weak), tuple(donated)), interface, platforms)


def _check_lists(graph: Graph, arguments: int, names: Any, weak: Any, donated: Any, platforms: Any) -> None:
    if len(names) != arguments or any(type(name) is not str for name in names):
        raise ExportError(f"{graph.name} has {arguments} arguments, and not as many names")
    fits = len(weak) == len(graph.outputs) and all(type(flag) is bool for flag in weak)
    if not fits or any(
        flag and node.dtype not in dtypes.WEAK_DTYPES for flag, node in zip(weak, graph.outputs, strict=True)
    ):
        raise ExportError(f"{graph.name} has {len(graph.outputs)} results, and `weak` is not about these")
    if len(set(map(str, donated))) != len(donated) or any(
        type(i) is not int or not 0 <= i < arguments for i in donated
    ):
        raise ExportError(f"{graph.name} donates arguments that there are not")
    if not platforms or any(name not in PLATFORMS for name in platforms):
        raise ExportError(f"the file is for {str(platforms)[:60]}; platforms are {', '.join(PLATFORMS)}")


def _variable(name: str, bounds: Any) -> UOp:
    fits = isinstance(bounds, list) and len(bounds) == 2 and all(type(n) is int for n in bounds)
    if not fits or not name.isidentifier() or not 0 <= bounds[0] <= bounds[1] <= _MOST_VALUE:
        raise ExportError(f"{name[:40]!r} with the bounds {str(bounds)[:60]} is not a symbolic dimension")
    return Variable(name, *bounds)
