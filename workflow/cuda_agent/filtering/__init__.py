"""Which candidates survive: a pure function of what was observed.

Each rule is one file under ``rules``; a candidate is rejected by the first rule that it fails, and the rejection keeps
the numbers that the rule looked at and the limits that they were held against.
"""

from cuda_agent.filtering.apply import FilteringError, apply
from cuda_agent.filtering.funnel import funnel
from cuda_agent.filtering.rules import RULES, limits

__all__ = ["RULES", "FilteringError", "apply", "funnel", "limits"]
