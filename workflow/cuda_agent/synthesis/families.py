"""Which operators belong together, how each family is written, and what follows what."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from cuda_agent.synthesis import contraction, pointwise, rows, spatial
from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import Draft

Emit = Callable[[Draft, Operator, Random], None]

_NAMED: dict[str, tuple[str, Emit]] = {
    "torch.nn.Linear": ("contraction", contraction.linear),
    "torch.nn.functional.linear": ("contraction", contraction.functional_linear),
    "torch.matmul": ("contraction", contraction.matmul),
    "torch.mm": ("contraction", contraction.matmul),
    "torch.bmm": ("contraction", contraction.bmm),
    "torch.baddbmm": ("contraction", contraction.bmm),
    "torch.nn.functional.scaled_dot_product_attention": ("attention", contraction.attention),
    "torch.nn.PixelShuffle": ("rearrangement", spatial.pixel),
    "torch.nn.PixelUnshuffle": ("rearrangement", spatial.pixel),
    "torch.nn.ChannelShuffle": ("rearrangement", spatial.pixel),
    "torch.nn.Upsample": ("resampling", spatial.upsample),
    "torch.nn.UpsamplingNearest2d": ("resampling", spatial.upsample),
    "torch.nn.UpsamplingBilinear2d": ("resampling", spatial.upsample),
    "torch.nn.GLU": ("gating", spatial.gate),
    "torch.nn.functional.glu": ("gating", spatial.gate),
    "torch.cumsum": ("cumulative", rows.cumulative),
    "torch.logcumsumexp": ("cumulative", rows.cumulative),
    **{f"torch.nn.{n}": ("recurrent", contraction.recurrent) for n in ("GRU", "LSTM", "RNN")},
    **{f"torch.nn.Conv{n}d": ("convolution", contraction.convolution) for n in (1, 2, 3)},
    **{f"torch.nn.ConvTranspose{n}d": ("convolution", contraction.convolution) for n in (1, 2, 3)},
    **{f"torch.nn.{k}Pool{n}d": ("pooling", spatial.pooling) for k in ("Max", "Avg", "LP") for n in (1, 2, 3)},
    **{f"torch.nn.Adaptive{k}Pool{n}d": ("pooling", spatial.pooling) for k in ("Max", "Avg") for n in (1, 2, 3)},
    **{
        f"torch.nn.{k}Pad{n}d": ("padding", spatial.padding)
        for k in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for n in (1, 2, 3)
    },
    **{f"torch.nn.{k}": ("normalization", rows.normalization) for k in ("LayerNorm", "RMSNorm", "GroupNorm")},
    **{
        f"torch.nn.{k}Norm{n}d": ("normalization", rows.normalization) for k in ("Batch", "Instance") for n in (1, 2, 3)
    },
    "torch.nn.LocalResponseNorm": ("normalization", rows.normalization),
    **{
        f"torch.nn.functional.{k}": ("normalization", rows.functional_normalization)
        for k in ("normalize", "layer_norm", "rms_norm")
    },
    **{f"torch.nn.{k}": ("softmax", rows.softmax) for k in ("Softmax", "LogSoftmax", "Softmin", "Softmax2d")},
    **{
        f"{m}.{k}": ("softmax", rows.softmax)
        for m in ("torch", "torch.nn.functional")
        for k in ("softmax", "log_softmax", "softmin")
    },
    **{
        f"torch.{k}": ("reduction", rows.reduction)
        for k in ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm", "nansum", "nanmean")
    },
    "torch.linalg.vector_norm": ("reduction", rows.reduction),
    **{f"torch.nn.{k}": ("loss", spatial.loss) for k in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")},
    **{f"torch.nn.functional.{k}": ("loss", spatial.loss) for k in ("mse_loss", "l1_loss", "smooth_l1_loss")},
}

# Elementwise operators that are rarely part of a network, cost hundreds of instructions, or hardly change anything.
_UNUSUAL = {
    *("i0", "lgamma", "digamma", "mvlgamma", "erfinv", "acosh", "arccosh", "angle", "rad2deg", "deg2rad", "nextafter"),
    *("copysign", "heaviside", "ldexp", "fmod", "remainder", "float_power", "pow", "xlogy", "igamma", "igammac"),
    *("arctanh", "atanh", "logit", "acos", "arccos", "asin", "arcsin", "tan", "kl_div", "nan_to_num", "fmin", "fmax"),
}

# Second names of operators, which people rarely write.
_ALIASES = {
    *("subtract", "multiply", "divide", "true_divide", "absolute", "negative", "arcsinh", "arctan", "arctan2", "clip"),
    *("fix", "arccosh", "concat", "special_expit"),
}

# How often a family begins a task, and what follows it. About half of the pairs are chains of elementwise, row-wise
# and normalising operators, which fuse into one pass over the memory; the rest put those after something heavier.
FIRST = {
    **{"unary": 20, "binary": 16, "normalization": 12, "reduction": 2, "softmax": 2, "contraction": 20},
    **{"convolution": 16, "pooling": 3, "padding": 1, "resampling": 1, "rearrangement": 1, "attention": 2},
    **{"gating": 1, "cumulative": 1, "recurrent": 1},
}
NEXT = {
    "unary": {
        "unary": 6,
        "binary": 7,
        "normalization": 6,
        "reduction": 5,
        "softmax": 3,
        "contraction": 3,
        "convolution": 1,
    }
    | {"pooling": 1, "loss": 1, "cumulative": 1},
    "binary": {"unary": 9, "binary": 4, "normalization": 5, "reduction": 4, "softmax": 4, "contraction": 1, "loss": 1},
    "normalization": {"unary": 10, "binary": 5, "softmax": 1, "contraction": 3, "convolution": 2, "pooling": 1},
    "reduction": {"unary": 3, "binary": 3},
    "softmax": {"binary": 2, "contraction": 3},
    "contraction": {"unary": 9, "binary": 5, "normalization": 6, "reduction": 4, "softmax": 3, "gating": 1},
    "convolution": {"unary": 8, "binary": 3, "normalization": 7, "pooling": 4, "reduction": 1, "softmax": 1}
    | {"rearrangement": 1},
    "pooling": {"unary": 4, "binary": 2, "normalization": 3, "convolution": 2},
    "padding": {"convolution": 3, "pooling": 1},
    "resampling": {"convolution": 3, "unary": 1, "normalization": 1},
    "rearrangement": {"convolution": 2, "unary": 1, "normalization": 1},
    "attention": {"normalization": 3, "binary": 2, "contraction": 2},
    "gating": {"normalization": 2, "binary": 1, "contraction": 1},
    "cumulative": {"binary": 1, "normalization": 2},
    "recurrent": {"normalization": 1, "contraction": 2, "unary": 1},
    "loss": {},
}


def family(op: Operator) -> tuple[str, Emit] | None:
    """The family of an operator and how it is written; None if tasks are not made of it."""
    named = _NAMED.get(op.name)
    if named is not None or op.kind != "pointwise":
        return named
    if (
        op.short in _UNUSUAL | _ALIASES
        or op.name.startswith("torch.special.")
        or op.spelling == "method"
        or not op.same_shape
    ):
        return None
    if op.tensors == 1:
        return "unary", pointwise.unary
    if op.tensors == 2 and op.spelling == "function" and not op.recipe["fixed"]:
        return "binary", pointwise.binary
    return None
