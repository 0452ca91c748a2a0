"""Judge kernels: what is measured on a submission, and the verdicts that rule sets make of it.

The candidate runs in a child of its own; references and baselines run in another; seeds, inputs, expected outputs, the
comparison and the clock are the parent's. See ``docs/architecture.md``.
"""

from cuda_agent.judge.judging import judge
from cuda_agent.judge.rules import verdict, verdicts

__all__ = ["judge", "verdict", "verdicts"]
