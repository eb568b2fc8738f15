"""Every public function, class, method and property has a docstring with an example, and what the examples print is right."""

from __future__ import annotations

import doctest
import enum
import re
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

import tinyfn
from scripts import names
from tinyfn.lower.estimates import Estimates
from tinyfn.lower.lowered import Lowered
from tinyfn.numpy.ufunc import ufunc
from tinyfn.trace.debug import StageTimes
from tinyfn.trace.indexing import At, AtIndex
from tinyfn.transforms.ahead import Compiled, MemoryAnalysis, Traced
from tinyfn.transforms.jit import CacheInfo, Jitted
from tinyfn.transforms.linear import LinearFunction

# What users are handed, and import from nowhere.
HANDED_OUT = (
    At, AtIndex, Jitted, CacheInfo, Traced, Lowered, Estimates, Compiled, MemoryAnalysis, LinearFunction, StageTimes, ufunc,
)  # fmt: skip
# The names that examples may use without importing them: what those in the docstring of the package import.
NAMESPACE: dict[str, Any] = {}
for _example in doctest.DocTestParser().get_examples(tinyfn.__doc__ or ""):
    if "import" in _example.source:
        exec(_example.source, NAMESPACE)


class Documented(NamedTuple):
    """A public object, by the name under which users find it."""

    name: str
    value: Any
    owner: type | None = None  # of a member: its class
    aliases: frozenset[str] = frozenset()  # all names that it has in modules and classes

    @property
    def text(self) -> str:
        return self.value.__doc__ or ""

    @property
    def needs_example(self) -> bool:
        """Exceptions and enumerations explain themselves; so does what the example of its class uses."""
        kind = self.value if isinstance(self.value, type) else self.owner
        if kind is not None and issubclass(kind, (BaseException, enum.Enum)):
            return False
        if self.owner is None:
            return True
        return not self.is_used_in(self.owner.__doc__ or "")

    def is_used_in(self, text: str) -> bool:
        """Whether the examples of a text have one of its names."""
        source = "".join(example.source for example in examples(text))
        return re.search(rf"\b({'|'.join(self.aliases)})\b", source) is not None


def function_of(value: Any) -> Any:
    """The function of a property, class method or static method."""
    found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return getattr(found, "__wrapped__", found)  # methods are entry points of their own, made of functions


def is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", None)).startswith("tinyfn")


@cache
def documented() -> dict[str, Documented]:
    """The public functions and classes by name, then the classes' members; each object once."""
    found: dict[int, Documented] = {}

    def add(name: str, value: Any, owner: type | None = None) -> None:
        key = id(function_of(value))
        before = found.get(key, Documented(name, value, owner))
        found[key] = before._replace(aliases=before.aliases | {name.rpartition(".")[2]})

    for title, module in names.modules().items():
        for name in names.public(module):
            value = getattr(module, name)
            if isinstance(value, (FunctionType, type, ufunc)) or hasattr(value, "__wrapped__"):
                if is_ours(value):
                    add(f"{title}.{name}", value)
            elif is_ours(type(value)) and not isinstance(value, ModuleType):
                add(f"{title}.{type(value).__name__}", type(value))
                if value.__doc__ != type(value).__doc__:  # a distribution, which has a text of its own
                    add(f"{title}.{name}", value)
    for kind in HANDED_OUT:
        add(f"{kind.__module__}.{kind.__name__}", kind)
    for title, value, *_ in list(found.values()):
        if isinstance(value, type):
            for kind in value.__mro__:
                for name, member in vars(kind).items():
                    if is_ours(kind) and is_member(member) and not name.startswith("_"):
                        add(f"{title}.{name}", member, value)
    return {entry.name: entry for entry in found.values()}


def is_member(value: Any) -> bool:
    return isinstance(value, (FunctionType, property, classmethod, staticmethod, ufunc))


def examples(text: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text)


def run(entry: Documented) -> str:
    """What differs from what the examples of a docstring say, as text."""
    test = doctest.DocTestParser().get_doctest(entry.text, dict(NAMESPACE), entry.name, None, None)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", documented())
def test_docstring(name: str) -> None:
    entry = documented()[name]
    assert entry.text, "it has no docstring"
    assert not any(example.options for example in examples(entry.text)), (
        "examples are run and compared in full"
    )
    if entry.needs_example:
        assert examples(entry.text), "its docstring has no example"
        assert isinstance(entry.value, type) or entry.is_used_in(entry.text), "its example does not use it"
    if failed := run(entry):
        pytest.fail(failed, pytrace=False)


@pytest.mark.parametrize("title", names.modules())
def test_modules_say_what_they_hold(title: str) -> None:
    module = Documented(title, names.modules()[title])
    assert module.text
    if failed := run(module):
        pytest.fail(failed, pytrace=False)
