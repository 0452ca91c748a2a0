"""Figures of a run: each a function ``(rows, params) -> SVG bytes``, by name in ``FIGURES``.

``rows`` are the artefacts by name (:func:`cuda_agent.evaluation.read`), ``params`` the parameters of the run. The same
rows give the same bytes for the same matplotlib; text is drawn as paths, so that a figure looks the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.figures import dataset, results
from cuda_agent.params import Params

FIGURES: dict[str, Callable[[Rows, Params], bytes]] = {
    "funnel": dataset.funnel,
    "operator_mix": dataset.operator_mix,
    "diversity": dataset.diversity,
    "similarity": dataset.similarity,
    "eager_times": dataset.eager_times,
    "fast_p": results.fast_p,
    "speedups": results.speedups,
    "rewards": results.rewards,
    "turns": results.turns,
}

__all__ = ["FIGURES"]
