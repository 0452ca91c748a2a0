"""What kind of operator something is, from its name and from the ATen operators that it ran."""

from __future__ import annotations

import re

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# First match wins; matched against the operator's own name, then against the ATen operators that it ran.
_KINDS = [
    ("attention", r"attention|attn"),
    ("loss", r"loss|kl_div|cross_entropy|criterion"),
    ("softmax", r"soft_?max|soft_?min"),
    ("convolution", r"conv"),
    ("pooling", r"pool(?!er)|pooling"),
    (
        "normalization",
        r"(layer|batch|group|instance|rms|response|native)_?norm|norm(alize)?(1d|2d|3d)?$|RMSNorm|LayerNorm",
    ),
    ("recurrent", r"^(gru|lstm|rnn)|cell$"),
    ("resampling", r"upsampl|interpolate|grid_sampl|affine_grid"),
    ("padding", r"pad(\d?d)?$|pad$"),
    ("embedding", r"embed|rotary"),
    ("mlp", r"mlp|feed_?forward|ffn|intermediate"),
    ("layer", r"(layer|block|encoder|decoder|transformer)(layer)?$"),
    ("fourier", r"fft|stft"),
    ("cumulative", r"cum(sum|prod|max|min)|cumsumexp|cumulative"),
    ("sorting", r"sort|topk|kthvalue|median|quantile|mode$|msort|unique|searchsorted|bucketize"),
    ("indexing", r"gather|scatter|index|take|embedding|masked|where|put$"),
    (
        "decomposition",
        r"linalg_|cholesky|svd|(^|_)qr$|eig|^lu(_|$)|inverse|det$|lstsq|geqrf|triangular_solve|matrix_exp",
    ),
    (
        "contraction",
        r"linear$|bilinear|matmul|(^|_)b?mm$|addm|addbmm|baddbmm|dot$|einsum|tensordot|outer|ger$|mv$|kron|cdist",
    ),
]


class Dispatched(TorchDispatchMode):
    """Collects the ATen operators that run, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch._ops.OpOverload] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def random(seen: list[torch._ops.OpOverload]) -> list[str]:
    """Names of the operators that draw random numbers.

    Fused attention is marked for the dropout inside it, which is off unless it is asked for.
    """
    return [name for name in tagged(seen, torch.Tag.nondeterministic_seeded) if "scaled_dot_product" not in name]


def tagged(seen: list[torch._ops.OpOverload], tag: torch.Tag) -> list[str]:
    """Names of the operators that carry a tag."""
    return sorted({f"{op.overloadpacket.__name__}" for op in seen if tag in op.tags})


def _is_view(op: torch._ops.OpOverload) -> bool:
    return op.is_view or op.overloadpacket.__name__ in ("_unsafe_view", "clone", "detach", "_to_copy", "empty", "lift")


def kind(name: str, seen: list[torch._ops.OpOverload]) -> str:
    """The kind of an operator, by what it ran: see the list above; pointwise, reduction, rearrangement or other."""
    short = name.rpartition(".")[2]
    working = [op for op in seen if not _is_view(op)]
    if working and all(torch.Tag.pointwise in op.tags for op in working):
        return "pointwise"
    aten = [op.overloadpacket.__name__.strip("_") for op in working] if len(working) <= 4 else []
    full = name.split(".")[-2] + "_" + short if name.startswith(("torch.linalg", "torch.fft")) else short
    for text in (full.lower(), *aten):
        for label, pattern in _KINDS:
            if re.search(pattern, text, re.IGNORECASE):
                return label
    if not working:
        return "rearrangement"
    if any(torch.Tag.reduction in op.tags for op in working):
        return "reduction"
    if all(op.overloadpacket.__name__ in _MOVERS for op in working):
        return "rearrangement"
    return "composite" if len(working) > 1 else "other"


_MOVERS = (
    "cat",
    "stack",
    "flip",
    "roll",
    "repeat",
    "copy_",
    "constant_pad_nd",
    "channel_shuffle",
    "pixel_shuffle",
    "tril",
)
