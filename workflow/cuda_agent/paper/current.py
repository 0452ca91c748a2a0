"""Whether the results that the paper shows are those of the artefacts that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cuda_agent import evaluation, records
from cuda_agent.evaluation.artefacts import Rows
from cuda_agent.paper.build import PaperError
from cuda_agent.params import Params


def check_current(
    rows: Rows,
    params: Params,
    published: Sequence[Mapping[str, str]],
    metrics: Path | str,
    tables: Iterable[Path | str],
) -> None:
    """See that metrics and tables follow from a run's own rows: git, which keeps them, may have brought others back.

    Args:
        rows: artefacts by name (:func:`cuda_agent.evaluation.read`).
        params: parameters of the run.
        published: rows of ``paper/published_table1.csv``.
        metrics: path of ``metrics.json``.
        tables: paths of the tables, each named after what it holds.

    Raises:
        PaperError: one is something else; names it and says what to do.
    """
    made = evaluation.metrics(rows["verdicts"], rows["tasks"], params.results, seed=params.seed)
    texts = {Path(metrics): records.json_text(made)}
    of_tables = evaluation.tables(rows, made, published)
    texts |= {path: of_tables[path.stem] for path in map(Path, tables)}
    for path, text in texts.items():
        if path.read_text(encoding="utf-8") != text:
            raise PaperError(
                f"{path}: does not follow from the tasks, judgements and verdicts of the run {params.run}: it was "
                f"changed since it was made, perhaps by git. Delete {Path(metrics).parent} and run again: "
                "what was measured is kept"
            )
