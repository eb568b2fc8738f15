"""tinyfn and JAX, by the same code: the port is a change of imports, and of the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..workloads import HEADS

RATE = 1e-3


class Function:
    """A function on fixed arguments."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], wait: Callable[[Any], Any]):
        self.function, self.arguments, self.wait = function, arguments, wait

    def __call__(self) -> Any:
        return self.wait(self.function(*self.arguments))

    def reset(self) -> None:
        """Nothing is carried from call to call."""

    def shown(self, result: Any) -> Any:
        """The result."""
        return result


class Training:
    """A step (carry, *rest) -> carry, ...: each call continues from the last, whose carry it may overwrite."""

    def __init__(
        self,
        step: Callable[..., Any],
        carry: Callable[[], tuple[Any, ...]],
        rest: tuple[Any, ...],
        wait: Callable[[Any], Any],
        shown: Callable[[Any], Any],
    ):
        self.function, self.start, self.rest, self.wait, self.shown = step, carry, rest, wait, shown
        self.carry = carry()

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Those of the next call."""
        return (*self.carry, *self.rest)

    def __call__(self) -> Any:
        result = self.wait(self.function(*self.arguments))
        self.carry = result[: len(self.carry)]
        return result

    def reset(self) -> None:
        """Go back to the first carry."""
        self.carry = self.start()


class Adam(NamedTuple):
    """An optimizer by three functions."""

    state: Callable[[Any, Any, Any, int], Any]  # from params, m, v and the number of steps done
    step: Callable[[Any, Any, Any], tuple[Any, Any]]  # (params, grads, state) -> (params, state)
    means: Callable[[Any], tuple[Any, Any]]  # m and v of a state


class Library:
    """A library of JAX's names; its methods are the kinds of workloads."""

    def __init__(
        self, transforms: Any, numpy: Any, nn: Any, lax: Any, wait: Callable[[Any], Any],
        adam: Callable[[], Adam], versions: dict[str, str], dtype: str,
    ):  # fmt: skip
        self.transforms, self.np, self.nn, self.lax, self.wait = transforms, numpy, nn, lax, wait
        self.make_adam, self.versions, self.dtype = adam, versions, dtype
        self.jit = transforms.jit

    def arrays(self, tree: Any) -> Any:
        """A tree of NumPy arrays as the library's."""

        def array(x: Any) -> Any:
            if not hasattr(x, "dtype"):
                return x
            return self.np.asarray(x.astype(self.dtype) if x.dtype.kind == "f" else x)

        return self.transforms.tree.map(array, tree)

    def _function(self, function: Callable[..., Any], inputs: Any, *names: str) -> Function:
        arrays = self.arrays(inputs)
        return Function(function, tuple([arrays[name] for name in names]), self.wait)

    # Eagerly

    def eager_grad(self, inputs: Any) -> Function:
        np, grad = self.np, self.transforms.grad

        def f(x: Any) -> Any:
            return np.sum(np.sin(x) * x)

        return self._function(lambda x: grad(f)(x), inputs, "x")

    def eager_add(self, inputs: Any) -> Function:
        return self._function(lambda x: x + x, inputs, "x")

    def eager_index(self, inputs: Any) -> Function:
        return self._function(lambda x: x[2:7], inputs, "x")

    # One kernel

    def add_one(self, inputs: Any) -> Function:
        tree = self.transforms.tree
        return self._function(self.jit(lambda x: tree.map(lambda leaf: leaf + 1, x)), inputs, "x")

    def exp(self, inputs: Any) -> Function:
        return self._function(self.jit(self.np.exp), inputs, "x")

    def gelu(self, inputs: Any) -> Function:
        return self._function(self.jit(lambda x: self.nn.gelu(x, approximate=True)), inputs, "x")

    def sum_all(self, inputs: Any) -> Function:
        return self._function(self.jit(self.np.sum), inputs, "x")

    def sum_axis_0(self, inputs: Any) -> Function:
        return self._function(self.jit(lambda x: self.np.sum(x, axis=0)), inputs, "x")

    def softmax(self, inputs: Any) -> Function:
        return self._function(self.jit(lambda x: self.nn.softmax(x, axis=-1)), inputs, "x")

    def layer_norm(self, inputs: Any) -> Function:
        return self._function(self.jit(self.normalized), inputs, "x", "scale", "bias")

    def normalized(self, x: Any, scale: Any, bias: Any) -> Any:
        """Layer norm over the last axis."""
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * self.lax.rsqrt(variance + 1e-5) * scale + bias

    def transpose_add(self, inputs: Any) -> Function:
        return self._function(self.jit(lambda x, y: x.T + y), inputs, "x", "y")

    def matmul(self, inputs: Any) -> Function:
        return self._function(self.jit(lambda x, y: x @ y), inputs, "x", "y")

    def conv(self, inputs: Any) -> Function:
        def f(x: Any, w: Any) -> Any:
            return self.lax.conv_general_dilated(x, w, window_strides=(1, 1), padding="SAME")

        return self._function(self.jit(f), inputs, "x", "w")

    # Training

    def _training(
        self, step: Callable[..., Any], optimizer: Adam, inputs: Any, *names: str, donate: tuple[int, ...]
    ) -> Training:
        def carry() -> tuple[Any, Any]:
            arrays = self.arrays({"params": inputs["params"], "state": inputs["state"]})
            params, state = arrays["params"], arrays["state"]
            return params, optimizer.state(params, state["m"], state["v"], state["count"])

        arrays = self.arrays({name: inputs[name] for name in names})
        return Training(
            self.jit(step, donate_argnums=donate),
            carry,
            tuple([arrays[name] for name in names]),
            self.wait,
            lambda result: (result[0], optimizer.means(result[1]), result[2:]),
        )

    def adam(self, inputs: Any) -> Training:
        optimizer = self.make_adam()

        def step(params: Any, state: Any, grads: Any) -> Any:
            return optimizer.step(params, grads, state)

        return self._training(step, optimizer, inputs, "grads", donate=(0, 1))

    def _nll(self, logits: Any, labels: Any) -> Any:
        picked = self.np.take_along_axis(self.nn.log_softmax(logits), labels[..., None], axis=-1)
        return -self.np.mean(picked)

    def mlp_step(self, inputs: Any) -> Training:
        optimizer, nn = self.make_adam(), self.nn

        def loss(params: Any, x: Any, labels: Any) -> Any:
            *hidden, last = params
            for layer in hidden:
                x = nn.relu(x @ layer["w"] + layer["b"])
            return self._nll(x @ last["w"] + last["b"], labels)

        def step(params: Any, state: Any, x: Any, labels: Any) -> Any:
            value, grads = self.transforms.value_and_grad(loss)(params, x, labels)
            return *optimizer.step(params, grads, state), value

        return self._training(step, optimizer, inputs, "x", "labels", donate=(0, 1))

    # The transformer: a function of one sequence, which vmap makes one of a batch

    def _attention(self, p: Any, x: Any) -> Any:
        np = self.np
        length, width = x.shape
        q, k, v = ((x @ p[name]).reshape(length, HEADS, -1) for name in "qkv")
        scores = np.einsum("qhe,khe->hqk", q, k) / math.sqrt(width // HEADS)
        causal = np.tril(np.ones((length, length), bool))
        weights = self.nn.softmax(np.where(causal, scores, -1e30))
        return np.einsum("hqk,khe->qhe", weights, v).reshape(length, width) @ p["out"]

    def _logits(self, params: Any, tokens: Any) -> Any:
        def norm(p: Any, x: Any) -> Any:
            return self.normalized(x, p["scale"], p["bias"])

        x = params["tokens"][tokens] + params["positions"]
        for p in params["blocks"]:
            x = x + self._attention(p, norm(p["norm1"], x))
            x = x + self.nn.gelu(norm(p["norm2"], x) @ p["up"], approximate=True) @ p["down"]
        return norm(params["norm"], x) @ params["tokens"].T

    def _loss(self, params: Any, tokens: Any) -> Any:
        logits = self.transforms.vmap(self._logits, in_axes=(None, 0))(params, tokens[:, :-1])
        return self._nll(logits, tokens[:, 1:])

    def transformer_forward(self, inputs: Any) -> Function:
        return self._function(self.jit(self._loss), inputs, "params", "tokens")

    def transformer_grad(self, inputs: Any) -> Function:
        return self._function(
            self.jit(self.transforms.value_and_grad(self._loss)), inputs, "params", "tokens"
        )

    # Loops

    def _last(self, steps: int) -> Callable[[Any, Any], Any]:
        def step(w: Any, h: Any) -> Any:
            return self.np.tanh(w @ h)

        return lambda w, h: self.lax.scan(lambda h, _: (step(w, h), None), h, None, length=steps)[0]

    def scan_value(self, inputs: Any) -> Function:
        return self._function(self.jit(self._last(inputs["steps"])), inputs, "w", "h")

    def scan_gradient(self, inputs: Any) -> Function:
        last = self._last(inputs["steps"])
        gradient = self.transforms.grad(lambda w, h: last(w, h).sum(), (0, 1))
        return self._function(self.jit(gradient), inputs, "w", "h")

    def _lstm_loss(self, p: Any, x: Any) -> Any:
        np, sigmoid = self.np, self.nn.sigmoid

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = np.split(x @ p["w"] + h @ p["u"] + p["b"], 4, axis=-1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            return (h, c), h

        zeros = np.zeros((x.shape[1], p["u"].shape[0]), x.dtype)
        return (self.lax.scan(step, (zeros, zeros), x)[1] ** 2).mean()

    def lstm_forward(self, inputs: Any) -> Function:
        return self._function(self.jit(self._lstm_loss), inputs, "params", "x")

    def lstm_gradient(self, inputs: Any) -> Function:
        gradient = self.transforms.value_and_grad(self._lstm_loss)
        return self._function(self.jit(gradient), inputs, "params", "x")


def load(name: str) -> Library:
    """Import tinyfn or JAX."""
    return _jax() if name == "jax" else _tinyfn("float64" if name == "reference" else "float32")


def _jax() -> Library:
    import jax
    import jax.numpy

    def adam() -> Adam:
        import optax

        optimizer = optax.adam(RATE)

        def state(params: Any, m: Any, v: Any, count: int) -> Any:
            first, *others = optimizer.init(params)
            return (first._replace(count=jax.numpy.int32(count), mu=m, nu=v), *others)

        def step(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        return Adam(state, step, lambda state: (state[0].mu, state[0].nu))

    versions = {"jax": jax.__version__}
    return Library(
        jax, jax.numpy, jax.nn, jax.lax, jax.block_until_ready, adam, versions, "float32"
    )  # fmt: skip


def _tinyfn(dtype: str) -> Library:
    import tinyfn
    import tinyfn.numpy

    def adam() -> Adam:
        optimizer = tinyfn.optax_like.adam(RATE)

        def state(params: Any, m: Any, v: Any, count: int) -> Any:
            made = optimizer.init(params)
            return {
                **made,
                "b1_t": made["b1_t"] * 0.9**count,
                "b2_t": made["b2_t"] * 0.999**count,
                "m": m,
                "v": v,
            }

        def step(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
            return optimizer.step(params, grads, state)

        return Adam(state, step, lambda state: (state["m"], state["v"]))

    # A call returns when its result is there.
    return Library(
        tinyfn, tinyfn.numpy, tinyfn.nn, tinyfn.lax, lambda result: result, adam,
        {"tinyfn": tinyfn.__version__}, dtype,
    )  # fmt: skip
