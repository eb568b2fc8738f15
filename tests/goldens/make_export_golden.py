"""Writes exported_v1.safetensors, a file of the first version of the format, and the results of its function.

Run once, when the first version was made; files of that version are to be readable for ever, so it is not run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import tinyfn
import tinyfn.numpy as tnp
from tinyfn import lax, linalg, nn, random
from tinyfn.export import export

FOLDER = Path(__file__).parent
W = tnp.asarray(np.linspace(-1, 1, 16).reshape(4, 4).astype("float32"))


@tinyfn.custom_jvp
def softer(x: Any) -> Any:
    return tnp.log1p(tnp.exp(x))


softer.defjvp(lambda primals, tangents: (softer(primals[0]), tangents[0] * nn.sigmoid(primals[0])))


def function(x: Any, more: Any) -> Any:
    k = more["k"]
    return {
        "mlp": nn.log_softmax(tnp.tanh(x @ W)),
        "scan": lax.scan(lambda c, a: (tnp.tanh(W @ c + a), c.sum()), tnp.zeros(4), x)[1],
        "while": lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (x, k))[0],
        "cond": lax.cond(k > 1, tnp.sin, tnp.cos, x),
        "gradient": tinyfn.grad(lambda x: softer(x).sum())(x),
        "gather": x[tnp.asarray([2, 0])].at[0, 1].add(5.0),
        "sort": tnp.sort(-x) + tnp.argsort(-x),
        "linalg": linalg.inv(W.T @ W + tnp.eye(4)),
        "random": random.uniform(random.PRNGKey(7), (3,)),
        "integers": (tnp.arange(5) * k) // 3 % 2,
        "constants": tnp.where(x > 0.5, tnp.float64.type(1e-3), -0.0).astype("float64"),
        "convolution": lax.conv_general_dilated(x[None, None], W[None, None, :2, :2], (1, 1), "SAME")[0, 0],
    }


if __name__ == "__main__":
    x = tnp.arange(12.0).reshape(3, 4) / 7
    export(tinyfn.jit(function))(x, {"k": tnp.asarray(2)}).save(FOLDER / "exported_v1.safetensors")
    results = {
        name: np.asarray(v, np.float64).tolist() for name, v in function(x, {"k": tnp.asarray(2)}).items()
    }
    (FOLDER / "exported_v1.json").write_text(json.dumps(results) + "\n")
