"""Outputs for different inputs differ (paper section 3.1, filter 3)."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"indistinguishable_rtol": filtering.indistinguishable_rtol}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    difference, limit = observation["input_difference"], filtering.indistinguishable_rtol
    if difference is not None and difference > limit:
        return None
    return Failure(
        f"outputs for two inputs differ by {difference} of their RMS",
        {"input_difference": difference, "output_scale": observation["output_scale"]},
    )
