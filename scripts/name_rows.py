"""What a function does with one tuple of arguments: run under jit, grad and vmap, with each dtype,
and lowered for each device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from scripts.name_arguments import ARGUMENTS, CANDIDATES, Use, key
from tinyfn import random, tree
from tinyfn.trace import dtype as dtypes
from tinyfn.trace.array import Array
from tinyfn.trace.errors import TracerError
from tinyfn.trace.prims.sorting import native_argsort
from tinyfn.transforms.executable import runs_natively
from tinyfn.transforms.structured import Structured

KINDS = {
    "bool": ("bool",),
    "ints": ("int8", "uint32", "int64"),
    "floats": ("float16", "bfloat16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}
# Steps that compute nothing.
PASSIVE = ("output", "start", "after", "join")
# What a function may raise for arguments that it does not take.
REFUSED = (TypeError, ValueError, IndexError, OverflowError, BufferError, NotImplementedError)
# Relative to the greatest element: how far results in a dtype may be from those in float64, and compiled from eager ones.
ACCURACY = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "complex64": 1e-3}
COMPILED = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


def leaves(value: Any) -> list[Any]:
    return [leaf for leaf in tree.leaves(value) if isinstance(leaf, Array)]


def _wide(a: Any) -> np.ndarray:
    a = random.key_data(a) if a.dtype == dtypes.key else a
    return np.asarray(a).astype(np.complex128 if np.dtype(a.dtype).kind == "c" else np.float64)


def same(a: Any, b: Any) -> bool:
    """Equally many arrays, of the same shapes and dtypes and with elements as close as the dtype lets them be."""
    first, second = leaves(a), leaves(b)
    return len(first) == len(second) > 0 and all(
        p.shape == q.shape and p.dtype == q.dtype and near(p, q, COMPILED.get(p.dtype.name, 1e-9))
        for p, q in zip(first, second, strict=True)
    )


def near(a: Any, b: Any, tolerance: float) -> bool:
    """Whether elements are close in relation to the greatest one."""
    p, q = _wide(a), _wide(b)
    finite = np.abs(q[np.isfinite(q)])
    scale = max(1.0, float(finite.max(initial=0)))
    return p.shape == q.shape and np.allclose(p, q, tolerance, tolerance * scale, equal_nan=True)


def _use(module: str, name: str, function: Callable[..., Any]) -> Use:
    entry = ARGUMENTS.get(module, {}).get(name)
    if isinstance(entry, Use):
        return entry
    for args in CANDIDATES if entry is None else (entry,):
        try:
            function(*args)
        except (*REFUSED, AttributeError):
            continue
        return Use(*args)
    raise ValueError(
        f"{module}.{name} accepts none of the arguments that are tried: add some to scripts/name_arguments.py"
    )


class Row:
    """A function and its arguments, as a function of the arrays among these."""

    def __init__(self, module: str, name: str, function: Callable[..., Any]):
        self.name, use = name, _use(module, name, function)
        called = use.call or function
        self.derivative, self.of = use.derivative, use.of
        given, structure = tree.flatten(use.args)
        places = [i for i, leaf in enumerate(given) if isinstance(leaf, Array)]
        self.arrays = [given[i] for i in places]
        self.is_random = any(array is key for array in self.arrays)

        def call(*arrays: Any) -> Any:
            filled = list(given)
            for i, array in zip(places, arrays, strict=True):
                filled[i] = array
            return called(*tree.unflatten(structure, filled), **use.options)

        self.call = call

    def cells(self, every_dtype_compiled: bool) -> Iterator[str]:
        """Under jit, grad and vmap, the dtypes, and what it is run by."""
        eager = self.call(*self.arrays)
        if not leaves(eager):
            yield from ("", "", "", "", "")
            return
        floats = [i for i, a in enumerate(self.arrays) if a.dtype.kind == "f"]
        self.count = len(floats)
        yield self._attempt(lambda: same(tinyfn.jit(self.call)(*self.arrays), eager))
        inexact = any(dtypes.is_inexact(leaf.dtype) for leaf in leaves(eager))
        yield self._attempt(lambda: self._gradient(floats)) if floats and inexact else ""
        yield self._attempt(self._lanes) if self.arrays else ""
        yield self._dtypes(floats, every_dtype_compiled)
        yield self._attempt(self._devices)

    def _attempt(self, call: Callable[[], bool | str]) -> str:
        try:
            result = call()
        except TracerError:
            return "known"
        except Exception as error:
            self.error = error
            return "✗"
        return result if isinstance(result, str) else "✓" if result else "✗"

    def _lanes(self) -> bool:
        """Each of two lanes that differ is what the function gives for it."""
        second = [a * 0.9375 if a.dtype.kind == "f" else a[::-1] if a.ndim == 1 else a for a in self.arrays]
        stacked = [tnp.stack([a, b.astype(a.dtype)]) for a, b in zip(self.arrays, second, strict=True)]
        lanes = tinyfn.vmap(self.call)(*stacked)
        return all(
            same(tree.map(lambda leaf, i=i: leaf[i], lanes), self.call(*[a[i] for a in stacked]))
            for i in range(2)
        )

    def _gradient(self, floats: list[int]) -> bool | str:
        """In float64, along a random direction: the gradient, also compiled, is the limit of differences."""
        generator = np.random.default_rng(0)
        arrays = [a.astype("float64") if i in floats else a for i, a in enumerate(self.arrays)]
        if self.of == ():
            return "none"
        if self.of is not None:
            floats = [floats[i] for i in self.of]

        def results(*given: Any) -> list[Any]:
            found = [leaf for leaf in leaves(self.call(*given)) if dtypes.is_inexact(leaf.dtype)]
            return [leaf for leaf in found if leaf.dtype.itemsize >= 8 and leaf.dtype != "complex64"] or found

        narrow = any(leaf.dtype in (dtypes.float32, dtypes.complex64) for leaf in results(*arrays))
        weights = [tnp.asarray(generator.normal(size=leaf.shape)) for leaf in results(*arrays)]

        def loss(*chosen: Any) -> Any:
            given = list(arrays)
            for i, array in zip(floats, chosen, strict=True):
                given[i] = array
            total: Any = 0.0
            for leaf, weight in zip(results(*given), weights, strict=True):
                total = total + tnp.sum((tnp.abs(leaf) if leaf.dtype.kind == "c" else leaf) * weight)
            return total

        chosen = [arrays[i] for i in floats]
        gradient = tinyfn.grad(loss, tuple(range(len(floats))))
        eager, compiled = gradient(*chosen), tinyfn.jit(gradient)(*chosen)
        if not all(bool(tnp.isfinite(g).all()) for g in eager) or not same(compiled, eager):
            return False
        if self.derivative == "sample":
            return "✓ of the distribution"
        if self.derivative == "zero":
            return "✓ zero" if not any(bool(g.any()) for g in eager) else False
        step, tolerance = (1e-2, 2e-3) if narrow else (1e-6, 1e-6)
        directions = [tnp.asarray(generator.normal(size=a.shape)) for a in chosen]
        ahead, behind = (
            float(loss(*[a + sign * step * d for a, d in zip(chosen, directions, strict=True)]))
            for sign in (1, -1)
        )
        slope = sum(float(tnp.sum(g * d)) for g, d in zip(eager, directions, strict=True))
        if abs(slope - (ahead - behind) / (2 * step)) > tolerance * max(1.0, abs(slope)):
            return False
        return True if self.of is None else f"✓ by the last {len(self.of)} of {self.count}"

    def _dtypes(self, floats: list[int], compiled: bool) -> str:
        """Those that the first floats (or integers) may have: accepted, the same under jit, and accurate for their width."""
        moved = floats or [i for i, a in enumerate(self.arrays) if a.dtype.kind in "iu" and a is not key]
        accepted: list[str] = []
        for kind, members in KINDS.items() if moved else ():
            good = [name for name in members if self._takes(name, moved, compiled)]
            accepted += [kind] if len(good) == len(members) else good
        return "all" if len(accepted) == len(KINDS) and set(accepted) == set(KINDS) else ", ".join(accepted)

    def _takes(self, name: str, moved: list[int], compiled: bool) -> bool:
        arrays = [a.astype(name) if i in moved else a for i, a in enumerate(self.arrays)]
        try:
            result = self.call(*arrays)
        except REFUSED:
            return False
        if not leaves(result):
            return False
        if compiled:
            try:
                if not same(tinyfn.jit(self.call)(*arrays), result):
                    raise AssertionError(f"{self.name} of {name} gives something else under jit")
            except TracerError:
                pass  # as the column for jit says
        if name in ACCURACY and not self.is_random:
            wide = "complex128" if name == "complex64" else "float64"
            try:
                exact = self.call(*[a.astype(wide) if i in moved else a for i, a in enumerate(arrays)])
            except REFUSED:
                return True  # of one width only
            for a, b in zip(leaves(result), leaves(exact), strict=True):
                if (
                    dtypes.is_inexact(a.dtype)
                    and dtypes.is_inexact(b.dtype)
                    and not near(a, b, ACCURACY[name])
                ):
                    raise AssertionError(f"{self.name} of {name} is not what it is in {wide}")
        return True

    def _devices(self) -> str:
        """Kernels, or what runs beside them."""
        lowered = tinyfn.jit(self.call).lower(*self.arrays)
        beside = {device: _beside(lowered.on(device)) for device in ("cpu", "cuda")}
        assert beside["cpu"].keys() == beside["cuda"].keys()
        on_cpu = ", ".join(beside["cpu"].values())
        return f"cpu: {on_cpu}" if on_cpu else "cpu, cuda"


def _beside(lowered: Any) -> dict[str, str]:
    """The steps of a program that are no kernels, and how they are run on the CPU."""
    found = {}
    for step in lowered.steps:
        if hasattr(step, "src"):
            continue
        node = step.ast.node
        if step.name in PASSIVE:
            continue
        if node.op is native_argsort:
            found[step.name] = "argsort natively"
        elif getattr(node.op, "family", None) == "foreign":
            found["LAPACK"] = "decompositions by LAPACK"
        elif not isinstance(node.op, Structured):
            found[step.name] = f"{step.name} by NumPy"
        elif runs_natively(node):
            found[step.name] = f"{step.name} as a native loop"
        else:
            found[step.name] = f"{step.name} by Python"
    return found


assert ml_dtypes  # dtypes such as bfloat16 are known to NumPy by its import
