"""The parameters of operations as plain data, and back: numbers, texts and lists, and objects that say what they stand for.

2, true, null, "clip", [1, 2]        as they are; lists stand for tuples
{"dtype": "float32"}                 a dtype
{"dim": "2*n + 1"}                   a symbolic dimension
{"graph": 3}                         one of the file's graphs
{"rules": [4, 5]}                    those that are the derivative of a custom function, null if it is not in the file
{"host": "argsort"}                  a function of NumPy that the library knows by this name
{"array": "constant0"}               one of the file's arrays, which an operation without arguments gives
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace import sint
from ..trace.errors import user_line
from ..trace.graph import Graph
from ..trace.prims.extern import HOST_FUNCTIONS, HostFunction, constant_function
from ..trace.sint import Dimension
from ..trace.uop import UOp, const
from ..transforms.batching_rules import Rule
from ..transforms.custom_ops import Rules
from ..transforms.effects import Called
from ..transforms.saving import Policy
from .errors import ExportError
from .symbolic import parse_dimension

MOST_LATE = 2  # rules within rules of the same function
_LIMITS = -(1 << 63), (1 << 64) - 1


class MissingRules(Rules):
    """Rules that are not in the file, because they are those of a call in a function's own rules, and so on without an end."""

    __slots__ = ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Raise TypeError."""
        raise TypeError(
            "the derivative of a custom_jvp or custom_vjp function, whose rule calls it again, is in the file of an exported "
            f"function up to order {MOST_LATE + 1}; at {user_line()}: export the derivative itself"
        )


class Writer(NamedTuple):
    """What to do with the parts of a parameter that are kept elsewhere in the file: each gives the name or number there."""

    rules: Callable[[Rules], list[int] | None]
    graph: Callable[[Graph], int]
    array: Callable[[np.ndarray], str]
    dimension: Callable[[UOp], str]


class Reader(NamedTuple):
    """What a file has that parameters refer to: its graphs so far, arrays and variables."""

    graphs: list[Graph]
    arrays: Mapping[str, np.ndarray]
    variables: Mapping[str, UOp]

    def dimension(self, data: Any) -> Dimension:
        """A dimension of a shape: a number, or the text of an expression."""
        if type(data) is int:
            return data
        if not isinstance(data, str):
            raise ExportError(f"{_brief(data)} is not a dimension")
        try:
            return parse_dimension(data, self.variables)
        except ValueError as error:
            raise ExportError(str(error)) from None

    def dtype(self, data: Any) -> dtypes.DType:
        """The dtype of a name."""
        found = _DTYPES.get(data) if isinstance(data, str) else None
        if found is None:
            raise ExportError(f"{_brief(data)} is not a dtype that is known here")
        return found

    def graph(self, data: Any) -> Graph:
        """The graph of a number; only those before the graph that is being read can be meant."""
        if type(data) is not int or not 0 <= data < len(self.graphs):
            raise ExportError(f"there is no graph {_brief(data)} before graph {len(self.graphs)}")
        return self.graphs[data]

    def array(self, data: Any) -> np.ndarray:
        """The array of a name."""
        if not isinstance(data, str) or data not in self.arrays:
            raise ExportError(f"there is no array {_brief(data)}")
        return self.arrays[data]


_DTYPES = {dtypes.name(dtype): dtype for dtype in dtypes.MOVED}


def _brief(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


def encode_parameter(value: Any, writer: Writer) -> Any:
    """A parameter as data; raises ExportError for what is neither data nor known by a name, such as a Python function."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, (Policy, Rule)):
        # A Python function that changes no value: what a checkpoint keeps, and how a function with a rule for it is mapped, which
        # a function that was read is by its operations.
        return None
    if type(value) is tuple:
        return [encode_parameter(each, writer) for each in value]
    if isinstance(value, np.dtype):
        return {"dtype": dtypes.name(value)}
    if isinstance(value, UOp):
        return {"dim": writer.dimension(value)}
    if isinstance(value, Graph):
        return {"graph": writer.graph(value)}
    if isinstance(value, Rules):
        return {"rules": writer.rules(value)}
    if isinstance(value, HostFunction):
        if HOST_FUNCTIONS.get(value.name) is value:
            return {"host": value.name}
        raise ExportError(f"it calls the Python function {value.name}, which a file can't hold")
    if isinstance(value, Called):
        raise ExportError(
            f"it is a {value.label}, called at {value.line}, and a file can't hold the Python function: compute it in tinyfn, or "
            "call it outside and pass in what it gives"
        )
    raise ExportError(
        f"its parameter {_brief(value)} is a {type(value).__name__}, which has no form in a file"
    )


def decode_parameter(data: Any, reader: Reader) -> Any:
    """A parameter of its data; raises ExportError."""
    if data is None or type(data) in (bool, str):
        return data
    if type(data) is int and _LIMITS[0] <= data <= _LIMITS[1]:
        return data
    if isinstance(data, list):
        if any(type(each) is bool for each in data):
            raise ExportError(f"{_brief(data)} has true or false where numbers are")
        return tuple([decode_parameter(each, reader) for each in data])
    if isinstance(data, dict) and len(data) == 1:
        ((kind, given),) = data.items()
        if kind == "dtype":
            return reader.dtype(given)
        if kind == "dim":
            return reader.dimension(given)
        if kind == "graph":
            return reader.graph(given)
        if kind == "rules" and given is None:
            return MissingRules(lambda: ())
        if kind == "rules" and isinstance(given, list):
            graphs = tuple([reader.graph(each) for each in given])
            return Rules(lambda: graphs)
        if kind == "host" and isinstance(given, str) and given in HOST_FUNCTIONS:
            return HOST_FUNCTIONS[given]
        if kind == "array":
            return constant_function(reader.array(given))
    raise ExportError(f"{_brief(data)} is not a parameter")


# Constants


def encode_constant(node: UOp) -> Any:
    """A constant's number, or its bits as {"bits": hexadecimal} where JSON has no such number."""
    value, kind = node.value, dtypes.kind(node.dtype)
    if kind == "bool":
        return bool(value)
    if kind in ("signed", "unsigned"):
        return int(value)
    if kind == "float" and np.isfinite(float(value)):
        return float(value)
    return {"bits": node.arg[0].hex()}


def decode_constant(data: Any, dtype: dtypes.DType) -> UOp:
    """The constant of a number or of bits; raises ExportError for one that the dtype does not have."""
    kind = dtypes.kind(dtype)
    if isinstance(data, dict) and isinstance(data.get("bits"), str) and len(data) == 1:
        try:
            bits = bytes.fromhex(data["bits"])
        except ValueError:
            bits = b""
        if len(bits) == dtype.itemsize and (kind != "bool" or bits in (b"\0", b"\1")):
            return const(np.frombuffer(bits, dtype)[0], dtype)
    elif kind == "bool":
        if type(data) is bool:
            return const(data, dtype)
    elif kind in ("signed", "unsigned"):
        info = np.iinfo(dtype)
        if type(data) is int and info.min <= data <= info.max:
            return const(data, dtype)
    elif kind == "float" and type(data) in (int, float):
        with np.errstate(all="ignore"):
            found = np.asarray(float(data), np.float64).astype(dtype)
        if float(found) == data or data != data:
            return const(found, dtype)
    raise ExportError(f"{_brief(data)} is not a number of type {dtypes.name(dtype)}")


def check_shape(dtype: dtypes.DType, shape: tuple[Dimension, ...]) -> None:
    """Raise ExportError for a shape that no array can have: with a negative size, or more bytes than there are addresses."""
    for n in shape:
        if not (type(n) is int or sint.is_symbolic(n)) or sint.bounds(n)[0] < 0:
            raise ExportError(f"{_brief(n)} is not a size")
    elements = 1
    for n in shape:
        elements *= max(sint.bounds(n)[1], 1)
    if elements * dtype.itemsize >= 1 << 62:
        raise ExportError(f"{dtypes.describe(dtype, shape)} is larger than any memory")
