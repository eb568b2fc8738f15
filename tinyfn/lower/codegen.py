"""Code of kernels: LLVM IR of all parts of a kernel, and how its work is counted.

Each nest becomes a function `void (ptr arguments, i64 begin, i64 end)` of its own; nests of one structure share it. The points
of a kernel of several parts are numbered one after another. They are not the points of the nests, which may be a vector in one
part and a long row in another, but runs of so many of them that there is about the same to do at each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..trace import sint
from ..trace.debug import stage
from ..trace.sint import Dimension
from ..trace.uop import UOp
from .function import GRAIN, Function
from .gemm_form import match, oriented
from .nest import Kernel, Nest
from .opts import Opt
from .rebase import rebase
from .render_llvm import render
from .schedule import Facts, apply, choose, chunks
from .structure import Structure, structure
from .target import Target

Opts = tuple[tuple[Opt, ...], ...]


class Code(NamedTuple):
    """A kernel for one target. `points` and `grain` depend on the symbolic dimensions of the kernel.

    The IR defines `void kernel(ptr arguments, i64 begin, i64 end)`, which runs the points from begin to end, and, if
    `finishes`, `void finish(ptr arguments)`. Their first argument is a table of the addresses of `arguments`, in this
    order, or, for a symbolic dimension, of an i64. A call should have `grain` points. `opts` are the schedules of the nests, the
    parts' first. An address is that of an array's first element, or of the one `origins` bytes after it."""

    ir: str
    arguments: tuple[UOp, ...]
    points: Dimension
    grain: Dimension
    finishes: bool = False
    opts: Opts = ()
    origins: tuple[int, ...] = ()

    def origin(self, argument: int) -> int:
        """By how many bytes an argument's address is after its array's first element."""
        return self.origins[argument] if self.origins else 0


# Arrays smaller than this are never written past the caches.
STREAMED = 1 << 16  # of no array of symbolic size is it known whether it is smaller


def _loops(
    nest: Nest,
    arrays: Sequence[UOp],
    target: Target,
    opts: Sequence[Opt] | None = None,
    streams: bool = False,
) -> Function:
    facts = Facts(nest)
    chosen = tuple(choose(facts, arrays, target) if opts is None else opts)
    plan = apply(nest, chosen)
    streamed = frozenset(a for a in nest.stored if streams and _bytes(a) >= STREAMED)
    text = render(nest, arrays, "kernel", plan, facts.size, streamed)
    return Function(text, chunks(plan), facts.work, chosen)


def _bytes(array: UOp) -> int:
    size = sint.prod(array.shape)
    return size * array.dtype.itemsize if isinstance(size, int) else 0


def _grain(points: Dimension, work: Dimension) -> Dimension:
    """How many points a call should have, of so many that take so much work."""
    if isinstance(points, int) and isinstance(work, int):
        return max(1, GRAIN * points // max(1, work))
    work = sint.maximum(1, work)
    return sint.maximum(1, sint.floordiv(sint.add(sint.mul(GRAIN, points), sint.sub(work, 1)), work))


# Code by structure, schedule and target: nests of other kernels may be the same. The oldest goes first.
_functions: dict[Any, Function] = {}
MOST_FUNCTIONS = 256


def function(
    nest: Nest, found: Structure, target: Target, opts: tuple[Opt, ...] | None = None, streams: bool = False
) -> Function:
    """The code of one nest of this structure; with `opts`, under that schedule.

    `streams`: what the kernel writes does not stay in the caches, so that it may as well be written past them."""
    key = found.key, opts, target, streams
    code = _functions.get(key)
    if code is None:
        form = match(nest)
        form = form and oriented(form)
        if form is None:
            code = _loops(nest, found.arrays, target, opts, streams)
        else:
            with stage("other"):  # a dozen modules, which many programs do without
                from .gemm_nest import generate as generate_contraction

            code = generate_contraction(form, found.arrays, target, opts)
        if len(_functions) >= MOST_FUNCTIONS:
            _functions.pop(next(iter(_functions)), None)
        _functions[key] = code
    return code


@stage("render")
def generate(kernel: Kernel, target: Target, opts: Opts | None = None) -> Code:
    """The code of a kernel; `opts`, if given, are the schedules of its nests, as another Code has them."""
    made: dict[int, tuple[str, Function]] = {}
    arguments: list[UOp] = []
    origins: list[int] = []
    schedules = [None] * (len(kernel.parts) + len(kernel.finish)) if opts is None else opts
    streams = sum(_bytes(array) for nest in kernel.parts for array in nest.stored) >= target.l3_bytes

    def part(nest: Nest, schedule: tuple[Opt, ...] | None) -> _Part:
        # Parts that work on other places of one array share their code, and get other addresses.
        nest, first = rebase(nest) if len(kernel.parts) > 1 else (nest, {})
        found = structure(nest)
        code = function(nest, found, target, schedule, streams)
        name, _ = made.setdefault(id(code), (f"part{len(made)}", code))
        arguments.extend(found.arrays)
        origins.extend([first.get(a, 0) * a.dtype.itemsize for a in found.arrays])
        return _Part(name, code, len(arguments) - len(found.arrays))

    every = list(map(part, (*kernel.parts, *kernel.finish), schedules))
    parts, finish = every[: len(kernel.parts)], every[len(kernel.parts) :]
    applied = tuple([each.code.opts for each in every])
    total: Dimension = 0
    for each in parts:
        total = sint.add(total, each.code.work)
    if len(parts) == 1 and not finish:
        code = parts[0].code
        return Code(code.ir, tuple(arguments), code.points, _grain(code.points, total), False, applied)
    points: Dimension
    if len(parts) == 1:
        text, points = _alone(parts[0]), parts[0].code.points
    else:
        text, points = _dispatch(parts)
    if finish:
        text += _finish(finish)
    ir = _merged([(name, code.ir) for name, code in made.values()], text)
    return Code(ir, tuple(arguments), points, _grain(points, total), bool(finish), applied, tuple(origins))


class _Part(NamedTuple):
    """A nest of a kernel: its function, and where in the kernel's arguments its own begin."""

    name: str
    code: Function
    offset: int


def _alone(part: _Part) -> str:
    return f"""
define void @kernel(ptr %arguments, i64 %begin, i64 %end) {{
  call void @{part.name}(ptr %arguments, i64 %begin, i64 %end)
  ret void
}}
"""


def _dispatch(parts: Sequence[_Part]) -> tuple[str, Dimension]:
    """A kernel that runs those of the parts that its points belong to, and the number of its points.

    A record of the table: the part's function, its first point among the kernel's, where its arguments begin, how many points
    it has, and how many of these are one of the kernel's. A search by halves finds the part of the first point."""
    records, first = [], 0
    for part in parts:
        points, amount = part.code.points, part.code.work
        assert isinstance(points, int) and isinstance(amount, int), (
            "a part of symbolic size is a kernel of its own"
        )
        run = max(1, min(points, GRAIN * points // max(1, amount)))
        records.append(
            f"{{ ptr, i64, i64, i64, i64 }} {{ ptr @{part.name}, i64 {first}, i64 {8 * part.offset}, i64 {points}, i64 {run} }}"
        )
        first += -(-points // run)
    text = f"""
@parts = internal constant [{len(records)} x {{ ptr, i64, i64, i64, i64 }}] [
  {_LINES.join(records)}
]

define void @kernel(ptr %arguments, i64 %begin, i64 %end) {{
entry:
  br label %search
search:
  %low = phi i64 [ 0, %entry ], [ %low.next, %search ]
  %size = phi i64 [ {len(records)}, %entry ], [ %size.next, %search ]
  %half = lshr i64 %size, 1
  %middle = add i64 %low, %half
  %middle.first.address = getelementptr inbounds {{ ptr, i64, i64, i64, i64 }}, ptr @parts, i64 %middle, i32 1
  %middle.first = load i64, ptr %middle.first.address, align 8
  %right = icmp sle i64 %middle.first, %begin
  %low.next = select i1 %right, i64 %middle, i64 %low
  %size.next = sub i64 %size, %half
  %found = icmp eq i64 %size.next, 1
  br i1 %found, label %parts, label %search
parts:
  %at = phi i64 [ %low.next, %search ], [ %at.next, %parts ]
  %point = phi i64 [ %begin, %search ], [ %part.end, %parts ]
  %record = getelementptr inbounds {{ ptr, i64, i64, i64, i64 }}, ptr @parts, i64 %at
  %function = load ptr, ptr %record, align 8
  %first.address = getelementptr inbounds i64, ptr %record, i64 1
  %first = load i64, ptr %first.address, align 8
  %offset.address = getelementptr inbounds i64, ptr %record, i64 2
  %offset = load i64, ptr %offset.address, align 8
  %points.address = getelementptr inbounds i64, ptr %record, i64 3
  %points = load i64, ptr %points.address, align 8
  %run.address = getelementptr inbounds i64, ptr %record, i64 4
  %run = load i64, ptr %run.address, align 8
  %part.begin = sub i64 %point, %first
  %begin.own = mul i64 %part.begin, %run
  %end.relative = sub i64 %end, %first
  %end.wanted = mul i64 %end.relative, %run
  %end.own = call i64 @llvm.smin.i64(i64 %end.wanted, i64 %points)
  %part.arguments = getelementptr inbounds i8, ptr %arguments, i64 %offset
  call void %function(ptr %part.arguments, i64 %begin.own, i64 %end.own)
  %runs.up = add i64 %points, %run
  %runs.less = sub i64 %runs.up, 1
  %runs = udiv i64 %runs.less, %run
  %part.end = add i64 %first, %runs
  %at.next = add i64 %at, 1
  %more = icmp slt i64 %part.end, %end
  br i1 %more, label %parts, label %done
done:
  ret void
}}

declare i64 @llvm.smin.i64(i64, i64)
"""
    return text, first


_LINES = ",\n  "


def _finish(parts: Sequence[_Part]) -> str:
    lines = ["", "define void @finish(ptr %arguments) {"]
    for i, part in enumerate(parts):
        lines.append(f"  %arguments{i} = getelementptr inbounds ptr, ptr %arguments, i64 {part.offset}")
        lines.append(f"  call void @{part.name}(ptr %arguments{i}, i64 0, i64 {part.code.points})")
    return "\n".join([*lines, "  ret void", "}", ""])


def _merged(functions: Sequence[tuple[str, str]], text: str) -> str:
    """One module of several: what each defines gets names of its own, and is called within the module only."""
    declarations: dict[str, None] = {}
    bodies = []
    for ir in (*[_internal(ir, name) for name, ir in functions], text):
        declarations |= dict.fromkeys(_DECLARED.findall(ir))
        bodies.append(_DECLARED.sub("", ir))
    return "\n".join([*bodies, *declarations, ""])


_DECLARED = re.compile(r"^((?:declare |!0 = ).*)\n?", re.MULTILINE)


def _internal(ir: str, name: str) -> str:
    """A module's text with its `kernel` named `name`; the names of all that it defines begin with that."""
    return ir.replace("@kernel", f"@{name}").replace("define void @", "define internal void @")
