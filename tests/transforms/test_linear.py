"""Linear functions: linear_transpose, fwd_and_bwd, what vjp and linearize return; options of derivatives; and float0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close, normal
from tinyfn import lax
from tinyfn.trace import dtype as dtypes

grad, jit, vmap, jvp, vjp = tinyfn.grad, tinyfn.jit, tinyfn.vmap, tinyfn.jvp, tinyfn.vjp
linear_transpose = tinyfn.linear_transpose

A, V, U = normal(0, (4, 3), (3,), (4,))


def cplx(x: Any) -> Any:
    return array(x, "complex128")


def is_float0(x: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == dtypes.float0 and x.shape == shape


def test_the_transpose_of_a_matrix() -> None:
    transpose = linear_transpose(lambda v: array(A) @ v, array(V))
    close(transpose(array(U))[0], A.T @ U)
    close(transpose(array(2 * U))[0], 2 * A.T @ U)
    close(jit(lambda u: transpose(u)[0])(array(U)), A.T @ U)
    close(vmap(transpose)(array(np.stack([U, -U])))[0], np.stack([A.T @ U, -A.T @ U]))
    close(grad(lambda u: (transpose(u)[0] ** 2).sum())(array(U)), 2 * A @ A.T @ U)
    # And by the matrix itself, which the function closes over.
    found = grad(lambda a: (linear_transpose(lambda v: a @ v, array(V))(array(U))[0] * array(V)).sum())(
        array(A)
    )
    close(found, np.outer(U, V))


def test_the_transpose_pairs_as_the_function_does() -> None:
    def steps(h: Any) -> Any:
        body = lambda h, x: (0.5 * h + x, 3.0 * h)
        return lax.scan(body, h[0], h)

    functions: list[Any] = [
        lambda v: (v[::-1] * 2, v.sum()),
        steps,
        jit(lambda v: tnp.cumsum(v) - v[0]),
        lambda v: lax.cond(True, lambda v: 2 * v, lambda v: v[::-1], v),
        tinyfn.checkpoint(lambda v: tnp.roll(v, 1) + v),
        lambda v: tnp.fft.rfft(v).real if hasattr(tnp, "fft") else v,
    ]
    for f in functions:
        value = f(array(V))
        ct = tinyfn.tree.map(lambda x: tnp.cos(1.0 + x), value)
        (back,) = linear_transpose(f, tinyfn.ShapeDtypeStruct((3,), "float64"))(ct)
        paired = tinyfn.tree.map(lambda x, c: (x * c).sum(), value, ct)
        close((back * array(V)).sum(), sum(float(x) for x in tinyfn.tree.leaves(paired)))


def test_the_transpose_of_complex_functions_does_not_conjugate() -> None:
    m = A + 1j * A[::-1]
    transpose = linear_transpose(lambda v: cplx(m) @ v, cplx(V))
    close(transpose(cplx(1j * U))[0], m.T @ (1j * U))


def test_transposes_of_several_arguments_and_constants() -> None:
    transpose = linear_transpose(
        lambda p, x: p["a"] * 2 + x - p["b"] + 7.0, {"a": array(1.0), "b": array(2.0)}, 3.0
    )
    p, x = transpose(array(5.0))
    close([p["a"], p["b"], x], [10.0, -5.0, 5.0])
    assert transpose(5.0)[1].shape == ()


def test_what_has_no_transpose() -> None:
    with pytest.raises(
        TypeError, match=r"linear_transpose of square: it is not linear.*through mul.*use vjp"
    ):

        def square(x: Any) -> Any:
            return x * x

        linear_transpose(square, array(V))
    with pytest.raises(TypeError, match=r"argument `n` is int32\[2\]"):
        linear_transpose(lambda n: n, array([1, 2], "int32"))
    with pytest.raises(TypeError, match=r"a result is int32\[3\]"):
        linear_transpose(lambda x: x.astype("int32"), array(V))
    with pytest.raises(
        TypeError, match=r"the linear_transpose of <lambda>.*must be float64\[4\].*not float64\[3\]"
    ):
        linear_transpose(lambda v: array(A) @ v, array(V))(array(V))


def test_vjp_and_linearize_functions_are_pytrees() -> None:
    def f(x: Any) -> Any:
        return tnp.sin(x) * x

    x, ct = array(V), array([1.0, 2.0, 3.0])
    expected = (np.cos(V) * V + np.sin(V)) * [1.0, 2.0, 3.0]
    value, pullback = jit(lambda x: vjp(f, x))(x)
    close(value, np.sin(V) * V)
    for _ in range(2):
        close(pullback(ct)[0], expected)
    assert all(isinstance(leaf, tinyfn.Array) for leaf in tinyfn.tree.leaves(pullback))
    close(jit(lambda pullback, ct: pullback(ct))(pullback, ct)[0], expected)
    _, linear = jit(lambda x: tinyfn.linearize(f, x))(x)
    close(linear(ct), expected)
    halves = tinyfn.tree.map(lambda kept: kept / 2, tinyfn.linearize(lambda x: 3.0 * x * array(V), x)[1])
    close(halves(ct), 3.0 * V * [1.0, 2.0, 3.0] / 2)


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        return x * x, {"n": 3, "twice": 2 * x, "name": "f"}

    x = array(3.0)
    for value, aux in (
        (lambda y, pullback, aux: (pullback(array(1.0))[0], aux))(*vjp(f, x, has_aux=True)),
        (lambda y, linear, aux: (linear(array(1.0)), aux))(*tinyfn.linearize(f, x, has_aux=True)),
        (lambda y, t, aux: (t, aux))(*jvp(f, (x,), (array(1.0),), has_aux=True)),
        grad(f, has_aux=True)(x),
        tinyfn.jacfwd(f, has_aux=True)(x),
        tinyfn.jacrev(f, has_aux=True)(x),
    ):
        close(value, 6.0)
        assert aux["n"] == 3 and float(aux["twice"]) == 6.0 and aux["name"] == "f"
    second, aux = tinyfn.hessian(lambda x: (x**3, x), has_aux=True)(x)
    close(second, 18.0)


def test_fwd_and_bwd() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return x * tnp.sin(y)

    forward, backward = tinyfn.fwd_and_bwd(f, argnums=(0, 1))
    for x, y in ((1.0, 2.0), (3.0, 0.5)):
        value, kept = forward(array(x), array(y))
        close(value, x * np.sin(y))
        close(backward(kept, array(2.0)), [2 * np.sin(y), 2 * x * np.cos(y)])
    assert len(calls) == 1
    assert backward.cache_info().misses == 1
    forward, backward = tinyfn.fwd_and_bwd(lambda x, y: (f(x, y), 3), argnums=-1, has_aux=True)
    value, kept, aux = forward(array(1.0), array(2.0))
    assert int(aux) == 3
    close(backward(kept, array(1.0)), np.cos(2.0))
    forward, backward = tinyfn.fwd_and_bwd(f, argnums=0, jitted=False)
    close(backward(forward(array(1.0), array(2.0))[1], array(1.0)), np.sin(2.0))


def test_float0_passes_through_transforms() -> None:
    def twice(i: Any) -> Any:
        return jvp(lambda i: i * 2, (i,), (np.zeros(i.shape, dtypes.float0),))

    numbers = array([1, 2, 3], "int32")
    for transform in (vmap, jit, lambda f: jit(vmap(f)), lambda f: vmap(jit(f))):
        value, tangent = transform(twice)(numbers)
        assert list(np.asarray(value)) == [2, 4, 6] and is_float0(tangent, (3,))
    value, tangent = vmap(lambda i, t: jvp(lambda i: i * 2, (i,), (t,)), in_axes=(0, 0), out_axes=(0, 0))(
        array([[1, 2], [3, 4]], "int32"), np.zeros((2, 2), dtypes.float0)
    )
    assert is_float0(tangent, (2, 2))
    f = jit(lambda i, t: jvp(lambda i: i * 2, (i,), (t,)))
    for _ in range(3):
        assert is_float0(f(array(3, "int32"), np.zeros((), dtypes.float0))[1], ())
    # A bool of that shape is something else.
    assert f(array(3, "int32"), array(1, "int32"))[1].dtype == dtypes.float0

    def with_integer(x: Any) -> Any:
        return x * x, array(3, "int32")

    nested = jvp(lambda x: jvp(with_integer, (x,), (x,)), (array(2.0),), (array(1.0),))
    ((value, integer), (tangent, void)), ((slope, void2), (second, void3)) = nested
    close([value, tangent, slope, second], [4.0, 8.0, 4.0, 8.0])
    assert int(integer) == 3 and all(is_float0(v, ()) for v in (void, void2, void3))
    _, pullback = vjp(lambda x, i: x * i, array(2.0), array(3, "int32"))
    assert is_float0(vmap(pullback)(array([1.0, 2.0]))[1], (2,))
    assert is_float0(
        jit(lambda x, i: grad(lambda x, i: x * i, (0, 1), allow_int=True)(x, i))(array(2.0), 3)[1], ()
    )
    assert tinyfn.eval_shape(twice, array(3, "int32"))[1].dtype == dtypes.float0


def test_holomorphic_derivatives() -> None:
    z = np.array([1 + 2j, 0.5 - 1j, 3j])
    close(grad(lambda z: z**2, holomorphic=True)(cplx(1 + 2j)), 2 + 4j)
    close(tinyfn.value_and_grad(tnp.sin, holomorphic=True)(cplx(1 + 2j))[1], np.cos(1 + 2j))
    for jacobian in (tinyfn.jacfwd, tinyfn.jacrev, tinyfn.jacobian):
        close(jacobian(lambda z: z**2 * z[0], holomorphic=True)(cplx(z)), _product_jacobian(z))
    close(tinyfn.hessian(lambda z: (z**3).sum(), holomorphic=True)(cplx(z)), np.diag(6 * z))
    with pytest.raises(
        TypeError, match=r"grad of .* with holomorphic=True: argument `x` is float64.*, not complex"
    ):
        grad(lambda x: x, holomorphic=True)(array(1.0))
    with pytest.raises(TypeError, match="must return a complex number, as holomorphic=True says"):
        grad(lambda z: z.real, holomorphic=True)(cplx(1j))
    with pytest.raises(
        TypeError, match=r"must return a float, but it returned complex128.*holomorphic=True if"
    ):
        grad(lambda z: z)(cplx(1j))
    with pytest.raises(TypeError, match=r"jacrev of .* is complex128.*set holomorphic=True"):
        tinyfn.jacrev(lambda z: z)(cplx(z))
    with pytest.raises(TypeError, match=r"jacfwd of .* is complex128.*holomorphic=True if"):
        tinyfn.jacfwd(lambda z: z)(cplx(z))
    with pytest.raises(TypeError, match="holomorphic=True is for complex results"):
        tinyfn.jacrev(lambda z: z.real, holomorphic=True)(cplx(z))


def _product_jacobian(z: np.ndarray) -> np.ndarray:
    jacobian = np.diag(2 * z * z[0])
    jacobian[:, 0] += z**2
    return jacobian


def test_argnums_of_every_form() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    args = array(2.0), array(3.0), array(4.0)
    for argnums, expected in ((1, 2.0), (-1, 1.0), (np.int64(0), 3.0)):
        close(grad(f, argnums)(*args), expected)
        close(tinyfn.jacfwd(f, argnums)(*args), expected)
        close(tinyfn.jacrev(f, argnums)(*args), expected)
    for several, found in (((0, 1), (3.0, 2.0)), ([2, 0], (1.0, 3.0)), ((-2,), (2.0,)), ((), ())):
        for derivative in (grad, tinyfn.jacfwd, tinyfn.jacrev):
            result = derivative(f, several)(*args)
            assert isinstance(result, tuple)
            close(result, found)
    for wrong, error in ((True, TypeError), (1.0, TypeError), (3, ValueError), ((0, -3), ValueError)):
        with pytest.raises(error, match="argnums of f"):
            grad(f, wrong)(*args)


def test_integers_in_jacobians() -> None:
    found = tinyfn.jacrev(lambda x, i: x * i, (0, 1), allow_int=True)(array(V), array([1, 2, 3], "int32"))
    close(found[0], np.diag([1.0, 2.0, 3.0]))
    assert is_float0(found[1], (3, 3))
    with pytest.raises(TypeError, match="set allow_int=True"):
        tinyfn.jacrev(lambda i: i * 1.5)(array([1, 2], "int32"))
