"""Its outputs hold neither NaN nor infinities."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"nonfinite": 0}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    count = observation["nonfinite"]
    if count == 0:
        return None
    return Failure(f"{count} output values are NaN or infinite", {"nonfinite": count})
