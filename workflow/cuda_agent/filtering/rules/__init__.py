"""The rules in the order in which they are applied.

What makes later numbers meaningless comes first: a model that draws random numbers or returns NaN also disagrees with
its compiled self, and is better named by its cause.
"""

from collections.abc import Callable

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

RULES: dict[str, Rule] = {
    module.__name__.rpartition(".")[2]: module.check
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

__all__ = ["RULES", "Failure", "Rule"]
