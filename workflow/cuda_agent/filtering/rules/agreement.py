"""Eager and compiled outputs agree."""

from __future__ import annotations

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def check(observation: Row, filtering: Filtering) -> Failure | None:
    excess = observation["compile_excess"]
    if excess is not None and excess <= 0:
        return None
    return Failure(
        f"{excess} of the output values differ between eager and compiled by more than the tolerance",
        {k: observation[k] for k in ("compile_excess", "compile_error_value", "eager_error", "output_scale")},
        {"agreement_rtol": filtering.agreement_rtol, "agreement_atol": filtering.agreement_atol},
    )
