"""Two calls on the same input give the same outputs."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"repeat_rtol": filtering.repeat_rtol}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    difference, limit = observation["repeat_difference"], filtering.repeat_rtol
    if difference is not None and difference <= limit:
        return None
    return Failure(
        f"two calls on the same input differ by {difference} of the outputs' RMS",
        {"repeat_difference": difference, "output_scale": observation["output_scale"]},
    )
