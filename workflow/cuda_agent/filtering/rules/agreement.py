"""Eager and compiled outputs agree."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"agreement": filtering.agreement}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    needed = observation["compile_difference"]
    if needed is not None and needed <= filtering.agreement:
        return None
    return Failure(
        "eager and compiled agree at no tolerance"
        if needed is None
        else f"eager and compiled agree only to {needed:.3g}",
        {k: observation[k] for k in ("compile_difference", "compile_error_value", "eager_error", "output_scale")},
    )
