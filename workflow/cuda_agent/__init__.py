"""Open CUDA-Agent: make kernel-writing tasks, let agents solve them, judge what they wrote.

Importable and useful without Snakemake. Subpackages import one way, down this list: ``params``, ``records``,
``provenance`` <- ``tasks`` <- ``sandbox`` <- {``operators``, ``synthesis``, ``observation``, ``filtering``,
``decontamination``} and {``workspace``, ``judge``} <- ``agent`` <- {``evaluation``, ``export``, ``figures``}.
"""

__version__ = "0.1.0"
