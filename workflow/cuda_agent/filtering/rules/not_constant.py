"""Its outputs vary: a constant would be guessed (paper section 3.1, filter 3)."""

from __future__ import annotations

import json
import math
from typing import Any

from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row


def limits(filtering: Filtering) -> dict[str, Any]:
    return {"indistinguishable_rtol": filtering.indistinguishable_rtol}


def check(observation: Row, filtering: Filtering) -> Failure | None:
    std, scale, limit = observation["output_std"], observation["output_scale"], filtering.indistinguishable_rtol
    values = sum(math.prod(output["shape"]) for output in json.loads(observation["outputs"]))
    if scale and (values == 1 or (std is not None and std > limit * scale)):
        return None  # one value alone has no spread; whether it follows the input is the next rule's business
    return Failure(
        f"the outputs are constant: standard deviation {std}, RMS {scale}",
        {"output_std": std, "output_scale": scale, "values": values},
    )
