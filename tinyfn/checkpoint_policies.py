"""Policies of `tinyfn.checkpoint`: which values of the function are kept for its reverse pass.

A policy is a function of a primitive, its arguments (each with a `dtype` and a `shape`) and its parameters, and says True if what
that gives is kept:

    policy = lambda primitive, *arguments, **parameters: primitive.name == "dot_general"
    tinyfn.checkpoint(f, policy=policy)
"""

from collections.abc import Callable
from typing import Any

from .trace import prims

Policy = Callable[..., bool]

__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keep all that the reverse pass needs, as without a checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Keep the arguments alone; this is what a checkpoint without a policy does."""
    return False


def dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
    """Keep the results of products of matrices and of convolutions: what costs most to compute again."""
    return primitive is prims.dot_general or primitive is prims.conv_general


def dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
    """Keep the results of products without batch axes: those of a layer's weights, but not a transformer's attention scores."""
    return primitive is prims.dot_general and params["batch_axes"] == ((), ())


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names: str) -> Policy:
    """Keep what `checkpoint_name` gave one of these names."""
    chosen = frozenset(names)

    def save_only_these_names(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is prims.checkpoint_name and params["name"] in chosen

    return save_only_these_names


def save_any_names_but_these(*names: str) -> Policy:
    """Keep what has a name, unless it is one of these."""
    excluded = frozenset(names)

    def save_any_names_but_these(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is prims.checkpoint_name and params["name"] not in excluded

    return save_any_names_but_these


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all that the reverse pass needs, named or not, unless it has one of these names."""
    excluded = frozenset(names)

    def save_anything_except_these_names(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is not prims.checkpoint_name or params["name"] not in excluded

    # The op that makes a value does not know its name, so this is asked as well: see `Policy` in `transforms.saving`.
    save_anything_except_these_names.excluded = excluded  # type: ignore[attr-defined]
    return save_anything_except_these_names


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps."""

    def save_from_both_policies(primitive: Any, *args: Any, **params: Any) -> bool:
        return policy_1(primitive, *args, **params) or policy_2(primitive, *args, **params)

    return save_from_both_policies
