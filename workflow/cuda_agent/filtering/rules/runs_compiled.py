"""It runs under ``torch.compile`` (paper section 3.1, filter 1)."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    status, stage = observation["status"], observation["stage"]
    if status != "ok" and stage == "compile":
        reason = f"{status}: {observation['error']}"
    elif observation["compile_error"]:
        reason = observation["compile_error"]
    else:
        return None
    return Failure(f"torch.compile failed: {reason}", {"status": status, "stage": stage, "compile_error": reason})
