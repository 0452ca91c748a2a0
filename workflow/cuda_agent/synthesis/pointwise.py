"""Elementwise operators of one or two tensors."""

from __future__ import annotations

import re
from random import Random

from cuda_agent.operators import behaviour as b
from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import Dim, Draft, Traits

# Values that constructor arguments of activations are given, where they are varied at all.
_VARIED = {
    "negative_slope": (0.05, 0.1, 0.2),
    "alpha": (0.5, 1.5, 2.0),
    "beta": (0.5, 2.0),
    "lambd": (0.25, 0.75),
    "min_val": (-2.0, -1.5, -0.5),
    "max_val": (1.5, 2.0, 3.0),
    "min": (-2.0, -1.0, -0.5),
    "max": (1.0, 1.5, 2.0),
    "exponent": (2, 3),
    "threshold": (0.1, 0.25),
    "value": (-1.0, -0.5),
}

_SIGNS = {"torch.add": "+", "torch.sub": "-", "torch.mul": "*", "torch.div": "/"}
_POSITIVE_SECOND = {"torch.div", "torch.divide", "torch.true_divide"}


def snake(name: str) -> str:
    """``LeakyReLU`` -> ``leaky_relu``."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name)
    return name.replace("Re_LU", "ReLU").lower()


def _alias(name: str) -> str:
    return name.replace("torch.nn.functional.", "F.").replace("torch.nn.", "nn.")


def _check_domain(draft: Draft, op: Operator) -> None:
    first = not draft.operators
    if b.FINITE not in op.words:
        draft.need(b.FINITE_POSITIVE in op.words and first, "defined for positive values only")
        name, shape, _ = draft.inputs[0]
        draft.inputs[0] = (name, shape, "positive")
    draft.need(b.FLAT not in op.words, "takes few values")
    draft.need(not draft.traits.tiny, "of tiny values")
    draft.need(not (b.GROWS in op.words and not draft.traits.bounded), "would overflow")
    draft.need(not (b.SATURATES in op.words and not draft.traits.bounded), "would saturate")
    if draft.traits.nonnegative:
        draft.need(not op.words & {b.KEEPS_POSITIVE, b.FLAT_POSITIVE, b.EVEN}, "nothing to do on such values")
    previous = draft.operators[-1:] or [""]
    draft.need(not (b.IDEMPOTENT in op.words and previous[0].rpartition(".")[2] == op.short), "twice the same")


def unary(draft: Draft, op: Operator, rng: Random) -> None:
    """An elementwise function of the current value."""
    _check_domain(draft, op)
    traits = Traits(
        nonnegative=b.NONNEGATIVE in op.words,
        bounded=b.BOUNDED in op.words or (draft.traits.bounded and b.GROWS not in op.words),
    )
    needed = [*op.recipe["init"], *op.recipe["fixed"]]
    draft.need(all(p in _VARIED for p in needed), "an argument that must be given is not known")
    optional = [p for p in op.recipe["scalars"] if p in _VARIED and p not in needed]
    chosen = needed + [p for p in optional if rng.random() < 0.4]
    passed = []
    for parameter in chosen:
        value = rng.choice(_VARIED[parameter])
        keep = draft.argument if op.spelling == "module" else draft.constant
        passed.append(f"{parameter}={keep(parameter, value, type(value).__name__)}")
    text = ", ".join(passed)
    label = snake(op.short)
    if op.spelling == "module":
        target = draft.attribute(label, f"{_alias(op.name)}({text})")
        call = f"{target}(x)"
    else:
        call = f"{_alias(op.name)}({', '.join(['x', *passed])})"
    draft.step(call, op.name, _phrase(op), draft.shape, traits)


def _phrase(op: Operator) -> str:
    return op.short if op.spelling == "module" else op.short.replace("_", " ")


def binary(draft: Draft, op: Operator, rng: Random) -> None:
    """An elementwise function of the current value and a parameter or a further input, broadcast or whole."""
    draft.need(b.FINITE in op.words or op.name in _POSITIVE_SECOND, "not defined everywhere")
    draft.need(not draft.traits.tiny or op.name == "torch.mul", "of tiny values")
    draft.need(draft.rank >= 2, "nothing to broadcast over")
    style = rng.choice(("parameter", "parameter", "same", "row"))
    kind = "positive" if op.name in _POSITIVE_SECOND else "randn"
    label = {"torch.mul": "scale", "torch.add": "bias", "torch.sub": "shift", "torch.div": "scale"}.get(
        op.name, "weight"
    )
    if style == "parameter":
        axis = draft.channel_axis
        dim = draft.shape[axis]
        trailing = draft.rank - 1 - (axis % draft.rank)
        shape = (dim, *(Dim(1) for _ in range(trailing)))
        argument = draft.argument(f"{label}_shape", shape, "tuple")
        draw = f"torch.rand({argument}) + 0.5" if kind == "positive" else f"torch.randn({argument})"
        other = draft.attribute(label, f"nn.Parameter({draw})")
        phrase = f"{_verb(op)} a learned {label}"
    elif style == "same":
        other = draft.input("other", draft.shape, kind)
        phrase = f"{_verb(op)} a second tensor"
    else:
        shape = (draft.shape[0], *(Dim(1) for _ in range(draft.rank - 1)))
        other = draft.input(label, shape, kind)
        phrase = f"{_verb(op)} a {label} for each sample"
    sign = _SIGNS.get(op.name)
    call = f"x {sign} {other}" if sign else f"{_alias(op.name)}(x, {other})"
    traits = Traits(nonnegative=b.NONNEGATIVE in op.words, bounded=draft.traits.bounded)
    draft.step(call, op.name, phrase, draft.shape, traits)


def _verb(op: Operator) -> str:
    verbs = {"add": "addition of", "sub": "subtraction of", "mul": "multiplication by", "div": "division by"}
    return verbs.get(op.short, f"{op.short.replace('_', ' ')} with")
