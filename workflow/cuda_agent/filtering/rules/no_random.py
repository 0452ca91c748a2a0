"""It draws no random numbers in its forward (paper section 3.1, filter 2)."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    drew = list(observation["random_ops"])
    if not drew:
        return None
    return Failure(f"draws random numbers: {', '.join(drew)}", {"random_ops": drew})
