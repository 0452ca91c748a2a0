"""Matrix products, convolutions and attention."""

from __future__ import annotations

import math
from random import Random

from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import Dim, Draft, Traits
from cuda_agent.synthesis.pointwise import snake

_WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)


def _near(size: int, rng: Random, widths: tuple[int, ...] = _WIDTHS) -> int:
    """A width within a factor of two of the given one."""
    return rng.choice([w for w in widths if size <= 2 * w and w <= 2 * size] or [size])


def linear(draft: Draft, op: Operator, rng: Random) -> None:
    """``nn.Linear`` over the last axis of a matrix or sequence."""
    draft.need(draft.channel_axis == -1, "channels are not last")
    draft.rename(-1, "in_features")
    inside = draft.shape[-1]
    outside = Dim(_near(inside.size, rng), "out_features")
    a = draft.argument("in_features", inside, "int")
    b = draft.argument("out_features", outside, "int")
    bias = "" if rng.random() < 0.7 else ", bias=False"
    target = draft.attribute("linear", f"nn.Linear({a}, {b}{bias})")
    draft.flops += 2 * draft.elements() * outside.size
    draft.step(f"{target}(x)", op.name, "a linear layer", (*draft.shape[:-1], outside), Traits())


def functional_linear(draft: Draft, op: Operator, rng: Random) -> None:
    """``F.linear`` with a weight that the module owns."""
    draft.need(draft.channel_axis == -1, "channels are not last")
    draft.rename(-1, "in_features")
    inside = draft.shape[-1]
    outside = Dim(_near(inside.size, rng), "out_features")
    a = draft.argument("in_features", inside, "int")
    b = draft.argument("out_features", outside, "int")
    weight = draft.attribute("weight", f"nn.Parameter(torch.randn({b}, {a}) * {a}**-0.5)")
    draft.flops += 2 * draft.elements() * outside.size
    draft.step(f"F.linear(x, {weight})", op.name, "a linear map", (*draft.shape[:-1], outside), Traits())


def matmul(draft: Draft, op: Operator, rng: Random) -> None:
    """``torch.matmul`` or ``torch.mm`` with a second input, shared by the batch."""
    draft.need(draft.channel_axis == -1, "channels are not last")
    draft.need(op.short != "mm" or draft.rank == 2, "mm takes matrices")
    draft.rename(-1, "inner_dim")
    inside = draft.shape[-1]
    outside = Dim(_near(inside.size, rng), "out_dim")
    other = draft.input("weight", (inside, outside))
    draft.flops += 2 * draft.elements() * outside.size
    traits = Traits(bounded=False)
    draft.step(f"{op.name}(x, {other})", op.name, "a matrix product", (*draft.shape[:-1], outside), traits)


def bmm(draft: Draft, op: Operator, rng: Random) -> None:
    """``torch.bmm`` or ``torch.baddbmm`` of sequences with a second input for each sample."""
    draft.need(draft.layout == "sequence" and draft.rank == 3, "takes batches of matrices")
    draft.rename(-1, "inner_dim")
    inside = draft.shape[-1]
    outside = Dim(_near(inside.size, rng), "out_dim")
    other = draft.input("y", (draft.shape[0], inside, outside))
    shape = (*draft.shape[:-1], outside)
    draft.flops += 2 * draft.elements() * outside.size
    first = ""
    if op.short == "baddbmm":
        first = draft.input("bias", (draft.shape[0], Dim(1), outside)) + ", "
    draft.step(f"{op.name}({first}x, {other})", op.name, "a batched matrix product", shape, Traits(bounded=False))


def attention(draft: Draft, op: Operator, rng: Random) -> None:
    """``F.scaled_dot_product_attention`` with keys and values from further inputs."""
    draft.need(draft.layout == "sequence" and draft.rank == 3, "takes sequences")
    memory = Dim(rng.choice((64, 128, 256)), "memory_len")
    batch, _, width = draft.shape
    key, value = draft.input("key", (batch, memory, width)), draft.input("value", (batch, memory, width))
    draft.flops += 4 * draft.elements() * memory.size
    draft.step(
        f"F.scaled_dot_product_attention(x, {key}, {value})", op.name, "attention to a memory", draft.shape, Traits()
    )


def _sizes(draft: Draft, function: object) -> tuple[Dim, ...]:
    return tuple(Dim(function(d.size)) for d in draft.shape[2:])  # type: ignore[operator]


def convolution(draft: Draft, op: Operator, rng: Random) -> None:
    """A convolution module, transposed or not, of as many spatial axes as the input has."""
    spatial = int(op.short[-2])
    draft.need(draft.spatial == spatial, f"takes {spatial} spatial axes")
    transposed = "Transpose" in op.short
    draft.rename(1, "in_channels")
    inside = draft.shape[1]
    outside = Dim(_near(inside.size, rng, (8, 12, 16, 24, 32, 48, 64, 96, 128)), "out_channels")
    kernel, stride, padding, groups = rng.choice(
        ((2, 2, 0, 1), (3, 1, 1, 1), (4, 2, 1, 1))
        if transposed
        else ((3, 1, 1, 1), (3, 1, 1, 1), (3, 1, 0, 1), (3, 2, 1, 1), (5, 1, 2, 1), (1, 1, 0, 1), (3, 1, 1, 0))
    )
    depthwise = groups == 0
    if depthwise:
        outside = inside
    arguments = [draft.argument("in_channels", inside, "int")]
    arguments.append(arguments[0] if depthwise else draft.argument("out_channels", outside, "int"))
    arguments.append(draft.argument("kernel_size", kernel, "int"))
    text = ", ".join(arguments)
    if stride != 1:
        text += f", stride={draft.argument('stride', stride, 'int')}"
    if padding:
        text += f", padding={draft.argument('padding', padding, 'int')}"
    if depthwise:
        text += f", groups={arguments[0]}"
    name = "conv_transpose" if transposed else "conv"
    target = draft.attribute(name, f"nn.{op.short}({text})")
    if transposed:
        sizes = _sizes(draft, lambda n: (n - 1) * stride - 2 * padding + kernel)
    else:
        sizes = _sizes(draft, lambda n: (n + 2 * padding - kernel) // stride + 1)
    draft.need(all(d.size >= 1 for d in sizes), "no spatial extent is left")
    shape = (draft.shape[0], outside, *sizes)
    places = draft.elements() // inside.size if transposed else math.prod(d.size for d in (shape[0], *sizes))
    per_place = inside.size * outside.size if not depthwise else inside.size
    draft.flops += 2 * places * per_place * kernel**spatial
    phrase = f"a {spatial}-D {'transposed ' if transposed else 'depthwise ' if depthwise else ''}convolution"
    draft.step(f"{target}(x)", op.name, phrase, shape, Traits())


def recurrent(draft: Draft, op: Operator, rng: Random) -> None:
    """``nn.GRU``, ``nn.LSTM`` or ``nn.RNN`` over a sequence; its outputs, not its state, go on."""
    draft.need(draft.layout == "sequence" and draft.rank == 3, "takes sequences")
    draft.need(draft.shape[1].size <= 128, "long recurrences are slow")
    draft.rename(-1, "input_size")
    inside = draft.shape[-1]
    hidden = Dim(min(256, _near(inside.size, rng)), "hidden_size")
    a, b = draft.argument("input_size", inside, "int"), draft.argument("hidden_size", hidden, "int")
    target = draft.attribute(snake(op.short), f"nn.{op.short}({a}, {b}, batch_first=True)")
    draft.flops += 16 * draft.elements() * hidden.size
    draft.step(f"{target}(x)[0]", op.name, f"a {op.short} layer", (*draft.shape[:-1], hidden), Traits())
