"""Contractions as CUDA C: a block computes a tile of the sums, whose factors it shares.

In each step along the sum, the threads evaluate the elements of both factors that the tile needs, whatever expressions they are,
and put them into shared memory; then each thread adds up products of some rows and columns of the tile in registers. What is
loaded for the next step is on its way meanwhile. The expressions that are stored are evaluated where a tile is finished.

Factors of 16 bits whose products are added up as float32 go to the tensor cores (`mma.sync`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from typing import NamedTuple

from ..trace import dtype as dtypes
from ..trace import scalar as s
from ..trace.dtype import DType
from ..trace.uop import UOp
from .cuda_expressions import BITS, TYPES, Expressions, Scope, Writer
from .cuda_function import THREADS, VECTOR_BYTES, Function, device_function, pointers
from .gemm_form import Form, match
from .index import LOAD
from .linear import linear
from .nest import Nest, elements_of, result, size_of, step_along
from .opts import Opt, OptError, OptOps

# A tile is worth its while if both sides have so many.
SMALLEST = 8
# With fewer blocks than this, tiles are made smaller.
ENOUGH_BLOCKS = 132
NEIGHBOURS = 4  # rows, and columns, of a thread that lie side by side


class Tile(NamedTuple):
    """The rows, columns and steps along the sum that a block works on at once."""

    rows: int
    columns: int
    depth: int


TILES = (Tile(128, 128, 8), Tile(64, 64, 16), Tile(32, 32, 32))
TENSOR_TILES = (Tile(128, 128, 32), Tile(64, 64, 32), Tile(32, 32, 32))
# How the 8 warps of a block divide a tile of the tensor cores, and the instruction's rows, columns and depth.
WARP_ROWS, WARP_COLUMNS = 2, 4
CORE = Tile(16, 8, 16)


def contraction(
    nest: Nest, arrays: Sequence[UOp], name: str, opts: Sequence[Opt] | None = None
) -> Function | None:
    """The device function of a nest that is a contraction of two matrices, or None.

    Its opts are the rows and columns of a tile (LOCAL), its steps along the sum (UNROLL), and the tensor core (TC)."""
    form = match(nest)
    if form is None or not form.rows or not form.columns:
        return None
    dtype = result_dtype(nest)
    narrow = _narrow(form, dtype)
    if opts is None:
        if min(_size(form.rows), _size(form.columns)) < SMALLEST:
            return None
        tile = _choose(form, TILES if narrow is None else TENSOR_TILES, dtype)
    else:
        sizes = [opt.arg for opt in opts if opt.op in (OptOps.LOCAL, OptOps.UNROLL)]
        if len(sizes) != 3:
            return None  # a schedule of loops
        tile = Tile(*sizes)
        narrow = narrow if any(opt.op is OptOps.TC for opt in opts) else None
        if tile not in (TILES if narrow is None else TENSOR_TILES):
            raise OptError(f"{tuple(opts)}: there is no such tile")
    numbers = {r: i for i, r in enumerate((*nest.outer, *nest.passes[0].inner))}
    sides = (form.rows, form.columns, form.summed)
    axes = [numbers.get(ranges[-1]) if ranges else None for ranges in sides]
    kinds = (OptOps.LOCAL, OptOps.LOCAL, OptOps.UNROLL)
    applied = tuple([Opt(*each) for each in zip(kinds, axes, tile, strict=True)])
    if narrow is not None:
        applied = (Opt(OptOps.TC, axes[2], narrow.name), *applied)
    writer = _Simple if narrow is None else _TensorCores
    made = writer(form, nest, arrays, tile, dtype, narrow or dtype).function(name)
    return made._replace(opts=applied)


def result_dtype(nest: Nest) -> DType:
    """The dtype in which products are added up."""
    return nest.passes[0].reductions[0].value.dtype


def _size(ranges: Sequence[UOp]) -> int:
    return prod(size_of(r) for r in ranges)


def _choose(form: Form, tiles: Sequence[Tile], dtype: DType) -> Tile:
    for tile in tiles:
        if tile.rows * tile.columns * dtype.itemsize > 128 * 128 * 4:
            continue  # its sums would not fit into registers
        if _blocks(form, tile) >= ENOUGH_BLOCKS:
            return tile
    return tiles[-1]


def _blocks(form: Form, tile: Tile) -> int:
    rows, columns = _size(form.rows), _size(form.columns)
    return _size(form.batch) * -(-rows // tile.rows) * -(-columns // tile.columns)


def _narrow(form: Form, dtype: DType) -> DType | None:
    """The 16-bit dtype of both factors, if they are no more than that and added up as float32."""
    if dtype is not dtypes.float32 or not all(f.op is s.CAST for f in (form.left, form.right)):
        return None
    left, right = (f.src[0].dtype for f in (form.left, form.right))
    return left if left is right and left in BITS else None


class _Side(NamedTuple):
    """A factor: its own ranges, the name of its shared tile and of what a thread loads, and sizes."""

    name: str
    factor: UOp
    ranges: tuple[UOp, ...]
    size: int  # of the ranges
    extent: int  # of the tile
    along_sum: bool  # whether neighbouring threads load neighbours along the sum


class _Contraction:
    """Writes the function of a contraction; subclasses say how tiles lie in shared memory and are multiplied."""

    def __init__(
        self, form: Form, nest: Nest, arrays: Sequence[UOp], tile: Tile, dtype: DType, stored_as: DType
    ):
        self.form, self.nest, self.arrays, self.tile = form, nest, arrays, tile
        self.dtype, self.stored_as = dtype, stored_as
        self.depth = _size(form.summed)
        self.writer = Writer()
        self.expressions = Expressions(self.writer, {array: f"a{i}" for i, array in enumerate(arrays)})
        self.sides = tuple(
            _Side(
                name,
                self._factor(factor),
                ranges,
                _size(ranges),
                extent,
                _along_sum(factor, ranges, form.summed),
            )
            for name, factor, ranges, extent in (
                ("left", form.left, form.rows, tile.rows),
                ("right", form.right, form.columns, tile.columns),
            )
        )

    def _factor(self, factor: UOp) -> UOp:
        """What of a factor is put into shared memory."""
        return factor if self.stored_as is self.dtype else factor.src[0]

    # What differs between the two ways to multiply.

    SUM_FASTEST: bool  # whether neighbours along the sum lie side by side in a tile, or else rows or columns

    def tile_size(self, side: _Side) -> int:
        """Elements of a tile in shared memory, with padding."""
        raise NotImplementedError

    def place(self, side: _Side, own: str, k: str) -> str:
        """Where an element lies in its tile."""
        raise NotImplementedError

    def begin(self) -> None:
        """Declare the sums and where the thread is in the tile."""
        raise NotImplementedError

    def multiply(self) -> None:
        """Add the products of the tiles in shared memory to the sums."""
        raise NotImplementedError

    def finish(self, scope: Scope) -> None:
        """Store what belongs to each sum of the thread."""
        raise NotImplementedError

    # What they share.

    def function(self, name: str) -> Function:
        """The text, and what a launch needs for it."""
        form, tile, line = self.form, self.tile, self.writer.line
        pointers(self.writer, self.arrays, self.nest.stored)
        kind = TYPES[self.stored_as]
        size = sum(self.tile_size(side) for side in self.sides)
        line(f"{kind} *tiles = ({kind} *)shared;")
        column_tiles, row_tiles = (
            -(-_size(r) // n) for r, n in ((form.columns, tile.columns), (form.rows, tile.rows))
        )
        total = _size(form.batch) * row_tiles * column_tiles
        with self.writer.block(f"for (int number = block; number < {total}; number += blocks)"):
            line(f"const int first_right = number % {column_tiles} * {tile.columns};")
            line(f"const int first_left = number / {column_tiles} % {row_tiles} * {tile.rows};")
            scope = Scope()
            self.expressions.ranges(form.batch, f"number / {column_tiles * row_tiles}", scope)
            for side in self.sides:
                line(f"{self._kind(side)} next_{side.name}[{self._loads(side)}];")
            self.begin()
            line("int buffer = 0;")
            # A step stores what the one before it has loaded: two buffers, so that one barrier to a step is enough.
            with self.writer.block(f"for (int k = -{tile.depth}; k < {self.depth}; k += {tile.depth})"):
                line(
                    f"{kind} *left = tiles + buffer * {size}, *right = left + {self.tile_size(self.sides[0])};"
                )
                with self.writer.block("if (k >= 0)"):
                    for side in self.sides:
                        self._share(side)
                    line("__syncthreads();")
                    line("buffer = 1 - buffer;")
                with self.writer.block(f"if (k + {tile.depth} < {self.depth})"):
                    for side in self.sides:
                        self._load(side, scope)
                with self.writer.block("if (k >= 0)"):
                    self.multiply()
            self.finish(scope)
            line("__syncthreads();")
        return device_function(name, self.writer, total, 2 * size * self.stored_as.itemsize)

    def _width(self, side: _Side) -> int:
        """How many elements of a factor are loaded as one: neighbours in memory that begin where a vector may begin."""
        last = (self.form.summed if side.along_sum else side.ranges)[-1:]
        factor = side.factor
        if not last or factor.op is not LOAD or len(factor.src) > 1 or factor.arg in self.nest.stored:
            return 1
        moves = linear(factor.src[0])
        if not moves.is_all or moves.along(last[0]) != 1:
            return 1
        others = [step for r, step in moves.steps.items() if r is not last[0]]
        width = VECTOR_BYTES // factor.dtype.itemsize
        while width > 1 and (
            any(n % width for n in (moves.constant, size_of(last[0]), *others))
            or side.extent * self.tile.depth // width < THREADS
        ):
            width //= 2
        return width

    def _kind(self, side: _Side) -> str:
        """The C type of what a thread loads at once."""
        width, kind = self._width(side), TYPES[self.stored_as]
        if width == 1:
            return kind
        self.writer.used["Vector"] = None
        if self.stored_as.itemsize == 2 and self._lies_alike(side):
            kind, width = "unsigned", width // 2  # the compiler would move one element at a time
        return f"Vector<{kind}, {width}>"

    def _lies_alike(self, side: _Side) -> bool:
        """Whether what is loaded as one lies side by side in the tile too."""
        return side.along_sum == self.SUM_FASTEST

    def _loads(self, side: _Side) -> int:
        return -(-side.extent * self.tile.depth // self._width(side) // THREADS)

    def _place_of_load(self, side: _Side) -> None:
        """Which elements of a tile the n-th load of a thread has."""
        width = self._width(side)
        self.writer.line(f"const int e = n * {THREADS} + threadIdx.x;")
        run = (self.tile.depth if side.along_sum else side.extent) // width
        across, along = f"e / {run}", f"e % {run}" + (f" * {width}" if width > 1 else "")
        own, k = (across, along) if side.along_sum else (along, across)
        self.writer.line(f"const int own = {own}, along = {k};")

    def _load(self, side: _Side, scope: Scope) -> None:
        self.writer.line("#pragma unroll")
        with self.writer.block(f"for (int n = 0; n < {self._loads(side)}; n++)"):
            self._place_of_load(side)
            self.writer.line(f"const int at = first_{side.name} + own, at_k = k + {self.tile.depth} + along;")
            self.writer.line(f"next_{side.name}[n] = {{}};")
            conditions = [f"at < {side.size}"] if side.size % side.extent else []
            conditions += [f"at_k < {self.depth}"] if self.depth % self.tile.depth else []
            with self.writer.block(f"if ({' && '.join(conditions)})" if conditions else ""):
                here = Scope(scope)
                self.expressions.ranges(side.ranges, "at", here)
                self.expressions.ranges(self.form.summed, "at_k", here)
                value = (
                    self.expressions.value(side.factor, here)
                    if self._width(side) == 1
                    else self._vector(side, here)
                )
                self.writer.line(f"next_{side.name}[n] = {value};")

    def _vector(self, side: _Side, scope: Scope) -> str:
        """A vector of a factor's elements."""
        position = self.expressions.value(side.factor.src[0], scope)
        return f"*(const {self._kind(side)} *)({self.expressions.arrays[side.factor.arg]} + {position})"

    def _share(self, side: _Side) -> None:
        width = self._width(side)
        self.writer.line("#pragma unroll")
        with self.writer.block(f"for (int n = 0; n < {self._loads(side)}; n++)"):
            self._place_of_load(side)
            if width == 1:
                self.writer.line(f"{side.name}[{self.place(side, 'own', 'along')}] = next_{side.name}[n];")
                return
            if self._lies_alike(side):
                place = f"{side.name} + {self.place(side, 'own', 'along')}"
                self.writer.line(f"*({self._kind(side)} *)({place}) = next_{side.name}[n];")
                return
            own, k = ("own", "(along + j)") if side.along_sum else ("own + j", "along")
            self.writer.line("#pragma unroll")
            self.writer.line(
                f"for (int j = 0; j < {width}; j++) {side.name}[{self.place(side, own, k)}] = next_{side.name}[n].at[j];"
            )

    def stores(self, total: str, scope: Scope) -> None:
        """Store what belongs to one sum, at `row` and `column`."""
        conditions = [f"row < {self.sides[0].size}"] if self.sides[0].size % self.sides[0].extent else []
        conditions += [f"column < {self.sides[1].size}"] if self.sides[1].size % self.sides[1].extent else []
        with self.writer.block(f"if ({' && '.join(conditions)})" if conditions else ""):
            here = Scope(scope)
            self.expressions.ranges(self.form.rows, "row", here)
            self.expressions.ranges(self.form.columns, "column", here)
            node = self.form.node
            self.expressions.define(
                result(node), self.expressions.cast(total, self.dtype, node.dtype), here, TYPES[node.dtype]
            )
            # All that is read is read before the first store: it may be stored over that.
            made = [
                (
                    self.expressions.element(store.node, store.position, here),
                    self.expressions.value(store.value, here),
                )
                for store in self.form.stores
            ]
            for element, value in made:
                self.writer.line(f"{element} = {value};")


class _Simple(_Contraction):
    """Each thread multiplies some rows by some columns; threads are 16 along rows and 16 along columns."""

    SUM_FASTEST = False

    def tile_size(self, side: _Side) -> int:
        return self.tile.depth * (side.extent + NEIGHBOURS)

    def place(self, side: _Side, own: str, k: str) -> str:
        return f"{k} * {side.extent + NEIGHBOURS} + {own}"

    def _each(self, side: _Side) -> tuple[int, int]:
        """How many a thread has along a side, and how many of them side by side."""
        return side.extent // 16, min(NEIGHBOURS, side.extent // 16)

    def _own(self, side: _Side, number: str) -> str:
        """The place in the tile of a thread's rows or columns."""
        _, chunk = self._each(side)
        thread = "threadIdx.x / 16" if side.name == "left" else "threadIdx.x % 16"
        return f"{number} / {chunk} * {16 * chunk} + {thread} * {chunk} + {number} % {chunk}"

    def begin(self) -> None:
        rows, columns = (self._each(side)[0] for side in self.sides)
        self.writer.line(f"{TYPES[self.dtype]} sums[{rows}][{columns}] = {{}};")

    def multiply(self) -> None:
        writer, kind = self.writer, TYPES[self.dtype]
        writer.line("#pragma unroll")
        with writer.block(f"for (int step = 0; step < {self.tile.depth}; step++)"):
            for side, name in zip(self.sides, ("x", "y"), strict=True):
                count, _ = self._each(side)
                writer.line(f"{kind} {name}[{count}];")
                writer.line("#pragma unroll")
                at = self.place(side, self._own(side, "i"), "step")
                writer.line(f"for (int i = 0; i < {count}; i++) {name}[i] = {side.name}[{at}];")
            rows, columns = (self._each(side)[0] for side in self.sides)
            if dtypes.is_float(self.dtype):
                text = self.expressions.on_values(s.FMA, self.dtype, ["x[i]", "y[j]", "sums[i][j]"])
            else:
                product = self.expressions.on_values(s.MUL, self.dtype, ["x[i]", "y[j]"])
                text = self.expressions.on_values(s.ADD, self.dtype, ["sums[i][j]", product])
            writer.line("#pragma unroll")
            writer.line(f"for (int i = 0; i < {rows}; i++)")
            writer.line("  #pragma unroll")
            writer.line(f"  for (int j = 0; j < {columns}; j++) sums[i][j] = {text};")

    def finish(self, scope: Scope) -> None:
        left, right = self.sides
        with ExitStack() as loops:
            for side, i, name in ((left, "i", "row"), (right, "j", "column")):
                self.writer.line("#pragma unroll")
                loops.enter_context(
                    self.writer.block(f"for (int {i} = 0; {i} < {self._each(side)[0]}; {i}++)")
                )
                self.writer.line(f"const int {name} = first_{side.name} + {self._own(side, i)};")
            self.stores("sums[i][j]", scope)


class _TensorCores(_Contraction):
    """Each warp multiplies blocks of 16 rows by 8 columns. Tiles lie with the sum's axis fastest, so that the two neighbours that
    a register holds are one load; with 8 elements of padding the loads of a warp are of different banks.

    Which element a thread holds is said in the PTX ISA, "Matrix Fragments for mma.m16n8k16", and in `tensor_cores`."""

    SUM_FASTEST = True
    PADDING = 8

    def tile_size(self, side: _Side) -> int:
        return side.extent * (self.tile.depth + self.PADDING)

    def place(self, side: _Side, own: str, k: str) -> str:
        return f"({own}) * {self.tile.depth + self.PADDING} + {k}"

    def begin(self) -> None:
        line, tile = self.writer.line, self.tile
        self.blocks = tile.rows // WARP_ROWS // CORE.rows, tile.columns // WARP_COLUMNS // CORE.columns
        line(f"float sums[{self.blocks[0]}][{self.blocks[1]}][4] = {{}};")
        line("const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4, warp = threadIdx.x / 32;")
        line(f"const int warp_row = warp / {WARP_COLUMNS} * {tile.rows // WARP_ROWS};")
        line(f"const int warp_column = warp % {WARP_COLUMNS} * {tile.columns // WARP_COLUMNS};")

    def multiply(self) -> None:
        writer, line = self.writer, self.writer.line
        left, right = self.sides
        rows, columns = self.blocks
        line("#pragma unroll")
        with writer.block(f"for (int step = 0; step < {self.tile.depth}; step += {CORE.depth})"):
            line(f"unsigned x[{rows}][4], y[{columns}][2];")
            at = self.place(
                left, f"warp_row + {CORE.rows} * i + group + 8 * (r % 2)", "step + 2 * member + 8 * (r / 2)"
            )
            line("#pragma unroll")
            line(f"for (int i = 0; i < {rows}; i++)")
            line("  #pragma unroll")
            line(f"  for (int r = 0; r < 4; r++) x[i][r] = *(const unsigned *)(left + {at});")
            at = self.place(right, f"warp_column + {CORE.columns} * j + group", "step + 2 * member + 8 * r")
            line("#pragma unroll")
            line(f"for (int j = 0; j < {columns}; j++)")
            line("  #pragma unroll")
            line(f"  for (int r = 0; r < 2; r++) y[j][r] = *(const unsigned *)(right + {at});")
            line("#pragma unroll")
            line(f"for (int i = 0; i < {rows}; i++)")
            line("  #pragma unroll")
            call = writer.call(f"matrix_multiply_{BITS[self.stored_as]}", "sums[i][j]", "x[i]", "y[j]")
            line(f"  for (int j = 0; j < {columns}; j++) {call};")

    def finish(self, scope: Scope) -> None:
        rows, columns = self.blocks
        with ExitStack() as loops:
            for i, count in (("i", rows), ("j", columns), ("r", 4)):
                self.writer.line("#pragma unroll")
                loops.enter_context(self.writer.block(f"for (int {i} = 0; {i} < {count}; {i}++)"))
            self.writer.line(
                f"const int row = first_left + warp_row + {CORE.rows} * i + group + 8 * (r / 2);"
            )
            self.writer.line(
                f"const int column = first_right + warp_column + {CORE.columns} * j + 2 * member + r % 2;"
            )
            self.stores("sums[i][j][r]", scope)


def _along_sum(factor: UOp, ranges: Sequence[UOp], summed: Sequence[UOp]) -> bool:
    """Whether a factor's elements in memory are neighbours along the sum rather than along its own last range."""
    votes = 0
    for node in elements_of(factor):
        if node.op is LOAD:
            votes += bool(summed) and step_along(node.src[0], summed[-1]) == 1
            votes -= bool(ranges) and step_along(node.src[0], ranges[-1]) == 1
    return votes > 0
