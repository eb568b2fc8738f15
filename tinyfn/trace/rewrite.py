"""The rewrite engine: rules, and walks that apply rules to a graph.

A `Rule` is a `Pattern` and a function of the nodes that the pattern names. A `RuleSet` indexes its rules by the ops of
a node and of its sources, so that a rule which can't match is never tried, and counts what each rule did. `rewrite`
brings a graph to a fixed point of the rules, `walk` passes over it once.

    x_plus_zero = Rule("x + 0", Pattern(ADD, (anything("x"), constant(0))), lambda x: x)
    print(rewrite([node], RuleSet([x_plus_zero])))

Walks are iterative and near-linear. A rule gets the nodes that its pattern names and returns a node of the
same dtype and shape, or None; it may not rewrite graphs itself, since that is what makes compile times
explode."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import dtype as dtypes
from .pattern import Compiled, Pattern, anything, compile_pattern, constant, match, may_match, repeated
from .uop import UOp, rebuild, toposort

Hook = Callable[["Rule", UOp, UOp], None]


class Rule:
    """A named pattern and the function of its named nodes that gives the replacement, or None to decline."""

    __slots__ = ("_compiled", "function", "matches", "name", "pattern", "seconds", "tries")

    def __init__(self, name: str, pattern: Pattern, function: Callable[..., UOp | None]):
        self.name = name
        self.pattern = pattern
        self.function = function
        self.tries = self.matches = 0
        self.seconds = 0.0
        self._compiled: Compiled | None = None

    def __repr__(self) -> str:
        return f"<rule {self.name}: {self.pattern!r}>"

    @property
    def source(self) -> str:
        """The Python that the rule is compiled to."""
        return self._compile().source

    def _compile(self) -> Compiled:
        if self._compiled is None:
            self._compiled = compile_pattern(self.pattern, self.function)
        return self._compiled


class RuleSet:
    """Rules in order of precedence. Sets add; the counts belong to the rules, which sets share.

    With `timed`, the time that each rule takes is added up too."""

    def __init__(self, rules: Iterable[Rule], *, timed: bool = False):
        self.rules = tuple(dict.fromkeys(rules))
        self.timed = timed
        self._candidates: dict[Any, list[tuple[Rule, Callable[[UOp], UOp | None]]]] = {}

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules, timed=self.timed or other.timed)

    def __len__(self) -> int:
        return len(self.rules)

    def apply(self, node: UOp) -> tuple[Rule, UOp] | None:
        """The first rule that replaces this node, and what by; the node's sources are not rewritten."""
        src = node.src
        # The ops of a node and of up to three sources are few different tuples; longer ones might be many.
        count = len(src)
        key: Any
        if count == 2:
            key = (node.op, src[0].op, src[1].op)
        elif count == 1:
            key = (node.op, src[0].op)
        elif count == 3:
            key = (node.op, src[0].op, src[1].op, src[2].op)
        else:
            key = node.op
        candidates = self._candidates.get(key)
        if candidates is None:
            ops = None if key is node.op else [s.op for s in src]
            found = [rule for rule in self.rules if may_match(rule.pattern, node.op, ops)]
            candidates = self._candidates[key] = [(rule, rule._compile().run) for rule in found]
        timed = self.timed
        for rule, run in candidates:
            rule.tries += 1
            if timed:
                start = time.perf_counter()
                result = run(node)
                rule.seconds += time.perf_counter() - start
            else:
                result = run(node)
            if result is not None and result is not node:
                rule.matches += 1
                if result.dtype != node.dtype or result.shape != node.shape:
                    raise _changed_type(rule, node, result)
                return rule, result
        return None

    def reset(self) -> None:
        """Sets all counts to zero."""
        for rule in self.rules:
            rule.tries = rule.matches = 0
            rule.seconds = 0.0

    def table(self) -> str:
        """What each rule did so far: matches, tries and, if timed, milliseconds; the busiest first."""
        width = max([len(rule.name) for rule in self.rules], default=0)
        lines = [f"{'rule':{width}} {'matches':>9} {'tries':>9} {'ms':>9}"]
        for rule in sorted(self.rules, key=lambda rule: (-rule.seconds, -rule.tries)):
            spent = f"{rule.seconds * 1e3:9.2f}" if rule.seconds else f"{'-':>9}"
            lines.append(f"{rule.name:{width}} {rule.matches:9} {rule.tries:9} {spent}")
        return "\n".join(lines)


def _changed_type(rule: Rule, before: UOp, after: UOp) -> TypeError:
    described = [
        str(n.dtype) if n.dtype is None else dtypes.describe(n.dtype, n.shape) for n in (before, after)
    ]
    return TypeError(
        f"rule {rule.name!r} replaced a {described[0]} by a {described[1]}: {before!r} -> {after!r}"
    )


class Step(NamedTuple):
    """One application of a rule."""

    rule: Rule
    before: UOp
    after: UOp

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.before!r} -> {self.after!r}"


class _Local(threading.local):
    running = False
    recording: Hook | None = None


_local = _Local()


@contextmanager
def record() -> Iterator[list[Step]]:
    """Collects every step of the rewrites that this thread does inside the `with`."""
    steps: list[Step] = []
    before, _local.recording = _local.recording, lambda *step: steps.append(Step(*step))
    try:
        yield steps
    finally:
        _local.recording = before


@contextmanager
def _exclusive(what: str) -> Iterator[None]:
    if _local.running:
        raise RuntimeError(
            f"{what} was called inside a rewrite rule: a rule returns a node, the walk rewrites it further"
        )
    _local.running = True
    try:
        yield
    finally:
        _local.running = False


def rewrite(
    outputs: Iterable[UOp], rules: RuleSet, *, bottom_up: bool = True, hook: Hook | None = None
) -> list[UOp]:
    """The outputs after rewriting every node below them until no rule applies.

    Bottom up, a rule sees a node whose sources are done, and what it returns is rewritten in turn. Otherwise
    it sees the node as it was; when no rule applies any more, the walk goes on to the sources, and the node
    is not offered again. `hook` is called with (rule, before, after) for every step. Raises RuntimeError
    where rules go round in circles or never end."""
    with _exclusive("rewrite"):
        return _Rewrite(list(outputs), rules, bottom_up, _hooks(hook)).run()


def walk(outputs: Iterable[UOp], rules: RuleSet, *, hook: Hook | None = None) -> list[UOp]:
    """The outputs after one pass, bottom up: each node is offered once, over its new sources; results are
    final.

    This is for substitution and lowering, where a result may contain what was replaced."""
    outputs = list(outputs)
    hook = _hooks(hook)
    new: dict[UOp, UOp] = {}
    with _exclusive("walk"):
        for node in toposort(outputs):
            now = _renew(node, new)
            applied = rules.apply(now)
            if applied is not None:
                if hook is not None:
                    hook(applied[0], now, applied[1])
                now = applied[1]
            new[node] = now
    return [new[node] for node in outputs]


def _hooks(hook: Hook | None) -> Hook | None:
    recording = _local.recording
    if hook is None or recording is None:
        return hook or recording

    def both(rule: Rule, before: UOp, after: UOp) -> None:
        recording(rule, before, after)
        hook(rule, before, after)

    return both


def _renew(node: UOp, new: dict[UOp, UOp]) -> UOp:
    """The node over the new versions of its sources."""
    for source in node.src:
        if new[source] is not source:
            return rebuild(node, tuple([new[s] for s in node.src]))
    return node


class _Rewrite:
    """One call of `rewrite`: the nodes done so far, and those that wait for others."""

    def __init__(self, outputs: list[UOp], rules: RuleSet, bottom_up: bool, hook: Hook | None):
        self.outputs = outputs
        self.rules = rules
        self.bottom_up = bottom_up
        self.hook = hook
        self.done: dict[UOp, UOp] = {}  # by node, its final form; that of a final node is itself
        self.next: dict[UOp, UOp] = {}  # by node, what a rule made of it
        self.by: dict[UOp, Rule] = {}  # and which rule
        self.heads: dict[UOp, UOp] = {}  # top down: by node, what it is after all rules, over its old sources
        self.waiting: set[UOp] = set()  # nodes that wait for a source or for what they became
        self.steps = self.limit = 0

    def run(self) -> list[UOp]:
        done, apply = self.done, self.rules.apply
        order = toposort(self.outputs)
        # Rules that are worth having apply a few times per node. Ones that don't end pass any bound.
        self.limit = 1000 + 100 * len(order)
        if self.bottom_up:
            for node in order:
                if node in done:
                    continue
                # Most nodes: the sources are done and nothing applies. The rest is for the general loop.
                now = _renew(node, done)
                if now not in done:
                    applied = apply(now)
                    if applied is None:
                        done[now] = now
                    else:
                        self.became(now, applied)
                        self.settle(now)
                done[node] = done[now]
        else:
            for node in self.outputs:
                self.settle(node)
        return [done[node] for node in self.outputs]

    def settle(self, root: UOp) -> None:
        """Finishes a node, after those it depends on; each waits on the stack for what is above it."""
        done, waiting = self.done, self.waiting
        step = self.bottom_up_step if self.bottom_up else self.top_down_step
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                waiting.discard(node)
                continue
            needed = step(node)
            if not needed:
                continue
            waiting.add(node)
            for other in needed:
                if other in waiting:
                    raise self.endless(stack[stack.index(other) :])
            stack.extend(needed)

    def bottom_up_step(self, node: UOp) -> list[UOp]:
        """Marks the node as done, or gives the nodes that must be done before."""
        done = self.done
        product = self.next.get(node)
        if product is None:
            needed = [s for s in node.src if s not in done]
            if needed:
                return needed
            product = _renew(node, done)
            if product is node:
                applied = self.rules.apply(node)
                if applied is None:
                    done[node] = node
                    return []
                product = self.became(node, applied)
        if product not in done:
            self.next[node] = product
            return [product]
        done[node] = done[product]
        return []

    def top_down_step(self, node: UOp) -> list[UOp]:
        """Marks the node as done, or gives the nodes that must be done before."""
        done = self.done
        head = self.heads.get(node)
        if head is None:
            head, seen = node, {node: None}
            while (applied := self.rules.apply(head)) is not None:
                head = self.became(head, applied)
                if head in seen:
                    raise self.endless(list(seen))
                seen[head] = None
            self.heads[node] = head
        needed = [s for s in head.src if s not in done]
        if not needed:
            done[node] = _renew(head, done)
        return needed

    def became(self, node: UOp, applied: tuple[Rule, UOp]) -> UOp:
        """Notes that a rule replaced a node."""
        rule, product = applied
        if self.hook is not None:
            self.hook(rule, node, product)
        self.next[node] = product
        self.by[node] = rule
        self.steps += 1
        if self.steps > self.limit:
            raise self.endless(list(self.by)[-100:])
        return product

    def endless(self, nodes: list[UOp]) -> RuntimeError:
        names = dict.fromkeys(repr(self.by[node].name) for node in nodes if node in self.by)
        found = [node for node in nodes if node in self.by][:3]
        shown = "; ".join(f"{node!r} -> {self.next[node]!r}" for node in found)
        return RuntimeError(
            f"the rewrite does not end after {self.steps} steps: the rules {', '.join(names)} undo or feed "
            f"each other, for example {shown}. If a result should keep what it replaced, use walk"
        )


__all__ = [
    "Hook", "Pattern", "Rule", "RuleSet", "Step", "anything", "constant", "match", "record", "repeated", "rewrite", "walk",
]  # fmt: skip
