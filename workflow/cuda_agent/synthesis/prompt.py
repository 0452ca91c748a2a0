"""What a language model is told when it composes a task, and what is read out of its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

SYSTEM = """\
You write training problems for people who optimise GPU kernels in PyTorch. A problem is one self-contained Python
module that serves as the reference: correct and plain, not optimised."""

_TASK = """\
Write a module in which data flows through these operators, in an order that makes sense:

{operators}

The module defines, in this order:
1. `class Model(nn.Module)` with `__init__` and `forward`. `forward` takes only tensors, gives one tensor, and uses
   each operator of the list exactly once, as named. Elementwise arithmetic and reshaping between them is allowed if
   the shapes need it. Everything the constructor builds is used, and so is every argument.
2. Sizes as constants of the module, which reach `Model` through its constructor only.
3. `get_inputs()`: a list of freshly drawn random float32 tensors on the default device.
4. `get_init_inputs()`: the list of the constructor's arguments.

The largest tensor takes about {megabytes:.0f} MB. Nothing draws random numbers in `forward`, nothing is changed in
place, and the output varies with every input: it is no constant, not nearly constant, finite, and of moderate size.
Do not put an operator where it has nothing to do, such as a mean of normalised values or a ReLU of values that are
positive already. Do not write a problem that is known from a benchmark.

Answer with the module alone, in one Python code block."""

_REPAIR = """\
The module does not work. While it was being {stage}:

{error}

Answer with the whole corrected module, in one Python code block."""

_DOING = {"parse": "parsed", "load": "loaded", "build": "built", "run": "run", "check": "checked"}
_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def first(operators: Sequence[str], target_bytes: int) -> list[dict[str, str]]:
    """The messages that ask for a task of these operators, whose largest tensor takes about so many bytes."""
    names = "\n".join(f"- {name}" for name in operators)
    text = _TASK.format(operators=names, megabytes=max(1.0, target_bytes / 1e6))
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def repair(answer: str, stage: str, error: str) -> list[dict[str, str]]:
    """What follows an answer that did not work: the answer itself, and what went wrong."""
    text = _REPAIR.format(stage=_DOING.get(stage, "run"), error=error)
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": text}]


def code_of(answer: str) -> str:
    """The module in an answer: its longest code block, or an empty text if it has none."""
    blocks = _FENCE.findall(answer)
    return max(blocks, key=len).strip() + "\n" if blocks else ""
