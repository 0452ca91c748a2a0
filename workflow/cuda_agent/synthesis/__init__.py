"""Composition of operators into candidates: tasks that no filter has judged yet."""

from cuda_agent.synthesis.compose import compose

__all__ = ["compose"]
