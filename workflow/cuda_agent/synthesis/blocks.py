"""Tasks that are one module of transformers, imported and built with a configuration of the task's own sizes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from cuda_agent.operators import modeling
from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.draft import FLOAT_BYTES
from cuda_agent.synthesis.stack import FLOPS_PER_BYTE, target_of

KINDS = ("normalization", "mlp", "attention", "activation", "contraction", "layer", "convolution")
_HEAD_DIMS = (32, 64)
_LENGTHS = tuple(range(16, 272, 16))


@dataclass(frozen=True)
class Block:
    """A finished task."""

    operator: Operator
    code: str


def usable(operators: Sequence[Operator]) -> list[Operator]:
    """One operator for each group that computes the same, of the kinds that tasks are made of, by name."""
    chosen: dict[str, Operator] = {}
    for op in operators:
        if op.name.startswith("transformers.") and op.kind in KINDS and op.recipe["inputs"]:
            chosen.setdefault(op.same_as, op)
    return sorted(chosen.values(), key=lambda o: o.name)


def compose(operators: Sequence[Operator], target_bytes: tuple[int, int], seed: int, rank: int, index: int) -> Block:
    """The rank-th task of this kind: each operator once, in an order that the seed decides, before any comes again.

    Raises:
        ValueError: there is no operator of transformers in the catalogue.
    """
    known = usable(operators)
    if not known:
        raise ValueError("synthesis.mix: transformers has a weight, but operators.sources holds no transformers")
    turn, place = divmod(rank, len(known))
    order = Random(f"{seed}/transformers/{turn}").sample(range(len(known)), len(known))
    operator = known[order[place]]
    rng = Random(f"{seed}/candidate/{index}")
    target = target_of(target_bytes, seed, index)
    return Block(operator, _render(operator, _sizes(operator, target, turn, rng)))


def _sizes(op: Operator, target: int, turn: int, rng: Random) -> dict[str, int]:
    """Sizes under the names of `modeling.SIZES`; heads stay as many as in the trial."""
    elements = target // FLOAT_BYTES
    head_dim = rng.choice([h for h in _HEAD_DIMS if (h * modeling.HEADS) ** 2 <= elements] or [16])
    hidden = head_dim * modeling.HEADS
    sizes = {"head_dim": head_dim, "hidden_size": hidden, "intermediate_size": hidden * rng.choice((2, 4))}
    # Each turn has another length, so that a module which comes again makes another task.
    length = Random(op.name).sample(_LENGTHS, len(_LENGTHS))[turn % len(_LENGTHS)]
    sizes |= {"seq_len": length, "height": length // 4 + 4, "width": length // 4 + 4}
    names = op.recipe["axes"][0]
    per_sample = 1
    for name in names[1:]:
        per_sample *= sizes[name]
    flops = 2 * per_sample * hidden * (1 if op.kind == "normalization" else 8)
    batch = max(1, min(elements // per_sample, FLOPS_PER_BYTE * target // flops))
    return sizes | {"batch_size": 1 << (batch.bit_length() - 1)}


def _render(op: Operator, sizes: dict[str, int]) -> str:
    recipe = op.recipe
    module, _, name = op.name.rpartition(".")
    used: list[str] = []  # sizes that the constructor takes

    def scaled(key: str, value: Any) -> str:
        if (
            key in ("in_channels", "channels", "num_channels", "out_channels")
            and value == modeling.SIZES["hidden_size"]
        ):
            size = "hidden_size"
        else:
            size = next((s for s, names in modeling.NAMES.items() if key in names), None)
        if size is None:
            return repr(value)
        if size not in used:
            used.append(size)
        return size

    init = [f"{k}={scaled(k, v)}" for k, v in recipe["init"].items()]
    imports = ["import torch", "import torch.nn as nn"]
    lines: list[str] = []
    config = recipe["config"]
    if config is not None:
        imports.append(f"from {config['module']} import {config['name']}")
        settings = [f"{k}={scaled(k, v)}" for k, v in config["set"].items()]
        lines += _call(f"config = {config['name']}", settings)
        if op.kind in ("attention", "layer"):
            lines.append('config._attn_implementation = "eager"')
        init.insert(0, "config=config")
    imports.append(f"from {module} import {name}")
    lines.insert(0, "super().__init__()")
    lines += _call(f"self.block = {name}", init)
    inputs = recipe["inputs"]
    passed = [f"{n}={n}" for n in inputs if n not in ("cos", "sin")]
    if "cos" in inputs:
        passed.append("position_embeddings=(cos, sin)")
    passed += [f"{k}={v!r}" for k, v in recipe["fixed"].items()]
    result = _call("return self.block", passed)
    if recipe["tuple"]:
        result[-1] += "[0]"
    constants = list(dict.fromkeys(a for axes in recipe["axes"] for a in axes))
    constants += [u for u in used if u not in constants]
    parameters = ", ".join(["self", *(f"{u}: int" for u in used)])
    forward = ", ".join(["self", *(f"{n}: torch.Tensor" for n in inputs)])
    draws = [f"torch.randn({', '.join(axes)})" for axes in recipe["axes"]]
    words = f"The {_words(name)} of transformers, {'built from its configuration' if config else 'built directly'}."
    return "\n".join(
        [
            *imports,
            *("", "", "class Model(nn.Module):", '    """'),
            *textwrap.wrap(words, 92, initial_indent="    "),
            "",
            *textwrap.wrap(
                f"Operators: {op.name}", 92, initial_indent="    ", subsequent_indent="    ", break_long_words=False
            ),
            *('    """', "", f"    def __init__({parameters}):"),
            *(f"        {line}" for line in lines),
            *("", f"    def forward({forward}) -> torch.Tensor:"),
            *(f"        {line}" for line in result),
            *("", "", *(f"{c} = {sizes[c]}" for c in constants)),
            *("", "", "def get_inputs():", f"    return [{', '.join(draws)}]"),
            *("", "", "def get_init_inputs():", f"    return [{', '.join(used)}]", ""),
        ]
    )


def _words(name: str) -> str:
    """``BertSelfAttention`` -> ``Bert self attention``."""
    first, *rest = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]+|[a-z0-9]+", name)
    return " ".join([first, *(w if w.isupper() else w.lower() for w in rest)])


def _call(head: str, arguments: list[str]) -> list[str]:
    line = f"{head}({', '.join(arguments)})"
    return [line] if len(line) <= 92 else [f"{head}(", *(f"    {a}," for a in arguments), ")"]
