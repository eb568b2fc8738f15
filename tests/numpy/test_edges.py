"""Arguments at the edges, as NumPy takes them: lists, masks, bools, positions out of bounds, no elements."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.numpy.checks import agree, close


def test_sequences_are_lists() -> None:
    for given in (range(3), deque([1, 2])):
        assert tnp.array(given).tolist() == np.array(given).tolist()
        assert tnp.array(given).dtype == np.int32
    assert tnp.array(memoryview(b"ab")).dtype == tnp.array(bytearray(b"ab")).dtype == np.uint8
    assert tnp.array(deque([0.5])).dtype == np.float32
    for nonsense in ("12", {1, 2}, None):
        with pytest.raises(TypeError):
            tnp.array(nonsense)


def test_lists_of_numbers_are_in_the_default_dtypes() -> None:
    for join in (tnp.concatenate, tnp.stack, tnp.vstack, tnp.hstack):
        assert join([[1, 2], [3, 4]]).dtype == np.int32
        assert join([[1.0, 2.0], [3.0, 4.0]]).dtype == np.float32
    x = tnp.zeros(3)
    assert tnp.put(x, tnp.array([0]), [5.0], inplace=False).tolist() == [5, 0, 0]
    # A list may hold what is traced.
    close(tinyfn.jit(lambda a, b: tnp.stack([[a, b], [b, a]]))(1.0, 2.0), [[1, 2], [2, 1]])


def test_questions_about_lists() -> None:
    assert tnp.shape([[1, 2], [3, 4]]) == (2, 2) and tnp.ndim([[1]]) == 2 and tnp.size([1, 2]) == 2
    assert tnp.size(tnp.zeros((2, 3, 4)), (0, 2)) == 8 and tnp.size(tnp.zeros((2, 3)), -1) == 3
    assert tnp.iscomplexobj([1j]) and not tnp.iscomplexobj([1, tnp.ones(())]) and tnp.isrealobj("a")
    assert tnp.isscalar("a") and not tnp.isscalar([1])
    assert tnp.array_equal([1, 2], [1, 2]) and tnp.array_equiv([1, 1], 1)
    with pytest.raises(ValueError, match=r"size.*axis 5 is out of bounds.*test_edges"):
        tnp.size(tnp.zeros(2), 5)


def test_positions_in_mode_clip_are_not_counted_from_the_end() -> None:
    x = np.arange(6).reshape(2, 3)
    for positions in (np.array([-7, -1, 0, 2, 9]), np.array([0, 7], np.uint8)):
        agree(lambda m, x, p: (m.take(x, p, mode="clip"), m.take(x, p, 1, mode="clip")), x, positions)
        agree(lambda m, x, p: (m.take(x, p, mode="wrap"), m.take(x, p, 1, mode="wrap")), x, positions)
        for mode in ("clip", "wrap"):
            wanted = x.copy()
            np.put(wanted, positions, -np.arange(3), mode)
            close(tnp.put(x, positions, -np.arange(3), mode, inplace=False), wanted)
            close(
                tinyfn.jit(lambda x, p: tnp.put(x, p, -np.arange(3), mode, inplace=False))(x, positions),
                wanted,
            )
    assert tnp.take(tnp.arange(4), -1, mode="clip") == 0 and tnp.take(tnp.arange(4), 7, mode="clip") == 3


def test_bools_are_numbers_to_take_by() -> None:
    x = np.arange(4)
    agree(lambda m, x, p: m.take(x, p), x, np.array([True, False]))
    assert tnp.take(x, True) == 1 and tnp.take(tnp.asarray(x), np.bool_(False)) == 0


def test_deleting_and_inserting() -> None:
    x = np.arange(5)
    mask = np.array([True, False, True, False, True])
    for places in (mask, [], [1, 1], -1, slice(1, 3), [0, -5]):
        close(tnp.delete(x, places), np.delete(x, places))
        close(tnp.delete(np.stack([x, x]), places, 1), np.delete(np.stack([x, x]), places, 1))
    for places in (mask, [], [5, 0], 5, slice(1, 3)):
        close(tnp.insert(x, places, 9), np.insert(x, places, 9))
    for call in (lambda: tnp.delete(x, 5), lambda: tnp.delete(x, [0, -6]), lambda: tnp.insert(x, 6, 9)):
        with pytest.raises(IndexError, match=r"position -?\d is out of bounds for 5 elements.*test_edges"):
            call()
    with pytest.raises(ValueError, match=r"delete: a mask of shape \(2,\) for 5 elements"):
        tnp.delete(x, [True, False])


def test_each_axis_may_have_a_mode() -> None:
    index = (np.array([0, 5, -1]), np.array([2, -1, 7]))
    for mode in (("clip", "wrap"), ("wrap", "clip"), "wrap", "clip"):
        for order in ("C", "F"):
            agree(lambda m, i, j: m.ravel_multi_index((i, j), (2, 3), mode, order), *index)
    with pytest.raises(ValueError, match="mode must be 'raise', 'clip' or 'wrap', or one for each axis"):
        tnp.ravel_multi_index(index, (2, 3), "drop")
    with pytest.raises(ValueError, match="a position is out of bounds for axis 1 of size 3"):
        tnp.ravel_multi_index(index, (2, 3), ("clip", "raise"))
    with pytest.raises(ValueError, match="choose: mode must be"):
        tnp.choose(0, [1, 2], mode="fill")


def test_arguments_by_name_are_vectorized() -> None:
    def product(x: Any, y: Any, scale: Any = None) -> Any:
        return x * y if scale is None else x * y * scale

    ours, theirs = tnp.vectorize(product), np.vectorize(product)
    x, y = np.arange(3), np.array([[1], [2]])
    close(ours(x, y=y), theirs(x, y=y))
    close(ours(x, y, scale=x), theirs(x, y, scale=x))
    close(ours(x, y, scale=None), theirs(x, y))
    close(ours(x, y, None), theirs(x, y))
    found = tnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(np.ones((2, 3)), b=np.ones(3))
    close(found, [3, 3])
    sums = tnp.vectorize(lambda x, weights: x * weights.sum(), excluded={"weights"})(x, weights=tnp.ones(4))
    close(sums, 4 * x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tnp.repeat(tnp.arange(3), np.array([1, 2])), "repeat of .* each of 3 elements"),
        (lambda: tnp.repeat(tnp.arange(3), -1), "repeat of .* of 0 or more, and is given .-1."),
        (lambda: tnp.rollaxis(tnp.zeros((2, 3)), 0, 3), "rollaxis: start=3 is no position among 2 axes"),
        (lambda: tnp.ix_(tnp.zeros((2, 2))), "ix_ takes 1-d arrays"),
        (lambda: tnp.split(tnp.ones(4), 2.0), "split: the number of parts must be an integer, not 2.0"),
        (lambda: tnp.sum(tnp.ones(4), 0.5), "sum: an axis must be an integer, not 0.5"),
        (lambda: tnp.linspace(0, 1, 2.5), "linspace: num must be an integer"),
        (lambda: tnp.geomspace(1, 2, 3, axis=1), "geomspace.*axis 1 is out of bounds"),
        (lambda: tnp.roll(tnp.ones(3), 0.5), "roll: a shift must be an integer"),
        (lambda: tnp.rot90(tnp.eye(2), 0.5), "rot90: k must be an integer"),
        (lambda: tnp.tril(tnp.eye(2), 0.5), "a diagonal: its number must be an integer"),
        (lambda: tnp.delete(tnp.ones(3), 1.5), "delete: positions must be integers, not float64"),
        (lambda: tnp.nonzero(tnp.ones(3), size=-1), "nonzero: size=-1 must be 0 or more"),
        (lambda: tnp.hanning(2.5), "a window: its number of points must be an integer"),
        (lambda: tnp.can_cast("int8", "int16", "maybe"), "can_cast: casting must be"),
        (lambda: tnp.fft.fft(tnp.ones(4), 2.5), "fft: a length must be an integer"),
        (lambda: tnp.fft.fftfreq(-1), "fftfreq: n=-1 must be 0 or more"),
        (lambda: tnp.linalg.cross(tnp.ones(3), tnp.ones(3), axis=1), "cross.*axis 1 is out of bounds"),
        (lambda: tnp.choose(tnp.array([0.0]), [1, 2]), "choose takes integers, not float32"),
        (lambda: tnp.frexp(1j), "frexp takes real numbers, not complex64"),
        (lambda: tnp.packbits(tnp.array([1.5])), "packbits takes integers or bools, not float32"),
        (lambda: tnp.reshape(tnp.arange(4), (2.0, 2)), "reshape.* a shape is made of integers"),
        (lambda: tnp.finfo(tnp.int32), "finfo takes a dtype of floats, not int32"),
        (lambda: tnp.iinfo(tnp.float32), "iinfo takes a dtype of integers, not float32"),
        (lambda: tnp.polyint(tnp.array([1.0]), -1), "polyint: m=-1 must be 0 or more"),
        (lambda: tnp.linalg.matrix_power(tnp.eye(2), 0.5), "matrix_power: n must be a known integer"),
        (lambda: tnp.linalg.multi_dot([]), "multi_dot takes one array or more"),
        (lambda: tnp.linalg.outer(tnp.eye(2), tnp.ones(2)), "outer takes vectors, not float32"),
    ],
)  # fmt: skip
def test_errors_name_the_line(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{message}.*test_edges"):
        call()


def test_empty_positions_are_integers() -> None:
    x = tnp.arange(6).reshape(2, 3)
    assert x[tnp.ix_(tnp.array([]), tnp.array([0, 2]))].shape == (0, 2)
