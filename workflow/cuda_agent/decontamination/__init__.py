"""Repeats inside the set, and similarity to KernelBench: what is too close to either is dropped, with the evidence."""

from cuda_agent.decontamination.decontaminate import DecontaminationError, decontaminate, limits
from cuda_agent.decontamination.kernelbench import fingerprint_kernelbench

__all__ = ["DecontaminationError", "decontaminate", "fingerprint_kernelbench", "limits"]
