"""Reductions, softmax, cumulative sums and normalisations."""

from __future__ import annotations

from random import Random

from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import Dim, Draft, Traits
from cuda_agent.synthesis.pointwise import snake

_CONCENTRATING = ("sum", "mean", "nansum", "nanmean", "amin", "logsumexp", "norm", "vector_norm")
_NONNEGATIVE_REDUCTIONS = ("var", "std", "norm", "vector_norm")


def reduction(draft: Draft, op: Operator, rng: Random) -> None:
    """A reduction over one axis: the channels, or the last axis."""
    draft.need(draft.rank >= 2, "nothing to reduce")
    draft.need(not draft.traits.tiny or op.short in ("amax", "max"), "sums of a softmax are constant")
    draft.need(not draft.traits.standard or op.short in ("amax", "amin", "logsumexp"), "moments of a normal form")
    averaged = op.short in _CONCENTRATING and draft.traits.nonnegative
    draft.need(not averaged, "of many values of one sign it hardly varies")
    axis = draft.channel_axis if rng.random() < 0.6 else -1
    keep = not draft.last or rng.random() < 0.5
    dim = draft.constant("dim", axis, "int")
    text = f"{op.name.replace('torch.nn.functional.', 'F.')}(x, dim={dim}{', keepdim=True' if keep else ''})"
    index = axis % draft.rank
    shape = [*draft.shape[:index], *([Dim(1)] if keep else []), *draft.shape[index + 1 :]]
    traits = Traits(nonnegative=op.short in _NONNEGATIVE_REDUCTIONS, bounded=op.short not in ("sum", "nansum", "norm"))
    draft.step(text, op.name, f"{_NAMES.get(op.short, op.short)} over dimension {axis}", shape, traits)


_NAMES = {
    "amax": "the maximum",
    "amin": "the minimum",
    "logsumexp": "log-sum-exp",
    "norm": "the 2-norm",
    "vector_norm": "the 2-norm",
    "std": "the standard deviation",
    "sum": "the sum",
    "mean": "the mean",
    "var": "the variance",
}


def softmax(draft: Draft, op: Operator, rng: Random) -> None:
    """Softmax, log-softmax or softmin over an axis, as a module or a function."""
    draft.need(not draft.traits.tiny, "softmax of a softmax is nearly constant")
    log = "log" in op.short.lower()
    two = op.short == "Softmax2d"
    draft.need(not two or draft.spatial == 2, "takes images")
    axis = 1 if two else (draft.channel_axis if rng.random() < 0.6 else -1)
    draft.need(draft.shape[axis].size > 1, "an axis of one element")
    if two:
        call = f"{draft.attribute('softmax', 'nn.Softmax2d()')}(x)"
    elif op.spelling == "module":
        dim = draft.argument("dim", axis, "int")
        call = f"{draft.attribute(snake(op.short), f'nn.{op.short}(dim={dim})')}(x)"
    else:
        dim = draft.constant("dim", axis, "int")
        call = f"{op.name.replace('torch.nn.functional.', 'F.')}(x, dim={dim})"
    name = snake(op.short).replace("_", " ").replace("2d", "")
    phrase = f"{name} over dimension {axis}"
    draft.step(call, op.name, phrase, draft.shape, Traits(nonnegative=not log, bounded=True, tiny=not log))


def cumulative(draft: Draft, op: Operator, rng: Random) -> None:
    """A cumulative sum or log-sum-exp along the last axis."""
    draft.need(op.short in ("cumsum", "logcumsumexp"), "other cumulative operators vanish or return indices")
    draft.need(draft.shape[-1].size > 1, "an axis of one element")
    dim = draft.constant("dim", -1, "int")
    draft.step(
        f"{op.name}(x, dim={dim})",
        op.name,
        f"{'a cumulative sum' if op.short == 'cumsum' else 'a cumulative log-sum-exp'} along the last dimension",
        draft.shape,
        Traits(bounded=False),
    )


def _groups(channels: int, rng: Random) -> int:
    return rng.choice([g for g in (2, 4, 8, 16) if channels % g == 0 and channels // g >= 2] or [1])


def normalization(draft: Draft, op: Operator, rng: Random) -> None:
    """Layer, RMS, group, batch, instance and local response normalisation, as modules."""
    draft.need(draft.rank >= 2, "nothing to normalise")
    draft.need(not draft.traits.standard, "already normalised")
    channels = draft.shape[draft.channel_axis]
    draft.need(channels.size > 1, "an axis of one element")
    name = op.short
    standard = True
    if name in ("LayerNorm", "RMSNorm"):
        draft.need(draft.channel_axis == -1, "channels are not last")
        argument = draft.argument("normalized_shape", channels, "int")
        text = argument
    elif name == "GroupNorm":
        draft.need(draft.spatial >= 1, "takes channels and space")
        groups = draft.argument("num_groups", _groups(channels.size, rng), "int")
        text = f"{groups}, {draft.argument('num_channels', channels, 'int')}"
    elif name.startswith(("BatchNorm", "InstanceNorm")):
        axes = int(name[-2])
        flat = draft.layout == "matrix" and name == "BatchNorm1d"
        draft.need(draft.spatial == axes or (flat and draft.rank == 2), f"takes {axes} spatial axes")
        text = draft.argument("num_features", channels, "int")
        standard = name.startswith("Instance")
    elif name == "LocalResponseNorm":
        draft.need(draft.spatial >= 1, "takes channels and space")
        text = draft.argument("size", rng.choice((3, 5)), "int")
        standard = False
    else:
        draft.need(False, f"no spelling for {name}")
    if name != "LocalResponseNorm" and rng.random() < 0.3:
        text += f", eps={draft.argument('eps', rng.choice((1e-6, 1e-3)), 'float')}"
    target = draft.attribute("norm", f"nn.{name}({text})")
    if name.startswith("BatchNorm"):
        # In evaluation mode, the statistics that a module starts with would make it the identity.
        draft.setup += [f"nn.init.normal_({target}.running_mean, std=0.5)"]
        draft.setup += [f"nn.init.uniform_({target}.running_var, 0.5, 1.5)"]
    traits = Traits(standard=standard, bounded=standard or draft.traits.bounded, nonnegative=False)
    if not standard:
        kept = draft.traits.nonnegative and name == "LocalResponseNorm"
        traits = Traits(nonnegative=kept, bounded=draft.traits.bounded)
    draft.step(f"{target}(x)", op.name, name, draft.shape, traits)


def functional_normalization(draft: Draft, op: Operator, rng: Random) -> None:
    """``F.normalize``, ``F.layer_norm`` and ``F.rms_norm`` without weights."""
    draft.need(not draft.traits.standard and draft.shape[draft.channel_axis].size > 1, "already normalised")
    if op.short == "normalize":
        dim = draft.constant("dim", draft.channel_axis, "int")
        call, traits = f"F.normalize(x, dim={dim})", Traits(nonnegative=draft.traits.nonnegative, standard=True)
    else:
        draft.need(draft.channel_axis == -1 and op.short in ("layer_norm", "rms_norm"), "channels are not last")
        shape = draft.constant("normalized_shape", (draft.shape[-1],), "tuple")
        call, traits = f"F.{op.short}(x, {shape})", Traits(standard=True)
    draft.step(call, op.name, op.short.replace("_", " "), draft.shape, traits)
