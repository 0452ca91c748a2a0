"""The operators that may be composed, as synthesis sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Operator:
    """A verified operator.

    Attributes:
        name: qualified name.
        kind: see `cuda_agent.operators`.
        spelling: module, function or method.
        same_as: operators with the same value compute the same thing, whatever they are called.
        words: what it does to ranges, see `cuda_agent.operators.behaviour`.
        recipe: how it was built and called.
        same_shape: takes float32 of one shape and gives float32 of the same.
        spdx: licence of its source.
    """

    name: str
    kind: str
    spelling: str
    same_as: str
    words: frozenset[str]
    recipe: dict[str, Any]
    same_shape: bool
    spdx: str

    @property
    def short(self) -> str:
        """Last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def tensors(self) -> int:
        """How many tensors it takes."""
        return len(self.recipe["inputs"])


def read(rows: Iterable[dict[str, Any]]) -> list[Operator]:
    """Verified rows of the operator catalogue, in the order of their names."""
    found = []
    for row in rows:
        if row["status"] == "verified":
            recipe = json.loads(row["recipe"])
            found.append(
                Operator(
                    row["name"],
                    row["kind"],
                    row["spelling"],
                    recipe["same_as"],
                    frozenset(recipe["words"]),
                    recipe,
                    _same_shape(json.loads(row["examples"])),
                    row["spdx"],
                )
            )
    return sorted(found, key=lambda o: o.name)


def _same_shape(examples: list[dict[str, Any]]) -> bool:
    return any(
        len(e["outputs"]) == 1 and all(i == e["outputs"][0] and i["dtype"] == "float32" for i in e["inputs"])
        for e in examples
    )
