"""What a rule answers when an observation fails it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Failure:
    """Why a candidate is rejected.

    Attributes:
        detail: what was observed, in words.
        measured: the numbers that the rule looked at.
    """

    detail: str
    measured: dict[str, Any]
