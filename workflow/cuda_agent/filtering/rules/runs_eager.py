"""It loads, builds and runs in eager mode (paper section 3.1, filter 1)."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row

_JUDGED_LATER = ("compile", "time")


def limits(filtering: Filtering) -> dict[str, Any]:
    return {}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    status, stage = observation["status"], observation["stage"]
    if status == "ok" or stage in _JUDGED_LATER:
        return None
    return Failure(
        f"{status} while the stage was {stage}: {observation['error']}",
        {"status": status, "stage": stage, "error": observation["error"], "wall_s": observation["wall_s"]},
    )
