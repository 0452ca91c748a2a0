"""One eager forward is neither too short to time nor too long to repeat (paper section 3.1, filter 4)."""

from __future__ import annotations

from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"time_window_ms": list(filtering.time_window_ms)}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    low, high = filtering.time_window_ms
    time, status = observation["eager_ms"], observation["status"]
    if status == "ok" and time is not None and low <= time <= high:
        return None
    measured = {name: observation[name] for name in ("eager_ms", "eager_ms_iqr", "status", "device")}
    detail = f"eager forward takes {time} ms" if status == "ok" else f"{status} while timing: {observation['error']}"
    return Failure(detail, measured)
