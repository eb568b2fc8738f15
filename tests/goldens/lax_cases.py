"""Calls of `lax` and `nn`, as functions of the namespaces, so that JAX's and ours can be given the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A function of (lax, nn, *arrays), the arrays, and whether its derivatives are compared too."""

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    differentiable: bool = True


_random = np.random.default_rng(0)
CASES: dict[str, Case] = {}


def _floats(*shape: int) -> np.ndarray:
    return _random.normal(size=shape).astype(np.float32)


def _whole(high: int, *shape: int, low: int = 0) -> np.ndarray:
    return _random.integers(low, high, shape).astype(np.int32)


def case(name: str, function: Callable[..., Any], *arrays: np.ndarray, differentiable: bool = True) -> None:
    CASES[name] = Case(function, arrays, differentiable)


# Convolutions: shapes of lhs [N, C, *spatial] and rhs [O, I, *window], and options.
_CONVOLUTIONS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 2), {}),
    "same": ((2, 3, 6, 5), (4, 3, 3, 2), {"padding": "SAME", "window_strides": (2, 1)}),
    "same_lower": ((1, 2, 7), (3, 2, 4), {"padding": "SAME_LOWER", "window_strides": (2,)}),
    "padded": ((1, 2, 5, 4), (3, 2, 2, 2), {"padding": [(1, 2), (-1, 3)]}),
    "dilated": ((2, 2, 7, 8), (3, 2, 2, 3), {"rhs_dilation": (2, 3), "padding": "SAME"}),
    "spread": ((2, 2, 4, 3), (3, 2, 3, 2), {"lhs_dilation": (2, 3), "padding": [(2, 1), (0, 1)]}),
    "feature_groups": ((2, 4, 5), (6, 2, 3), {"feature_group_count": 2}),
    "depthwise": ((2, 3, 5, 5), (6, 1, 3, 3), {"feature_group_count": 3, "padding": "SAME"}),
    "batch_groups": ((4, 2, 6), (6, 2, 3), {"batch_group_count": 2, "window_strides": (2,)}),
    "three": ((1, 2, 4, 3, 5), (2, 2, 2, 2, 3), {"padding": "SAME"}),
    "point": ((3, 4), (5, 4), {}),
    "all": ((2, 4, 7, 6), (4, 2, 2, 3), {"window_strides": (2, 1), "padding": [(1, 3), (2, 0)], "lhs_dilation": (1, 2),
                                          "rhs_dilation": (3, 1), "feature_group_count": 2}),
}  # fmt: skip
for _name, (_lhs, _rhs, _options) in _CONVOLUTIONS.items():
    _given = {"window_strides": (1,) * (len(_lhs) - 2), "padding": "VALID", **_options}
    case(
        f"conv_{_name}",
        lambda lax, nn, x, y, given=_given: lax.conv_general_dilated(x, y, **given),
        _floats(*_lhs),
        _floats(*_rhs),
    )
for _specs, _lhs, _rhs in (
    (("NHWC", "HWIO", "NHWC"), (2, 6, 5, 3), (3, 2, 3, 4)),
    (("CNWH", "WOHI", "HNCW"), (3, 2, 5, 6), (2, 4, 3, 3)),
    (("NWC", "WIO", "NCW"), (2, 7, 3), (3, 3, 2)),
):
    for _precision in ("default", "highest"):
        case(
            f"conv_{'_'.join(_specs)}_{_precision}",
            lambda lax, nn, x, y, specs=_specs, precision=_precision: lax.conv_general_dilated(
                x,
                y,
                (1,) * (x.ndim - 2),
                "SAME",
                dimension_numbers=specs,
                precision=precision,
                preferred_element_type="float32",
            ),
            _floats(*_lhs),
            _floats(*_rhs),
        )
for _padding in ("SAME", "VALID", [(1, 2), (0, 1)]):
    for _flip in (False, True):
        case(
            f"conv_transpose_{_padding}_{_flip}",
            lambda lax, nn, x, y, padding=_padding, flip=_flip: lax.conv_transpose(
                x, y, (2, 3), padding, (1, 2), ("NHWC", "HWIO", "NHWC"), flip
            ),
            _floats(2, 4, 3, 3),
            _floats(3, 2, 3, 3),
        )
_image, _places = _floats(2, 3, 6, 5), {"window_strides": (2, 1), "padding": [(1, 0), (0, 2)]}
case(
    "patches",
    lambda lax, nn, x: lax.conv_general_dilated_patches(
        x, (2, 3), **_places, rhs_dilation=(2, 1), lhs_dilation=(1, 2)
    ),
    _image,
)
case(
    "patches_nhwc",
    lambda lax, nn, x: lax.conv_general_dilated_patches(
        x, (3, 2), (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    _floats(2, 6, 5, 3),
)
case(
    "local",
    lambda lax, nn, x, y: lax.conv_general_dilated_local(x, y, **_places, filter_shape=(2, 3)),
    _image,
    _floats(4, 18, 3, 5),
)
case(
    "local_nhwc",
    lambda lax, nn, x, y: lax.conv_general_dilated_local(
        x, y, (1, 1), "VALID", (2, 3), dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    _floats(2, 4, 5, 2),
    _floats(3, 3, 12, 4),
)

# Products of groups of rows.
_sizes = np.array([2, 0, 3], np.int32)
case("ragged_dot", lambda lax, nn, x, y: lax.ragged_dot(x, y, _sizes), _floats(7, 4), _floats(3, 4, 5))
_CONTRACTED = (((0,), (0,)), ((), ()))
case(
    "ragged_contracting",
    lambda lax, nn, x, y: lax.ragged_dot_general(
        x, y, _sizes, lax.RaggedDotDimensionNumbers(_CONTRACTED, [0], [])
    ),
    _floats(5, 4),
    _floats(5, 3),
    differentiable=False,  # not implemented in JAX
)
case(
    "ragged_rows_last",
    lambda lax, nn, x, y: lax.ragged_dot_general(
        x, y, _sizes, lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [1], [2])
    ),
    _floats(4, 5),
    _floats(4, 6, 3),
)

# Gather and scatter: operand, indices, dimension numbers, sizes of windows.
_ROWS = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,)}
_GATHERS: dict[str, tuple[Any, np.ndarray, dict[str, Any], tuple[int, ...]]] = {
    "rows": ((5, 3), _whole(6, 4, 1, low=-1), _ROWS, (1, 3)),
    "windows": (
        (5, 6),
        _whole(6, 2, 3, 2),
        {"offset_dims": (0, 3), "collapsed_slice_dims": (), "start_index_map": (1, 0)},
        (2, 3),
    ),
    "columns_first": (
        (4, 5, 2),
        _whole(5, 3, 1),
        {"offset_dims": (0, 2), "collapsed_slice_dims": (1,), "start_index_map": (1,)},
        (3, 1, 2),
    ),
    "together": (
        (2, 5, 3),
        _whole(5, 4, 2, 1),
        {
            "offset_dims": (2,),
            "collapsed_slice_dims": (1,),
            "start_index_map": (1,),
            "operand_batching_dims": (0,),
            "start_indices_batching_dims": (1,),
        },
        (1, 1, 3),
    ),
    "elements": (
        (4, 5),
        _whole(5, 6, 2),
        {"offset_dims": (), "collapsed_slice_dims": (0, 1), "start_index_map": (0, 1)},
        (1, 1),
    ),
}
for _name, (_shape, _at, _numbers, _window) in _GATHERS.items():
    for _mode in (None, "clip", "fill", "promise_in_bounds"):
        _inside = np.clip(_at, 0, 1) if _mode == "promise_in_bounds" else _at
        case(
            f"gather_{_name}_{_mode}",
            lambda lax, nn, x, at=_inside, numbers=_numbers, window=_window, mode=_mode: lax.gather(
                x, at, lax.GatherDimensionNumbers(**numbers), window, mode=mode, fill_value=-2.0
            ),
            _floats(*_shape),
            # Without a mode JAX's derivatives drop what is out of bounds, while its values don't.
            differentiable=_mode is not None,
        )
    _scattered = {
        "update_window_dims": _numbers["offset_dims"],
        "inserted_window_dims": _numbers["collapsed_slice_dims"],
        "scatter_dims_to_operand_dims": _numbers["start_index_map"],
        "operand_batching_dims": _numbers.get("operand_batching_dims", ()),
        "scatter_indices_batching_dims": _numbers.get("start_indices_batching_dims", ()),
    }
    _lacking = {*_numbers["collapsed_slice_dims"], *_numbers.get("operand_batching_dims", ())}
    _kept = [n for axis, n in enumerate(_window) if axis not in _lacking]
    _rest, _updates = list(_at.shape[:-1]), []
    for _axis in range(len(_kept) + len(_rest)):
        _updates.append(_kept.pop(0) if _axis in _numbers["offset_dims"] else _rest.pop(0))
    for _kind in ("add", "sub", "mul", "min", "max"):
        for _mode in (None, "clip"):
            case(
                f"scatter_{_kind}_{_name}_{_mode}",
                lambda lax, nn, x, u, at=_at, numbers=_scattered, mode=_mode, kind=_kind: getattr(
                    lax, f"scatter_{kind}"
                )(x, at, u, lax.ScatterDimensionNumbers(**numbers), mode=mode),
                _floats(*_shape),
                _floats(*_updates),
                # JAX differentiates a product only where no element is written twice, and extremes as if nothing were moved.
                differentiable=_kind in ("add", "sub") or (_kind != "mul" and _mode is None),
            )
_once = np.array([[3], [0], [7]], np.int32)
_ROW_UPDATES = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
}
case(
    "scatter_set",
    lambda lax, nn, x, u: lax.scatter(x, _once, u, lax.ScatterDimensionNumbers(**_ROW_UPDATES)),
    _floats(5, 2),
    _floats(3, 2),
)
case(
    "scatter_apply",
    lambda lax, nn, x: lax.scatter_apply(
        x, _once, lax.sin, lax.ScatterDimensionNumbers(**_ROW_UPDATES), update_shape=(3, 2)
    ),
    _floats(5, 2),
    differentiable=False,  # not implemented in JAX
)

# Cumulative functions; without ties, for which JAX's derivatives depend on the order in which it combines.
for _kind in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    for _reverse in (False, True):
        case(
            f"{_kind}_{_reverse}",
            lambda lax, nn, x, kind=_kind, reverse=_reverse: getattr(lax, kind)(x, axis=1, reverse=reverse),
            _floats(3, 9, 2),
        )
case("cumprod_zeros", lambda lax, nn, x: lax.cumprod(x), np.array([2, 0, 3, 0, 5], np.float32))
case(
    "cumlogsumexp_far",
    lambda lax, nn, x: lax.cumlogsumexp(x),
    np.array([-300, 100, 0, 250, 240, -1e30], np.float32),
)

# Elements.
_edges = [0.0, -0.0, 1e-8, 3e-5, 6e4, 65519, 65520, 1e5, -448, 449, 464, 465, 1e38, np.inf, -np.inf, np.nan]
_values = np.concatenate([_floats(12), _edges]).astype(np.float32)
for _format in ((5, 10), (8, 7), (5, 2), (4, 3), (8, 23), (3, 0)):
    case(
        f"reduce_precision_{_format}",
        lambda lax, nn, x, format=_format: lax.reduce_precision(x, *format),
        _values,
        differentiable=False,
    )
for _dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
    _info = np.iinfo(_dtype)
    case(
        f"mulhi_{_dtype}",
        lambda lax, nn, x, y: lax.mulhi(x, y),
        *[_random.integers(_info.min, _info.max, 20, endpoint=True).astype(_dtype) for _ in range(2)],
        differentiable=False,
    )
case(
    "polygamma",
    lambda lax, nn, m, x: lax.polygamma(m, x),
    np.array([0, 1, 2, 3, 5], np.float32),
    np.array([0.3, 1.5, 4, 10, 2.5], np.float32),
    differentiable=False,
)
for _shape in ((5,), (2, 3), (3, 4), (3, 5), (4, 2)):
    for _dtype in ("uint8", "uint16", "uint32"):
        case(
            f"rng_bit_generator_{_shape}_{_dtype}",
            lambda lax, nn, key, shape=_shape, dtype=_dtype: lax.rng_bit_generator(
                key, shape, dtype, lax.RandomAlgorithm.RNG_THREE_FRY
            ),
            np.array([1, 2, 2**32 - 3, 4], np.uint32),
            differentiable=False,
        )

# Attention: query [B, T, N, H], key and value [B, S, K, H].
_query, _key, _value = _floats(2, 6, 4, 3), _floats(2, 5, 4, 3), _floats(2, 5, 4, 3)
_few_keys, _few_values = _floats(2, 5, 2, 3), _floats(2, 5, 2, 3)
_bias, _mask = _floats(1, 4, 6, 5), _random.uniform(size=(2, 1, 6, 5)) < 0.7
_mask[..., 0] = True
_LENGTHS = {
    "query_seq_lengths": np.array([6, 3], np.int32),
    "key_value_seq_lengths": np.array([2, 5], np.int32),
}
_ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {}, "scale": {"scale": 0.3}, "causal": {"is_causal": True}, "mask": {"mask": _mask}, "lengths": _LENGTHS,
    "window": {"local_window_size": 1}, "window_pair": {"local_window_size": (2, 1)}, "none": {"implementation": None},
    "xla": {"implementation": "xla"}, "all": {"mask": _mask, "scale": 0.5, "local_window_size": (5, 2), **_LENGTHS},
}  # fmt: skip
for _name, _options in _ATTENTION.items():
    case(
        f"attention_{_name}",
        lambda lax, nn, q, k, v, options=_options: nn.dot_product_attention(q, k, v, **options),
        _query,
        _key,
        _value,
    )
    case(
        f"attention_groups_{_name}",
        lambda lax, nn, q, k, v, b, options=_options: nn.dot_product_attention(q, k, v, b, **options),
        _query,
        _few_keys,
        _few_values,
        _bias,
    )
case(
    "attention_residual",
    lambda lax, nn, q, k, v: nn.dot_product_attention(q, k, v, is_causal=True, return_residual=True),
    _query,
    _key,
    _value,
    differentiable=False,
)
case(
    "attention_one", lambda lax, nn, q, k, v: nn.dot_product_attention(q, k, v), _query[0], _key[0], _value[0]
)

# The softmax family with `where` and `initial`.
_x, _some = _floats(3, 6), _random.uniform(size=(3, 6)) < 0.6
_some[:, 0] = True
for _axis in (-1, 0, (0, 1)):
    case(f"softmax_{_axis}", lambda lax, nn, x, axis=_axis: nn.softmax(x, axis), _x)
    case(f"log_softmax_{_axis}", lambda lax, nn, x, axis=_axis: nn.log_softmax(x, axis), _x)
    case(f"softmax_where_{_axis}", lambda lax, nn, x, axis=_axis: nn.softmax(x, axis, where=_some), _x)
    case(
        f"logsumexp_{_axis}",
        lambda lax, nn, x, axis=_axis: nn.logsumexp(x, axis, b=0.5, keepdims=True, where=_some),
        _x,
    )
    case(f"logmeanexp_{_axis}", lambda lax, nn, x, axis=_axis: nn.logmeanexp(x, axis, keepdims=True), _x)
    case(f"logmeanexp_where_{_axis}", lambda lax, nn, x, axis=_axis: nn.logmeanexp(x, axis, where=_some), _x)
case("standardize", lambda lax, nn, x: nn.standardize(x, where=_some), _x)
case("sparse_plus", lambda lax, nn, x: nn.sparse_plus(x), np.array([-2, -0.9, 0, 0.3, 0.99, 1.5], np.float32))
case("sparse_sigmoid", lambda lax, nn, x: nn.sparse_sigmoid(x), np.array([-2, -0.9, 0, 0.3, 1.5], np.float32))
case(
    "delta_orthogonal",
    lambda lax, nn, key: nn.initializers.delta_orthogonal(1.5)(key, (3, 4, 2, 3), "float32"),
    np.array([0, 42], np.uint32),
    differentiable=False,
)
