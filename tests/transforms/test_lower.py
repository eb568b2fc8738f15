"""jit(f).lower: what is shown of a program, and compiling ahead of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.agreement import by_numpy
from tinyfn.lower.lowered import STAGES, number
from tinyfn.lower.program import ProgramSpec, identifier
from tinyfn.trace import sint
from tinyfn.trace.errors import DeletedArrayError


def normalize(x: Any) -> Any:
    """Rows of mean 0."""
    return x - x.mean(-1, keepdims=True)


def affine(params: Any, x: Any) -> Any:
    return tnp.tanh(x * params["w"] + params["b"])


SHAPE = tinyfn.ShapeDtypeStruct


def test_kernels_and_estimates_are_those_of_the_formula() -> None:
    lowered = tinyfn.jit(normalize).lower(tnp.ones((4, 8)))
    (kernel,) = lowered.kernels
    assert isinstance(kernel, ProgramSpec)
    assert kernel.name == "sum_div_4x8" and kernel.device == "cpu"
    assert kernel.estimates == lowered.estimates == (32 + 4 + 32, 4 * 3 * 32, 4 * 2 * 32)
    assert lowered.cost_analysis() == {
        "flops": 68,
        "bytes accessed": 256,
        "loads and stores": 384,
        "kernels": 1,
        "host calls": 0,
    }
    assert [kernel.arguments[i].shape for i in kernel.ins] == [(4, 8)] and len(kernel.outs) == 1
    assert set(kernel.ins) | set(kernel.outs) == set(range(len(kernel.arguments)))
    assert kernel.launch_dims({}) == (kernel.global_size, None)
    assert kernel.variables == () and kernel.mem_estimate == 256


def test_the_table() -> None:
    text = str(tinyfn.jit(normalize).lower(tnp.ones((4, 8))))
    assert text == (
        "normalize on cpu: 1 kernel\n"
        "   kernel       loops     flops  loads+stores  memory  flops/byte  opts\n"
        "0  sum_div_4x8  4 [8, 8]     68         384 B   256 B        0.27"
    ) or (
        "opts" in text.split("\n")[1] and "4 [8, 8]" in text
    )  # what the opts are is another test's business


def test_every_stage_has_a_text() -> None:
    lowered = tinyfn.jit(affine).lower({"w": tnp.ones(8), "b": tnp.zeros(8)}, tnp.ones((4, 8)))
    texts = {stage: lowered.as_text(stage) for stage in STAGES}
    assert "def affine(" in texts["graph"] and "tanh" in texts["graph"]
    assert "params['w'][" in texts["nests"] and "parallel for" in texts["nests"]
    assert texts["ops"].count("\n") > texts["nests"].count("\n")
    assert "define void @kernel(" in texts["source"] and lowered.kernels[0].src in texts["source"]
    assert "kernel:" in texts["assembly"] and "ret" in texts["assembly"]
    assert lowered.as_text() == texts["source"]
    with pytest.raises(ValueError, match="there is no stage 'ptx'; the stages are graph, nests"):
        lowered.as_text("ptx")


def test_several_steps_with_calls_of_references() -> None:
    lowered = tinyfn.jit(lambda x: by_numpy(x * 2) + 1).lower(tnp.ones(16))
    assert [type(step).__name__ for step in lowered.steps] == ["ProgramSpec", "HostCall", "ProgramSpec"]
    assert "2 kernels, 1 call of NumPy" in str(lowered) and "by NumPy" in str(lowered)
    assert lowered.as_text("source").count("define void @kernel(") == 2
    assert len(str(lowered).split("\n")) == 1 + 1 + 3 + 1  # title, head, steps, sum


def test_shapes_stand_for_arrays() -> None:
    params = {"w": SHAPE((8,), "float32"), "b": SHAPE((8,), "float32")}
    jitted = tinyfn.jit(affine)
    compiled = jitted.lower(params, SHAPE((4, 8), "float32")).compile()
    real = {"w": tnp.full(8, 0.5), "b": tnp.ones(8)}
    x = tnp.arange(32.0).reshape(4, 8)
    np.testing.assert_array_equal(compiled(real, x), jitted(real, x))
    # The trace is the one that a call uses.
    assert jitted.cache_info().misses == 1


def test_compiled_functions_take_what_they_were_compiled_for() -> None:
    compiled = tinyfn.jit(affine).lower({"w": tnp.ones(8), "b": tnp.zeros(8)}, tnp.ones((4, 8))).compile()
    assert repr(compiled).startswith("<Compiled affine(float32[8], float32[8], float32[4,8]) on ")
    with pytest.raises(
        TypeError, match=r"argument `x` is float32\[5,8\], but it was compiled for float32\[4,8\]"
    ):
        compiled({"w": tnp.ones(8), "b": tnp.zeros(8)}, tnp.ones((5, 8)))
    with pytest.raises(TypeError, match="argument `params\\['w'\\]` is int32"):
        compiled({"w": tnp.ones(8, "int32"), "b": tnp.zeros(8)}, tnp.ones((4, 8)))
    with pytest.raises(TypeError, match="arguments of another structure"):
        compiled({"w": tnp.ones(8)}, tnp.ones((4, 8)))
    with pytest.raises(TypeError, match="arguments of another structure"):
        compiled({"w": tnp.ones(8), "b": tnp.zeros(8)})


def test_static_arguments_are_those_of_lower() -> None:
    def power(x: Any, n: int, *, negate: bool) -> Any:
        return -(x**n) if negate else x**n

    jitted = tinyfn.jit(power, static_argnums=1, static_argnames="negate")
    compiled = jitted.lower(tnp.ones(3), 2, negate=True).compile()
    np.testing.assert_array_equal(compiled(tnp.full(3, 3.0)), [-9, -9, -9])
    named = jitted.lower(tnp.ones(3), n=3, negate=False).compile()
    np.testing.assert_array_equal(named(tnp.full(3, 2.0)), [8, 8, 8])


def test_donated_arguments_are_donated() -> None:
    compiled = tinyfn.jit(lambda x, y: x + y, donate_argnums=0).lower(tnp.ones(3), tnp.ones(3)).compile()
    x, y = tnp.ones(3), tnp.ones(3)
    np.testing.assert_array_equal(compiled(x, y), [2, 2, 2])
    with pytest.raises(DeletedArrayError):
        x + 1
    np.testing.assert_array_equal(y, [1, 1, 1])


def test_closed_over_arrays_are_arguments_of_their_own() -> None:
    w = tnp.arange(3.0)
    lowered = tinyfn.jit(lambda x: x * w).lower(tnp.ones(3))
    assert "captured0[" in lowered.as_text("nests")
    np.testing.assert_array_equal(lowered.compile()(tnp.full(3, 2.0)), [0, 2, 4])


@pytest.mark.parametrize(
    "function, args, name",
    [
        (lambda x: tinyfn.nn.softmax(x), [(4, 8)], "max_exp_sum_div_4x8"),
        (lambda x: x.T, [(4, 8)], "transpose_8x4"),
        (lambda x: x + 1, [(4,)], "add_4"),
        (lambda x: x.sum(), [(4,)], "sum_4"),
        (
            lambda x: tnp.exp(tnp.sin(tnp.cos(tnp.tanh(tnp.sqrt(tnp.abs(x)))))),
            [(4,)],
            "abs_sqrt_tanh_cos_etc_exp_4",
        ),
    ],
)
def test_names_say_what_kernels_do(function: Any, args: list[Any], name: str) -> None:
    lowered = tinyfn.jit(function).lower(*[SHAPE(shape, "float32") for shape in args])
    assert [kernel.name for kernel in lowered.kernels] == [name]


def test_symbolic_dimensions_are_in_the_table_and_the_code() -> None:
    n = tinyfn.Variable("n", 1, 8)
    lowered = tinyfn.jit(normalize).lower(SHAPE((n, 4), "float32"))
    (kernel,) = lowered.kernels
    assert kernel.variables == (n,) and "n [" in str(lowered) and "*n" in str(lowered)
    assert kernel.arguments[-1] is n and kernel.global_size[0] in (n, sint.floordiv(n + 15, 16))
    with pytest.raises(
        NotImplementedError, match="kernels for cuda have fixed sizes as yet, and this one depends on n"
    ):
        lowered.on("cuda")
    assert "in n:" in lowered.as_text("nests") and "define void @kernel" in lowered.as_text("source")


def test_the_same_program_on_another_device() -> None:
    lowered = tinyfn.jit(normalize).lower(tnp.ones((4, 8)))
    cuda = lowered.on("cuda")
    assert cuda.device == "cuda" and cuda.estimates == lowered.estimates
    assert cuda.as_text("nests") == lowered.as_text("nests")
    assert "__global__" in cuda.as_text("source")
    (kernel,) = cuda.kernels
    blocks, threads = kernel.launch_dims({})
    assert len(blocks) == 3 and threads is not None and 1 <= threads[0] <= 1024
    assert cuda.on("cpu").as_text() == lowered.as_text()
    with pytest.raises(ValueError, match="is to look at"):
        cuda.compile()
    with pytest.raises(ValueError, match="no assembly of normalize on cuda"):
        cuda.as_text("assembly")
    with pytest.raises(ValueError, match="nothing writes kernels for 'tpu'"):
        lowered.on("tpu")


def test_small_things() -> None:
    assert [number(n) for n in (0, 7, 999, 1000, 12345, 245824, 1.5e9, 2e12)] == [
        "0", "7", "999", "1.00 k", "12.3 k", "246 k", "1.50 G", "2.00 T",
    ]  # fmt: skip
    assert number(65536, "B") == "65.5 kB" and number(12, "B") == "12 B"
    assert identifier("sum_4×8 a") == "sum_4D7820a"
