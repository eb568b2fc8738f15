"""Save pytrees by key path and restore them, checked completely before anything is built.

A leaf's name is its key path joined by dots (`layers.0.weight`), the same as tinygrad's and PyTorch's for
models of dicts, lists, tuples, NamedTuples, dataclasses and plain objects. What is state, and what is not:

- arrays, and anything else with a shape and a dtype, are state everywhere;
- Python bools, ints and floats are state in containers and dataclasses; in the attributes of a plain object,
  and anywhere below one, they are configuration, as in tinygrad: neither saved nor restored;
- `None` is nothing;
- any other value is configuration below an object or dataclass, and a TypeError in a container.

An object's attribute that leads back to an object above it adds no names; restoring keeps such a loop.
"""

from __future__ import annotations

import copy
import enum
import functools
import math
import os
import sys
import time
import types
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtype as dtypes
from ..trace.array import wrap
from ..trace.pytree import flatten_with_path, keystr, unflatten
from ..trace.pytree_nodes import is_plain_dataclass
from .safetensors import safe_load, safe_save

# Values whose attributes are not their content.
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, np.ufunc)
_OPAQUE = (type, types.ModuleType, enum.Enum, BaseException, *_FUNCTIONS)
# Subclasses of these that are no registered pytree nodes are refused: their items would be lost.
_CONTAINERS = (dict, list, tuple)
_SCALAR_DTYPES: dict[type, tuple[type, str]] = {
    bool: (np.bool_, "b"),
    int: (np.int64, "iu"),
    float: (np.float64, "f"),
}


class StateDictError(ValueError):
    """A state does not fit a tree: `missing`, `unexpected`, `shapes` and `dtypes` list the names."""

    missing: list[str]
    unexpected: list[str]
    shapes: list[str]
    dtypes: list[str]


def save(path: str | os.PathLike[str], tree: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Save a tree's state to a safetensors file, atomically; Python scalars become 0-d arrays.

    Raises what `get_state_dict` and `safe_save` raise.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.save(path, {"layers": [{"w": tnp.ones((2, 3))}], "step": 3})
    ...     print(sorted(tinyfn.checkpoint.safe_load(path)))
    ['layers.0.w', 'step']
    """
    safe_save(get_state_dict(tree), path, metadata)


def restore(path: str | os.PathLike[str], like: Any = None, strict: bool = True) -> Any:
    """Load a file as a tree like `like` (leaves may be shape/dtype structs), or as nested dicts without it.

    Arrays are read when first touched; `strict` is as in `load_state_dict`. Raises SafetensorsError for a
    malformed file, StateDictError if it does not fit `like`, ValueError if a name is both tensor and dict.

    >>> import os, tempfile
    >>> params = {"w": tnp.array([1.0, 2.0]), "layers": [{"b": tnp.zeros(1)}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     tinyfn.checkpoint.save(path, params)
    ...     same = tinyfn.checkpoint.restore(path, like=params)
    ...     plain = tinyfn.checkpoint.restore(path)
    ...     print(same["w"], plain["layers"]["0"]["b"])
    [1. 2.] [0.]
    """
    flat = safe_load(path)
    if like is None:
        return _nest(flat)
    return _load(f"the file {os.fsdecode(path)!r}", like, flat, strict)


def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Any]:
    """Map each state leaf's name, under an optional prefix, to its array; Python scalars become 0-d arrays.

    Raises TypeError for a leaf that cannot be state, ValueError naming both key paths if two leaves share a
    name, OverflowError for an int beyond 64 bits.

    >>> tinyfn.checkpoint.get_state_dict({"layers": [{"w": tnp.ones(2)}], "step": 3}, prefix="model")
    {'model.layers.0.w': Array([1., 1.], dtype=float32), 'model.step': array(3)}
    """
    state: dict[str, Any] = {}
    for leaf in _collect(obj, prefix.strip(".") or None)[0]:
        value = leaf.value
        if type(value) in _SCALAR_DTYPES:
            try:
                value = np.asarray(value, _SCALAR_DTYPES[type(value)][0])
            except OverflowError:
                raise OverflowError(f"{leaf.where or 'the tree'} = {value} does not fit 64 bits") from None
        state[leaf.name] = value
    return state


def get_parameters(obj: Any) -> list[Any]:
    """List a tree's arrays in tree order, shared ones once per place; raises as `get_state_dict` does.

    >>> tinyfn.checkpoint.get_parameters({"layers": [{"w": tnp.ones(2)}, {"w": tnp.zeros(1)}]})
    [Array([1., 1.], dtype=float32), Array([0.], dtype=float32)]
    """
    return [leaf.value for leaf in _collect(obj, None)[0] if type(leaf.value) not in _SCALAR_DTYPES]


def load_state_dict(
    tree: Any,
    flat: MutableMapping[str, Any],
    strict: bool = True,
    consume: bool = False,
    verbose: bool = False,
) -> Any:
    """Build a tree like `tree` with the arrays of a flat dict; `tree` and its objects stay as they are.

    Everything is checked first. Strict: names, shapes and dtypes must agree. Otherwise missing names keep the
    template's leaf, unexpected ones are ignored and dtypes are cast to the template's (never from complex to
    real, nor to or from random keys); shapes must agree always. `consume` removes the loaded names from `flat`. `verbose` prints
    time, GB and GB/s to stderr (loading does not read lazy arrays).

    Raises StateDictError listing all mismatches, TypeError for a leaf or value that cannot be state.

    >>> params = {"layers": [{"w": tnp.zeros(2)}], "b": tnp.zeros(1)}
    >>> tinyfn.checkpoint.load_state_dict(params, {"layers.0.w": tnp.ones(2), "b": tnp.ones(1)})
    {'layers': [{'w': Array([1., 1.], dtype=float32)}], 'b': Array([1.], dtype=float32)}
    >>> try:
    ...     tinyfn.checkpoint.load_state_dict(params, {"layers.0.w": tnp.ones(3)})
    ... except tinyfn.checkpoint.StateDictError as error:
    ...     print(error)
    the state dict does not fit the tree:
      missing: 'b' at ['b']
      shape: 'layers.0.w': expected (2,), found (3,)
    """
    start = time.perf_counter()
    sizes: list[int] = []
    result = _load("the state dict", tree, flat, strict, consume, sizes)
    if verbose:
        seconds, gigabytes = time.perf_counter() - start, sum(sizes) / 1e9
        speed = gigabytes / max(seconds, 1e-9)
        print(
            f"loaded {len(sizes)} tensors in {seconds * 1e3:.2f} ms, {gigabytes:.3f} GB at {speed:.2f} GB/s",
            file=sys.stderr,
        )
    return result


# Walking


class _Leaf(NamedTuple):
    """A leaf of state: its dotted name, its key path as text, and its value."""

    name: str
    where: str
    value: Any


class _Place(NamedTuple):
    """Where a walk is: name so far (None at the root), key path as text, and what counts as state there."""

    name: str | None
    where: str
    scalars: bool = True
    strict: bool = True

    def step(self, name: str, where: str) -> _Place:
        """Go down by one key path."""
        name = name if self.name is None else f"{self.name}.{name}"
        return self._replace(name=name, where=self.where + where)


class _Walk:
    """Walk a tree and the objects in it, replacing each leaf of state by `visit`'s result.

    `open_objects` maps the ids of the objects above the current place to what replaces them: a reference back
    to one ends the walk. With `owners` None nothing is built, and the ids of the objects that hold state are
    collected in `found_owners`; with it, those objects are copied and all others stay as they are.
    """

    def __init__(self, visit: Callable[[_Leaf], Any], owners: set[int] | None = None) -> None:
        self.visit = visit
        self.owners = owners
        self.found_owners: set[int] = set()
        self.loops: list[tuple[int, list[int]]] = []
        self.open_objects: dict[int, Any] = {}
        self.visits = 0

    def tree(self, tree: Any, place: _Place) -> Any:
        """Walk a pytree; raises TypeError for a leaf that cannot be state."""
        visits = self.visits
        # The fields of a dataclass that nobody registered may be configuration: it is walked as an object.
        pairs, treedef = flatten_with_path(tree, is_leaf=is_plain_dataclass)
        leaves = []
        for path, value in pairs:
            below = place.step(keystr(path, simple=True, separator="."), keystr(path)) if path else place
            leaves.append(self._leaf(value, below))
        same = all(new is old for new, (_, old) in zip(leaves, pairs, strict=True))
        unchanged = visits == self.visits and same
        return tree if unchanged or self.owners is None else unflatten(treedef, leaves)

    def _leaf(self, value: Any, place: _Place) -> Any:
        if _is_array(value) or (place.scalars and type(value) in _SCALAR_DTYPES):
            self.found_owners.update(self.open_objects)
            self.visits += 1
            return self.visit(_Leaf(place.name or "", place.where, value))
        what = f"{place.where or 'the tree'} is a {type(value).__name__}"
        if isinstance(value, _CONTAINERS):
            raise TypeError(f"{what}, a container that is no pytree node; register it or use a plain one")
        attributes = _attributes(value)
        if attributes is not None:
            return self._object(value, attributes, place)
        if place.strict:
            raise TypeError(f"{what}, which cannot be state; keep arrays, bools, ints and floats in the tree")
        return value

    def _object(self, value: Any, attributes: dict[str, Any], place: _Place) -> Any:
        if id(value) in self.open_objects:
            self.loops.append((id(value), list(self.open_objects)))
            return self.open_objects[id(value)]
        if self.owners is not None and id(value) not in self.owners:
            return value
        # The copy comes before the attributes, so that references back to the object find the copy.
        result = value if self.owners is None else copy.copy(value)
        self.open_objects[id(value)] = result
        place = place._replace(strict=False, scalars=place.scalars and hasattr(value, "__dataclass_fields__"))
        for name, attribute in attributes.items():
            new = self.tree(attribute, place.step(name, f".{name}"))
            if new is not attribute and result is not value:
                # Not setattr: the object may be frozen, or its class may do more on assignment.
                object.__setattr__(result, name, new)
        del self.open_objects[id(value)]
        return result


def _is_array(value: Any) -> bool:
    """Say whether a value is an array or a description of one."""
    if isinstance(value, type):
        return False
    return hasattr(value, "__array__") or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _attributes(value: Any) -> dict[str, Any] | None:
    """List an object's attributes (a dataclass's slots too), or None for a value that is no such object."""
    if isinstance(value, _OPAQUE):
        return None
    attributes = dict(getattr(value, "__dict__", {}))
    if hasattr(value, "__dataclass_fields__"):
        fields = value.__dataclass_fields__
        return {name: getattr(value, name) for name in fields if hasattr(value, name)} | attributes
    return attributes if hasattr(value, "__dict__") else None


def _collect(tree: Any, prefix: str | None) -> tuple[list[_Leaf], set[int]]:
    """List a tree's state and the ids of the objects that hold some; raises TypeError or ValueError."""
    leaves: dict[str, _Leaf] = {}

    def visit(leaf: _Leaf) -> Any:
        other = leaves.setdefault(leaf.name, leaf)
        if other is not leaf:
            raise ValueError(f"{other.where} and {leaf.where} both have the name {leaf.name!r}; rename one")
        return leaf.value

    walk = _Walk(visit)
    walk.tree(tree, _Place(prefix, ""))
    owners = walk.found_owners
    for target, above in walk.loops:
        # What lies between a rebuilt object and a reference back to it must come to refer to the new one.
        if target in owners:
            owners.update(above)
    return list(leaves.values()), owners


# Loading


def _load(
    source: str,
    tree: Any,
    flat: MutableMapping[str, Any],
    strict: bool,
    consume: bool = False,
    sizes: list[int] | None = None,
) -> Any:
    """Check a flat dict against a tree, then build the new tree; sizes in bytes go to `sizes`."""
    leaves, owners = _collect(tree, None)
    missing: dict[str, str] = {}
    shapes: dict[str, str] = {}
    mismatched: dict[str, str] = {}
    scalars: dict[str, Any] = {}
    for leaf in leaves:
        if leaf.name not in flat:
            missing[leaf.name] = f" at {leaf.where}" if leaf.where else ""
            continue
        value = flat[leaf.name]
        if not _is_array(value) and type(value) not in _SCALAR_DTYPES:
            raise TypeError(f"{source} has a {type(value).__name__} at {leaf.name!r}, not an array")
        expected, found = _shape(leaf.value), _shape(value)
        if expected != found:
            shapes[leaf.name] = f": expected {expected}, found {found}"
        elif type(leaf.value) in _SCALAR_DTYPES:
            try:
                scalars[leaf.name] = _scalar(leaf.value, value, strict)
            except (TypeError, ValueError, OverflowError) as error:
                mismatched[leaf.name] = f": {error}"
        else:
            old, new = _dtype(leaf.value), _dtype(value)
            if not _same_dtype(old, new) and (strict or not _casts(new, old)):
                mismatched[leaf.name] = f": expected {dtypes.name(old)}, found {dtypes.name(new)}"
    names = {leaf.name for leaf in leaves}
    unexpected = {name: "" for name in flat if name not in names} if strict else {}
    if not strict:
        missing.clear()
    _raise_problems(source, strict, missing=missing, unexpected=unexpected, shapes=shapes, dtypes=mismatched)

    def visit(leaf: _Leaf) -> Any:
        if leaf.name not in flat:
            return leaf.value
        value = flat.pop(leaf.name) if consume else flat[leaf.name]
        if sizes is not None:
            sizes.append(math.prod(_shape(value)) * _dtype(value).itemsize)
        if leaf.name in scalars:
            return scalars[leaf.name]
        dtype = _dtype(leaf.value)
        if _is_array(value) and _same_dtype(_dtype(value), dtype):
            return value
        return wrap(np.asarray(value).astype(dtype))

    return _Walk(visit, owners).tree(tree, _Place(None, ""))


def _raise_problems(source: str, strict: bool, **problems: dict[str, str]) -> None:
    """Raise StateDictError with each kind's names and details, if there are any."""
    if not any(problems.values()):
        return
    lines = [f"{source} does not fit the tree:"]
    for kind, details in problems.items():
        lines += [f"  {kind.removesuffix('s')}: {name!r}{detail}" for name, detail in details.items()]
    if strict and not problems["shapes"]:
        lines.append("strict=False keeps what is missing, ignores what is unexpected and casts dtypes")
    error = StateDictError("\n".join(lines))
    for kind, details in problems.items():
        setattr(error, kind, list(details))
    raise error


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _dtype(value: Any) -> np.dtype[Any]:
    return np.dtype(value.dtype) if hasattr(value, "dtype") else np.asarray(value).dtype


def _same_dtype(left: np.dtype[Any], right: np.dtype[Any]) -> bool:
    return left == right or left.name == right.name  # the names are equal in both byte orders


def _casts(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a restored array may be cast: not from complex to real, and neither from nor to random keys."""
    return dtypes.key not in (source, target) and not (source.kind == "c" and target.kind != "c")


def _scalar(template: Any, value: Any, strict: bool) -> Any:
    """Read a 0-d array as the template's Python type; raises TypeError, ValueError or OverflowError."""
    kind, dtype = type(template), _dtype(value)
    if dtype.kind == "c" or (strict and dtype.kind not in _SCALAR_DTYPES[kind][1]):
        raise TypeError(f"expected a Python {kind.__name__}, found {dtypes.name(dtype)}")
    return kind(np.asarray(value).item())


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into nested dicts; raises ValueError if a name is both a tensor and a dict."""
    root: dict[str, Any] = {}
    for name, value in flat.items():
        node: Any = root
        *parents, last = name.split(".")
        for depth, parent in enumerate(parents):
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                other = ".".join(parents[: depth + 1])
                raise ValueError(f"{other!r} and {name!r} are both tensors: they cannot be in nested dicts")
        if last in node:
            other = next(key for key in flat if key.startswith(f"{name}."))
            raise ValueError(f"{name!r} and {other!r} are both tensors: they cannot be in nested dicts")
        node[last] = value
    return root
