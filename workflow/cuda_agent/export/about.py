"""What the card and the Croissant metadata both say about the dataset, beyond what its rows say."""

from __future__ import annotations

from collections.abc import Iterable

from cuda_agent.records import Row

TITLE = "Open CUDA-Agent tasks"
PAPER = "https://arxiv.org/abs/2602.24286"
KERNELBENCH = "https://github.com/ScalingIntelligence/KernelBench"
CREATOR = "The Open CUDA-Agent contributors"
OWN_LICENSE = "Apache-2.0"
KEYWORDS = ("CUDA", "GPU kernels", "code generation", "reinforcement learning", "LLM agents", "PyTorch", "synthetic")
DESCRIPTION = (
    "Self-contained PyTorch modules (Model, get_inputs, get_init_inputs) for agents that write GPU kernels. They are "
    "composed by a program from operators of the installed libraries, run once under observation, filtered by named "
    "rules on what was observed, and compared with every KernelBench problem. It is an independent reproduction of the "
    "method of CUDA-Agent-Ops-6K and holds none of its rows."
)
LIMITS = (
    "Times are those of one machine; on another a task may leave the time window.",
    "Models are observed in evaluation mode and float32; training-mode behaviour was not looked at.",
    "Compositions are chosen by a program for shapes that fit, not for what networks in use contain.",
    "Similarity to KernelBench is judged from syntax and operators; a rewrite of a problem by other operators passes.",
)


def licenses(tasks: Iterable[Row]) -> list[str]:
    """SPDX identifiers of the tasks' own text and of the sources that they call, sorted."""
    return sorted({OWN_LICENSE, *(spdx for row in tasks for spdx in row["spdx"])})
