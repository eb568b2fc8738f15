"""Tables and numbers as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from . import sint
from .sint import Dimension


def number(value: Dimension | float, unit: str = "") -> str:
    """A number with three digits and a prefix: 1.23 M; a symbolic one as an expression, or a long one by its bounds."""
    if not isinstance(value, (int, float)):
        if len(text := f"{value!r} {unit}".rstrip()) <= 24:
            return text
        low, high = sint.bounds(value)
        return f"{number(low, unit)}–{number(high, unit)}"
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            scaled = value / size
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{digits}f} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Lines of a table with columns of equal width, right-aligned but for those in `left`."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def time_of(seconds: float) -> str:
    """A time with three digits, in µs, ms or s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 100 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs" if seconds < 100e-6 else f"{seconds * 1e6:.0f} µs"
