"""From ATen operators to pointwise operators, reductions and views.

A rule takes the values of the operator's arguments (nodes, numbers, lists) and gives a node, or a tuple of them.
Signatures are those of https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .ir import BOOL, FLOAT, LONG, Affine, Concat, Constant, GiveUpError, Node, Point, Reduce, Scan, View, normal_dims
from .pointwise import result_type
from .views import VIEW_RULES, expand, permute, reshape, unsqueeze_dims, window

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable:
    """Register a rule for ATen operators, named without overload."""

    def register(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function

    return register


def constant(value: float | bool) -> Constant:
    return Constant((), BOOL if isinstance(value, bool) else FLOAT, value)


def as_node(value: Any) -> Node:
    return value if isinstance(value, Node) else constant(value)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((n for n in ns if n != 1), 1) for ns in zip(*padded, strict=True))


def point(op: str, *args: Any) -> Point:
    """A pointwise operator on broadcast arguments; integers and truth values are made numbers where one is needed."""
    nodes = [as_node(a) for a in args]
    if op == "mul" and all(n.dtype == BOOL for n in nodes):
        op = "and"
    if any(n.dtype == LONG for n in nodes):
        raise GiveUpError(f"arithmetic on integer tensors ({op})")
    logical = op in ("and", "or", "xor", "not", "copy", "to_float", "to_bool")
    for i, n in enumerate(nodes):
        if n.dtype == BOOL and not logical and not (op == "where" and i == 0):
            nodes[i] = to_float(n)
        if n.dtype == FLOAT and (op in ("and", "or", "xor", "not") or (op == "where" and i == 0)):
            nodes[i] = Point(n.shape, BOOL, "to_bool", (n,))
    dtype = nodes[0].dtype if op == "copy" else result_type(op)
    return Point(broadcast(*(n.shape for n in nodes)), dtype, op, tuple(nodes))


def to_float(x: Node) -> Node:
    if isinstance(x, Constant):
        return Constant((), FLOAT, float(x.value))
    return Point(x.shape, FLOAT, "to_float", (x,))


def reduce(op: str, x: Node, dims: Any = None, keepdim: bool = False) -> Node:
    """Reduce over dimensions; over none of them if ``x`` has none."""
    if x.dtype == LONG:
        raise GiveUpError(f"reduction of integer tensors ({op})")
    if x.dtype == BOOL:
        x = to_float(x)
    dims = normal_dims(dims, len(x.shape))
    kept = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    if not x.numel:
        raise GiveUpError("empty tensors")
    out: Node = Reduce(kept, LONG if op.startswith("arg") else FLOAT, op, x, dims) if dims else x
    return unsqueeze_dims(out, dims, len(x.shape)) if keepdim and dims else out


def mean(x: Node, dims: Any = None, keepdim: bool = False) -> Node:
    dims = normal_dims(dims, len(x.shape))
    return point("mul", reduce("sum", x, dims, keepdim), 1.0 / math.prod(x.shape[d] for d in dims))


def variance(
    x: Node, dims: Any = None, correction: float | None = 1, keepdim: bool = False, average: Node | None = None
) -> Node:
    """Two passes: the mean first (unless it is given, with its dimensions kept), then the squares of what is left."""
    dims = normal_dims(dims, len(x.shape))
    average = mean(x, dims, True) if average is None else average
    squares = reduce("sum", point("square", point("sub", x, average)), dims, keepdim)
    left = math.prod(x.shape[d] for d in dims) - (1 if correction is None else correction)
    if left <= 0:
        raise GiveUpError("variance of fewer values than its correction")
    return point("mul", squares, 1.0 / left)


for _aten, _op in {
    "abs": "abs", "neg": "neg", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "tanh": "tanh", "erf": "erf", "erfc": "erfc",
    "lgamma": "lgamma", "sigmoid": "sigmoid", "silu": "silu", "mish": "mish", "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid", "relu": "relu", "sign": "sign", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "frac": "frac", "square": "square", "mul": "mul", "maximum": "max", "minimum": "min", "remainder": "remainder",
    "fmod": "fmod", "hypot": "hypot", "copysign": "copysign", "where": "where", "gt": "gt", "ge": "ge", "lt": "lt",
    "le": "le", "eq": "eq", "ne": "ne", "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "logical_not": "not", "bitwise_and": "and", "bitwise_or": "or", "bitwise_not": "not", "isnan": "isnan",
    "isinf": "isinf", "clone": "copy", "alias": "copy", "detach": "copy", "lift_fresh_copy": "copy", "xlogy": "xlogy",
    "fmax": "max", "fmin": "min", "logaddexp": "logaddexp", "heaviside": "heaviside", "sgn": "sign",
}.items():  # fmt: skip
    RULES[_aten] = lambda *args, _op=_op, **kwargs: point(_op, *args)


@rule("add")
def _add(x, y, alpha=1):
    return point("add", x, y if alpha == 1 else point("mul", y, alpha))


@rule("sub")
def _sub(x, y, alpha=1):
    return point("sub", x, y if alpha == 1 else point("mul", y, alpha))


@rule("rsub")
def _rsub(x, y, alpha=1):
    return _sub(as_node(y), x, alpha)


@rule("div")
def _div(x, y, rounding_mode=None):
    return point({None: "div", "floor": "div_floor", "trunc": "div_trunc"}[rounding_mode], x, y)


@rule("round")
def _round(x, decimals=0):
    return (
        point("round", x)
        if not decimals
        else point("div", point("round", point("mul", x, 10.0**decimals)), 10.0**decimals)
    )


@rule("pow")
def _pow(x, exponent):
    special = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "copy", 2: "square", 3: "cube"}
    if not isinstance(exponent, Node) and exponent in special:
        return point(special[exponent], x)
    if exponent == 4:
        return point("square", point("square", x))
    if not isinstance(x, Node) and x > 0:
        return point("exp", point("mul", exponent, math.log(x)))
    return point("pow", x, exponent)


@rule("clamp", "hardtanh")
def _clamp(x, low=None, high=None):
    x = x if low is None else point("clamp_min", x, low)
    return x if high is None else point("clamp_max", x, high)


RULES["hardtanh"] = lambda x, low=-1, high=1: _clamp(x, low, high)


@rule("gelu")
def _gelu(x, approximate="none"):
    return point("gelu_tanh" if approximate == "tanh" else "gelu", x)


@rule("softplus")
def _softplus(x, beta=1, threshold=20):
    return point("softplus", x, beta, threshold)


@rule("elu")
def _elu(x, alpha=1, scale=1, input_scale=1):
    return point("elu", x, alpha, scale, input_scale)


@rule("celu")
def _celu(x, alpha=1.0):
    return point("elu", x, alpha, 1.0, 1.0 / alpha)


@rule("leaky_relu")
def _leaky_relu(x, slope=0.01):
    return point("leaky_relu", x, slope)


@rule("prelu", "_prelu_kernel")
def _prelu(x, weight):
    return point("leaky_relu", x, weight)


@rule("threshold")
def _threshold(x, threshold, value):
    return point("threshold", x, threshold, value)


@rule("softshrink")
def _softshrink(x, lambd=0.5):
    return point("softshrink", x, lambd)


@rule("hardshrink")
def _hardshrink(x, lambd=0.5):
    return point("hardshrink", x, lambd)


@rule("lerp")
def _lerp(x, end, weight):
    return point("lerp", x, end, weight)


@rule("addcmul")
def _addcmul(x, a, b, value=1):
    return point("addcmul", x, a, b, value)


@rule("addcdiv")
def _addcdiv(x, a, b, value=1):
    return point("addcdiv", x, a, b, value)


@rule("log_sigmoid_forward")
def _log_sigmoid(x):
    return point("log_sigmoid", x), None


@rule("native_dropout")
def _dropout(x, p, train):
    if train:
        raise GiveUpError("dropout in training mode")
    return point("copy", x), None


@rule("_to_copy", "to")
def _to_copy(x, dtype=None, **_):
    wanted = {None: x.dtype, "torch.float32": FLOAT, "torch.bool": BOOL}.get(dtype)
    if wanted is None or (x.dtype == LONG and wanted != LONG):
        raise GiveUpError(f"conversion to {dtype}")
    if wanted == x.dtype:
        return point("copy", x) if x.dtype != LONG else x
    return point("to_float" if wanted == FLOAT else "to_bool", x)


@rule("full", "full_like", "scalar_tensor", "zeros_like", "ones_like", "zeros", "ones", "new_full")
def _full(*_args, **_kwargs):
    raise NotImplementedError  # handled by the reader: it needs the operator's name and output


@rule("sum", "prod", "amax", "amin")
def _reduction(x, dims=None, keepdim=False, **_):
    raise NotImplementedError  # replaced below, one for each operator


for _aten, _op in {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}.items():
    RULES[_aten] = lambda x, dims=None, keepdim=False, _op=_op, **_: reduce(_op, x, dims, keepdim)


@rule("mean")
def _mean(x, dims=None, keepdim=False, **_):
    return mean(x, dims, keepdim)


def _extreme(op, x, dim=None, keepdim=False):
    if isinstance(dim, Node):
        return point(op, x, dim)
    values = reduce(op, x, dim, keepdim)
    return values if dim is None else (values, reduce(f"arg{op}", x, dim, keepdim))


RULES["max"] = lambda x, dim=None, keepdim=False: _extreme("max", x, dim, keepdim)
RULES["min"] = lambda x, dim=None, keepdim=False: _extreme("min", x, dim, keepdim)


def _arg_extreme(op, x, dim=None, keepdim=False):
    if dim is None and len(x.shape) != 1:
        x, dim = reshape(x, (x.numel,)), 0
    return reduce(op, x, dim, keepdim)


RULES["argmax"] = lambda x, dim=None, keepdim=False: _arg_extreme("argmax", x, dim, keepdim)
RULES["argmin"] = lambda x, dim=None, keepdim=False: _arg_extreme("argmin", x, dim, keepdim)


@rule("any")
def _any(x, dims=None, keepdim=False):
    return point("to_bool", reduce("max", point("to_float", point("to_bool", x)), dims, keepdim))


@rule("all")
def _all(x, dims=None, keepdim=False):
    return point("to_bool", reduce("min", point("to_float", point("to_bool", x)), dims, keepdim))


@rule("var")
def _var(x, dims=None, correction=1, keepdim=False):
    return variance(x, dims, correction, keepdim)


@rule("var_mean")
def _var_mean(x, dims=None, correction=1, keepdim=False):
    return variance(x, dims, correction, keepdim), mean(x, dims, keepdim)


@rule("std")
def _std(x, dims=None, correction=1, keepdim=False):
    return point("sqrt", variance(x, dims, correction, keepdim))


@rule("linalg_vector_norm", "norm")
def _norm(x, order=2, dims=None, keepdim=False, **_):
    order = 2 if order is None else order
    if order == 2:
        return point("sqrt", reduce("sum", point("square", x), dims, keepdim))
    size = point("abs", x)
    if order == 1:
        return reduce("sum", size, dims, keepdim)
    if math.isinf(order):
        return reduce("max" if order > 0 else "min", size, dims, keepdim)
    if order == 0:
        return reduce("sum", point("to_float", point("ne", x, 0.0)), dims, keepdim)
    return point("pow", reduce("sum", _pow(size, order), dims, keepdim), 1.0 / order)


def _shifted(x, dim):
    return point("sub", x, reduce("max", x, dim, True))


@rule("_softmax", "softmax")
def _softmax(x, dim, *_):
    power = point("exp", _shifted(x, dim))
    return point("mul", power, point("reciprocal", reduce("sum", power, dim, True)))


@rule("_log_softmax", "log_softmax")
def _log_softmax(x, dim, *_):
    shifted = _shifted(x, dim)
    return point("sub", shifted, point("log", reduce("sum", point("exp", shifted), dim, True)))


def normalise(x: Node, dims: Any, eps: float) -> tuple[Node, Node, Node]:
    """(x - mean) / sqrt(variance + eps), and the mean and 1 / sqrt(...) that it used."""
    average = mean(x, dims, True)
    scale = point("rsqrt", point("add", variance(x, dims, 0, True, average), eps))
    return point("mul", point("sub", x, average), scale), average, scale


def _scaled(x: Node, weight: Node | None, bias: Node | None) -> Node:
    x = x if weight is None else point("mul", x, weight)
    return x if bias is None else point("add", x, bias)


def per_channel(x: Node | None, rank: int) -> Node | None:
    """A vector over the channels (dimension 1), shaped to be broadcast."""
    return None if x is None else reshape(x, (x.shape[0],) + (1,) * (rank - 2))


@rule("native_layer_norm")
def _layer_norm(x, shape, weight, bias, eps):
    dims = list(range(len(x.shape) - len(shape), len(x.shape)))
    out, average, scale = normalise(x, dims, eps)
    return _scaled(out, weight, bias), average, scale


@rule("_fused_rms_norm", "rms_norm")
def _rms_norm(x, shape, weight=None, eps=None):
    dims = list(range(len(x.shape) - len(shape), len(x.shape)))
    eps = 1.1920928955078125e-07 if eps is None else eps
    scale = point("rsqrt", point("add", mean(point("square", x), dims, True), eps))
    return _scaled(point("mul", x, scale), weight, None), scale


@rule("native_group_norm")
def _group_norm(x, weight, bias, n, c, hw, groups, eps):  # noqa: PLR0917 (ATen's own arguments)
    grouped = reshape(x, (n, groups, c // groups, hw))
    out, average, scale = normalise(grouped, [2, 3], eps)
    out = reshape(out, x.shape)
    stats = (n, groups)
    rank = len(x.shape)
    return (
        _scaled(out, per_channel(weight, rank), per_channel(bias, rank)),
        reshape(average, stats),
        reshape(scale, stats),
    )


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(x, weight, bias, running_mean, running_var, momentum, eps):  # noqa: PLR0917 (ATen's own arguments)
    rank = len(x.shape)
    scale = point("rsqrt", point("add", running_var, eps))
    scale = scale if weight is None else point("mul", scale, weight)
    out = point("mul", point("sub", x, per_channel(running_mean, rank)), per_channel(scale, rank))
    return _scaled(out, None, per_channel(bias, rank)), None, None


@rule("_native_batch_norm_legit")
def _batch_norm_of_the_batch(x, weight, bias, *rest):
    training, _, eps = rest[-3:]
    if not training or len(rest) != 3:
        raise GiveUpError("batch norm that updates its running statistics")
    dims = [d for d in range(len(x.shape)) if d != 1]
    out, average, scale = normalise(x, dims, eps)
    rank = len(x.shape)
    return _scaled(out, per_channel(weight, rank), per_channel(bias, rank)), average, scale


@rule("cumsum")
def _cumsum(x, dim, **_):
    return Scan(x.shape, FLOAT, "sum", x, dim % len(x.shape))


@rule("cumprod")
def _cumprod(x, dim, **_):
    return Scan(x.shape, FLOAT, "prod", x, dim % len(x.shape))


@rule("cat")
def _cat(parts, dim=0):
    parts = [p for p in parts if p.shape != (0,)]
    if len({p.dtype for p in parts}) != 1:
        raise GiveUpError("concatenation of several dtypes")
    dim %= len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    return Concat(tuple(shape), parts[0].dtype, tuple(parts), dim)


def _pair(value: Any, rank: int, default: Any = None) -> list[int]:
    if value is None or value == []:
        return default
    value = list(value) if isinstance(value, list | tuple) else [value]
    return value * rank if len(value) == 1 else value


def _pool(rank, op, x, size, stride=None, padding=0, dilation=1, ceil_mode=False, include_pad=True, divisor=None):  # noqa: PLR0917 (ATen's own arguments)
    size = _pair(size, rank)
    stride, padding, dilation = _pair(stride, rank, size), _pair(padding, rank), _pair(dilation, rank)
    if ceil_mode:
        raise GiveUpError("pooling with ceil_mode")
    if op == "sum" and not include_pad and any(padding):
        raise GiveUpError("average pooling that leaves padding out of the count")
    windows = window(x, size, stride, padding, dilation, 0.0 if op == "sum" else -math.inf)
    out = reduce(op, windows, list(range(len(windows.shape) - rank, len(windows.shape))))
    return point("mul", out, 1.0 / (divisor or math.prod(size))) if op == "sum" else out


def _average_pool(rank, x, size, stride=None, padding=0, ceil_mode=False, include_pad=True, divisor=None):  # noqa: PLR0917 (ATen's own arguments)
    return _pool(rank, "sum", x, size, stride, padding, 1, ceil_mode, include_pad, divisor)


RULES["avg_pool1d"] = lambda x, *args: _average_pool(1, x, *args)
RULES["avg_pool2d"] = lambda x, *args: _average_pool(2, x, *args)
RULES["avg_pool3d"] = lambda x, *args: _average_pool(3, x, *args)
RULES["max_pool2d_with_indices"] = lambda x, *args: (_pool(2, "max", x, *args), None)
RULES["max_pool3d_with_indices"] = lambda x, *args: (_pool(3, "max", x, *args), None)
RULES["max_pool2d"] = lambda x, *args: _pool(2, "max", x, *args)


def _adaptive_average(rank, x, size):
    size = _pair(size, rank)
    kernel = []
    for n, out in zip(x.shape[-rank:], size, strict=True):
        if n % out:
            raise GiveUpError("adaptive pooling to a size that does not divide the input's")
        kernel.append(n // out)
    if all(n == 1 for n in size):
        return mean(x, list(range(len(x.shape) - rank, len(x.shape))), True)
    return _pool(rank, "sum", x, kernel)


RULES["_adaptive_avg_pool2d"] = lambda x, size: _adaptive_average(2, x, size)
RULES["_adaptive_avg_pool3d"] = lambda x, size: _adaptive_average(3, x, size)


@rule("glu")
def _glu(x, dim=-1):
    half = x.shape[dim] // 2
    first, gate = RULES["slice"](x, dim, 0, half), RULES["slice"](x, dim, half, 2 * half)
    return point("mul", first, point("sigmoid", gate))


@rule("diagonal_copy", "diagonal")
def _diagonal(x, offset=0, dim1=0, dim2=1):
    rank = len(x.shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    length = min(x.shape[dim1] + min(offset, 0), x.shape[dim2] - max(offset, 0))
    rest = [d for d in range(rank) if d not in (dim1, dim2)]

    def index(idx):
        out = [Affine()] * rank
        for d, i in zip(rest, idx[:-1], strict=True):
            out[d] = i
        out[dim1], out[dim2] = idx[-1].shifted(max(-offset, 0)), idx[-1].shifted(max(offset, 0))
        return tuple(out)

    return View((*(x.shape[d] for d in rest), length), x.dtype, x, index)


RULES["permute"] = permute
RULES["expand"] = lambda x, shape, **_: expand(x, shape)
RULES.update(VIEW_RULES)
