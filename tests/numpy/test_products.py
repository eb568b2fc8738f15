"""Products of arrays, einsum, sequences, norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn.numpy as tnp
from tests.numpy.checks import agree, check_gradient, close, numbers
from tinyfn import ShapeDtypeStruct, Variable
from tinyfn.transforms import grad, jit


def test_products() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (3, 4), seed=1)
    u, v = x[0], y[:, 0]
    agree(
        lambda m, x, y: (
            x @ y,
            m.matmul(x, y),
            m.dot(x, y),
            m.inner(x, y.T),
            m.outer(x, y),
            m.tensordot(x, y, 1),
            m.kron(x, y),
        ),
        x,
        y,
    )
    agree(
        lambda m, u, v: (
            u @ v,
            m.dot(u, v),
            m.vdot(u, v),
            m.inner(u, v),
            m.outer(u, v),
            m.kron(u, v),
            m.vecdot(u, v),
            m.cross(u, v),
        ),
        u,
        v,
    )
    agree(
        lambda m, x, v: (
            x @ v,
            m.dot(x, v),
            m.dot(2.0, x),
            m.matvec(x, v),
            m.vecmat(v, x.T),
            m.cross(x, v),
            m.vecdot(x, v),
        ),
        x,
        v,
    )
    a, b = numbers("float32", (5, 1, 2, 3)), numbers("float32", (4, 3, 2), seed=2)
    agree(
        lambda m, a, b: (
            m.matmul(a, b),
            m.tensordot(a, b, ((2, 3), (2, 1))),
            m.tensordot(a, b, 0),
            m.dot(a, b),
            m.matmul(b, a),
        ),
        a,
        b,
    )
    check_gradient(lambda m, x, y: (m.matmul(x, y), m.outer(x, y), m.kron(x, y), m.tensordot(x, y, 1)), x, y)
    agree(lambda m, x: (x @ x.T, m.einsum("ij->j", x)), np.array([[True, False], [True, True]]))
    assert tnp.matmul(tnp.ones((2, 2), "bfloat16"), tnp.ones((2, 2), "bfloat16")).dtype == tnp.bfloat16
    assert (
        tnp.dot(tnp.ones(2, "bfloat16"), tnp.ones(2, "bfloat16"), preferred_element_type="float32").dtype
        == np.float32
    )
    with pytest.raises(ValueError, match="size"):
        tnp.dot(x, x)
    with pytest.raises(ValueError, match="sizes"):
        tnp.tensordot(x, x, 1)


SUBSCRIPTS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iji->j", (3, 2, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ba", (2, 3)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("...i->...", (2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    (",ij->ij", (), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 4), (3, 4, 2, 3), (3, 2), (2, 3)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,ij->j", (2, 3), (1, 3)),
    ("ij,ik->jk", (2, 3), (2, 4)),
    ("ijk,ljm->ikm", (2, 3, 4), (2, 3, 5)),
    ("i,ij->", (1,), (2, 3)),
    ("ij,j->i", (2, 0), (0,)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
]


@pytest.mark.parametrize("case", SUBSCRIPTS, ids=lambda c: c[0])
def test_einsum(case: tuple[Any, ...]) -> None:
    subscripts, *shapes = case
    arrays = [numbers("float64", shape, seed=i) for i, shape in enumerate(shapes)]
    agree(lambda m, *xs: m.einsum(subscripts, *xs), *arrays, tolerance=1e-9)
    close(tnp.einsum(subscripts, *arrays, optimize=False), np.einsum(subscripts, *arrays))
    if all(a.size < 13 for a in arrays):
        check_gradient(lambda m, *xs: m.einsum(subscripts, *xs), *arrays)


def test_einsum_from_lists_and_errors() -> None:
    x, y = numbers("float32", (2, 3)), numbers("float32", (3, 4))
    agree(
        lambda m, x, y: (
            m.einsum(x, [0, 1], y, [1, 2], [0, 2]),
            m.einsum(x, [0, 1], [1, 0]),
            m.einsum(x, [Ellipsis, 1], [1, Ellipsis]),
        ),
        x,
        y,
    )
    for subscripts, arrays in (
        ("ij,jk->ik", (x,)),
        ("ij->k", (x,)),
        ("ijk->i", (x,)),
        ("ij,ij->i", (x, y)),
        ("ij->ii", (x,)),
        ("i+->i", (x,)),
    ):
        with pytest.raises(ValueError, match=r"einsum .*test_products"):
            tnp.einsum(subscripts, *arrays)


def test_sequences() -> None:
    x, y = numbers("float32", (7,)), numbers("float32", (3,), seed=1)
    for mode in ("full", "same", "valid"):
        agree(
            lambda m, x, y: (
                m.convolve(x, y, mode),
                m.convolve(y, x, mode),
                m.correlate(x, y, mode),
                m.correlate(y, x, mode),
            ),
            x,
            y,
        )
        agree(
            lambda m, x, y: (
                m.convolve(x, y[:2], mode),
                m.correlate(x, y[:2], mode),
                m.correlate(y[:2], x, mode),
            ),
            x,
            y,
        )
    check_gradient(lambda m, x, y: m.convolve(x, y), x[:4], y)
    agree(lambda m, p, x: (m.polyval(p, x), m.vander(x, 3), m.vander(x, increasing=True)), y, x)
    agree(lambda m, x: m.unwrap(x * 3), x)
    z = np.array([1 + 2j, 3j, 2 - 1j, 4], np.complex64)
    agree(
        lambda m, z: (m.correlate(z, z[1:] + 1, "full"), m.correlate(z[1:], z, "full"), m.convolve(z, z)), z
    )
    agree(lambda m, x: (m.convolve(x, x[:2]), m.correlate(x, x[:2])), np.array([True, False, True]))
    for period in (3, 4):
        agree(lambda m, x: m.unwrap(x, period=period), np.array([0, 2, -1, 5, 5, 7], np.int32))


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf, -np.inf, 0, "fro", -1])
def test_norm(ord: Any) -> None:
    x = numbers("float32", (3, 4))
    if ord != "fro":
        agree(
            lambda m, x: (
                m.linalg.norm(x, ord, axis=1),
                m.linalg.norm(x[0], ord),
                m.linalg.norm(x, ord, axis=0, keepdims=True),
            ),
            x,
        )
    if ord in (1, -1, np.inf, -np.inf, "fro", None):
        agree(lambda m, x: (m.linalg.norm(x, ord), m.linalg.norm(x, ord, (1, 0), keepdims=True)), x)
    if ord in (None, 2, 3, 1):
        gradient = grad(lambda v: tnp.linalg.norm(v, ord))(tnp.zeros(3))
        assert gradient.tolist() == [0, 0, 0]
        check_gradient(lambda m, x: m.linalg.norm(x, ord, axis=1), x)


def test_linalg() -> None:
    x = numbers("float32", (2, 3, 3))
    agree(
        lambda m, x: (
            m.linalg.matrix_norm(x),
            m.linalg.matrix_norm(x, ord=1),
            m.linalg.vector_norm(x, axis=1),
            m.linalg.vector_norm(x),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.linalg.matrix_power(x, 0),
            m.linalg.matrix_power(x, 5),
            m.linalg.trace(x),
            m.linalg.diagonal(x, offset=1),
        ),
        x,
    )
    agree(
        lambda m, x: (
            m.linalg.multi_dot([x[0], x[1], x[0, 0]]),
            m.linalg.cross(x[0], x[1]),
            m.linalg.outer(x[0, 0], x[0, 1]),
        ),
        x,
    )


def test_einsum_paths() -> None:
    shapes = ((8, 2), (2, 50), (50, 3), (3, 8), (8,), (2,))
    xs = [numbers("float32", s, seed=i) for i, s in enumerate(shapes)]
    text = "ij,jk,kl,lm,m,j->i"
    wanted = np.einsum(text, *xs, optimize=True)
    path = [(1, 2), (0, 4), (0, 1), (0, 2), (0, 1)]
    for optimize in (True, False, "auto", "greedy", "optimal", path, ["einsum_path", *path]):
        close(tnp.einsum(text, *xs, optimize=optimize), wanted, 1e-4)
        steps, description = tnp.einsum_path(text, *xs, optimize=optimize)
        assert isinstance(description, str)
        close(tnp.einsum(text, *xs, optimize=steps), wanted, 1e-4)
    # The product with 50 columns is never made: the dimension of 50 goes first.
    steps, description = tnp.einsum_path("ij,jk,kl->il", *xs[:3])
    assert steps[0] == (1, 2) and "ij,jk,kl->il" in description
    close(tnp.einsum("...j,jk,kα->...α", *xs[:3]), np.einsum("ij,jk,kl", *xs[:3]), 1e-4)
    assert tnp.einsum_path("ij->ji", xs[0])[0] == []
    for bad in ([(0, 9)], [(0, 0), (0, 1)], [(0, 1)], "fast", [()]):
        with pytest.raises(ValueError, match=r"einsum: .*test_products"):
            tnp.einsum("ij,jk,kl->il", *xs[:3], optimize=bad)


def test_einsum_has_the_products_of_symbolic_sizes() -> None:
    n = Variable("n", 1, 100)
    f = jit(lambda x, w, v: tnp.einsum("ni,ij,jk->nk", x, w, v))
    lowered = f.lower(
        ShapeDtypeStruct((n, 4), "float32"),
        ShapeDtypeStruct((4, 3), "float32"),
        ShapeDtypeStruct((3, 5), "float32"),
    )
    x, w, v = numbers("float32", (7, 4)), numbers("float32", (4, 3)), numbers("float32", (3, 5))
    close(lowered.compile()(x, w, v), x @ w @ v)
