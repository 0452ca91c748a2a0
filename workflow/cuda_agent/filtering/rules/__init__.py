"""The rules in the order in which they are applied.

What makes later numbers meaningless comes first: a model that draws random numbers or returns NaN also disagrees with
its compiled self, and is better named by its cause.
"""

from collections.abc import Callable
from typing import Any

from cuda_agent.filtering.rules import (
    agreement,
    distinguishable,
    finite,
    no_random,
    not_constant,
    repeatable,
    runs_compiled,
    runs_eager,
    time_window,
)
from cuda_agent.filtering.rules.failure import Failure
from cuda_agent.params import Filtering
from cuda_agent.records import Row

Rule = Callable[[Row, Filtering], Failure | None]

_MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        runs_eager,
        runs_compiled,
        no_random,
        finite,
        repeatable,
        agreement,
        not_constant,
        distinguishable,
        time_window,
    )
}
RULES: dict[str, Rule] = {name: module.check for name, module in _MODULES.items()}


def limits(filtering: Filtering) -> dict[str, dict[str, Any]]:
    """What each rule holds an observation against, by the rule's name; empty for one that asks yes or no."""
    return {name: module.limits(filtering) for name, module in _MODULES.items()}


__all__ = ["RULES", "Failure", "Rule", "limits"]
