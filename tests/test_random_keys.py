"""Keys: typed ones, raw ones, what may be done with them and what not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.test_random import SAMPLERS
from tests.test_random_samplers import SAMPLERS as MORE_SAMPLERS
from tinyfn import grad, jit, lax, random, vmap
from tinyfn.trace import dtype as dtypes


def words(keys: Any) -> np.ndarray:
    return np.asarray(random.key_data(keys))


KEY = random.key(5)
KEYS = random.split(random.key(6), (3, 2))
WORDS = words(KEYS)


def test_all_64_bits_of_a_seed_count() -> None:
    expected = {
        0: (0, 0),
        7: (0, 7),
        2**32 - 1: (0, 2**32 - 1),
        2**33 + 7: (2, 7),
        2**64 - 1: (2**32 - 1, 2**32 - 1),
        -1: (2**32 - 1, 2**32 - 1),
        -(2**63): (2**31, 0),
    }
    for seed, pair in expected.items():
        assert tuple(random.PRNGKey(seed).tolist()) == pair == tuple(words(random.key(seed)))
        if -(2**63) <= seed < 2**63:
            assert tuple(words(random.key(np.int64(seed)))) == pair
            assert tuple(words(jit(random.key)(np.int64(seed)))) == pair
    assert tuple(words(random.key(np.int32(-1)))) == (0, 2**32 - 1)
    assert tuple(words(random.key(np.uint8(200)))) == (0, 200)
    for make in (random.key, random.PRNGKey):
        for seed in (2**64, -(2**63) - 1):
            with pytest.raises(OverflowError, match="64 bits"):
                make(seed)
        for wrong in (1.5, np.ones(2, np.int32), True, KEY):
            with pytest.raises(TypeError, match="integer scalar"):
                make(wrong)


def test_kinds_of_keys() -> None:
    raw = random.PRNGKey(5)
    assert (raw.shape, raw.dtype, KEY.shape, KEY.dtype) == ((2,), np.uint32, (), random.key_dtype())
    assert (KEYS.shape, KEYS.ndim, KEYS.size, KEYS.itemsize, KEYS.nbytes) == ((3, 2), 2, 6, 8, 48)
    assert random.key_data(raw) is raw and random.key_data(KEY).tolist() == raw.tolist()
    assert random.wrap_key_data(raw) == KEY and bool((random.wrap_key_data(WORDS) == KEYS).all())
    for given in (KEY, raw):
        keys = random.split(given, 3)
        assert keys.dtype == random.fold_in(given, 2).dtype == random.clone(given).dtype == given.dtype
        np.testing.assert_array_equal(words(keys), random.split(raw, 3))
        assert words(random.fold_in(given, 2)).tolist() == random.fold_in(raw, 2).tolist()
    for wrong in (np.zeros(2, np.int32), np.zeros(3, np.uint32)):
        with pytest.raises(TypeError, match="uint32"):
            random.key_data(wrong)
    with pytest.raises(TypeError, match="uint32"):
        random.wrap_key_data(KEY)
    assert tnp.issubdtype(KEY.dtype, tinyfn.dtypes.prng_key) and tnp.issubdtype(
        KEY.dtype, tinyfn.dtypes.extended
    )
    assert not tnp.issubdtype(raw.dtype, tinyfn.dtypes.prng_key) and not tnp.issubdtype(
        KEY.dtype, tnp.integer
    )
    assert not tnp.issubdtype(KEY.dtype, np.generic) and not tnp.isdtype(KEY.dtype, "numeric")
    assert dtypes.canonical("key<threefry2x32>") is KEY.dtype and tnp.result_type(KEY, KEYS) is KEY.dtype


def test_how_keys_are_shown() -> None:
    assert repr(KEY) == "Array(shape=(), dtype=key<threefry2x32>, words=\n[0, 5])" == str(KEY) == f"{KEY}"
    assert "shape=(3, 2), dtype=key<threefry2x32>" in repr(KEYS) and str(WORDS[1, 0, 0]) in repr(KEYS)
    seen: list[str] = []
    jit(lambda key: seen.append(repr(key)) or random.normal(key))(KEY)
    assert seen == ["Tracer(key<threefry2x32>[] in jit of <lambda>)"]
    shown = str(tinyfn.make_graph(lambda keys: tnp.where(True, random.split(keys[0]), keys))(KEYS[0]))
    assert '"key<threefry2x32>[2]"' in shown and 'dtype=dtype("key<threefry2x32>")' in shown


def test_a_function_takes_one_key() -> None:
    for several in (KEYS[0], random.split(random.PRNGKey(0))):
        with pytest.raises(TypeError, match="vmap"):
            random.uniform(several)
    for wrong in (np.int32(3), np.zeros(2, np.float32), np.zeros(2, np.int32)):
        with pytest.raises(TypeError, match=r"random\.normal takes one key.*tinyfn\.random\.key"):
            random.normal(wrong)


def test_fold_in_takes_32_bits() -> None:
    expected = random.fold_in(KEY, 2**32 - 1)
    assert random.fold_in(KEY, np.int32(-1)) == expected == jit(random.fold_in)(KEY, np.int64(-1))
    with pytest.raises(OverflowError):
        random.fold_in(KEY, -1)
    for wrong in (np.arange(3), KEY):
        with pytest.raises(TypeError, match=r"fold_in takes an integer scalar"):
            random.fold_in(KEY, wrong)
    keys = words(vmap(random.fold_in, in_axes=(None, 0))(KEY, np.arange(100)))
    assert len({tuple(k) for k in keys.tolist()}) == 100


# Every sampler takes either kind


@pytest.mark.parametrize("name", {**SAMPLERS, **MORE_SAMPLERS})
def test_both_kinds_draw_the_same(name: str) -> None:
    sampler = {**SAMPLERS, **MORE_SAMPLERS}[name]
    given, expected = sampler(KEY), np.asarray(sampler(random.key_data(KEY)))
    if given.dtype == KEY.dtype:
        given = random.key_data(given)
    np.testing.assert_array_equal(given, expected)


# What moves and selects elements works on keys, eagerly and compiled, and does what it does to their words

PICK = np.array([2, 0, 2])
MOVES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "index": (lambda k: k[1], lambda w: w[1]),
    "element": (lambda k: k[-1, 0], lambda w: w[-1, 0]),
    "slice": (lambda k: k[::-1, 1:], lambda w: w[::-1, 1:]),
    "gather": (lambda k: k[PICK], lambda w: w[PICK]),
    "mask": (lambda k: tnp.where(np.array([[True], [False], [True]]), k, k[0, 0]),
             lambda w: np.where(np.array([[[True]], [[False]], [[True]]]), w, w[0, 0])),
    "out of bounds": (lambda k: k.at[np.array([0, 9])].get(mode="fill"),
                      lambda w: np.stack([w[0], np.full((2, 2), 2**32 - 1, np.uint32)])),
    "set": (lambda k: k.at[1].set(k[0, 1]), lambda w: np.stack([w[0], w[[0, 0], [1, 1]], w[2]])),
    "set at positions": (lambda k: k.at[PICK[:2], 0].set(k[1, 1]),
                         lambda w: np.stack([np.stack([w[1, 1], w[0, 1]]), w[1], np.stack([w[1, 1], w[2, 1]])])),
    "reshape": (lambda k: k.reshape(-1), lambda w: w.reshape(6, 2)),
    "transpose": (lambda k: k.T, lambda w: w.swapaxes(0, 1)),
    "stack": (lambda k: tnp.stack([k, k[::-1]]), lambda w: np.stack([w, w[::-1]])),
    "concatenate": (lambda k: tnp.concatenate([k, k[:1]], 0), lambda w: np.concatenate([w, w[:1]], 0)),
    "broadcast": (lambda k: tnp.broadcast_to(k[:, :1], (4, 3, 2)),
                  lambda w: np.broadcast_to(w[:, :1], (4, 3, 2, 2))),
    "repeat and roll": (lambda k: tnp.roll(tnp.tile(k, 2), 1, 0), lambda w: np.roll(np.tile(w, (2, 1)), 1, 0)),
    "pad": (lambda k: tnp.pad(k, 1), lambda w: np.pad(w, ((1, 1), (1, 1), (0, 0)))),
    "zeros": (lambda k: tnp.zeros_like(k), np.zeros_like),
    "none of them": (lambda k: k[:0], lambda w: w[:0]),
    "expand": (lambda k: k[None, :, :, None], lambda w: w[None, :, :, None]),
    "dynamic slice": (lambda k: lax.dynamic_slice(k, (lax.argmax(tnp.arange(3), 0), 0), (1, 2)), lambda w: w[2:]),
    "sorted by other numbers": (lambda k: lax.sort_key_val(tnp.array([[3, 1], [2, 2], [1, 5]]), k, 0)[1],
                                lambda w: np.stack([w[[2, 0], [0, 1]], w[1], w[[0, 2], [0, 1]]])),
    "chosen": (lambda k: random.permutation(KEY, k), lambda w: w[np.asarray(random.permutation(KEY, 3))]),
    "split": (lambda k: vmap(vmap(lambda key: random.split(key, 3)))(k)[:, :, 1],
              lambda w: np.stack([np.stack([np.asarray(random.split(a, 3))[1] for a in row]) for row in w])),
    "data and back": (lambda k: random.wrap_key_data(random.key_data(k)), lambda w: w),
    "switched": (lambda k: lax.cond(k[0, 0] == k[0, 1], lambda k: k, lambda k: k[::-1], k), lambda w: w[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("way", ["eager", "jit", "vmap", "remat"])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, way: str) -> None:
    function, on_words = MOVES[name]
    if way == "vmap":
        several = tnp.stack([KEYS, KEYS[::-1]])
        found = jit(vmap(function))(several)
        np.testing.assert_array_equal(words(found), np.stack([on_words(WORDS), on_words(WORDS[::-1])]))
        return
    run = {"eager": function, "jit": jit(function), "remat": jit(tinyfn.remat(function))}[way]
    for _ in range(2):  # the second time by the short path
        found = run(KEYS)
        assert found.dtype is KEY.dtype
        np.testing.assert_array_equal(words(found), on_words(WORDS))


def test_comparisons() -> None:
    expected = (WORDS == WORDS[0, 1]).all(-1)
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(lambda k: k == k[0, 1])(KEYS), expected)
        np.testing.assert_array_equal(run(lambda k: k != k[0, 1])(KEYS), ~expected)
        np.testing.assert_array_equal(run(lax.eq)(KEYS, KEYS[::-1]), (WORDS == WORDS[::-1]).all(-1))
    assert tnp.array_equal(KEYS, KEYS) and KEYS[1, 1] in KEYS and KEY not in KEYS
    with pytest.raises(TypeError, match="key_data"):
        KEY == random.key_data(KEY)[0]  # noqa: B015


# What a key goes through


def test_through_loops_branches_and_rules() -> None:
    def step(key: Any, x: Any) -> Any:
        key, own = random.split(key)
        return key, (x * random.normal(own), own)

    xs = np.arange(1, 6, dtype=np.float32)
    key, expected, own = KEY, [], []
    for x in xs:
        key, (value, used) = step(key, x)
        expected.append(float(value))
        own.append(words(used))
    for scan in (lambda k: lax.scan(step, k, xs), jit(lambda k: lax.scan(step, k, xs))):
        last, (values, used) = scan(KEY)
        np.testing.assert_allclose(values, expected, rtol=1e-5)
        np.testing.assert_array_equal(words(used), own)
        assert last == key
    summed = jit(
        lambda ks: lax.scan(lambda total, k: (total + random.uniform(k), None), np.float32(0), ks)[0]
    )
    np.testing.assert_allclose(
        summed(KEYS[:, 0]), sum(float(random.uniform(k)) for k in KEYS[:, 0]), rtol=1e-5
    )

    def drawing(k: Any) -> Any:
        return lax.while_loop(
            lambda s: s[1] < 0.9, lambda s: (random.split(s[0])[0], random.uniform(s[0])), (k, np.float32(0))
        )

    (one, value), (other, same) = drawing(KEY), jit(drawing)(KEY)
    assert one == other and float(value) == float(same) > 0.9
    folded = jit(lambda k: lax.fori_loop(0, 4, lambda i, k: random.fold_in(k, i), k))(KEY)
    key = KEY
    for i in range(4):
        key = random.fold_in(key, i)
    assert folded == key

    @tinyfn.custom_vjp
    def noisy(k: Any, x: Any) -> Any:
        return x * random.normal(k)

    noisy.defvjp(lambda k, x: (noisy(k, x), k), lambda k, ct: (None, ct * random.normal(k)))
    for run in (lambda f: f, jit):
        np.testing.assert_allclose(run(grad(noisy, 1))(KEY, np.float32(2)), random.normal(KEY), rtol=1e-6)


def test_derivatives_of_keys_are_those_of_integers() -> None:
    def loss(k: Any, x: Any) -> Any:
        return (
            x * random.normal(k)
            + lax.scan(lambda c, k: (c + random.normal(k) * x, None), x, random.split(k))[0]
        )

    with pytest.raises(TypeError, match=r"argument `k` is key<threefry2x32>\[\], which has no derivative"):
        grad(loss)(KEY, 1.0)
    for run in (lambda f: f, jit):
        assert grad(loss, allow_int=True)(KEY, np.float32(1)).dtype == dtypes.float0
        slope = run(grad(loss, 1))(KEY, np.float32(1))
        np.testing.assert_allclose(slope, loss(KEY, np.float32(1)), rtol=1e-5)
    zero = np.zeros((), dtypes.float0)
    value, tangent = tinyfn.jvp(loss, (KEY, np.float32(3)), (zero, np.float32(1)))
    np.testing.assert_allclose(tangent * 3, value, rtol=1e-5)
    _, pull = tinyfn.vjp(loss, KEY, np.float32(3))
    cotangent, slope = pull(np.float32(1))
    assert cotangent.dtype == dtypes.float0 and cotangent.shape == ()
    np.testing.assert_allclose(slope, tangent, rtol=1e-6)


def test_shapes_without_values() -> None:
    like = tinyfn.ShapeDtypeStruct((3, 2), KEY.dtype)
    assert repr(like) == "ShapeDtypeStruct(shape=(3, 2), dtype=key<threefry2x32>)"
    found = tinyfn.eval_shape(lambda k: (random.split(k[0, 0], 5), random.normal(k[1, 1], (2,))), like)
    assert [(a.shape, a.dtype) for a in found] == [((5,), KEY.dtype), ((2,), np.float32)]
    compiled = jit(lambda k: k[1]).lower(like).compile()
    assert bool((compiled(KEYS) == KEYS[1]).all())
    with pytest.raises(TypeError, match="key<threefry2x32>"):
        compiled(np.zeros((3, 2), np.uint64))


def test_donated_pickled_and_copied() -> None:
    advance = jit(lambda k: vmap(lambda key: random.split(key)[0])(k), donate_argnums=0)
    keys = random.split(KEY, 100)
    expected = words(vmap(lambda key: random.split(key)[0])(keys))
    moved = advance(keys)
    assert keys.is_deleted()
    np.testing.assert_array_equal(words(moved), expected)
    for same in (pickle.loads(pickle.dumps(KEYS)), copy.deepcopy(KEYS), tnp.array(KEYS), tnp.asarray(KEYS)):
        assert same.dtype is KEY.dtype and bool((same == KEYS).all())
        np.testing.assert_array_equal(words(jit(lambda k: k[1])(same)), WORDS[1])


def test_checkpoints(tmp_path: Path) -> None:
    tree = {
        "key": KEY,
        "keys": KEYS,
        "none": KEYS[:0],
        "w": np.ones((2,), np.float32),
        "raw": random.PRNGKey(1),
    }
    path = tmp_path / "state.safetensors"
    tinyfn.checkpoint.save(path, tree, {"step": "3"})
    header = tinyfn.checkpoint.safe_load_metadata(path)
    assert (header.tensors["keys"].dtype, header.tensors["keys"].shape) == ("U32", (3, 2, 2))
    assert header.metadata is not None and header.metadata["step"] == "3"
    like = {**tree, "key": random.key(0), "keys": tinyfn.ShapeDtypeStruct((3, 2), KEY.dtype)}
    for restored in (tinyfn.checkpoint.restore(path, like), tinyfn.checkpoint.restore(path)):
        assert restored["key"] == KEY and restored["raw"].dtype == np.uint32
        for name in ("keys", "none"):
            assert restored[name].shape == tree[name].shape and restored[name].dtype is KEY.dtype
            np.testing.assert_array_equal(words(restored[name]), words(tree[name]))
        np.testing.assert_array_equal(jit(random.bits)(restored["keys"][2, 1]), random.bits(KEYS[2, 1]))
    for wrong, match in (
        ({**tree, "key": random.PRNGKey(5)}, "shape"),
        ({**tree, "raw": random.key(5)}, "shape"),
        ({**tree, "keys": np.zeros((3, 2), np.uint64)}, r"expected uint64, found key<threefry2x32>"),
        ({**tree, "keys": KEYS[:2]}, "shape"),
    ):
        for strict in (True, False):
            with pytest.raises(tinyfn.checkpoint.StateDictError, match=match):
                tinyfn.checkpoint.restore(path, wrong, strict)


def test_files_that_are_wrong_about_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    tensors = {"w": np.zeros((3, 2), np.uint32), "x": np.zeros((2,), np.float32)}
    for entry, reason in (
        ("{", "no JSON"),
        ("[1]", "not from names to"),
        ('{"w":"key<rbg>"}', "not from names to"),
        ('{"v":"key<threefry2x32>"}', "'v' has the words of keys, but is missing"),
        ('{"x":"key<threefry2x32>"}', r"'x' has the words of keys, but is F32 of shape \[2\]"),
    ):
        tinyfn.checkpoint.safe_save(tensors, path, {"tinyfn.keys": entry})
        with pytest.raises(tinyfn.checkpoint.SafetensorsError, match=reason):
            tinyfn.checkpoint.safe_load(path)
    tinyfn.checkpoint.safe_save(tensors, path, {"tinyfn.keys": '{"w":"key<threefry2x32>"}'})
    assert tinyfn.checkpoint.safe_load(path)["w"].shape == (3,)
    with pytest.raises(ValueError, match=r"no metadata can be named 'tinyfn\.keys'"):
        tinyfn.checkpoint.safe_save({"w": KEY}, path, {"tinyfn.keys": "{}"})


# What computes refuses keys and says how to get at their words

REFUSED: dict[str, Callable[[Any], Any]] = {
    "addition": lambda k: k + 1,
    "sum of two": lambda k: k + k,
    "negation": lambda k: -k,
    "order": lambda k: k < k,
    "cast": lambda k: k.astype("uint32"),
    "cast to a key": lambda k: tnp.arange(3).astype(k.dtype),
    "reduction": lambda k: k.sum(),
    "greatest": lambda k: k.max(),
    "sort": lambda k: tnp.sort(k),
    "order of them": lambda k: tnp.argsort(k),
    "distinct ones": lambda k: tnp.unique(k),
    "exp": tnp.exp,
    "floor": tnp.floor,
    "finite": tnp.isfinite,
    "real": tnp.real,
    "product": lambda k: k @ k,
    "cumulative sum": lambda k: tnp.cumsum(k),
    "added at": lambda k: k.at[0].add(k[1]),
    "number written": lambda k: k.at[0].set(3),
    "key written": lambda k: tnp.zeros(6).at[0].set(k[0]),
    "choice of a number": lambda k: tnp.where(True, k, 0),
    "one as a key": lambda k: tnp.ones_like(k),
    "bits": lambda k: lax.bitcast_convert_type(k, "uint32"),
    "truth": lambda k: bool(k[0]),
    "nonzero": lambda k: tnp.nonzero(k),
    "condition": lambda k: tnp.where(k, 1, 2),
    "int": lambda k: int(k[0]),
    "float": lambda k: float(k[0]),
    "item": lambda k: k[0].item(),
    "list": lambda k: k.tolist(),
    "NumPy": lambda k: np.asarray(k),
    "NumPy's function": lambda k: np.sin(k),
    "DLPack": lambda k: np.from_dlpack(k),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    keys = KEYS.reshape(-1)
    for run in (REFUSED[name], jit(REFUSED[name])):
        with pytest.raises(TypeError, match=r"tinyfn\.random\.(wrap_)?key_data"):
            run(keys)
    with pytest.raises(TypeError, match="not hashable"):
        hash(KEY)


def test_no_function_of_arrays_computes_with_keys() -> None:
    """Whatever `tinyfn.numpy` gives for an array of keys alone is keys that it moved, or says nothing of their values."""
    moves = set(
        "array asarray atleast_1d atleast_2d atleast_3d block broadcast_arrays column_stack concat concatenate copy "
        "diag diagflat diagonal dstack empty_like flip fliplr flipud hstack ix_ matrix_transpose meshgrid permute_dims "
        "positive ravel rot90 squeeze stack transpose tril triu unstack vstack zeros_like".split()
    )
    shapes = set("diag_indices_from iscomplexobj isrealobj isscalar iterable ndim printoptions result_type shape size "
                 "tril_indices_from triu_indices_from vectorize".split())  # fmt: skip
    square, found = random.split(KEY, (2, 2)), set()
    for name in tnp.__all__:
        function = getattr(tnp, name)
        if callable(function) and not isinstance(function, type):
            try:
                result = tinyfn.tree.leaves(function(square))
            except (TypeError, ValueError, IndexError, AttributeError):
                continue
            if name not in shapes:
                found.add(name)
                assert all(getattr(leaf, "dtype", None) == KEY.dtype for leaf in result), name
    assert found <= moves, found - moves
    assert {"stack", "transpose", "copy"} <= found
