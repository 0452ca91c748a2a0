"""The paper of a run: every number in it with its origin, and the PDF.

numbers(rows, metrics, params, published, facts)                                 -> {key: {value, unit, source, n}}
compile_paper(source_dir, numbers_path, tables_dir, figures_dir, out_pdf)        -> writes the PDF
"""

from cuda_agent.paper.build import PaperError, compile_paper
from cuda_agent.paper.numbers import numbers

__all__ = ["PaperError", "compile_paper", "numbers"]
