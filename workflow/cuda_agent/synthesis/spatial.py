"""Pooling, padding, resampling and rearrangement."""

from __future__ import annotations

from random import Random

from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import Dim, Draft, Traits
from cuda_agent.synthesis.pointwise import snake


def pooling(draft: Draft, op: Operator, rng: Random) -> None:
    """Maximum, average, power-average and adaptive pooling, as modules."""
    spatial = int(op.short[-2])
    draft.need(draft.spatial == spatial, f"takes {spatial} spatial axes")
    draft.need(not draft.traits.tiny or "Max" in op.short, "averages of a softmax are constant")
    smallest = min(d.size for d in draft.shape[2:])
    draft.need(smallest >= 4, "too small to pool")
    if op.short.startswith("Adaptive"):
        size = rng.choice([s for s in (4, 8, 16) if s < smallest] or [2])
        text = draft.argument("output_size", size, "int")
        sizes = [Dim(size) for _ in draft.shape[2:]]
    else:
        kernel, stride, padding = rng.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1)))
        if op.short.startswith("LP"):
            kernel, stride, padding = 2, 2, 0
        text = draft.argument("kernel_size" if not _has(draft, "kernel_size") else "pool_size", kernel, "int")
        if op.short.startswith("LP"):
            text = f"{draft.argument('norm_type', 2, 'int')}, {text}"
        if stride != kernel:
            text += (
                f", stride={draft.argument('stride' if not _has(draft, 'stride') else 'pool_stride', stride, 'int')}"
            )
        if padding:
            name = "padding" if not _has(draft, "padding") else "pool_padding"
            text += f", padding={draft.argument(name, padding, 'int')}"
        sizes = [Dim((d.size + 2 * padding - kernel) // stride + 1) for d in draft.shape[2:]]
    target = draft.attribute("pool", f"nn.{op.short}({text})")
    traits = Traits(nonnegative=draft.traits.nonnegative or op.short.startswith("LP"), bounded=draft.traits.bounded)
    words = snake(op.short.rstrip("0123d").rstrip("1")).replace("_", " ").replace("lppool", "power-average pool")
    draft.step(f"{target}(x)", op.name, f"{words}ing", (*draft.shape[:2], *sizes), traits)


def _has(draft: Draft, name: str) -> bool:
    return any(a.name == name for a in draft.arguments)


def padding(draft: Draft, op: Operator, rng: Random) -> None:
    """Padding modules."""
    spatial = int(op.short[-2])
    draft.need(draft.spatial == spatial, f"takes {spatial} spatial axes")
    amount = rng.choice((1, 2, 3))
    text = draft.argument("pad", amount, "int")
    if op.short.startswith("Constant"):
        text += f", {draft.argument('fill', 0.5, 'float')}"
    target = draft.attribute("pad", f"nn.{op.short}({text})")
    sizes = [Dim(d.size + 2 * amount) for d in draft.shape[2:]]
    kind = snake(op.short[:-5]).replace("_", " ")
    draft.step(f"{target}(x)", op.name, f"{kind} padding", (*draft.shape[:2], *sizes), draft.traits)


def pixel(draft: Draft, op: Operator, rng: Random) -> None:
    """``nn.PixelShuffle``, ``nn.PixelUnshuffle`` and ``nn.ChannelShuffle``."""
    draft.need(draft.spatial == 2, "takes images")
    batch, channels, height, width = draft.shape
    if op.short == "ChannelShuffle":
        draft.need(channels.size % 4 == 0, "channels do not divide")
        text, shape, label = draft.argument("groups", rng.choice((2, 4)), "int"), draft.shape, "channel_shuffle"
    elif op.short == "PixelShuffle":
        draft.need(channels.size % 4 == 0 and channels.size >= 8, "channels do not divide")
        text, label = draft.argument("upscale_factor", 2, "int"), "pixel_shuffle"
        shape = (batch, Dim(channels.size // 4), Dim(2 * height.size), Dim(2 * width.size))
    else:
        draft.need(height.size % 2 == 0 and width.size % 2 == 0, "pixels do not divide")
        text, label = draft.argument("downscale_factor", 2, "int"), "pixel_unshuffle"
        shape = (batch, Dim(channels.size * 4), Dim(height.size // 2), Dim(width.size // 2))
    target = draft.attribute(label, f"nn.{op.short}({text})")
    draft.step(f"{target}(x)", op.name, label.replace("_", " "), shape, draft.traits)


def upsample(draft: Draft, op: Operator, rng: Random) -> None:
    """``nn.Upsample``, nearest or linear."""
    draft.need(draft.spatial >= 1, "takes channels and space")
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[draft.spatial]
    if op.short == "Upsample":
        mode = rng.choice(("nearest", linear))
        factor = draft.argument("scale_factor", 2, "int")
        text = f"scale_factor={factor}, mode={draft.argument('mode', mode, 'str')}"
    else:
        draft.need(draft.spatial == 2, "takes images")
        text = f"scale_factor={draft.argument('scale_factor', 2, 'int')}"
        mode = "nearest" if "Nearest" in op.short else "bilinear"
    target = draft.attribute("upsample", f"nn.{op.short}({text})")
    sizes = [Dim(2 * d.size) for d in draft.shape[2:]]
    draft.step(f"{target}(x)", op.name, f"{mode} upsampling", (*draft.shape[:2], *sizes), draft.traits)


def gate(draft: Draft, op: Operator, rng: Random) -> None:
    """``nn.GLU`` or ``F.glu`` over the channels."""
    axis = draft.channel_axis
    size = draft.shape[axis].size
    draft.need(size % 2 == 0 and size >= 4, "halves of the channels")
    draft.need(not draft.traits.tiny and draft.traits.bounded, "of tiny or huge values")
    if op.spelling == "module":
        dim = draft.argument("dim", axis, "int")
        call = f"{draft.attribute('glu', f'nn.GLU(dim={dim})')}(x)"
    else:
        call = f"F.glu(x, dim={draft.constant('dim', axis, 'int')})"
    index = axis % draft.rank
    shape = (*draft.shape[:index], Dim(size // 2), *draft.shape[index + 1 :])
    draft.step(call, op.name, f"a gated linear unit over dimension {axis}", shape, Traits())


def loss(draft: Draft, op: Operator, rng: Random) -> None:
    """An elementwise loss against a target, not reduced: a mean over so many values would hardly vary."""
    draft.need(draft.last, "ends a task")
    draft.need(not draft.traits.tiny, "of tiny values")
    target = draft.input("target", draft.shape)
    phrase = f"{op.short} against a target, for each element"
    if op.spelling == "module":
        module = draft.attribute("loss", f'nn.{op.short}(reduction="none")')
        call = f"{module}(x, {target})"
    else:
        call = f'F.{op.short}(x, {target}, reduction="none")'
    draft.step(call, op.name, phrase, draft.shape, Traits(nonnegative=True, bounded=False))
