"""Numbers from verdicts, and the executed notebooks of a run.

metrics(verdicts, tasks, results, seed)      -> {policy: measures with intervals}
tables(rows, metrics, published)             -> {name: CSV text}
repository(root)                             -> the repository, also from a folder inside it
load_run(root, run)                          -> every artefact of a run, as rows by name
execute_notebook(source, out, parameters)    -> the executed notebook, same bytes for same inputs
"""

from cuda_agent.evaluation import dataset
from cuda_agent.evaluation.artefacts import find, load_run, read, repository
from cuda_agent.evaluation.metrics import kind_of, metrics, passed
from cuda_agent.evaluation.notebook import execute_notebook
from cuda_agent.evaluation.tables import TABLES, tables

__all__ = [
    "TABLES",
    "dataset",
    "execute_notebook",
    "find",
    "kind_of",
    "load_run",
    "metrics",
    "passed",
    "read",
    "repository",
    "tables",
]
