"""PyTorch, eagerly or through torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from ..workloads import HEADS
from .jax_style import RATE, Function


def tensors(tree: Any) -> Any:
    """A tree of NumPy arrays as tensors."""
    if isinstance(tree, dict):
        return {key: tensors(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [tensors(value) for value in tree]
    if not hasattr(tree, "dtype"):
        return tree
    tensor = torch.from_numpy(tree.copy())
    return tensor if tensor.is_floating_point() else tensor.long()


def leaves(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree, those of a dict in the order of its keys."""
    if isinstance(tree, dict):
        return [leaf for _, value in sorted(tree.items()) for leaf in leaves(value)]
    return [leaf for value in tree for leaf in leaves(value)] if isinstance(tree, list) else [tree]


class Training:
    """A loss, its gradient (or gradients that are given) and a step of Adam, in place."""

    def __init__(self, inputs: Any, loss: Callable[[Any], Any] | None, compiled: Callable[..., Any]):
        self.loss = compiled(loss) if loss else None
        self.params = tensors(inputs["params"])
        self.leaves = leaves(self.params)
        self.optimizer = torch.optim.Adam(self.leaves, lr=RATE, fused=True)
        state = tensors(inputs["state"])
        for leaf, m, v in zip(self.leaves, leaves(state["m"]), leaves(state["v"]), strict=True):
            leaf.requires_grad_()
            step = torch.tensor(float(state["count"]))
            self.optimizer.state[leaf] = {"step": step, "exp_avg": m, "exp_avg_sq": v}
        if loss is None:
            for leaf, grad in zip(self.leaves, leaves(tensors(inputs["grads"])), strict=True):
                leaf.grad = grad
        self.start = [tensor.detach().clone() for tensor in self._overwritten()]
        self.step = compiled(self.optimizer.step)

    def _overwritten(self) -> list[torch.Tensor]:
        return self.leaves + [
            tensor for leaf in self.leaves for tensor in self.optimizer.state[leaf].values()
        ]

    @torch.no_grad()
    def reset(self) -> None:
        """Go back to the first parameters and state, in the same tensors: compiled code is for these."""
        for tensor, value in zip(self._overwritten(), self.start, strict=True):
            tensor.copy_(value)

    def __call__(self) -> Any:
        if self.loss is None:
            self.step()
            return None
        self.optimizer.zero_grad()
        value = self.loss(self.params)
        value.backward()
        self.step()
        return value

    def shown(self, result: Any) -> Any:
        """Parameters, means and loss."""
        states = [self.optimizer.state[leaf] for leaf in self.leaves]
        means = [[state[name] for state in states] for name in ("exp_avg", "exp_avg_sq")]
        return [self.leaves, means, [] if result is None else [result]]


class Library:
    """PyTorch; the methods are the kinds of workloads."""

    def __init__(self, compiled: bool):
        self.versions = {"torch": torch.__version__}
        self.compiled: Callable[..., Any] = torch.compile if compiled else lambda f: f

    def _function(self, function: Callable[..., Any], inputs: Any, *names: str) -> Function:
        arrays = tensors(inputs)
        return Function(function, tuple([arrays[name] for name in names]), lambda result: result)

    def eager_grad(self, inputs: Any) -> Function:
        def f(x: Any) -> Any:
            x = x.detach().requires_grad_()
            return torch.autograd.grad((torch.sin(x) * x).sum(), x)[0]

        return self._function(f, inputs, "x")

    def eager_add(self, inputs: Any) -> Function:
        return self._function(lambda x: x + x, inputs, "x")

    def eager_index(self, inputs: Any) -> Function:
        return self._function(lambda x: x[2:7], inputs, "x")

    def add_one(self, inputs: Any) -> Function:
        def f(x: Any) -> Any:
            return {key: value + 1 for key, value in x.items()} if isinstance(x, dict) else x + 1

        return self._function(self.compiled(f), inputs, "x")

    def exp(self, inputs: Any) -> Function:
        return self._function(self.compiled(torch.exp), inputs, "x")

    def gelu(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x: F.gelu(x, approximate="tanh")), inputs, "x")

    def sum_all(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x: x.sum()), inputs, "x")

    def sum_axis_0(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x: x.sum(0)), inputs, "x")

    def softmax(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x: x.softmax(-1)), inputs, "x")

    def layer_norm(self, inputs: Any) -> Function:
        def f(x: Any, scale: Any, bias: Any) -> Any:
            return F.layer_norm(x, x.shape[-1:], scale, bias, 1e-5)

        return self._function(self.compiled(f), inputs, "x", "scale", "bias")

    def transpose_add(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x, y: x.T + y), inputs, "x", "y")

    def matmul(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x, y: x @ y), inputs, "x", "y")

    def conv(self, inputs: Any) -> Function:
        return self._function(self.compiled(lambda x, w: F.conv2d(x, w, padding="same")), inputs, "x", "w")

    def adam(self, inputs: Any) -> Training:
        return Training(inputs, None, self.compiled)

    def mlp_step(self, inputs: Any) -> Training:
        x, labels = tensors(inputs["x"]), tensors(inputs["labels"])

        def loss(params: Any) -> Any:
            *hidden, last = params
            y = x
            for layer in hidden:
                y = F.relu(y @ layer["w"] + layer["b"])
            return F.cross_entropy(y @ last["w"] + last["b"], labels)

        return Training(inputs, loss, self.compiled)

    def transformer_forward(self, inputs: Any) -> Function:
        return self._function(self.compiled(_loss), inputs, "params", "tokens")

    def transformer_grad(self, inputs: Any) -> Function:
        loss = self.compiled(_loss)

        def f(params: Any, tokens: Any) -> Any:
            value = loss(params, tokens)
            return [value, *torch.autograd.grad(value, leaves(params))]

        run = self._function(f, inputs, "params", "tokens")
        for leaf in leaves(run.arguments[0]):
            leaf.requires_grad_()
        return run

    # Loops are Python's own, which torch.compile would unroll: they are run as they are.

    def scan_value(self, inputs: Any) -> Function:
        return self._function(_last(inputs["steps"]), inputs, "w", "h")

    def scan_gradient(self, inputs: Any) -> Function:
        last = _last(inputs["steps"])
        run = self._function(
            lambda w, h: list(torch.autograd.grad(last(w, h).sum(), [w, h])), inputs, "w", "h"
        )
        for leaf in run.arguments:
            leaf.requires_grad_()
        return run

    def lstm_forward(self, inputs: Any) -> Function:
        return self._function(_lstm_loss, inputs, "params", "x")

    def lstm_gradient(self, inputs: Any) -> Function:
        def f(params: Any, x: Any) -> Any:
            value = _lstm_loss(params, x)
            return [value, *torch.autograd.grad(value, leaves(params))]

        run = self._function(f, inputs, "params", "x")
        for leaf in leaves(run.arguments[0]):
            leaf.requires_grad_()
        return run


def _last(steps: int) -> Callable[[Any, Any], Any]:
    def f(w: Any, h: Any) -> Any:
        for _ in range(steps):
            h = torch.tanh(w @ h)
        return h

    return f


def _lstm_loss(p: Any, x: Any) -> Any:
    h = c = x.new_zeros(x.shape[1], p["u"].shape[0])
    total = 0.0
    for each in x:
        i, f, g, o = (each @ p["w"] + h @ p["u"] + p["b"]).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        total = total + (h**2).sum()
    return total / (x.shape[0] * h.numel())


def _norm(p: Any, x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], p["scale"], p["bias"], 1e-5)


def _attention(p: Any, x: Any) -> Any:
    q, k, v = ((x @ p[name]).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in "qkv")
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).flatten(2) @ p["out"]


def _loss(params: Any, tokens: Any) -> Any:
    x = params["tokens"][tokens[:, :-1]] + params["positions"]
    for p in params["blocks"]:
        x = x + _attention(p, _norm(p["norm1"], x))
        x = x + F.gelu(_norm(p["norm2"], x) @ p["up"], approximate="tanh") @ p["down"]
    logits = _norm(params["norm"], x) @ params["tokens"].T
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def load(name: str) -> Library:
    """PyTorch as it is, or with what is run passed through torch.compile."""
    return Library(name == "torch.compile")
