"""The table of prices, as text and as a page."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..report import duration
from .worker import LANES

WIDTHS = (9, 7, 10, 7, 7, 9, 9, 7)
_TITLES = ("value", "/ JAX", "gradient", "JAX", "/ JAX", "written", "batched", "/ JAX")
HEADER = f"{'row':18}{''.join(f'{t:>{w}}' for t, w in zip(_TITLES, WIDTHS, strict=True))}  NumPy"
# A ratio above this is dear.
DEAR = 1.5


@dataclass
class Measured:
    """The shortest call of each program, the ops that NumPy does in it, and what went wrong."""

    times: dict[str, float] = field(default_factory=dict)
    host: dict[str, list[str]] = field(default_factory=dict)
    derived: list[str] = field(default_factory=list)  # primitives whose reverse rule is
    error: str = ""

    def ratio(self, a: str, b: str, factor: float = 1.0) -> float | None:
        """The time of a program over that of another; None if one was not timed."""
        if self.error or a not in self.times or b not in self.times:
            return None
        return self.times[a] / (self.times[b] * factor)

    def over(self, other: Measured | None, name: str) -> float | None:
        """The time of a program over that of the other library's."""
        if other is None or self.error or other.error or name not in self.times or name not in other.times:
            return None
        return self.times[name] / other.times[name]


def cells(results: dict[str, Measured]) -> list[str]:
    """The columns of a row after its name."""
    ours, jax = results["tinyfn"], results.get("jax")
    if ours.error:
        return [f"failed: {ours.error}"]
    numbers = [
        ours.over(jax, "value"),
        ours.ratio("gradient", "value"),
        jax.ratio("gradient", "value") if jax else None,
        ours.over(jax, "gradient"),
        ours.ratio("gradient", "written"),
        ours.ratio("batched", "value", LANES),
        ours.over(jax, "batched"),
    ]
    host = sorted({op for ops in ours.host.values() for op in ops})
    return [
        duration(ours.times["value"]),
        *["" if n is None else f"{n:.2f}" for n in numbers],
        ", ".join(host),
    ]


def line(name: str, results: dict[str, Measured]) -> str:
    """A row as text."""
    *columns, host = cells(results)
    text = f"{name:18}" + "".join(f"{each:>{width}}" for each, width in zip(columns, WIDTHS, strict=False))
    text += f"  {host}"
    if (jax := results.get("jax")) and jax.error:
        text += f"  (JAX failed: {jax.error})"
    return text.rstrip()


def dear(results: dict[str, dict[str, Measured]]) -> list[str]:
    """What takes more than 1.5 times as long as JAX, or as a written rule."""
    found = []
    for name, each in results.items():
        ours, jax = each["tinyfn"], each.get("jax")
        ratios = {
            **{
                f"{program} beside JAX": ours.over(jax, program)
                for program in ("value", "gradient", "batched")
            },
            "derived beside written": ours.ratio("gradient", "written"),
        }
        found += [f"{name}, {what}: {r:.1f}" for what, r in ratios.items() if r is not None and r > DEAR]
    return found


def page(results: dict[str, dict[str, Measured]], versions: dict[str, str], facts: str) -> str:
    """The page of the documentation."""
    beside = f" beside JAX {versions['jax']}" if versions.get("jax") else ""
    rows = []
    for name, each in results.items():
        columns = cells(each)
        columns += [""] * (9 - len(columns))
        rows.append(f"| {name} | {' | '.join(columns)} |")
    of: dict[str, list[str]] = {}
    for name, each in results.items():
        for primitive in each["tinyfn"].derived:
            of.setdefault(primitive, []).append(name)
    derived = "; ".join(f"{primitive} ({', '.join(names)})" for primitive, names in sorted(of.items()))
    too_dear = "".join(f"- {each}\n" for each in dear(results)) or "- nothing\n"
    return f"""# Prices

What derivatives and batches cost{beside}: made by `python -m benchmarks prices --peer PYTHON --page docs/prices.md`
({facts}; the shortest calls; what each row computes is in `benchmarks/prices/rows.py`).

"gradient" is the time of value and gradient over that of the value: the price of the derivative, then JAX's price, and our
time over JAX's. "derived / written" compares the rule that transforms derive with one written by hand. "batched" is the time of
`vmap` over {LANES} lanes over {LANES} times that of the value. "NumPy" names the ops that compiled programs leave to NumPy.

| row | value | / JAX | gradient | JAX's | / JAX | derived / written | batched | / JAX | NumPy |
|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Primitives whose reverse rule is derived, with the rows that have them: {derived}. All other primitives have
rules of their own, and all have batching rules.

More than {DEAR} times JAX's time, or that of the written rule:

{too_dear}"""
