"""Writing LLVM IR with nested loops, where a value is written as far outside as what it depends on allows.

Each loop opens a scope. What a scope knows (values, by key) is forgotten at its end. While an inner scope is open, an instruction
for an outer one goes to a place that the outer one keeps before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from .llvm_scalar import ScalarCode

Body = Callable[[str, list[str]], list[str]]


class Scope:
    """A region of the code: where its instructions go now, and what to forget when it ends."""

    __slots__ = ("keys", "out")

    def __init__(self, out: list[str]):
        self.out = out
        self.keys: list[tuple[dict[Any, Any], Any]] = []


class Writer(ScalarCode):
    """The text of one function."""

    def __init__(self) -> None:
        super().__init__(1)
        self.out: list[
            str
        ] = []  # what is being written: the last of the pieces of the text, or one before a loop
        self._pieces = [self.out]
        self.scopes = [Scope(self.out)]
        self.block = "entry"
        self._count = 0

    @property
    def depth(self) -> int:
        """The number of the innermost scope."""
        return len(self.scopes) - 1

    def op(self, text: str) -> str:
        """Write an instruction and give its result a name."""
        self._count += 1
        name = f"%v{self._count}"
        self.out.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.out.append("  " + text)

    def number(self) -> int:
        """A number that no name has yet."""
        self._count += 1
        return self._count

    def know(self, table: dict[Any, Any], key: Any, value: Any, depth: int) -> None:
        """Remember something as long as the scope of this depth is open."""
        table[key] = value
        self.scopes[depth].keys.append((table, key))

    def text(self) -> str:
        """All instructions, in order."""
        return "\n".join(chain.from_iterable(self._pieces))

    def _piece(self) -> list[str]:
        """A place here where more can be written later."""
        place: list[str] = []
        self.out = self.scopes[-1].out = []
        self._pieces += [place, self.out]
        return place

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region whose values are not there after it."""
        parent, before = self.scopes[-1], self._piece()
        parent.out = before
        self.scopes.append(Scope(self.out))
        yield
        for table, key in self.scopes.pop().keys:
            table.pop(key, None)
        parent.out = self.out = self._pieces[-1]

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.out.append(f"{label}:")
        self.block = label

    def loop(
        self,
        begin: int | str,
        end: int | str,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Body,
        may_be_empty: bool = False,
    ) -> list[str]:
        """A loop that runs at least once, unless it `may_be_empty`; `carried` are types and first values of what it hands on,
        which it returns."""
        with self.scope():
            if isinstance(begin, int) and isinstance(end, int) and end - begin <= step:
                return body(str(begin), [first for _, first in carried])
            number = self.number()
            header, done, index = f"loop{number}", f"done{number}", f"%i{number}"
            if may_be_empty:
                some = self.op(f"icmp slt i64 {begin}, {end}")
                self.do(f"br i1 {some}, label %{header}, label %{done}")
            else:
                self.do(f"br label %{header}")
            before = self.block
            self.start(header)
            phis = self._piece()
            names = [f"%c{number}_{i}" for i in range(len(carried))]
            results = body(index, list(names))
            following = self.op(f"add nuw nsw i64 {index}, {step}")
            more = self.op(f"icmp slt i64 {following}, {end}")
            phis.append(f"  {index} = phi i64 [ {begin}, %{before} ], [ {following}, %{self.block} ]")
            for name, (kind, first), last in zip(names, carried, results, strict=True):
                phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {last}, %{self.block} ]")
            self.do(f"br i1 {more}, label %{header}, label %{done}")
            last_block = self.block
            self.start(done)
            if may_be_empty:
                results = [
                    self.op(f"phi {kind} [ {first}, %{before} ], [ {last}, %{last_block} ]")
                    for (kind, first), last in zip(carried, results, strict=True)
                ]
            return results

    def when(self, condition: str, then: Callable[[], Any]) -> None:
        """Code that runs only if a condition holds."""
        with self.scope():
            number = self.number()
            self.do(f"br i1 {condition}, label %then{number}, label %endif{number}")
            self.start(f"then{number}")
            then()
            self.do(f"br label %endif{number}")
            self.start(f"endif{number}")
