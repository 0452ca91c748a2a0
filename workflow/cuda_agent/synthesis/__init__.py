"""Composition of operators into candidates: tasks that no filter has judged yet."""

from cuda_agent.synthesis.candidates import compose

__all__ = ["compose"]
