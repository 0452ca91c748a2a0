"""Whether the results that the paper shows are those of the artefacts that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cuda_agent import evaluation, records
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.figures import FIGURES
from cuda_agent.paper.build import PaperError
from cuda_agent.params import Params


def check_current(
    rows: Rows,
    params: Params,
    published: Sequence[Mapping[str, str]],
    *,
    metrics: Path | str,
    tables: Iterable[Path | str],
    figures: Iterable[Path | str],
) -> None:
    """See that metrics, tables and figures follow from a run's own rows: git may have brought others back.

    Args:
        rows: artefacts by name (:func:`cuda_agent.evaluation.read`).
        params: parameters of the run.
        published: rows of ``paper/published_table1.csv``.
        metrics: path of ``metrics.json``.
        tables, figures: paths of these, each named after what it holds.

    Raises:
        PaperError: one is something else; names it and says what to do.
    """
    made = evaluation.metrics(rows["verdicts"], rows["tasks"], params.results, seed=params.seed)
    expected = {Path(metrics): records.json_text(made).encode()}
    of_tables = evaluation.tables(rows, made, published)
    expected |= {path: of_tables[path.stem].encode() for path in map(Path, tables)}
    expected |= {path: FIGURES[path.stem](rows, params) for path in map(Path, figures)}
    for path, content in expected.items():
        if path.read_bytes() != content:
            raise PaperError(
                f"{path}: does not follow from the tasks, judgements and verdicts of the run {params.run}: it was "
                f"changed since it was made, perhaps by git. Delete {Path(metrics).parent} and run again: "
                "what was measured is kept"
            )
