"""The cuda device, over a driver whose GPU is emulated: programs, memory, and what goes wrong in plain words."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyfn
import tinyfn.numpy as tnp
from tests.cuda.emulator import compile_for_fake, fake_driver
from tinyfn.devices import cuda_driver, default_device, set_default_device
from tinyfn.devices.cuda import CudaProgram
from tinyfn.devices.cuda_driver import CudaDevice
from tinyfn.devices.nvrtc import CudaError
from tinyfn.optax_like import adam
from tinyfn.trace.execute import step


class Fake:
    """The fake driver: what it counts, and what it claims to be."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(fake_driver()))
        self._library.fake_allocations.restype = ctypes.c_size_t

    def __getattr__(self, name: str) -> int:
        return ctypes.c_long.in_dll(self._library, f"fake_{name}").value

    def claim(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self._library, f"fake_{name}").value = value

    def in_use(self) -> int:
        gc.collect()
        return self._library.fake_allocations()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setattr(cuda_driver, "LIBRARY", str(fake_driver()))
    monkeypatch.setattr(cuda_driver, "compile_cuda", compile_for_fake)
    monkeypatch.setattr(cuda_driver, "compiler_version", lambda: "g++")
    monkeypatch.setenv("TINYFN_CACHE", "0")
    cuda_driver._opened.cache_clear()
    fake = Fake()
    yield fake
    cuda_driver._opened.cache_clear()
    fake.claim("devices", 1)
    fake.claim("capability", 90)


@pytest.fixture
def device() -> Iterator[None]:
    before = default_device()
    set_default_device("cuda")
    yield
    set_default_device(before)


def layer(params: Any, x: Any) -> Any:
    y = x @ params["w"] + params["b"]
    y = y - y.mean(-1, keepdims=True)
    return tnp.maximum(y / tnp.sqrt((y * y).mean(-1, keepdims=True) + 1e-5), 0.0)


def test_a_program_gives_what_the_graph_gives(fake: Fake) -> None:
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(20, 33)).astype(np.float32), "b": np.zeros(33, np.float32)}
    x = rng.normal(size=(17, 20)).astype(np.float32)
    loss = tinyfn.value_and_grad(lambda params, x: (layer(params, x) ** 2).mean())
    graph = tinyfn.jit(loss).graph(params, tnp.asarray(x))
    values = [params["b"], params["w"], x, *[a.value for a in graph.captured]]
    program = CudaProgram(graph, step)
    before = fake.launches
    for _ in range(2):
        for got, want in zip(program(values), graph.run(values), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert fake.launches > before


def test_jit_on_the_device_and_results_stay_there(fake: Fake, device: None) -> None:
    @tinyfn.jit
    def move(state: Any) -> Any:
        return {name: value * 0.5 + 1.0 for name, value in state.items()}

    state = {"a": tnp.ones((3, 4)), "b": tnp.arange(7.0)}
    first = move(state)
    uploads = fake.uploads
    second = move(first)
    assert fake.uploads == uploads  # what came from the GPU is still there
    np.testing.assert_array_equal(second["b"], (np.arange(7) * 0.5 + 1) * 0.5 + 1)
    np.testing.assert_array_equal(second["a"], np.full((3, 4), 1.75))


def test_memory_is_given_back(fake: Fake, device: None) -> None:
    f = tinyfn.jit(lambda x: tnp.sort(x * 2.0) + x.sum())  # a host op between kernels
    x = tnp.asarray(np.random.default_rng(0).normal(size=50).astype(np.float32))
    np.testing.assert_allclose(f(x), np.sort(np.asarray(x) * 2) + np.asarray(x).sum(), rtol=1e-5, atol=1e-5)
    before = fake.in_use()
    for _ in range(3):
        f(x)
    assert fake.in_use() == before


def test_an_empty_array_and_an_input_as_it_is(fake: Fake, device: None) -> None:
    f = tinyfn.jit(lambda x, y: (x, y + 1.0, tnp.zeros((0, 3))))
    x, y, z = f(tnp.arange(3.0), tnp.zeros((2, 0)))
    np.testing.assert_array_equal(x, [0, 1, 2])
    assert y.shape == (2, 0) and z.shape == (0, 3)


def test_no_driver_no_gpu_and_an_old_one_are_said_in_plain_words(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.claim("capability", 75)
    with pytest.raises(CudaError, match=r"compute capability 8.0 or newer, but the emulated GPU has 7.5"):
        CudaDevice()
    fake.claim("devices", 0)
    with pytest.raises(CudaError, match="the driver finds none"):
        CudaDevice()
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libnothing.so.1")
    with pytest.raises(
        CudaError, match=r"needs an NVIDIA GPU and its driver, but libnothing.so.1 can't be loaded"
    ):
        CudaDevice()


def test_an_error_of_the_driver_has_its_words(fake: Fake) -> None:
    device = CudaDevice()
    with (
        device,
        pytest.raises(CudaError, match=r"cuMemcpyDtoHAsync_v2: memory that was not allocated \(error 1\)"),
    ):
        device.call("cuMemcpyDtoHAsync_v2", 0, 1, 1, device.stream)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_is_told_that_it_cannot(fake: Fake) -> None:
    device = CudaDevice()
    child = os.fork()
    if not child:
        try:
            with device:
                os._exit(1)
        except CudaError as error:
            os._exit(0 if "fork" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_training_on_the_device(fake: Fake) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 12)).astype(np.float32), rng.normal(size=(24, 3)).astype(np.float32)

    def train(device: str) -> list[Any]:
        rng, before = np.random.default_rng(1), default_device()
        set_default_device(device)
        try:
            params = {
                "w0": tnp.asarray(rng.normal(size=(12, 16)).astype(np.float32)), "b0": tnp.zeros(16),
                "w1": tnp.asarray(rng.normal(size=(16, 3)).astype(np.float32)), "b1": tnp.zeros(3),
            }  # fmt: skip
            optimizer = adam(0.01)

            def loss(params: Any, x: Any, y: Any) -> Any:
                hidden = tnp.tanh(x @ params["w0"] + params["b0"])
                return ((hidden @ params["w1"] + params["b1"] - y) ** 2).mean()

            @tinyfn.jit
            def step(params: Any, state: Any, x: Any, y: Any) -> Any:
                value, gradient = tinyfn.value_and_grad(loss)(params, x, y)
                params, state = optimizer.step(params, gradient, state)
                return value, params, state

            state, losses = optimizer.init(params), []
            data = tnp.asarray(x), tnp.asarray(y)
            for i in range(4):
                uploads = fake.uploads
                value, params, state = step(params, state, *data)
                losses.append(np.asarray(value))
                assert i == 0 or fake.uploads == uploads
            return [*losses, *[np.asarray(params[name]) for name in sorted(params)]]
        finally:
            set_default_device(before)

    for got, expected in zip(train("cuda"), train("numpy"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
