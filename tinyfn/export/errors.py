"""The error of this package."""

from __future__ import annotations


class ExportError(ValueError):
    """A function can't be exported, or a file is not a function that was exported and that is understood here."""
