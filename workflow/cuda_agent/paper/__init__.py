"""The paper of a run: every number in it with its origin, and the PDF.

numbers(rows, metrics, params, published, facts)                                 -> {key: {value, unit, source, n}}
check_current(rows, params, published, *, metrics, tables, figures)              -> PaperError where git changed one
compile_paper(source_dir, numbers_path, tables_dir, figures_dir, out_pdf)        -> writes the PDF
"""

from cuda_agent.paper.build import PaperError, compile_paper
from cuda_agent.paper.current import check_current
from cuda_agent.paper.numbers import numbers

__all__ = ["PaperError", "check_current", "compile_paper", "numbers"]
