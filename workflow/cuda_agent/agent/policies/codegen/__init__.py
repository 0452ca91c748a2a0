"""A policy that writes fused kernels by rule: elementwise chains, reductions, softmax, normalisations, pooling.

``reader`` turns the task's ATen graph into pointwise operators, reductions and views (``rules``, ``views``),
``schedule`` and ``trace`` put them into kernels, ``plan`` orders their loops, ``cpp`` and ``cuda`` write them,
``writer`` makes the files and ``policy`` does all that through the agent's tools. The method is that of compilers like
TorchInductor (https://docs.pytorch.org/docs/stable/torch.compiler.html).
"""

from .policy import CodegenPolicy

__all__ = ["CodegenPolicy"]
