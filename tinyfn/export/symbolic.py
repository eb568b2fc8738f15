"""Symbolic dimensions as text: `"b, 2*n + 1"` to and from a shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..trace import pytree, sint
from ..trace.interface import ShapeDtypeStruct
from ..trace.sint import Dimension, Variable
from ..trace.uop import UOp

# The values of a dimension for which no constraint says otherwise.
LEAST, MOST = 1, 1 << 20
_LONGEST = 1000  # characters of an expression
_CALLS: dict[str, Callable[[Dimension, Dimension], Dimension]] = {"max": sint.maximum, "min": sint.minimum}
_OPERATORS: dict[type, Callable[[Dimension, Dimension], Dimension]] = {
    ast.Add: sint.add,
    ast.Sub: sint.sub,
    ast.Mult: sint.mul,
    ast.FloorDiv: sint.floordiv,
    ast.Mod: sint.mod,
}
_CONSTRAINT = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|>=|<|>|==)\s*(\d+)\s*\Z")
_MOST_PARTS = 200  # of an expression


def parse_dimension(text: str, variables: Mapping[str, UOp] | Callable[[str], UOp]) -> Dimension:
    """The dimension that an expression of variables, numbers, + - * // % max and min stands for; ValueError for other text."""
    find = variables.__getitem__ if isinstance(variables, Mapping) else variables
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:40]!r}... is too long for a dimension")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is not a dimension") from None
    if sum(1 for _ in ast.walk(tree)) > _MOST_PARTS:
        raise ValueError(f"{text[:40]!r}... has too many parts for a dimension")

    def value(node: ast.AST) -> Dimension:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            try:
                return find(node.id)
            except KeyError:
                raise ValueError(f"{text!r} has the unknown variable {node.id!r}") from None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return sint.sub(0, value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            if len(node.args) == 2 and not node.keywords:
                return _CALLS[node.func.id](value(node.args[0]), value(node.args[1]))
        raise ValueError(f"{text!r} is not a dimension: it may have names, integers, + - * // %, max and min")

    try:
        return value(tree)
    except (ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a dimension: {error}") from None


def _bounds(constraints: Sequence[str]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for constraint in constraints:
        match = _CONSTRAINT.match(constraint)
        if match is None:
            raise ValueError(
                f"the constraint {constraint!r} is not understood: it is a name, one of <= >= < > ==, and a number, as in "
                "'b <= 512'"
            )
        name, sign, number = match[1], match[2], int(match[3])
        low, high = found.get(name, (LEAST, MOST))
        if sign in (">=", ">", "=="):
            low = number + (sign == ">")
        if sign in ("<=", "<", "=="):
            high = number - (sign == "<")
        found[name] = low, high
    return found


class SymbolicScope:
    """Constraints of several shapes, for code that was written for JAX: here a name with the same bounds is the same dimension
    everywhere.

    >>> scope = tinyfn.export.SymbolicScope(["b <= 512"])
    >>> tinyfn.export.symbolic_shape("b, 3", scope=scope)
    (b, 3)
    >>> scope.constraints
    ('b <= 512',)
    """

    def __init__(self, constraints: Sequence[str] = ()):
        self.constraints = tuple(constraints)
        _bounds(self.constraints)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Dimension, ...]:
    """The shape that a text such as `"b, 2*n, 784"` stands for.

    Names are `Variable`s: the same name with the same constraints is the same dimension everywhere. `constraints` bound them, as
    in `["b <= 512"]`; without, they are in [1, 2**20]. Where `like` has a shape, `_` is its dimension at that place and `...` are
    all those that are left; None is `like` itself. Raises ValueError for a text that is no shape.

    >>> b, m = tinyfn.export.symbolic_shape("b, n + 1", constraints=["b <= 512"])
    >>> b, m, 2 * m
    (b, n + 1, 2*n + 2)
    >>> tinyfn.export.symbolic_shape("b, ...", like=tnp.ones((8, 3, 4)))
    (b, 3, 4)
    """
    bounds = _bounds([*(scope.constraints if scope is not None else ()), *constraints])

    def variable(name: str) -> UOp:
        return Variable(name, *bounds.get(name, (LEAST, MOST)))

    given = () if like is None else tuple(getattr(like, "shape", like))
    parts = _split("..." if shape_spec is None else shape_spec)
    if "..." in parts:
        if like is None or parts[-1] != "..." or "..." in parts[:-1]:
            raise ValueError(
                f"{shape_spec!r} has '...', which stands for the last dimensions of `like`, and is its last part"
            )
        parts = [*parts[:-1], *["_"] * (len(given) - len(parts) + 1)]
    if "_" in parts and len(given) != len(parts):
        raise ValueError(f"{shape_spec!r} has '_', but `like` has no dimension for it: {given}")
    return tuple(
        [given[i] if part == "_" else parse_dimension(part, variable) for i, part in enumerate(parts)]
    )


def _split(text: str) -> list[str]:
    """The parts of a shape: what is between commas that are in no parentheses but those round the whole."""
    text = text.strip()
    parts, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    rest = text[begin:].strip()
    if not parts and text.startswith("(") and text.endswith(")") and _encloses(text):
        return _split(text[1:-1])
    return [*parts, rest] if rest else parts


def _encloses(text: str) -> bool:
    """Whether the first parenthesis is closed by the last one."""
    depth = 0
    for i, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return i == len(text) - 1
    return False


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """The tree `args` with a ShapeDtypeStruct for each array, of the symbolic shape that `shapes_specs` has for it.

    `shapes_specs` is a tree prefix of `args` with texts for `symbolic_shape`, or None, at its leaves.

    >>> params, x = {"w": tnp.ones((3, 2))}, tnp.ones((8, 3))
    >>> tinyfn.export.symbolic_args_specs((params, x), (None, "b, ..."))
    ({'w': ShapeDtypeStruct(shape=(3, 2), dtype=float32)}, ShapeDtypeStruct(shape=(b, 3), dtype=float32))
    """
    leaves, tree = pytree.flatten(args)
    texts = pytree.broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    specs = []
    for leaf, text in zip(leaves, texts, strict=True):
        like = leaf if hasattr(leaf, "shape") else _Scalar()
        shape = symbolic_shape(text, constraints=constraints, scope=scope, like=like.shape)
        specs.append(ShapeDtypeStruct(shape, getattr(leaf, "dtype", type(leaf))))
    return pytree.unflatten(tree, specs)


class _Scalar:
    shape = ()
