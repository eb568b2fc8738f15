"""Primitive: everything about one array operation, in one class in one place.

A subclass says what the op's result is (`out`), computes it with NumPy (`reference`), differentiates it (`partial`,
`jvp`, `vjp` or `transpose`, whichever is natural; the others are derived), maps it over a batch (`batch`) and gives
inputs to test it on (`samples`). Creating the instance registers it, and that is all: the transforms, the executors,
the tests and the tables in the documentation find it through the registry.

Rules are written on UOps, with the primitives themselves as functions (`cos(x)`) and with operators (`g * y`), so that
what a rule returns is again a graph that every transform understands. Batched values have their batch axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from . import dtype as dtypes
from .dtype import DType
from .errors import user_line
from .uop import UOp, const, make

REGISTRY: dict[str, Primitive] = {}


class Sample(NamedTuple):
    """Arguments and parameters on which a primitive is tested."""

    args: tuple[Any, ...]
    params: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default, which nothing changes)
    differentiable: bool = True  # False where the function has no derivative: a tie, a jump, an infinity


def _bind(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    raise AssertionError("tracing is not loaded")


class _Hooks:
    """Filled by `tracing`: how a primitive is applied to arrays (rather than to UOps); and by `transforms.effects`: the token
    before all effects, a value that waits for a token, the token for when some values are there, and a graph
    without the effects that have happened."""

    bind: Callable[..., Any] = staticmethod(_bind)
    start: Callable[[], UOp]
    after: Callable[[UOp, UOp], UOp]
    join: Callable[[Sequence[UOp]], UOp]
    settled: Callable[..., list[UOp]]


hooks = _Hooks()


class Primitive:
    """One array operation. See the module's docstring for what a subclass gives."""

    name: str
    params: tuple[str, ...] = ()
    # Of its meaning and parameters, in files; one more whenever a node of old would be read as something else.
    version = 1
    family = "other"
    is_scalar = False
    takes_token = (
        False  # whether it is an effect: its first argument and result are tokens, which `tracing` hands on
    )
    reference: Callable[..., Any]
    # (ct, out, args, needs, **params) -> one cotangent or None per argument
    vjp: Callable[..., Any] | None = None
    # By how many units in the last place compiled float32 and float64 results may be off; half precision is worked out in float32
    # and rounded once more. 0: right to the last bit, like NumPy's; of sums and products, up to the order of their terms.
    ulp: tuple[float, float] = (0, 0)
    # (*elements, **params) -> an element of the result, by scalar operations. Without it the op is run by its reference.
    scalar: Callable[..., UOp] | None = None
    # (node, index) -> of a movement op: the index of the source's element that the result's element is
    source_index: Callable[[UOp, Any], Any] | None = None
    # (node, index, condition) -> of other ops: a generator of the element's expression; see `trace.elements`
    element: Callable[[UOp, Any, UOp | None], Any] | None = None
    # (*args, **params) -> of ops without any of these: the node by other ops that programs run natively, or None
    decomposition: Callable[..., UOp | None] | None = None
    # (node, window, offsets) -> of ops that are done step after step: a generator of which element a step changes, and to what
    step: Callable[[UOp, Any, Any], Any] | None = None
    # (dtype) -> of ops that keep a value running along `axis`, from the end if `reverse`: how an element is combined with it
    running: Callable[[DType], Any] | None = None
    work = 0  # about how many scalar ops such an element takes, besides those of what it reads

    def __init__(self, name: str | None = None):
        if name is not None:
            self.name = name
        elif "name" not in type(self).__dict__:
            self.name = "".join("_" + c.lower() if c.isupper() else c for c in type(self).__name__).lstrip(
                "_"
            )
        if self.name in REGISTRY:
            raise ValueError(f"there already is a primitive named {self.name!r}")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _registered, (self.name, type(self).__module__)

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply to arrays, or build the node on UOps."""
        if args and type(args[0]) is UOp:
            return self.node(*args, **params)
        return hooks.bind(self, args, params)

    def node(self, *args: UOp, **params: Any) -> UOp:
        """The UOp of this op on UOps."""
        if self.params:
            return make(self, args, tuple([params[name] for name in self.params]), infer=self._infer)
        return make(self, args, None, infer=self._infer)

    def _infer(self, src: tuple[UOp, ...], arg: Any) -> tuple[DType, tuple[Any, ...]]:
        return self.checked(src, {} if arg is None else dict(zip(self.params, arg, strict=True)))

    def checked(self, args: Sequence[Any], params: dict[str, Any]) -> tuple[DType, tuple[Any, ...]]:
        """What `out` gives, or its error with the advice for arguments that are random keys."""
        try:
            return self.out(*args, **params)
        except TypeError as error:
            if any(a.dtype is dtypes.key for a in args):
                raise TypeError(f"{error}; at {user_line()}: {dtypes.KEY_ADVICE}") from None
            raise

    def executor(self, arg: Any) -> Callable[..., Any]:
        """The NumPy function of a node with this argument."""
        if arg is None:
            return self.reference
        return partial(self.reference, **dict(zip(self.params, arg, strict=True)))

    def has_element(self, node: UOp) -> bool:
        """Whether `element` holds for a node of this op."""
        return True

    def has_effects(self, params: dict[str, Any]) -> bool:
        """Whether a node with these parameters does more than to give its results. Then `family` is "structured"."""
        return False

    def holds_graphs(self, params: dict[str, Any]) -> bool:
        """Whether a node with these parameters runs graphs, without effects, which may run again to look into them."""
        return False

    def axis_names(self, params: dict[str, Any]) -> frozenset[Any]:
        """The named axes that a node with these parameters is about. Then `family` is "collective" or "structured"."""
        return frozenset()

    def out(self, *args: Any, **params: Any) -> tuple[DType, tuple[Any, ...]]:
        """The result's dtype and shape; raises TypeError or ValueError that names what is wrong."""
        raise NotImplementedError(f"primitive {self.name} gives no rule for its result's dtype and shape")

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        """The tangent of the result; a tangent that is None is zero."""
        raise NotImplementedError(f"primitive {self.name} has no derivative rule")

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        """The op over a leading batch axis of `size`, which those arguments have for which `batched` is true.

        Without a rule of its own an op runs once for each lane."""
        if not isinstance(size, int):
            raise ValueError(f"vmap of {self.name} needs a fixed batch size, not {size!r}")
        prims = REGISTRY
        lanes = []
        for lane in range(size):
            picked = []
            for arg, is_batched in zip(args, batched, strict=True):
                if is_batched:
                    limits = (lane + 1, *arg.shape[1:])
                    arg = prims["slice"](
                        arg, start=(lane, *(0,) * (arg.ndim - 1)), limit=limits, step=(1,) * arg.ndim
                    )
                    arg = prims["reshape"](arg, shape=arg.shape[1:])
                picked.append(arg)
            lane_out = self.node(*picked, **params)
            lanes.append(prims["reshape"](lane_out, shape=(1, *lane_out.shape)))
        if not lanes:
            dtype, shape = self.out(
                *[_without_batch(a) if b else a for a, b in zip(args, batched, strict=True)], **params
            )
            return full(0, dtype, (0, *shape))
        return prims["concatenate"].node(*lanes, axis=0)

    def samples(self) -> Iterator[Sample]:
        """Inputs for the tests, each of every dtype that matters, with empty, scalar and non-finite ones."""
        raise NotImplementedError(f"primitive {self.name} gives no samples")


class Aval(NamedTuple):
    """A dtype and a shape: what a rule for the result needs to know of an argument."""

    dtype: DType
    shape: tuple[Any, ...]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


def _without_batch(arg: UOp) -> Aval:
    return Aval(arg.dtype, arg.shape[1:])


def _registered(name: str, module: str) -> Primitive:
    """The primitive of this name, for unpickling: some are registered by modules that are loaded when they are needed."""
    if name not in REGISTRY:
        import_module(module)
    return REGISTRY[name]


# Helpers that rules are written with.


def full(value: Any, dtype: DType, shape: tuple[Any, ...]) -> UOp:
    """An array of one value everywhere."""
    scalar = const(value, dtype)
    return REGISTRY["broadcast"].node(scalar, shape=shape, axes=()) if shape else scalar


def full_like(x: UOp, value: Any) -> UOp:
    """An array of x's dtype and shape with one value everywhere."""
    return full(value, x.dtype, x.shape)


def zeros_like(x: Any) -> UOp:
    """Zeros of x's dtype and shape."""
    return full(0, x.dtype, x.shape)


def instantiate(tangent: UOp | None, like: UOp) -> UOp:
    """The tangent, or zeros if it is None."""
    return zeros_like(like) if tangent is None else tangent


def add_tangents(tangents: Sequence[UOp | None]) -> UOp | None:
    """The sum of those that are not None, or None."""
    total = None
    for tangent in tangents:
        if tangent is not None:
            total = tangent if total is None else REGISTRY["add"].node(total, tangent)
    return total


def broadcast_to_batch(arg: UOp, size: Any) -> UOp:
    """The argument repeated along a new leading axis."""
    return REGISTRY["broadcast"].node(arg, shape=(size, *arg.shape), axes=tuple(range(1, arg.ndim + 1)))


def instantiate_batch(size: Any, args: Sequence[UOp], batched: Sequence[bool]) -> list[UOp]:
    """All arguments with the batch axis, repeating those that lack it."""
    return [a if b else broadcast_to_batch(a, size) for a, b in zip(args, batched, strict=True)]


def spell(args: Sequence[Any]) -> str:
    """`float32[3], int32[4]`: arguments in error messages."""
    return ", ".join(dtypes.describe(a.dtype, a.shape) for a in args)


# Families.

_ANY = ("bool", "unsigned", "signed", "float")
_NUMBER = ("unsigned", "signed", "float")
_INEXACT = ("float",)
_INTEGER = ("unsigned", "signed")
_BITS = ("bool", "unsigned", "signed")
_FLOAT_OR_COMPLEX = (*_INEXACT, "complex")
_NUMBER_OR_COMPLEX = (*_NUMBER, "complex")
_ANY_OR_COMPLEX = (*_ANY, "complex")


class Elementwise(Primitive):
    """Same-shaped arguments of one dtype, and a result of that shape, each element from the same element of each.

    `partial(i, out, *args)` is the derivative with respect to argument i: a UOp, 1 or -1, or None for zero. `singular`
    marks functions with infinite or undefined derivatives somewhere: there a zero (co)tangent stays zero, so that a
    branch not taken by `where` can't turn a gradient into NaN."""

    family = "elementwise"
    kinds: tuple[str, ...] = _NUMBER
    arity = 1
    singular = False
    result: DType | None = None  # None: the arguments' dtype
    domain: tuple[float, float] = (-3.0, 3.0)

    def out(self, *args: Any, **params: Any) -> tuple[DType, tuple[Any, ...]]:
        first = args[0]
        if len(args) != self.arity:
            raise TypeError(f"{self.name} takes {self.arity} arguments, not {len(args)}")
        for other in args:
            if other.dtype is not first.dtype or other.shape != first.shape:
                raise TypeError(f"{self.name} needs arguments of one dtype and shape, not {spell(args)}")
        if dtypes.kind(first.dtype) not in self.kinds or first.dtype in dtypes.NARROW_FLOATS:
            raise TypeError(_refusal(self.name, args, self.kinds))
        return self.result or first.dtype, first.shape

    def partial(self, index: int, out: UOp, *args: UOp, **params: Any) -> UOp | int | None:
        """The derivative of the result with respect to argument `index`."""
        raise NotImplementedError(f"primitive {self.name} has no derivative rule")

    def is_singular(self, **params: Any) -> bool:
        """Whether it is `singular` with these parameters."""
        return self.singular

    def _term(self, by: UOp, index: int, out: UOp, args: Sequence[UOp], params: dict[str, Any]) -> UOp | None:
        """A (co)tangent times the derivative with respect to one argument."""
        derivative = self.partial(index, out, *args, **params)
        if derivative is None:
            return None
        if isinstance(derivative, int):
            return by if derivative == 1 else REGISTRY["neg"].node(by)
        return REGISTRY["mul_zero" if self.is_singular(**params) else "mul"].node(by, derivative)

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        return add_tangents(
            [self._term(t, i, out, args, params) for i, t in enumerate(tangents) if t is not None]
        )

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        return [self._term(ct, i, out, args, params) if need else None for i, need in enumerate(needs)]

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(*instantiate_batch(size, args, batched), **params)

    def values(self, dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        """Values of the domain, none of them where the function has a tie or a jump."""
        low, high = self.domain
        generator = np.random.default_rng(seed)
        kind = dtypes.kind(dtype)
        if kind == "bool":
            return generator.integers(0, 2, shape).astype(bool)
        if kind in _INTEGER:
            low = max(low, 0) if kind == "unsigned" else low
            return generator.integers(
                int(np.ceil(low)), max(int(high), int(np.ceil(low)) + 1) + 1, shape
            ).astype(dtype)
        values = np.asarray(generator.uniform(low, high, shape))
        if kind == "complex":
            values = values + 1j * generator.uniform(-1.0, 1.0, shape)
        return values.astype(dtype)

    def sample_params(self) -> dict[str, Any]:
        """Parameters for the samples."""
        return {}

    def samples(self) -> Iterator[Sample]:
        params = self.sample_params()
        accepted = [d for d in dtypes.ALL if dtypes.kind(d) in self.kinds and d not in dtypes.NARROW_FLOATS]
        for dtype in accepted:
            yield Sample(tuple(self.values(dtype, (2, 3), seed) for seed in range(self.arity)), params)
        for shape in ((), (1,), (0,), (2, 0, 3), (5,)):
            for dtype in (dtypes.float32, dtypes.float64):
                if dtype in accepted:
                    yield Sample(tuple(self.values(dtype, shape, seed) for seed in range(self.arity)), params)
        for dtype in accepted:
            if dtypes.is_float(dtype):
                special = np.array(
                    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-7, 300.0, -300.0], dtype
                )
                yield Sample(
                    tuple(np.roll(special, 3 * i) for i in range(self.arity)), params, differentiable=False
                )
            elif dtypes.is_integer(dtype):
                info = np.iinfo(dtype)
                special = np.array([info.min, info.max, 0, 1, info.max // 2, 7], dtype)
                yield Sample(
                    tuple(np.roll(special, 2 * i) for i in range(self.arity)), params, differentiable=False
                )


class Unary(Elementwise):
    """An elementwise function of one argument."""


class Binary(Elementwise):
    """An elementwise function of two arguments."""

    arity = 2


class Comparison(Binary):
    """A binary function whose result is bool."""

    kinds: tuple[str, ...] = _ANY
    result = dtypes.bool_


class Linear(Primitive):
    """Jointly linear in its arguments at `linear_arguments` (None: all), the rest being fixed values.

    `transpose(ct, args, index, **params)` gives the cotangent of argument `index`."""

    linear_arguments: tuple[int, ...] | None = None

    def transpose(self, ct: UOp, args: Sequence[UOp], index: int, **params: Any) -> UOp:
        """The cotangent of argument `index`."""
        raise NotImplementedError(f"primitive {self.name} has no transpose rule")

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        linear = range(len(args)) if self.linear_arguments is None else self.linear_arguments
        return self.node(
            *[instantiate(tangents[i], a) if i in linear else a for i, a in enumerate(args)], **params
        )

    def vjp(
        self, ct: UOp, out: UOp, args: Sequence[UOp], needs: Sequence[bool], **params: Any
    ) -> list[UOp | None]:
        return [self.transpose(ct, args, i, **params) if need else None for i, need in enumerate(needs)]


class Multilinear(Linear):
    """Linear in each of its arguments at `linear_arguments` while the others are fixed, as a product is."""

    def jvp(self, out: UOp, args: Sequence[UOp], tangents: Sequence[UOp | None], **params: Any) -> UOp | None:
        terms = [
            self.node(*args[:i], tangent, *args[i + 1 :], **params)
            for i, tangent in enumerate(tangents)
            if tangent is not None
        ]
        return add_tangents(terms)


def _refusal(name: str, args: Sequence[Any], kinds: Sequence[str]) -> str:
    """That an op does not take a dtype, what it does take, and a cast to that."""
    dtype = args[0].dtype
    casts = {"float": "float32", "signed": "int32", "bool": "bool"}
    cast = next((f".astype('{target}')" for kind, target in casts.items() if kind in kinds), "another dtype")
    if dtypes.kind(dtype) == "complex" and "complex" not in kinds:
        cast = ".real, or its magnitude"
    elif dtypes.kind(dtype) == "bool" and "signed" in kinds:
        cast = ".astype('int32'), or logic: ~x, x ^ y"
    return f"{name} does not accept {spell(args)}: it works on {'/'.join(kinds)} arrays (take {cast})"


class Reduction(Primitive):
    """One argument, reduced over `axes`; the result has the other axes."""

    family = "reduction"
    params: tuple[str, ...] = ("axes",)
    kinds: tuple[str, ...] = _NUMBER
    needs_elements = False  # True: there is no value for an empty reduction

    def out(self, x: Any, *, axes: tuple[int, ...]) -> tuple[DType, tuple[Any, ...]]:
        if dtypes.kind(x.dtype) not in self.kinds or x.dtype in dtypes.NARROW_FLOATS:
            raise TypeError(_refusal(self.name, [x], self.kinds))
        if len(set(axes)) != len(axes) or any(not 0 <= axis < x.ndim for axis in axes):
            raise ValueError(
                f"{self.name} over axes {axes} of {spell([x])}: axes must be distinct and in 0..{x.ndim - 1}"
            )
        if self.needs_elements and any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
            raise ValueError(
                f"{self.name} of {spell([x])} over axes {axes}: there are no elements and no identity"
            )
        return self.result(x.dtype), tuple([n for i, n in enumerate(x.shape) if i not in axes])

    def combine(self, dtype: DType) -> Any:
        """The scalar operation that combines two elements."""
        raise NotImplementedError(f"reduction {self.name} does not say how elements are combined")

    def result(self, dtype: DType) -> DType:
        """The result's dtype."""
        return dtype

    def batch(self, size: Any, args: Sequence[UOp], batched: Sequence[bool], **params: Any) -> UOp:
        return self.node(args[0], **{**params, "axes": tuple([a + 1 for a in params["axes"]])})

    def samples(self) -> Iterator[Sample]:
        generator = np.random.default_rng(0)
        cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
            ((3, 4), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)), ((2, 3, 4), (0, 2)), ((5,), (0,)), ((1,), (0,)), ((), ()),
            ((2, 3), ()), ((3, 0), (0,)),
        ]  # fmt: skip
        if not self.needs_elements:
            cases += [((0,), (0,)), ((2, 0), (1,))]
        for dtype in dtypes.ALL:
            if dtypes.kind(dtype) in self.kinds and dtype not in dtypes.NARROW_FLOATS:
                for shape, axes in (
                    cases if dtype in (dtypes.float32, dtypes.float64, dtypes.int32) else cases[:3]
                ):
                    yield Sample((_distinct(generator, dtype, shape),), {"axes": axes})
        for special in (np.nan, np.inf, -np.inf):
            if "float" in self.kinds:
                x = np.array([[1.0, special, 2.0], [0.5, 3.0, -1.0]], np.float32)
                yield Sample((x,), {"axes": (1,)}, differentiable=False)


def _distinct(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Values no two of which tie, small enough for sums of 8-bit integers, and in which a float has no zeros."""
    count = int(np.prod(shape))
    values = generator.permutation(count) - (0 if dtypes.kind(dtype) == "unsigned" else count // 2)
    if dtype is dtypes.bool_:
        return (values % 2 == 0).reshape(shape)
    scaled = values * 0.25 + 0.1 if dtypes.is_inexact(dtype) else values
    if dtypes.kind(dtype) == "complex":
        scaled = scaled + 1j * (values % 3)
    return np.asarray(scaled).astype(dtype).reshape(shape)
