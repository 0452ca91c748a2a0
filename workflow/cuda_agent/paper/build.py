"""Compile the paper with typst: no network, no system fonts, the same bytes for the same inputs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cuda_agent.errors import UserError

SOURCES = ("*.typ", "*.bib", "*.csv")


class PaperError(UserError, RuntimeError):
    """The paper did not compile; the message is typst's, with file and line."""


def compile_paper(
    source_dir: Path | str,
    numbers_path: Path | str,
    tables_dir: Path | str,
    figures_dir: Path | str,
    out_pdf: Path | str,
) -> None:
    """Write the PDF of a run.

    Args:
        source_dir: holds ``paper.typ`` and ``refs.bib``.
        numbers_path: ``numbers.json`` of :func:`cuda_agent.paper.numbers`; the paper sees it under this name.
        tables_dir: CSV files of :func:`cuda_agent.evaluation.tables`; the paper sees them in ``tables/``.
        figures_dir: SVG files of ``cuda_agent.figures.FIGURES``; the paper sees them in ``figures/``.
        out_pdf: where the PDF goes; its folder is made.

    Raises:
        PaperError: typst refused the paper, e.g. because a number that the text asks for is not there.
    """
    import typst

    with tempfile.TemporaryDirectory() as folder:
        # Everything in one folder that is typst's root: the paper can read nothing else.
        root = Path(folder)
        for pattern in SOURCES:
            for path in sorted(Path(source_dir).glob(pattern)):
                shutil.copy(path, root / path.name)
        shutil.copy(numbers_path, root / "numbers.json")
        for name, origin, pattern in (("tables", tables_dir, "*.csv"), ("figures", figures_dir, "*.svg")):
            (root / name).mkdir()
            for path in sorted(Path(origin).glob(pattern)):
                shutil.copy(path, root / name / path.name)
        try:
            pdf = typst.compile(str(root / "paper.typ"), root=str(root), ignore_system_fonts=True, format="pdf")
        except (typst.TypstError, RuntimeError) as error:
            detail = [str(error), *(str(hint) for hint in getattr(error, "hints", []))]
            trace = getattr(error, "trace", None) or []
            raise PaperError("\n".join([f"{source_dir}/paper.typ:", *detail, *map(str, trace)])) from None
    out = Path(out_pdf)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(pdf)
