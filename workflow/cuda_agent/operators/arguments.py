"""Trial arguments: values for parameters by their names, types and defaults, and shapes to try."""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

# Shapes of float inputs by rank. Every size divides by 2 and the channel axis by 4, so that most operators fit.
SHAPES = {2: (16, 32), 3: (4, 8, 32), 4: (2, 8, 16, 16), 1: (32,), 5: (2, 4, 8, 8, 8)}

# Values for required parameters, tried in order; what is not here goes by its type.
_BY_NAME: dict[str, tuple[Any, ...]] = {
    "in_features": (32,),
    "in1_features": (32,),
    "in2_features": (32,),
    "out_features": (16,),
    "in_channels": (8, 4),
    "out_channels": (8, 4),
    "num_features": (8, 4, 32),
    "num_channels": (8, 4),
    "num_groups": (2,),
    "num_parameters": (1,),
    "normalized_shape": (32, 16, 8),
    "kernel_size": (3, 2),
    "stride": (2,),
    "padding": (1,),
    "output_size": (4,),
    "output_ratio": (0.5,),
    "input_size": (32,),
    "hidden_size": (16,),
    "d_model": (32,),
    "embed_dim": (32,),
    "nhead": (4,),
    "num_heads": (4,),
    "num_layers": (1,),
    "num_embeddings": (50,),
    "embedding_dim": (16,),
    "upscale_factor": (2,),
    "downscale_factor": (2,),
    "groups": (2,),
    "scale_factor": (2,),
    "norm_type": (2.0,),
    "lower": (0.1,),
    "upper": (0.3,),
    "threshold": (0.1,),
    "value": (0.5,),
    "eps": (1e-5,),
    "size": (3,),
    "dim": (-1, (-1,)),
    "dim0": (0,),
    "dim1": (-1,),
    "axis0": (0,),
    "axis1": (-1,),
    "axis": (-1,),
    "axes": ((0, 1),),
    "dims": ((0, 1), (-1,)),
    "k": (2,),
    "n": (2,),
    "p": (2.0,),
    "q": (0.5,),
    "pad": ((1, 1), (1, 1, 1, 1)),
    "shifts": (1,),
    "source": (0,),
    "destination": (-1,),
    "repeats": (2,),
    "chunks": (2,),
    "split_size": (4,),
    "split_size_or_sections": (4,),
    "indices_or_sections": (2,),
    "start": (0,),
    "length": (2,),
    "end": (2,),
    "step": (1,),
    "unflattened_size": ((2, -1),),
    "sizes": ((2, -1),),
    "offset": (0,),
    "diagonal": (0,),
    "max_norm": (1.0,),
    "maxnorm": (1.0,),
    "num_classes": (50,),
    "exponent": (2,),
    "weight": (0.5,),
    "alpha": (0.5,),
    "reduce": ("sum", "amax"),
    "mode": ("constant",),
    "equation": ("...ij->...ji",),
    "n_fft": (16,),
    "N": (8,),
    "driver": (None,),
}
_BY_TYPE = {
    "int": (1,),
    "SymInt": (1,),
    "float": (0.5,),
    "bool": (False,),
    "number": (0.5,),
    "Scalar": (0.5,),
    "Union[float, int, number]": (0.5,),
    "str": ("mean",),
    "List[int]": ((-1,), (0, 1)),
}

# Roles of tensor parameters that are no plain float input.
_INDEX = ("index", "indices", "offsets")
_MASK = ("mask", "condition")
_TENSOR_TYPES = ("Tensor", "torch.Tensor", "Optional[Tensor]")
_TENSOR_NAMES = {
    *("input", "self", "x", "other", "tensor", "target", "weight", "bias", "query", "key", "value", "src", "tgt"),
    *("memory", "input1", "input2", "x1", "x2", "anchor", "positive", "negative", "mat1", "mat2", "batch1", "batch2"),
    *("log_input", "var", "running_mean", "running_var", "vec", "vec2", "mat", "grid", "A", "B", "tensor1", "tensor2"),
    *("hidden_states", "indices", "index", "mask", "condition", "source", "values", "end"),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operator's call."""

    name: str
    type: str
    required: bool
    positional: bool = True

    @property
    def tensor(self) -> bool:
        """Whether it takes one tensor."""
        if self.type in _TENSOR_TYPES:
            return True
        return not self.type and self.name in _TENSOR_NAMES and self.name not in ("weight_", "bias_")


def _annotation(parameter: inspect.Parameter) -> str:
    a = parameter.annotation
    if a is inspect.Parameter.empty:
        return ""
    plain = isinstance(a, type) and typing.get_origin(a) is None
    text = a if isinstance(a, str) else a.__name__ if plain else str(a)
    return text.replace("torch.Tensor", "Tensor").replace("typing.", "")


def python_parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Parameters of something written in Python, of its first overload where the signature itself says nothing.

    Raises:
        ValueError, TypeError: there is no signature.
    """
    found = []
    signature = inspect.signature(function)
    overloads = typing.get_overloads(function.__init__) if inspect.isclass(function) else []
    if overloads and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values()):
        signature = inspect.signature(overloads[0])
    for p in signature.parameters.values():
        if p.name == "self" and overloads:
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        found.append(Parameter(p.name, _annotation(p), p.default is p.empty, p.kind is not p.KEYWORD_ONLY))
    return found


def schemas(name: str) -> list[list[Parameter]]:
    """Parameters of each overload of the ATen operator behind a built-in function."""
    space, _, short = name.rpartition(".")
    prefix = f"{space.rpartition('.')[2]}_" if space in ("torch.linalg", "torch.fft", "torch.special") else ""
    packet = getattr(torch.ops.aten, prefix + short, None)
    if packet is None:
        return []
    found = []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        if any(a.is_out for a in schema.arguments):
            continue
        found.append(
            [Parameter(a.name, str(a.type), not a.has_default_value(), not a.kwarg_only) for a in schema.arguments]
        )
    return found


def values(parameter: Parameter) -> tuple[Any, ...]:
    """Trial values for a required parameter that takes no tensor; empty if nothing is known."""
    known = _BY_NAME.get(parameter.name)
    listed = "list[int]" in parameter.type.lower()
    if known is not None:
        return tuple((v,) if listed and isinstance(v, int) else v for v in known)
    if listed:
        return _BY_TYPE["List[int]"]
    return _BY_TYPE.get(parameter.type.removeprefix("Optional[").removesuffix("]"), ())


def needed_after_all(parameters: list[Parameter]) -> list[Parameter]:
    """Optional parameters for which a value is known: some operators refuse a call that leaves all of them out."""
    return [
        p for p in parameters if not p.required and not p.tensor and p.name in ("scale_factor", "output_size", "dim")
    ]


def combinations(parameters: list[Parameter], limit: int = 12) -> Iterator[dict[str, Any]]:
    """Trial values for all the given parameters together. Nothing if one of them has none."""
    choices = [values(p) for p in parameters]
    if not all(choices):
        return
    for picked in itertools.islice(itertools.product(*choices), limit):
        yield {p.name: v for p, v in zip(parameters, picked, strict=True)}


def float_tensor(shape: tuple[int, ...], generator: torch.Generator, kind: str = "normal") -> torch.Tensor:
    """A trial tensor: ``normal``, ``positive`` (0.5 to 1.5), ``unit`` (0 to 1), ``index``, ``mask`` or ``integer``."""
    if kind == "index":
        return torch.randint(0, 4, shape, generator=generator)
    if kind == "integer":
        return torch.randint(1, 8, shape, generator=generator)
    if kind == "mask":
        return torch.rand(shape, generator=generator) < 0.5
    if kind == "normal":
        return torch.randn(shape, generator=generator)
    uniform = torch.rand(shape, generator=generator)
    return uniform + 0.5 if kind == "positive" else uniform


def tensor_plans(names: list[str]) -> Iterator[list[tuple[tuple[int, ...], str]]]:
    """Shapes and kinds for the tensor parameters of a call, most usual first."""
    count = len(names)
    special = ["index" if n in _INDEX else "mask" if n in _MASK else "normal" for n in names]
    for shape in SHAPES.values():
        yield [(shape, kind) for kind in special]
    if any(kind != "normal" for kind in special):
        for shape in SHAPES.values():  # a vector of indices or a mask of another rank
            yield [((4,) if kind == "index" else shape, kind) for kind in special]
    for shape in ((16, 32), (4, 8, 32)):
        yield [(shape, "unit")] * count
        yield [(shape, "positive")] * count
    if count >= 2:
        yield from ([*[((16, 16), "normal")] * (count - 2), *pair] for pair in _PAIRS[:2])
        yield from ([*[((4, 8, 8), "normal")] * (count - 2), *pair] for pair in _PAIRS[2:3])
        yield from ([*pair, *[((8,), "positive")] * (count - 2)] for pair in _PAIRS)
    yield [((16, 16), "normal")] * count
    yield [((4, 16, 16), "normal")] * count
    yield [((16, 32), "integer")] * count


_NORMAL = "normal"
_PAIRS = [
    [((16, 32), _NORMAL), ((32, 16), _NORMAL)],
    [((16, 32), _NORMAL), ((32,), _NORMAL)],
    [((4, 8, 32), _NORMAL), ((4, 32, 8), _NORMAL)],
    [((16, 32), _NORMAL), ((8, 32), _NORMAL)],
    [((4, 8, 32), _NORMAL), ((8, 8, 3), _NORMAL)],
    [((2, 8, 16, 16), _NORMAL), ((8, 8, 3, 3), _NORMAL)],
    [((2, 4, 8, 8, 8), _NORMAL), ((4, 4, 3, 3, 3), _NORMAL)],
    [((2, 8, 16, 16), _NORMAL), ((8,), "positive")],
    [((16, 8), _NORMAL), ((16,), "index")],
    [((4, 8), "index"), ((50, 16), _NORMAL)],
    [((16, 16), "positive"), ((16, 8), _NORMAL)],
    [((2, 8, 16, 16), _NORMAL), ((2, 16, 16, 2), "unit")],
]
