"""Settings and helpers at the top: promotion modes, no_execution, compile-time evaluation, scopes, caches, placement, config."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.transforms.programs import array, close

grad, jit, vmap = tinyfn.grad, tinyfn.jit, tinyfn.vmap

f32, f64 = tnp.asarray(np.float32([1.0, 2.0])), array([1.0, 2.0])
i32, u8, mask = array([1, 2], "int32"), array([1, 2], "uint8"), array([1, 0], "bool")
strict = tinyfn.numpy_dtype_promotion


@pytest.mark.parametrize(("a", "b"), [(f32, f64), (i32, f32), (u8, i32), (mask, i32), (i32, 1.5), (mask, 1)])
def test_strict_promotion_refuses_what_changes_a_dtype(a: Any, b: Any) -> None:
    for operation in (lambda a, b: a + b, tnp.multiply, tnp.less, lambda a, b: tnp.where(mask, a, b)):
        operation(a, b)
        for x, y in ((a, b), (b, a)):
            for transform in (
                lambda f: f,
                jit,
                lambda f: lambda *args: vmap(f, (None, None), axis_size=2)(*args),
            ):
                with (
                    strict("strict"),
                    pytest.raises(tinyfn.errors.TypePromotionError, match=r"'strict'.*astype"),
                ):
                    transform(lambda x, y: operation(x, y))(x, y)
    with strict("strict"), pytest.raises(TypeError, match="different types"):
        tnp.concatenate([f32, f64])


def test_strict_promotion_accepts_python_numbers_and_equal_dtypes() -> None:
    with strict("strict"):
        for x in (f32, f64):
            assert (x + 1).dtype == x.dtype and (2.0 * x).dtype == x.dtype and (x / 3).dtype == x.dtype
            assert (x + x).dtype == x.dtype
        assert (i32 + 1).dtype == np.int32 and (u8 * 2).dtype == np.uint8
        assert (1 + 2.5 + f32 * (3 + 1)).dtype == np.float32
        # What is written in this library promotes by itself where it must.
        model = lambda w, x: tinyfn.nn.softmax(tinyfn.nn.gelu(x @ w)).var() + tnp.mean(x) + tnp.std(x)
        w = array(np.eye(2), "float32")
        close(jit(grad(model))(w, f32), grad(model)(w, f32), 1e-5)
        for name in (
            "sum",
            "mean",
            "cumsum",
            "sort",
            "argmax",
            "linalg.norm",
            "median",
            "diff",
            "ptp",
            "log2",
            "sinc",
        ):
            function: Any = tnp
            for part in name.split("."):
                function = getattr(function, part)
            function(f32)
    assert strict.chosen == "standard"
    assert (f32 + f64).dtype == np.float64


def test_rank_promotion() -> None:
    m = array(np.ones((2, 2)))
    setting = tinyfn.numpy_rank_promotion
    with setting("raise"):
        for operation in (
            lambda: m + f64,
            lambda: f64 * m,
            lambda: tnp.where(m > 0, f64, m),
            lambda: jit(tnp.add)(m, f64),
        ):
            with pytest.raises(ValueError, match=r"different numbers of axes.*x\[None\]"):
                operation()
        close(m + f64[None] + 1.0 + array(2.0), np.array([[5.0, 6.0], [5.0, 6.0]]))
    with setting("warn"), pytest.warns(UserWarning, match="different numbers of axes"):
        m + f64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m + f64
    with pytest.raises(ValueError, match="takes one of allow, warn, raise, not 'never'"):
        setting("never")


def test_settings_from_the_environment() -> None:
    code = "import tinyfn, tinyfn.numpy as tnp; print(tinyfn.config.numpy_dtype_promotion); tnp.ones(2) + tnp.ones(2, 'float64')"
    run = lambda value: subprocess.run(
        [sys.executable, "-c", code],
        env={"TINYFN_NUMPY_DTYPE_PROMOTION": value},
        capture_output=True,
        text=True,
    )
    found = run("strict")
    assert "TypePromotionError" in found.stderr and found.stdout == "strict\n"
    assert "must be one of standard, strict" in run("wrong").stderr


def test_no_execution() -> None:
    f = jit(lambda x: tnp.sin(x) * x)
    with tinyfn.no_execution():
        graph = tinyfn.make_graph(grad(lambda x: f(x).sum()))(f64)
        assert "cos" in str(graph)
        assert tinyfn.eval_shape(f, f64).shape == (2,)
        assert "sin" in f.lower(f64).as_text("graph")
        for attempt in (
            lambda: f64 + f64,
            lambda: f(f64),
            lambda: grad(lambda x: (x * x).sum())(f64),
            lambda: f64.sum(),
        ):
            with pytest.raises(
                RuntimeError, match=r"within no_execution .* would be computed; at .*test_settings.py"
            ):
                attempt()
    close(f(f64), np.sin([1, 2]) * [1, 2])


def test_ensure_compile_time_eval() -> None:
    lengths = array([3, 1, 2], "int32")

    @jit
    def first(x: Any) -> Any:
        with tinyfn.ensure_compile_time_eval():
            size = int(tnp.max(lengths) - 1)  # known, though this is traced
        return x[:size] * size

    close(first(array([1.0, 2.0, 3.0])), [2.0, 4.0])
    graph = tinyfn.make_graph(first)(array([1.0, 2.0, 3.0]))
    assert "reduce_max" not in str(graph)
    for transform in (jit, grad, vmap):

        def wrong(x: Any) -> Any:
            with tinyfn.ensure_compile_time_eval():
                return tnp.sum(x * 2.0)

        with pytest.raises(
            tinyfn.ConcretizationError, match=r"within ensure_compile_time_eval.*outside of that block"
        ):
            transform(wrong)(array([1.0, 2.0]))
    with tinyfn.ensure_compile_time_eval():
        close(f64 * 2, [2.0, 4.0])
        close(jit(lambda x: x * 2)(f64), [2.0, 4.0])
        close(grad(lambda x: (x * x).sum())(f64), [2.0, 4.0])


def test_named_scopes_are_shown() -> None:
    @tinyfn.named_scope("decorated")
    def inner(x: Any) -> Any:
        return tnp.cos(x)

    def f(x: Any) -> Any:
        with tinyfn.named_scope("encoder"):
            x = tnp.sin(x)
            with tinyfn.named_scope("attention"):
                x = inner(tnp.exp(x))
        return x * 2

    lines = str(tinyfn.make_graph(f)(f64)).splitlines()
    shown = {line.split("= ")[1].split("(")[0]: line.partition("  # ")[2] for line in lines if "= " in line}
    assert shown["sin"] == "float64[2], in encoder"
    assert shown["exp"] == "float64[2], in encoder/attention"
    assert shown["cos"] == "float64[2], in encoder/attention/decorated"
    assert shown["mul"] == "float64[2]"
    from tinyfn.ad_checkpoint import saved_residuals

    assert any("in encoder/attention" in origin for _, origin in saved_residuals(lambda x: f(x).sum(), f64))

    def makes_nan(x: Any) -> Any:
        with tinyfn.named_scope("bad"):
            return tnp.log(-x)

    with (
        tinyfn.debug_nans(),
        pytest.raises(FloatingPointError, match=r"test_settings.py:\d+ \(in makes_nan\), in bad"),
    ):
        jit(tinyfn.value_and_grad(makes_nan))(array(1.0))
    with pytest.raises(TypeError, match="named_scope takes a str"), tinyfn.named_scope(3):  # type: ignore[arg-type]
        pass


def test_named_calls_are_functions_of_printed_graphs() -> None:
    block = tinyfn.named_call(lambda x, *, y: {"z": tnp.sin(x) * y}, name="encoder")
    f = lambda x: block(x, y=2.0)["z"].sum()
    text = str(tinyfn.make_graph(f)(f64))
    assert "def encoder(" in text and "graph=encoder" in text
    close(block(f64, y=2.0)["z"], np.sin([1, 2]) * 2)
    for transform in (lambda f: f, jit):
        close(transform(grad(f))(f64), 2 * np.cos([1, 2]))
    close(vmap(grad(f))(array([[1.0, 2.0]])), [2 * np.cos([1, 2])])
    assert tinyfn.named_call(tnp.sin).__name__ == "sin"


def test_make_jaxpr() -> None:
    def f(x: Any, n: int, scale: float = 2.0) -> Any:
        return {"y": x**n * scale}

    graph, shapes = tinyfn.make_jaxpr(f, static_argnums=1, return_shape=True)(f64, 3, scale=0.5)
    assert isinstance(graph, tinyfn.Graph) and "exponent=3" in str(graph)
    assert [node.arg.name for node in graph.arguments] == ["x", "scale"]
    assert shapes == {"y": tinyfn.ShapeDtypeStruct((2,), "float64")}
    close(graph.run([np.array([1.0, 2.0]), np.float64(0.5)])[0], [0.5, 4.0])
    assert tinyfn.make_jaxpr(f, static_argnums=(1, 2))(f64, 2, 3.0).arguments[0].shape == (2,)


def test_clear_caches() -> None:
    calls = []
    f = jit(lambda x: calls.append(1) or x * 2)
    f(f64), f(f64)
    assert len(calls) == 1
    tinyfn.clear_caches()
    assert f.cache_info().size == 0
    close(f(f64), [2.0, 4.0])
    assert len(calls) == 2


def test_options_of_jit_that_change_nothing_and_those_that_are_refused() -> None:
    f = jit(
        lambda x, y: x * 2, keep_unused=True, inline=True, device="cpu", backend=None, compiler_options={}
    )
    close(f(f64, f64), [2.0, 4.0])
    close(jit(keep_unused=True)(lambda x: x + 1)(f64), [2.0, 3.0])
    for options, message in (
        ({"device": "gpu"}, "no device 'gpu'.*set_default_device"),
        ({"backend": "tpu"}, "no backend 'tpu'"),
        ({"compiler_options": {"xla_flag": True}}, "no compiler options 'xla_flag'"),
    ):
        with pytest.raises(ValueError, match=message):
            jit(lambda x: x, **options)


def test_static_arguments_of_jit_are_inferred_from_each_other() -> None:
    def f(x: Any, n: int, *, mode: str = "up") -> Any:
        return x * n if mode == "up" else x / n

    for options in ({"static_argnums": 1, "static_argnames": "mode"}, {"static_argnames": ("n", "mode")}):
        g = jit(f, **options)
        close(g(f64, 2), [2.0, 4.0])
        close(g(f64, n=2), [2.0, 4.0])
        close(g(f64, n=2, mode="down"), [0.5, 1.0])
    g = jit(lambda x, n: x * n, static_argnums=-1)
    close(g(f64, n=3), [3.0, 6.0])


def test_placement() -> None:
    tree = {"a": f64, "b": (1.5, np.array([1, 2], np.int8)), "c": None}
    assert tinyfn.block_until_ready(tree) is tree and tinyfn.copy_to_host_async(tree) is tree
    there = tinyfn.device_put(tree)
    assert there["a"] is f64 and isinstance(there["b"][0], tinyfn.Array) and there["b"][1].dtype == np.int8
    back = tinyfn.device_get(there)
    assert isinstance(back["a"], np.ndarray) and isinstance(back["b"][1], np.ndarray) and back["c"] is None
    with pytest.raises(ValueError, match="read-only"):
        back["a"][0] = 1
    tinyfn.device_put(tree, "cpu")
    with pytest.raises(ValueError, match="no device 'gpu'"):
        tinyfn.device_put(tree, "gpu")
    assert tinyfn.typeof(1.5) == tinyfn.ShapeDtypeStruct((), "float32")
    assert tinyfn.typeof(np.zeros((2, 3))) == tinyfn.ShapeDtypeStruct((2, 3), "float64")
    assert tinyfn.default_backend() in ("cpu", "cuda", "numpy", "null")
    tinyfn.effects_barrier()
    traced = jit(lambda t: tinyfn.block_until_ready(tinyfn.device_put(t))["b"][1] * 2)
    assert list(np.asarray(traced(tree))) == [2, 4]


def test_config() -> None:
    config = tinyfn.config
    assert config.jax_debug_nans is False and config.jax_enable_x64 is False
    try:
        config.update("jax_debug_nans", True)
        assert config.debug_nans is True and config.read("debug_nans") is True
        with pytest.raises(FloatingPointError):
            tnp.log(-f64)
    finally:
        config.update("debug_nans", False)
    config.update("jax_enable_x64", False)
    config.update("jax_default_matmul_precision", "highest")
    with pytest.raises(ValueError, match=r"enable_x64: there is nothing to enable.*dtype='float64'"):
        config.update("jax_enable_x64", True)
    with pytest.raises(ValueError, match="nothing to enable"), tinyfn.enable_x64(True):
        pass
    with tinyfn.enable_x64(False), tinyfn.default_matmul_precision("bfloat16"):
        close(f64 @ f64, 5.0)
    with pytest.raises(ValueError, match="'low' is no precision"), tinyfn.default_matmul_precision("low"):
        pass
    with pytest.raises(ValueError, match=r"with tinyfn.debug_key_reuse"):
        config.update("jax_debug_key_reuse", True)
    for wrong in (lambda: config.update("jax_wrong", 1), lambda: config.jax_wrong):
        with pytest.raises(AttributeError, match=r"there is no setting 'jax_wrong'.*debug_nans"):
            wrong()
    with tinyfn.explain_cache_misses():
        assert config.jax_explain_cache_misses is True


def test_modules_that_ports_import() -> None:
    from tinyfn import ad_checkpoint, checkpoint_policies, custom_derivatives, dtypes, errors

    assert errors.ConcretizationTypeError is tinyfn.ConcretizationError
    assert issubclass(errors.TracerBoolConversionError, errors.JAXTypeError)
    assert custom_derivatives.custom_jvp is tinyfn.custom_jvp
    assert ad_checkpoint.checkpoint_policies is checkpoint_policies is tinyfn.checkpoint_policies
    assert dtypes.float0 == tinyfn.float0 and dtypes.finfo is tnp.finfo
    with pytest.raises(errors.TypePromotionError):
        tnp.ones(2, tnp.float8_e5m2) + tnp.ones(2, "float32")
