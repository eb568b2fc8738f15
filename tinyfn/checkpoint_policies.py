"""Policies of `tinyfn.checkpoint`: which values of the function are kept for its reverse pass.

A policy is a function of a primitive, its arguments (each with a `dtype` and a `shape`) and its parameters, and says True if what
that gives is kept:

>>> policy = lambda primitive, *arguments, **parameters: primitive.name == "dot_general"
>>> f = tinyfn.checkpoint(lambda w, x: tnp.sum(tnp.exp(w @ x)), policy=policy)
>>> tinyfn.grad(f)(tnp.zeros((2, 3)), tnp.ones(3)).shape
(2, 3)
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
    """Keep all that the reverse pass needs, as without a checkpoint.

    >>> from tinyfn.ad_checkpoint import checkpoint, saved_residuals
    >>> f = lambda w, x: tnp.sum(tnp.sin(tnp.exp(w @ x)))
    >>> def kept(policy):
    ...     found = saved_residuals(checkpoint(f, policy=policy), tnp.ones((3, 2)), tnp.ones(2))
    ...     return [origin.split(" at ")[0] for _, origin in found]
    >>> kept(tinyfn.checkpoint_policies.everything_saveable)
    ['from the argument w', 'from the argument x', 'from the result of exp', 'from the result of cos']
    """
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Keep the arguments alone; this is what a checkpoint without a policy does.

    >>> from tinyfn.ad_checkpoint import checkpoint, saved_residuals
    >>> f = lambda w, x: tnp.sum(tnp.sin(tnp.exp(w @ x)))
    >>> def kept(policy):
    ...     found = saved_residuals(checkpoint(f, policy=policy), tnp.ones((3, 2)), tnp.ones(2))
    ...     return [origin.split(" at ")[0] for _, origin in found]
    >>> kept(tinyfn.checkpoint_policies.nothing_saveable)
    ['from the argument w', 'from the argument x']
    """
    return False


def dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
    """Keep the results of products of matrices and of convolutions: what costs most to compute again.

    >>> from tinyfn.ad_checkpoint import checkpoint, saved_residuals
    >>> f = lambda w, x: tnp.sum(tnp.sin(tnp.exp(w @ x)))
    >>> def kept(policy):
    ...     found = saved_residuals(checkpoint(f, policy=policy), tnp.ones((3, 2)), tnp.ones(2))
    ...     return [origin.split(" at ")[0] for _, origin in found]
    >>> kept(tinyfn.checkpoint_policies.dots_saveable)
    ['from the argument w', 'from the argument x', 'from the result of dot_general']
    """
    return primitive is prims.dot_general or primitive is prims.conv_general


def dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
    """Keep the results of products without batch axes: those of a layer's weights, but not a transformer's attention scores.

    >>> from tinyfn.ad_checkpoint import checkpoint, saved_residuals
    >>> policy = tinyfn.checkpoint_policies.dots_with_no_batch_dims_saveable
    >>> def f(w, q):
    ...     hidden = q @ w  # (4, 8, 2), kept
    ...     scores = hidden @ hidden.mT  # (4, 8, 8), computed again
    ...     return tnp.sum(tnp.exp(scores))
    >>> found = saved_residuals(checkpoint(f, policy=policy), tnp.ones((3, 2)), tnp.ones((4, 8, 3)))
    >>> [aval.shape for aval, _ in found]
    [(3, 2), (4, 8, 3), (4, 8, 2)]
    """
    return primitive is prims.dot_general and params["batch_axes"] == ((), ())


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names: str) -> Policy:
    """Keep what `checkpoint_name` gave one of these names.

    >>> from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, saved_residuals
    >>> def f(x):
    ...     a = checkpoint_name(tnp.exp(x), "a")
    ...     b = checkpoint_name(tnp.sin(a), "b")
    ...     return tnp.sum(tnp.cos(b))
    >>> policy = tinyfn.checkpoint_policies.save_only_these_names("a")
    >>> [origin.split(" at ")[0] for _, origin in saved_residuals(checkpoint(f, policy=policy), 1.0)]
    ["from 'a', the result of exp"]
    """
    chosen = frozenset(names)

    def save_only_these_names(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is prims.checkpoint_name and params["name"] in chosen

    return save_only_these_names


def save_any_names_but_these(*names: str) -> Policy:
    """Keep what has a name, unless it is one of these.

    >>> from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, saved_residuals
    >>> def f(x):
    ...     a = checkpoint_name(tnp.exp(x), "a")
    ...     b = checkpoint_name(tnp.sin(a), "b")
    ...     return tnp.sum(tnp.cos(b))
    >>> policy = tinyfn.checkpoint_policies.save_any_names_but_these("a")
    >>> [origin.split(" at ")[0] for _, origin in saved_residuals(checkpoint(f, policy=policy), 1.0)]
    ['from the argument x', "from 'b', the result of sin"]
    """
    excluded = frozenset(names)

    def save_any_names_but_these(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is prims.checkpoint_name and params["name"] not in excluded

    return save_any_names_but_these


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all that the reverse pass needs, named or not, unless it has one of these names.

    >>> from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, saved_residuals
    >>> f = lambda x: tnp.sum(tnp.sin(checkpoint_name(tnp.exp(x), "a")))
    >>> policy = tinyfn.checkpoint_policies.save_anything_except_these_names("a")
    >>> [origin.split(" at ")[0] for _, origin in saved_residuals(checkpoint(f, policy=policy), 1.0)]
    ['from the argument x', 'from the result of cos']
    """
    excluded = frozenset(names)

    def save_anything_except_these_names(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is not prims.checkpoint_name or params["name"] not in excluded

    # The op that makes a value does not know its name, so this is asked as well: see `Policy` in `transforms.saving`.
    save_anything_except_these_names.excluded = excluded  # type: ignore[attr-defined]
    return save_anything_except_these_names


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps.

    >>> from tinyfn.ad_checkpoint import checkpoint, checkpoint_name, saved_residuals
    >>> from tinyfn.checkpoint_policies import dots_saveable, save_from_both_policies, save_only_these_names
    >>> f = lambda w, x: tnp.sum(tnp.sin(checkpoint_name(tnp.exp(w @ x), "hidden")))
    >>> policy = save_from_both_policies(dots_saveable, save_only_these_names("hidden"))
    >>> found = saved_residuals(checkpoint(f, policy=policy), tnp.ones((3, 2)), tnp.ones(2))
    >>> [origin.split(" at ")[0] for _, origin in found]
    ['from the argument w', 'from the argument x', "from 'hidden', the result of exp"]
    """

    def save_from_both_policies(primitive: Any, *args: Any, **params: Any) -> bool:
        return policy_1(primitive, *args, **params) or policy_2(primitive, *args, **params)

    return save_from_both_policies
