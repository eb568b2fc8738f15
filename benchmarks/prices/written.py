"""Derivatives written by hand: (library, ct, out, *args) -> the cotangents of the arguments.

They are what a person would write who knows the function; most hold where the derived rules do, products only without zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., tuple[Any, ...]]


def _rows(ct: Any) -> Any:
    return ct[..., None]


def _softmax(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return ((ct - (ct * out).sum(-1, keepdims=True)) * out,)


def _log_softmax(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (ct - l.np.exp(out) * ct.sum(-1, keepdims=True),)


def _logsumexp(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (_rows(ct) * l.np.exp(x - _rows(out)),)


def _var(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (_rows(ct) * (x - x.mean(-1, keepdims=True)) * (2 / x.shape[-1]),)


def _std(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (_rows(ct / out) * (x - x.mean(-1, keepdims=True)) * (1 / x.shape[-1]),)


def _norm(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (_rows(ct / out) * x,)


def _prod(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (_rows(ct * out) / x,)


def _cumprod(l: Any, ct: Any, out: Any, x: Any) -> Any:
    return (l.lax.cumsum(ct * out, axis=1, reverse=True) / x,)


def _cumextreme(l: Any, ct: Any, out: Any, x: Any) -> Any:
    import numpy as np

    numbers = np.arange(x.shape[-1], dtype=np.int32)
    changes = l.np.concatenate([out[:, :1] == out[:, :1], out[:, 1:] != out[:, :-1]], -1)
    at = l.lax.cummax(l.np.where(changes, numbers, 0), axis=1)
    rows = np.arange(x.shape[0], dtype=np.int32)[:, None]
    return (l.np.zeros_like(x).at[rows, at].add(ct),)


def _cumlogsumexp(l: Any, ct: Any, out: Any, x: Any) -> Any:
    # Without care for large differences of x.
    return (l.np.exp(x) * l.lax.cumsum(ct * l.np.exp(-out), axis=1, reverse=True),)


def _sort(l: Any, ct: Any, out: Any, x: Any) -> Any:
    order = l.np.argsort(l.np.argsort(x, axis=-1), axis=-1)
    return (l.np.take_along_axis(ct, order, axis=-1),)


def _cholesky(l: Any, ct: Any, out: Any, a: Any) -> Any:
    import numpy as np

    n = a.shape[-1]
    half = np.tril(np.ones((n, n), np.float32)) - 0.5 * np.eye(n, dtype=np.float32)
    inner = (out.T @ l.np.tril(ct)) * half
    # L^-T inner L^-1
    left = l.linalg.solve_triangular(out, inner, lower=True, trans=1)
    whole = l.linalg.solve_triangular(out, left.T, lower=True, trans=1).T
    return ((whole + whole.T) / 2,)


def _solve(l: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    back = l.np.linalg.solve(a.T, ct)
    return -back @ out.T, back


def _inv(l: Any, ct: Any, out: Any, a: Any) -> Any:
    return (-out.T @ ct @ out.T,)


def _det(l: Any, ct: Any, out: Any, a: Any) -> Any:
    return ((ct * out)[..., None, None] * l.np.swapaxes(l.np.linalg.inv(a), -1, -2),)


def _slogdet(l: Any, ct: Any, out: Any, a: Any) -> Any:
    return (ct * l.np.linalg.inv(a).T,)


WRITTEN: dict[str, Rule] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "logsumexp": _logsumexp, "var": _var, "std": _std,
    "norm": _norm, "prod": _prod, "cumprod": _cumprod, "lax_cumprod": _cumprod, "cummax": _cumextreme,
    "cummin": _cumextreme, "cumlogsumexp": _cumlogsumexp, "sort": _sort, "cholesky": _cholesky, "solve": _solve,
    "inv": _inv, "det": _det, "slogdet": _slogdet,
}  # fmt: skip
