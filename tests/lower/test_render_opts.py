"""Schedules as data: every list of opts that fits a nest gives the same values, and one that does not fit says why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from tests.lower import pointwise
from tests.lower.compiled import run_kernel
from tests.lower.test_render_nests import CASES
from tinyfn.lower.codegen import generate
from tinyfn.lower.nest import Kernel, Nest
from tinyfn.lower.opts import Opt, OptError, OptOps
from tinyfn.lower.schedule import apply, axes
from tinyfn.lower.target import host_target


def schedules(nest: Nest) -> Iterator[list[Opt]]:
    """Many lists of opts that fit a nest: no vectors, each outer axis along the lanes, axes of the passes along them, tiles."""
    numbered, last = axes(nest), len(nest.outer) - 1
    yield []
    for axis, (lanes, columns) in product(range(last + 1), [(2, 1), (4, 3), (8, 2), (16, 1)]):
        swap = [Opt(OptOps.SWAP, axis, last)] if axis != last else []
        yield [*swap, Opt(OptOps.UPCAST, axis, lanes), Opt(OptOps.UNROLL, axis, columns)]
        for other in range(last + 1):
            yield [*swap, Opt(OptOps.UPCAST, axis, lanes), Opt(OptOps.LOCAL, other, 2 * lanes)]
    for lanes, copies in [(2, 3), (8, 1), (16, 2)]:
        for choice in (0, -1):
            opts, first = [], last + 1
            for each in nest.every():
                if each.inner and not each.passes:
                    axis = first + range(len(each.inner))[choice]
                    opts += [Opt(OptOps.UPCAST, axis, lanes), Opt(OptOps.UNROLL, axis, copies)]
                first += len(each.inner)
            yield opts
    assert len(numbered) == first


def fitting(nest: Nest) -> list[list[Opt]]:
    found = []
    for opts in schedules(nest):
        try:
            apply(nest, opts)
        except OptError:
            continue
        found.append(opts)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_schedule_gives_the_same_values(name: str) -> None:
    nest, arrays = CASES[name]()
    want = dict(arrays)
    pointwise.run(nest, want)
    tried = fitting(nest)
    assert len(tried) >= 3
    for opts in tried:
        got = dict(arrays)
        code = run_kernel(Kernel((nest,)), got, 2, opts=(tuple(opts),))
        assert code.opts == (tuple(opts),)
        for node in nest.stored:
            np.testing.assert_array_equal(got[node], want[node], err_msg=str(opts))


def test_what_follows_sums_is_written_once_for_all_vectors_of_a_block() -> None:
    nest, _ = CASES["much_that_follows_sums"]()
    texts = [
        generate(Kernel((nest,)), host_target(), ((Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.UNROLL, 0, n)),)).ir
        for n in (2, 6)
    ]
    counts = [text.count("@llvm.minimum.v8f32(") for text in texts]
    assert counts == [2 * 20 + 1] * 2  # whole blocks and the last one, and the declaration


def test_a_chosen_schedule_can_be_printed_and_replayed() -> None:
    nest, _ = CASES["row_totals_of_products"]()
    code = generate(Kernel((nest,)), host_target())
    again = eval(repr(code.opts), {"Opt": Opt, "OptOps": OptOps})
    assert again == code.opts
    assert generate(Kernel((nest,)), host_target(), again) == code


@pytest.mark.parametrize(
    "opts, message",
    [
        ([Opt(OptOps.UPCAST, 9, 4)], "names no axis of the nest, which has 2"),
        ([Opt(OptOps.UPCAST, 1, 3)], "by a power of two"),
        ([Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UPCAST, 1, 4)], "upcast once"),
        ([Opt(OptOps.UPCAST, 0, 4)], "the last one"),
        ([Opt(OptOps.UNROLL, 1, 4)], "not upcast"),
        ([Opt(OptOps.SWAP, 0, 7)], "two outer axes"),
        ([Opt(OptOps.GROUP, 0, 4)], "for GPUs"),
        ([Opt(OptOps.UPCAST, 1, None)], "a positive number"),
        ([Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.LOCAL, 0, 3)], "a multiple"),
    ],
    ids=str,
)  # fmt: skip
def test_opts_that_do_not_fit_say_why(opts: list[Opt], message: str) -> None:
    nest, _ = CASES["short_rows"]()
    with pytest.raises(OptError, match=message):
        apply(nest, opts)
