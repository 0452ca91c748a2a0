"""Collection of reference operators from the installed libraries, by introspection."""

from cuda_agent.operators.collection import collect

__all__ = ["collect"]
