"""Error messages as a table: what is called, the class of the error, and the words that help: what was attempted, on which
argument, dtypes and shapes, and the fix. Every message names the user's file."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import checks, debug, fft, lax, linalg, nn, ops, optax_like, random, tree
from tinyfn.trace.errors import entry_point

jit, grad, vmap, jvp, vjp = tinyfn.jit, tinyfn.grad, tinyfn.vmap, tinyfn.jvp, tinyfn.vjp
x, m, i = tnp.ones(3), tnp.ones((2, 3)), tnp.arange(3)
image, filters = tnp.ones((1, 3, 8, 8)), tnp.ones((4, 2, 3, 3))
BOOL, INTEGER, ARRAY = (
    tinyfn.TracerBoolConversionError, tinyfn.TracerIntegerConversionError, tinyfn.TracerArrayConversionError,
)  # fmt: skip
CONCRETE, MASK = tinyfn.ConcretizationError, tinyfn.NonConcreteBooleanIndexError


class Case(NamedTuple):
    """A call that fails, with what its error must be and say."""

    call: Callable[[], Any]
    error: type[Exception]
    words: tuple[str, ...]


def case(call: Callable[[], Any], error: type[Exception], *words: str) -> Case:
    return Case(call, error, words)


def scale(x: Any, n: Any) -> Any:
    return x * n


def donated() -> Any:
    a = tnp.ones(3)
    jit(lambda v: v + 1, donate_argnums=0)(a)
    return a + 1


def leaked() -> Any:
    kept: list[Any] = []
    jit(lambda v: kept.append(v * 2))(x)
    return kept[0] + 1


def used_twice() -> Any:
    key = random.key(0)
    with random.check_key_reuse():
        return random.normal(key), random.uniform(key)


def without_tracing() -> Any:
    with tinyfn.no_tracing():
        return jit(lambda v: v + 1)(tnp.ones(7))


def with_nan() -> Any:
    with tinyfn.debug_nans():
        return jit(lambda v: tnp.log(v))(-x)


class Slotted:
    """Not a pytree."""


CASES: dict[str, Case] = {
    # Values that are not known while a function is traced.
    "if": case(lambda: jit(lambda a, b: a if b > 0 else -a)(1.0, 2.0), BOOL, "condition", "bool[]", "argument `b`", "where",
    "cond"),
    "min": case(lambda: jit(lambda a, b: min(a, b))(1.0, 2.0), BOOL, "arguments `a`, `b`", "tinyfn.numpy.minimum"),
    "if in vmap": case(lambda: vmap(lambda a: a if a > 0 else -a)(x), BOOL, "vmap of <lambda>", "lane to lane", "in_axes"),
    "range": case(lambda: jit(lambda n: sum(range(n)))(3), INTEGER, "count", "int32[]", "`n`", "static_argnames"),
    "shape": case(lambda: jit(lambda n: tnp.zeros((n, 2)))(3), INTEGER, "length", "`n`", "static_argnames"),
    "bounds": case(lambda: jit(lambda n: tnp.arange(n))(3), INTEGER, "a bound of arange", "`n`"),
    "num": case(lambda: jit(lambda n: tnp.linspace(0, 1, n))(3), INTEGER, "`n`"),
    "slice": case(lambda: jit(lambda a, n: a[:n])(x, 2), INTEGER, "`n`"),
    "list[tracer]": case(lambda: jit(lambda n: [1, 2][n])(1), INTEGER, "Python index", "`n`"),
    "NumPy": case(lambda: jit(lambda a: np.sin(a))(x), ARRAY, "float32[3]", "`a`", "tinyfn.numpy instead of NumPy"),
    "float()": case(lambda: jit(lambda a: float(a))(1.0), CONCRETE, "Python float", "`a`", "return it"),
    "item()": case(lambda: jit(lambda a: a.item())(1.0), CONCRETE, "item()", "`a`"),
    "mask": case(lambda: jit(lambda a: a[a > 0])(x), MASK, "boolean index", "bool[3]", "`a`", "where", "size="),
    "nonzero": case(lambda: jit(tnp.nonzero)(x), CONCRETE, "give `size`"),
    "unique": case(lambda: jit(tnp.unique)(x), CONCRETE, "give `size`"),
    "argwhere": case(lambda: jit(tnp.argwhere)(x), CONCRETE, "give `size`"),
    "where of one": case(lambda: jit(lambda a: tnp.where(a > 0))(x), CONCRETE, "give `size`"),
    "bincount": case(lambda: jit(lambda a: tnp.bincount(a))(i), CONCRETE, "give `length`"),
    "repeat": case(lambda: jit(lambda a, n: tnp.repeat(a, n))(x, i), CONCRETE, "give `total_repeat_length`", "`n`"),
    "segment_sum": case(lambda: jit(lambda a, s: ops.segment_sum(a, s))(x, i), CONCRETE, "give `num_segments`", "`s`"),
    "compress": case(lambda: jit(lambda c, a: tnp.compress(c, a))(x > 0, x), CONCRETE, "give `size`", "`c`"),
    "hash": case(lambda: {x}, TypeError, "not hashable", "item()"),
    "leak": case(leaked, tinyfn.UnexpectedTracerError, "in jit of <lambda> (", "return it from the function"),
    # Arguments and results of transforms.
    "static list": case(lambda: jit(scale, static_argnames="n")(x, n=[1]), TypeError, "jit of scale", "`n` is a list", "tuple"),
    "static array": case(lambda: jit(scale, static_argnums=1)(x, x), TypeError, "`n`", "can't be hashed"),
    "static name": case(lambda: jit(scale, static_argnames="k"), ValueError, "'k'", "x, n"),
    "string": case(lambda: jit(scale)(x, "fast"), TypeError, "jit of scale", "`n` is a str", "static_argnames"),
    "unknown leaf": case(lambda: jit(scale)(x, {"a": [Slotted()]}), TypeError, "`n['a'][0]` is a Slotted"),
    "result": case(lambda: jit(lambda a: {"k": "text"})(x), TypeError, "a str at result['k']", "register"),
    "result of grad": case(lambda: grad(lambda a: "text")(1.0), TypeError, "grad of", "a str", "has_aux=True"),
    "static array of ours": case(lambda: jit(scale, static_argnums=1)(x, m), TypeError, "`n` is float32[2,3]", "no settings"),
    "grad of a vector": case(lambda: grad(lambda a: a * 2)(x), TypeError, "float32[3]", ".sum()", "jacrev"),
    "grad of one": case(lambda: grad(lambda a: a * 2)(x[:1]), TypeError, "float32[1]", ".reshape(())"),
    "grad of an integer": case(lambda: grad(lambda n: n * 2.0)(3), TypeError, "`n` is int32[]", "astype", "allow_int"),
    "grad of a pair": case(lambda: grad(lambda a: (a, a))(1.0), TypeError, "one scalar", "has_aux=True"),
    "argnums": case(lambda: grad(lambda a: a, 2)(1.0), ValueError, "includes 2", "1 positional", "count from 0"),
    "argnums by name": case(lambda: grad(scale, 1)(1.0, n=2.0), ValueError, "includes 1", "passed by name has none"),
    "grad of a matrix of one": case(lambda: grad(lambda a: a[None])(x[:1]), TypeError, "float32[1,1]", ".reshape(())"),
    "grad to an integer": case(lambda: grad(lambda a: a.sum().astype(int))(x), TypeError, "int32[]", "compute it in floats"),
    "grad to a complex": case(lambda: grad(lambda a: a.sum() * 1j)(x), TypeError, "complex64[]", "holomorphic=True"),
    "holomorphic": case(lambda: grad(abs, holomorphic=True)(1j), TypeError, "float32[]", "leave holomorphic out"),
    "grad of nothing": case(lambda: grad(lambda a: None)(1.0), TypeError, "returned None", "is a `return` missing?"),
    "no aux": case(lambda: grad(lambda a: a, has_aux=True)(1.0), TypeError, "has_aux=True", "not float32[]"),
    "tangents' tree": case(lambda: jvp(lambda a: a["k"], ({"k": x},), ({"v": x},)), TypeError, "at [0]", "missing keys ['k']"),
    "tangents' number": case(lambda: jvp(scale, (x, x), (x,)), TypeError, "tuple of length 2, found length 1"),
    "two cotangents": case(lambda: vjp(lambda a: a, x)[1](x, x), TypeError, "one cotangent", "and not 2", "it is a tuple"),
    "transpose of integers": case(lambda: tinyfn.linear_transpose(lambda a: a, i), TypeError, "`a` is int32[3]", ".astype("),
    "static numbers": case(lambda: jit(scale, static_argnums="n"), TypeError, "'n'", "names go into static_argnames"),
    "in_axes' tree": case(lambda: vmap(lambda p: p, ({"w": 0},))({"w": x, "b": x}), ValueError, "`p` at the root", "['b']"),
    "in_axes by name": case(lambda: vmap(scale, (0, None))(x, n=x), ValueError, "1 positional", "mapped over axis 0"),
    "tangent": case(lambda: jvp(lambda a: a, (x,), (x[:2],)), TypeError, "the tangent of `a`", "float32[3]", "float32[2]"),
    "cotangent": case(lambda: vjp(lambda a: a, x)[1](x[:2]), TypeError, "cotangent", "float32[3]", "float32[2]"),
    "vmap sizes": case(lambda: vmap(scale)(x, x[:2]), ValueError, "axis 0 of `x` has size 3", "axis 0 of `n` has size 2"),
    "vmap of keywords": case(lambda: vmap(scale)(x, n=x[:2]), ValueError, "`x` has size 3", "`n` has size 2 (float32[2])"),
    "vmap of many": case(lambda: vmap(scale)([m] * 300, x), ValueError, "`x[1]` has size 2", "298 more have size 2"),
    "vmap of a tree": case(lambda: vmap(scale)({"w": m}, x), ValueError, "`x['w']` has size 2", "`n` has size 3"),
    "vmap of a scalar": case(lambda: vmap(scale, (0, None))(1.0, x), ValueError, "`x` is float32[]", "no axis 0"),
    "in_axes": case(lambda: vmap(scale, (0,))(x, x), ValueError, "in_axes has 1", "2 positional"),
    "out_axes": case(lambda: vmap(lambda a: a, out_axes=None)(x), ValueError, "out_axes None", "float32[]",
    "differs from lane to lane"),
    "no derivative": case(lambda: grad(lambda a: tinyfn.pure_callback(np.sin, a, a))(1.0), TypeError, "pure_callback",
    "custom_jvp"),
    "no rule": case(lambda: jit(tinyfn.custom_jvp(lambda a: a))(1.0), TypeError, "no rule yet", "defjvp"),
    "donated": case(donated, tinyfn.DeletedArrayError, "donated", "donate_argnums"),
    "compiled": case(lambda: jit(scale).lower(x, x).compile()(x, m), TypeError, "`n` is float32[2,3]",
    "compiled for float32[3]"),
    "key reuse": case(used_twice, random.KeyReuseError, "random.uniform", "random.normal", "random.split"),
    "no_tracing": case(without_tracing, RuntimeError, "no_tracing", "the first call", "call it once"),
    "NaN": case(with_nan, FloatingPointError, "log"),
    # Control flow.
    "scan of lengths": case(lambda: lax.scan(lambda c, a: (c, a), 0.0, (x, x[:2])), ValueError, "`a[0]` has 3", "`a[1]` has 2"),
    "scan of many": case(lambda: lax.scan(lambda c, a: (c, a), 0.0, [x] * 99 + [m]), ValueError, "`a[0]` has 3; `a[99]` has 2;"),
    "scan without xs": case(lambda: lax.scan(lambda c, a: (c, a), 0.0), ValueError, "needs a length"),
    "carry dtype": case(lambda: lax.scan(lambda c, a: (c + a, a), i[0], x), TypeError, "`c` is int32[]", "float32[]",
    ".astype('int32')"),
    "carry shape": case(
        lambda: lax.scan(lambda c, a: ({"h": c["h"][None]}, a), {"h": x}, x), TypeError,
        "`c['h']` is float32[3] before and float32[1,3] after"),
    "carry tree": case(lambda: lax.scan(lambda c, a: (c[0], a), (x, x), x), TypeError,
        "expected tuple of length 2, found an array"),
    "carry keys": case(lambda: lax.scan(lambda c, a: ({"g": c["h"]}, a), {"h": x}, x), TypeError, "missing keys ['h']",
    "extra keys ['g']"),
    "no pair": case(lambda: lax.scan(lambda c, a: c, x, x), TypeError, "a pair (carry, y), not float32[3]", "(carry, None)"),
    "no carry": case(lambda: lax.scan(lambda c, a: (None, a), x, x), TypeError, "expected an array, found None"),
    "two carries": case(lambda: lax.fori_loop(0, 2, lambda n, c: (c, c), x), TypeError, "found (*, *) (where * is an array)"),
    "switch of a bool": case(lambda: lax.switch(True, [lambda a: a], x), TypeError, "bool[]", "use cond"),
    "traced bounds": case(
        lambda: jit(grad(lambda v, n: lax.fori_loop(0, n, lambda k, c: c * 2, v)))(1.0, 3), TypeError,
        "fori_loop with traced bounds"),
    "while condition": case(lambda: lax.while_loop(lambda c: c > 0, lambda c: c, x), TypeError, "bool[3]", ".any() or .all()"),
    "while grad": case(
        lambda: grad(lambda v: lax.while_loop(lambda c: c < 3, lambda c: c * 2, v))(1.0), TypeError, "max_steps", "lax.scan"),
    "branches' trees": case(lambda: lax.cond(True, lambda a: a, lambda a: (a, a), x), TypeError, "true_fun", "found an array"),
    "branches' dtypes": case(lambda: lax.cond(True, lambda a: a, lambda a: a.astype(int), x), TypeError, "int32[3]",
    ".astype('float32')"),
    "predicate": case(lambda: lax.cond(x > 0, lambda a: a, lambda a: a, x), TypeError, "bool[3]", "vmap"),
    "switch": case(lambda: lax.switch(0.5, [lambda a: a], x), TypeError, "integer scalar", "float32[]"),
    "fori bounds": case(lambda: lax.fori_loop(0.5, 3, lambda n, c: c, x), TypeError, "bounds must be integers"),
    "solver": case(lambda: lax.custom_root(lambda v: v, x, 3, 4), TypeError, "custom_root", "`solve`, not int"),  # type: ignore[arg-type]
    "axis name": case(lambda: vmap(lambda v: lax.psum(v, "j"), axis_name="i")(x), NameError, "psum", "'j'", "'i' (size 3"),
    "policy": case(lambda: tinyfn.remat(lambda v: v, policy=3), TypeError, "policy", "dots_saveable"),  # type: ignore[arg-type]
    "not linear": case(lambda: tinyfn.linear_transpose(lambda v: v * v, x)(x), TypeError, "not linear", "through mul", "vjp"),
    "signature": case(lambda: tnp.vectorize(lambda a: a, signature="(n)->("), ValueError, "'(n),(n)->()'", "'(n)->('"),
    # Shapes.
    "matmul": case(lambda: m @ m, ValueError, "matmul of float32[2,3] and float32[2,3]", "size 3", "size 2"),
    "matmul batches": case(lambda: tnp.ones((2, 3, 3)) @ tnp.ones((4, 3, 3)), ValueError, "matmul of", "[2], [4]"),
    "broadcast": case(lambda: x + x[:2], ValueError, "add of float32[3] and float32[2]", "axis -1 has sizes 3 and 2"),
    "where": case(lambda: tnp.where(x > 0, x, x[:2]), ValueError, "where of bool[3], float32[3] and float32[2]"),
    "reshape": case(lambda: x.reshape(2, 2), ValueError, "float32[3]", "(2, 2)", "3 elements are not 4"),
    "concatenate": case(lambda: tnp.concatenate([m, m[:, :2]]), ValueError, "axis 0", "float32[2,3], float32[2,2]"),
    "stack": case(lambda: tnp.stack([x, x[:2]]), ValueError, "float32[3], float32[2]", "different shapes"),
    "axis": case(lambda: tnp.sum(m, axis=2), ValueError, "sum(float32[2,3], axis=2): axis 2", "2 axes: it has -2 to 1"),
    "axis of a scalar": case(lambda: tnp.sum(x[0], axis=0), IndexError, "sum(float32[], axis=0)", "a scalar has none"),
    "float axis": case(lambda: tnp.stack([x, x], axis=0.5), TypeError, "stack: an axis must be an integer, not 0.5"),  # type: ignore[arg-type]
    "two arrays": case(lambda: tnp.concatenate(x, x), TypeError, "a list of arrays", "concatenate([x, y])"),  # type: ignore[arg-type]
    "ranks": case(lambda: tnp.concatenate([m, x]), ValueError, "float32[2,3], float32[3]", "as many axes"),
    "scalars": case(lambda: tnp.concatenate([x[0], x[1]]), ValueError, "float32[], float32[]", "stack"),
    "list operand": case(lambda: x + [1, 2, 3], TypeError, "float32[3] + a list", "array(...)"),
    "text operand": case(lambda: "a" + x, TypeError, "float32[3] + a str", "arrays and numbers"),
    "None operand": case(lambda: m @ None, TypeError, "float32[2,3] @ None"),
    "list argument": case(lambda: tnp.sin([1.0]), TypeError, "sin takes arrays or numbers, not a list", "array(...)"),
    "reshape by a float": case(lambda: x.reshape(1.5), TypeError, "reshape(float32[3], 1.5)", "made of integers"),
    "two unknown": case(lambda: x.reshape(-1, -1), ValueError, "(-1, -1)", "at most one size can be -1"),
    "repeats": case(lambda: tnp.repeat(x, i[:2]), ValueError, "float32[3]", "each of 3 elements", "given int32[2]"),
    "negative repeats": case(lambda: tnp.repeat(x, -1), ValueError, "float32[3]", "given [-1]"),
    "stride": case(lambda: lax.conv(image, filters, (0, 1), "SAME"), ValueError, "window_strides (0, 1)", "1 or more"),
    "pairs of axes": case(lambda: lax.dot_general(m, m, ((1,), (0,))), ValueError, "((1,), (0,))", "(((1,), (0,)), ((), ()))"),  # type: ignore[arg-type]
    "too large": case(lambda: tnp.ones((10**12, 10**12)), ValueError, "ones((1000000000000, 1000000000000))", "too big"),
    "squeeze": case(lambda: tnp.squeeze(m, 0), ValueError, "axis 0 of float32[2,3]", "size 1"),
    "split": case(lambda: tnp.split(x, 2), ValueError, "3 elements", "2 equal parts"),
    "einsum sizes": case(lambda: tnp.einsum("ij,jk->ik", m, m), ValueError, "'ij,jk->ik'", "'j' has sizes 3 and 2"),
    "einsum operands": case(lambda: tnp.einsum("ij,jk->ik", m), ValueError, "2 operands, not 1"),
    "einsum axes": case(lambda: tnp.einsum("ijk->i", m), ValueError, "'ijk'", "float32[2,3]"),
    "einsum result": case(lambda: tnp.einsum("ij->ik", m), ValueError, "'k' is in the result but in no operand"),
    "lax.dot": case(lambda: lax.dot(m, m), ValueError, "float32[2,3], float32[2,3]", "sizes [3] and [2]"),
    "dot_general": case(lambda: lax.dot_general(m, m, (((2,), (1,)), ((), ()))), ValueError, "axis 2", "2 axes"),
    "channels": case(lambda: lax.conv(image, filters, (1, 1), "SAME"), ValueError, "3 channels", "float32[1,3,8,8]", "needs 2"),
    "strides": case(lambda: lax.conv(image, filters, (1,), "SAME"), ValueError, "window_strides (1,)", "2 spatial axes"),
    "padding": case(lambda: lax.conv(image, filters, (1, 1), "FULL"), ValueError, "'FULL'", '"VALID"'),
    "layout": case(
        lambda: lax.conv_general_dilated(image, filters, (1, 1), "SAME", dimension_numbers=("NHW", "OIHW", "NCHW")), ValueError,
        "'NHW'", '("NHWC", "HWIO", "NHWC")'),
    "dynamic_slice": case(lambda: lax.dynamic_slice(x, (0,), (5,)), ValueError, "lax.dynamic_slice of float32[3]", "(5,)"),
    "lax.slice": case(lambda: lax.slice(x, (0,), (9,)), ValueError, "float32[3]", "(9,)"),
    "lax.pad": case(lambda: lax.pad(x, 0.0, [(0, 0)]), ValueError, "(low, high, interior)"),  # type: ignore[list-item]
    "top_k": case(lambda: lax.top_k(x, 5), ValueError, "k is 5", "3 elements"),
    "negative size": case(lambda: lax.iota("int32", -1), ValueError, "iota", "[-1]", "negative size"),
    "size": case(lambda: tnp.zeros(2.5), TypeError, "zeros", "integers, not 2.5"),
    "item of many": case(lambda: x.item(), ValueError, "float32[3]", "tolist()"),
    "truth of many": case(lambda: bool(x), ValueError, "float32[3]", ".any() or .all()"),
    "square": case(lambda: linalg.inv(m), ValueError, "square", "float32[2,3]"),
    "attention": case(lambda: nn.dot_product_attention(x, x, x), ValueError, "float32[3]"),
    "fft": case(lambda: fft.fft(x, norm="half"), ValueError, "'half'", "'ortho'"),
    # Indexing.
    "out of bounds": case(lambda: m[0, 5], IndexError, "index 5", "axis 1 of float32[2,3]", "size is 3", "mode="),
    "out of bounds in jit": case(lambda: jit(lambda a: a[5])(x), IndexError, "index 5", "float32[3]"),
    "write out of bounds": case(lambda: x.at[5].set(1.0), IndexError, "index 5", "mode="),
    "too many axes": case(lambda: x[0, 0], IndexError, "2 axes are indexed", "float32[3] has 1"),
    "text as an index": case(lambda: x["a"], TypeError, "a str is not an index", "slices or arrays"),
    "floats as an index": case(lambda: x[x], IndexError, "float32[3]", ".astype('int32')"),
    "deletion": case(lambda: x.__delitem__(0), TypeError, "immutable", "tinyfn.numpy.delete(x, index)"),
    "call of at": case(lambda: x.at(0), TypeError, "indexed, not called", "x.at[index].set(value)"),
    "list": case(lambda: x[[0, 1]], TypeError, "a list is not an index", "array(...)"),
    "float index": case(lambda: x[1.5], TypeError, "a float is not an index"),
    "mask's shape": case(lambda: x[tnp.array([True])], IndexError, "[1]", "float32[3]"),
    "assignment": case(lambda: x.__setitem__(0, 1.0), TypeError, "immutable", "x.at[index].set(value)"),
     # type: ignore[attr-defined]
    "at without index": case(lambda: x.at.set(1.0), AttributeError, "x.at[index].set(value)"),  # type: ignore[attr-defined]
    "at of another shape": case(lambda: x.at[:2].set(x), ValueError, "[3]", "[2]"),
    "float into integers": case(lambda: i.at[0].set(1.5), TypeError, "int32", ".astype('int32')"),
    # Dtypes.
    "lax of two dtypes": case(lambda: lax.add(x, i), TypeError, "float32[3], int32[3]", "convert_element_type", "tinyfn.numpy"),
    "lax of two ranks": case(lambda: lax.add(m, x), TypeError, "float32[2,3], float32[3]", "broadcast_in_dim"),
    "lax.sin of integers": case(lambda: lax.sin(i), TypeError, "sin does not accept int32", ".astype('float32')"),
    "bits of floats": case(lambda: x & x, TypeError, "bitwise_and does not accept float32", ".astype('int32')"),
    "difference of bools": case(lambda: (x > 0) - (x > 0), TypeError, "sub does not accept bool", "x ^ y"),
    "order of complex": case(lambda: x * 1j < 1, TypeError, "lt does not accept complex64", ".real"),
    "negative power": case(lambda: i[1] ** -1, TypeError, "power -1", ".astype('float32')"),
    "overflow": case(lambda: tnp.array(300, "int8"), OverflowError, "300 does not fit into int8"),
    "unknown dtype": case(lambda: x.astype("float33"), TypeError, "astype(float32[3], 'float33')", "is it 'float32' or"),
    "no dtype": case(lambda: tnp.zeros(2, 3), TypeError, "zeros(2, 3)", "3 is no dtype", "a shape of several sizes is one tuple"),
    "text": case(lambda: tnp.array(["a"]), TypeError, "array(['a'])", "a str is not an array or a number"),
    "array of text": case(lambda: jit(lambda a: a)(np.array(["a"])), TypeError, "argument `a` is an array of <U1"),
    "text as an array": case(lambda: tnp.asarray(np.array(["a"])), TypeError, "no arrays of text (<U1)", "numbers and bools"),
    "objects": case(lambda: tnp.array(np.array([None])), TypeError, "no arrays of Python objects (object)"),
    "dates": case(lambda: tnp.array(np.array(["2020-01-01"], "M8[D]")), TypeError, "no arrays of dates (datetime64[D])"),
    "set": case(lambda: tnp.array({1}), TypeError, "array(a set)", "no arrays of Python objects"),
    "None as an array": case(lambda: tnp.array(None), TypeError, "array(None)", "None is not an array"),
    "ragged": case(lambda: tnp.array([[1, 2], [3]]), ValueError, "inhomogeneous", "rows of one length"),
    "narrow floats": case(lambda: x.astype("float8_e5m2") + x, TypeError, "add(float8_e5m2[3], float32[3])", "no common type",
    ".astype(...)"),
    "sum with a key": case(lambda: random.key(0) + 1, TypeError, "key<threefry2x32>[], 1)", "random.key_data"),
    "bitcast": case(lambda: lax.bitcast_convert_type(x, "int64"), ValueError, "float32[3] to int64", "axis of 2"),
    "key": case(lambda: random.normal(x), TypeError, "random.normal", "float32[3]", "tinyfn.random.key(seed)"),
    "no key": case(lambda: random.normal((3,)), TypeError, "takes a key first, not (3,)", "random.key(seed)"),  # type: ignore[arg-type]
    "keys": case(lambda: random.normal(random.split(random.key(0))), TypeError, "one key, not key<threefry2x32>[2]", "vmap"),
    "seed": case(lambda: random.key("a"), TypeError, "a seed is an integer, not 'a'"),  # type: ignore[arg-type]
    "float seed": case(lambda: random.key(1.5), TypeError, "a seed is an integer scalar, not float32[]"),
    "shape of numbers": case(lambda: random.normal(random.key(0), (2.5,)), TypeError, "made of integers, not (2.5,)"),  # type: ignore[arg-type]
    "without replacement": case(lambda: random.choice(random.key(0), 3, (5,), False), ValueError, "5 of 3"),
    "one_hot": case(lambda: nn.one_hot(x, 3), TypeError, "integers", "float32[3]"),
    # Trees, optimizers, checks.
    "tree path": case(
        lambda: tree.map(lambda a, b: a, {"a": 1, "b": (2, 3)}, {"a": 1, "b": (2,)}), ValueError,
        "tree 2", "['b']", "length 2", "length 1"),
    "tree keys": case(lambda: tree.map(max, {"a": 1}, {"b": 1}), ValueError, "missing keys ['a']", "extra keys ['b']"),
    "None": case(lambda: tree.map(max, [None], [1]), ValueError, "None", "is_leaf="),
    "unflatten": case(lambda: tree.unflatten(tree.structure([1, 2]), [1]), ValueError, "2 leaves, found 1"),
    "registered": case(
        lambda: tree.register_pytree_node(dict, lambda d: ((), None), lambda a, c: {}), ValueError, "builtins.dict",
        "already registered"),
    "learning rate": case(lambda: optax_like.sgd("fast"), TypeError, "lr must be a number, not str"),  # type: ignore[arg-type]
    "momentum": case(lambda: optax_like.adam(b1=2.0), ValueError, "b1", "below 1, not 2.0"),
    "gradients' tree": case(
        lambda: optax_like.sgd(0.1).step({"w": x}, {"v": x}, optax_like.sgd(0.1).init({"w": x})), ValueError, "grads", "['w']"),
    "gradients' shape": case(
        lambda: optax_like.sgd(0.1).step({"w": x}, {"w": m}, optax_like.sgd(0.1).init({"w": x})), ValueError,
        "params['w'] (float32[3])", "float32[2,3]"),
    "order": case(
        lambda: optax_like.sgd(0.1).step({"w": x}, optax_like.sgd(0.1).init({"w": x}), {"w": x}), ValueError, "grads",
        "step(params, grads, state)"),
    "check": case(
        lambda: jit(lambda a: (checks.check(a > 0, "a is {}", a), a)[1])(-1.0), checks.CheckError, "a is -1.0",
        "the check is at"),
    "format": case(lambda: debug.print("{x}", y=1), ValueError, "{x}", "without an argument"),
    "callback": case(
        lambda: jit(lambda a: tinyfn.pure_callback(lambda v: v[:2], a, a))(x), ValueError, "float32[2]", "says float32[3]"),
}  # fmt: skip


# What takes a function, and is given none.
NO_FUNCTION: dict[str, Callable[[Any], Any]] = {
    "jit": jit, "grad": grad, "value_and_grad": tinyfn.value_and_grad, "vmap": vmap, "jvp": lambda f: jvp(f, (x,), (x,)),
    "vjp": lambda f: vjp(f, x), "linearize": lambda f: tinyfn.linearize(f, x), "jacfwd": tinyfn.jacfwd,
    "jacrev": tinyfn.jacrev, "checkpoint": tinyfn.remat, "make_graph": tinyfn.make_graph, "make_jaxpr": tinyfn.make_jaxpr,
    "named_call": tinyfn.named_call, "custom_jvp": tinyfn.custom_jvp, "custom_vjp": tinyfn.custom_vjp,
    "custom_gradient": tinyfn.custom_gradient, "vectorize": tnp.vectorize, "scan": lambda f: lax.scan(f, x, x),
    "while_loop": lambda f: lax.while_loop(lambda c: c.all(), f, x), "fori_loop": lambda f: lax.fori_loop(0, 3, f, x),
    "map": lambda f: lax.map(f, x), "associative_scan": lambda f: lax.associative_scan(f, x),
    "pure_callback": lambda f: tinyfn.pure_callback(f, x, x), "debug.callback": debug.callback,
    "defjvp": lambda f: tinyfn.custom_jvp(scale).defjvp(f), "def_vmap": tinyfn.custom_batching.custom_vmap(scale).def_vmap,
}  # fmt: skip
CASES |= {
    f"{name} of no function": case(lambda f=f: f(3), TypeError, f"{name} takes a function, not int")
    for name, f in NO_FUNCTION.items()
}


@pytest.mark.parametrize("name", CASES)
def test_messages_say_what_helps(name: str) -> None:
    call, error, words = CASES[name]
    with pytest.raises(error) as raised:
        call()
    text = str(raised.value)
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
    assert __file__ in text, text
    package = os.path.dirname(tinyfn.__file__)
    assert package not in text, f"it blames a line of the package: {text!r}"
    assert "Array(" not in text and len(text) < 900, (
        f"contents of arrays do not belong into messages: {text!r}"
    )


def test_there_are_enough() -> None:
    assert len(CASES) >= 200


# Tracebacks


def broken(a: Any) -> Any:
    raise KeyError("mine")


def with_rule(function: Any) -> Any:
    custom = tinyfn.custom_jvp(function)
    custom.defjvp(lambda p, t: (p[0], t[0]))
    return custom


def with_rules(function: Any, backward: Any) -> Any:
    custom = tinyfn.custom_vjp(function)
    custom.defvjp(lambda a: (a, a), lambda a, ct: backward(ct))
    return custom


PASSING: dict[str, Callable[[], Any]] = {
    "jit": lambda: jit(broken)(x),
    "grad": lambda: jit(grad(broken))(x),
    "vmap": lambda: vmap(vmap(broken))(m),
    "jvp": lambda: jvp(broken, (x,), (x,)),
    "vjp": lambda: vjp(broken, x),
    "linearize": lambda: tinyfn.linearize(broken, x),
    "jacobian": lambda: tinyfn.jacfwd(broken)(x),
    "hessian": lambda: tinyfn.hessian(broken)(x),
    "remat": lambda: grad(tinyfn.remat(broken))(x),
    "custom": lambda: jit(with_rule(broken))(x),
    "eval_shape": lambda: tinyfn.eval_shape(broken, x),
    "make_graph": lambda: tinyfn.make_graph(broken)(x),
    "lower": lambda: jit(broken).lower(x),
    "scan": lambda: lax.scan(lambda c, a: broken(c), x, x),
    "while_loop": lambda: lax.while_loop(broken, broken, x),
    "fori_loop": lambda: jit(lambda n: lax.fori_loop(0, n, lambda n, c: broken(c), x))(3),
    "map": lambda: lax.map(broken, x),
    "cond": lambda: lax.cond(x[0] > 0, broken, broken, x),
    "switch": lambda: lax.switch(0, [broken, broken], x),
    "callback": lambda: jit(lambda a: tinyfn.pure_callback(broken, a, a))(x),
    "vectorize": lambda: tnp.vectorize(broken)(x),
    "apply_along_axis": lambda: tnp.apply_along_axis(broken, 0, m),
    "linear_transpose": lambda: tinyfn.linear_transpose(broken, x)(x),
    "tree.map": lambda: tree.map(broken, [x]),
    "reduce": lambda: lax.reduce(x, 0.0, lambda a, b: broken(a), (0,)),
    "at": lambda: x.at[0].apply(broken),
    "custom_vjp": lambda: jit(with_rules(lambda a: a, broken))(x),
    "debug.callback": lambda: jit(lambda a: (debug.callback(broken, a), a)[1])(x),
    "piecewise": lambda: tnp.piecewise(x, [x > 0], [broken]),
}


@pytest.mark.parametrize("name", PASSING)
def test_tracebacks_are_the_users_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = os.path.dirname(tinyfn.__file__) + os.sep

    def files() -> tuple[list[str], list[str]]:
        with pytest.raises(KeyError) as raised:
            PASSING[name]()
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert frames[-1].name == "broken"
        return [f.filename for f in frames], getattr(raised.value, "__notes__", [])

    shown, notes = files()
    assert not any(file.startswith(package) for file in shown)
    assert len(notes) == 1 and "TINYFN_TRACEBACK=full" in notes[0]
    monkeypatch.setenv("TINYFN_TRACEBACK", "full")
    shown, notes = files()
    assert any(file.startswith(package) for file in shown) and not notes


def test_an_interruption_shows_users_lines_alone() -> None:
    def interrupt(a: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        jit(lambda a: lax.fori_loop(0, 3, lambda n, c: tinyfn.pure_callback(interrupt, c, c), a))(x)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert {f.filename for f in frames} == {__file__} and raised.value.args == ()


def test_errors_of_users_without_our_lines_get_no_note() -> None:
    with pytest.raises(KeyError) as raised:
        broken(1)
    assert not hasattr(raised.value, "__notes__")
    assert entry_point(lambda: 3)() == 3
