"""The step ``candidates``: which composer makes which candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cuda_agent import records
from cuda_agent.params import Synthesis
from cuda_agent.synthesis import catalogue
from cuda_agent.synthesis.stack import Stack, source_of


def compose(
    operators: Iterable[records.Row], params: Synthesis, seed: int, indices: Sequence[int] | None = None
) -> list[records.Row]:
    """Compose candidates.

    Args:
        operators: rows of `records.OPERATORS`.
        params: the ``synthesis`` section.
        seed: of the run.
        indices: numbers of the candidates to make, of ``range(params.candidates)``; None for all. A candidate does
            not depend on which others are made.

    Returns:
        Rows of `records.CANDIDATES`, in the order of the indices.
    """
    known = catalogue.read(operators)
    stack = Stack(known, params.target_bytes, seed)
    licences = {op.name: op.spdx for op in known}
    rows = []
    for index in range(params.candidates) if indices is None else indices:
        source, rank = source_of(params.mix, index)
        draft = stack.compose(source, rank, index)
        rows.append(
            {
                "candidate_id": f"c{index:06d}",
                "ops": [n.rpartition(".")[2] for n in draft.operators],
                "data_source": source,
                "code": draft.render(),
                "composer": "stack",
                "operators": draft.operators,
                "spdx": sorted({licences[n] for n in draft.operators}),
            }
        )
    return rows
