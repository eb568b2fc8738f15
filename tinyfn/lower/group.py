"""Group: a graph as kernels, in an order in which as much as possible is run at once.

What shares a loop nest is found by `groups`; here nests become kernels.

Contractions and ops that run by their references go first, as soon as what they read is there. All other groups wait until
nothing else can go on, and those that then can are parts of one kernel: so the updates of all parameters by an optimizer
are one kernel, whatever the tree they are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..trace.debug import stage
from ..trace.graph import Graph
from ..trace.uop import UOp
from .build import Builder
from .decompose import decompose
from .groups import LARGEST, Group, groups
from .index import forget_moves
from .nest import Host, Kernel, Nest, Step, View
from .pieces import distribute
from .sinks import Sinks, home
from .split import split

# Scalar ops that the parts of a kernel may have together, those of parts with equal costs counted once.
WIDEST = 4 * LARGEST


@stage("group")
def group(graph: Graph) -> list[Step]:
    """The steps that compute the graph's outputs, in order."""
    try:
        return _steps(graph)
    finally:
        forget_moves()


def _steps(graph: Graph) -> list[Step]:
    outputs = graph.outputs
    graph = distribute(decompose(graph))
    sinks = Sinks(graph)
    made = groups(sinks)
    reads = sinks.reads
    maker: dict[UOp, int] = {}
    for at, each in enumerate(made):
        maker |= dict.fromkeys(each.every() if isinstance(each, Group) else (each,), at)
    depends = [
        {
            maker[r]
            for sink in (each.every() if isinstance(each, Group) else (each,))
            for r in reads[sink]
            if r in maker
        }
        - {at}
        for at, each in enumerate(made)
    ]
    across = {
        r for at, each in enumerate(made) if isinstance(each, Group) for r in _read_elsewhere(each, reads)
    }
    across |= {r for each in made if isinstance(each, UOp) for r in reads[each]}
    builder = Builder(
        (set(sinks.cost) | set(sinks.pieces)) - sinks.computed_again, sinks.outputs | across, reads
    )
    result: list[Step] = []
    for batch in _schedule(made, depends):
        if isinstance(first := made[batch[0]], UOp):
            result.append(Host(first))
        else:
            result.append(_kernel([made[at] for at in batch], builder, sinks.computed_again))
    views = {view: home(view) for view in sinks.views}
    views |= {old: home(new) for old, new in zip(outputs, graph.outputs, strict=True) if old is not home(new)}
    return _with_views(result, views)


def _kernel(batch: Sequence[Any], builder: Builder, numbers: set[UOp]) -> Kernel:
    """The groups of a batch as a kernel. Single numbers are stored last, when nobody needs what they may be stored over."""
    parts: list[Nest] = []
    finish: list[Nest] = []
    last: list[Nest] = []
    for each in batch:
        kernel = split(builder.nest(each))
        (last if numbers.issuperset(each.every()) else parts).extend(kernel.parts)
        finish += kernel.finish
    return Kernel(tuple(parts), (*finish, *last)) if parts else Kernel(tuple(last))


def _read_elsewhere(group: Group, reads: dict[UOp, set[UOp]]) -> set[UOp]:
    """What a group reads of others."""
    own = set(group.every())
    return {r for sink in own for r in reads[sink]} - own


def _schedule(made: Sequence[Group | UOp], depends: list[set[int]]) -> list[list[int]]:
    """The groups that run together, in order. Those of one batch do not read each other."""
    waiting = [len(d) for d in depends]
    readers: list[list[int]] = [[] for _ in made]
    for at, needed in enumerate(depends):
        for other in needed:
            readers[other].append(at)
    ready = [at for at, count in enumerate(waiting) if not count]
    batches: list[list[int]] = []

    def finish(batch: list[int]) -> None:
        batches.append(batch)
        for at in batch:
            for reader in readers[at]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)

    while ready:
        alone = [at for at in ready if not _can_share(made[at])]
        if alone:
            ready = [at for at in ready if _can_share(made[at])]
            for at in sorted(alone):
                finish([at])
            continue
        # What nobody reads waits longest.
        read = [at for at in ready if readers[at]]
        now, ready = (read, [at for at in ready if not readers[at]]) if read else (ready, [])
        now = sorted(now)
        for batch in _batches(made, now):
            finish(batch)
    return batches


def _can_share(each: Group | UOp) -> bool:
    return isinstance(each, Group) and not each.contraction


def _batches(made: Sequence[Group | UOp], now: list[int]) -> list[list[int]]:
    """These groups as parts of kernels that are not too large."""
    batches: list[list[int]] = [[]]
    costs: set[int] = set()
    alone = False  # how many points the part has is known at run time
    for at in now:
        group = made[at]
        assert isinstance(group, Group)
        if batches[-1] and (sum(costs | {group.cost}) > WIDEST or group.is_symbolic or alone):
            batches.append([])
            costs = set()
        alone = group.is_symbolic
        costs.add(group.cost)
        batches[-1].append(at)
    return batches


def _with_views(steps: list[Step], views: Mapping[UOp, UOp]) -> list[Step]:
    """The steps, with each view before the first op that runs by its reference and reads it, or at the end."""
    waiting = {view: View(view, source) for view, source in views.items()}
    made: list[Step] = []
    for step in steps:
        if isinstance(step, Host):
            made += [waiting.pop(source) for source in dict.fromkeys(step.node.src) if source in waiting]
        made.append(step)
    return [*made, *waiting.values()]
