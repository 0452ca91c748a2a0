"""The dataset card: README.md with Hugging Face front matter, made from the rows and from nothing else.

Front matter: https://github.com/huggingface/hub-docs/blob/main/datasetcard.md
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa
import yaml

from cuda_agent import records
from cuda_agent.export import about
from cuda_agent.filtering import funnel
from cuda_agent.params import Decontamination
from cuda_agent.records import Row

_BANDS = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def _feature(field: pa.Field) -> dict[str, Any]:
    if pa.types.is_list(field.type):
        return {"name": field.name, "list": str(field.type.value_type)}
    names = {"double": "float64", "bool": "bool"}
    return {"name": field.name, "dtype": names.get(str(field.type), str(field.type))}


def _split(name: str, rows: Sequence[Row], schema: pa.Schema) -> dict[str, Any]:
    size = pa.Table.from_pylist(list(rows), schema=schema).nbytes
    return {"name": name, "num_bytes": size, "num_examples": len(rows)}


def _front_matter(tasks: Sequence[Row], rejections: Sequence[Row], contaminated: Sequence[Row]) -> str:
    splits = {
        "tasks": {"tasks": ("tasks.parquet", tasks)},
        "dropped": {
            "filtering": ("rejections.parquet", rejections),
            "decontamination": ("contaminated.parquet", contaminated),
        },
    }
    schemas = {"tasks": records.TASKS, "dropped": records.REJECTIONS}
    matter = {
        "pretty_name": about.TITLE,
        "license": [spdx.lower() for spdx in about.licenses(tasks)],
        "language": ["code", "en"],
        "task_categories": ["text-generation"],
        "tags": [word.lower().replace(" ", "-") for word in about.KEYWORDS],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "source_datasets": ["original"],
        "size_categories": [next((band for top, band in _BANDS if len(tasks) < top), "n>1M")],
        "configs": [
            {
                "config_name": config,
                **({"default": True} if config == "tasks" else {}),
                "data_files": [{"split": split, "path": path} for split, (path, _) in parts.items()],
            }
            for config, parts in splits.items()
        ],
        "dataset_info": [
            {
                "config_name": config,
                "features": [_feature(field) for field in schemas[config]],
                "splits": [_split(name, rows, schemas[config]) for name, (_, rows) in parts.items()],
            }
            for config, parts in splits.items()
        ],
    }
    return yaml.safe_dump(matter, sort_keys=False, allow_unicode=True, width=1000)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(v) for v in line) + " |" for line in lines)


def _counts(tasks: Sequence[Row], *keys: Callable[[Row], str]) -> list[list[Any]]:
    found = Counter(tuple(key(row) for key in keys) for row in tasks)
    return [[*names, count] for names, count in sorted(found.items())]


def _spread(tasks: Sequence[Row], column: str, digits: int) -> list[str] | None:
    values = [row[column] for row in tasks if row[column] is not None]
    if not values:
        return None
    return [column, *(f"{v:.{digits}f}" for v in (min(values), median(values), max(values))), str(len(values))]


def _limits(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {records.dumps(value)}" for name, value in values.items()) or "–"


def _hardware(tasks: Sequence[Row]) -> list[list[str]]:
    found = Counter((row["device"], row["device_name"], row["versions"]) for row in tasks)
    rows = []
    for (device, name, versions), count in sorted(found.items()):
        parts = [f"{k} {v}" for k, v in sorted(json.loads(versions).items()) if v not in ("", None, name)]
        rows.append([device, name, ", ".join(parts), count])
    return rows


def _share(tasks: Sequence[Row]) -> str:
    test = sum(row["split"] == "test" for row in tasks)
    return f"{test} of {len(tasks)}" + (f" ({100 * test / len(tasks):.1f} %)" if tasks else "")


def _columns(schema: pa.Schema) -> str:
    return _table(["column", "type", "meaning"], [[f.name, f.type, f.metadata[b"doc"].decode()] for f in schema])


def card(
    tasks: Sequence[Row],
    rejections: Sequence[Row],
    contaminated: Sequence[Row],
    run: str,
    params: Decontamination,
    *,
    limits: Mapping[str, Mapping[str, Any]],
) -> str:
    """Text of ``README.md`` beside ``tasks.parquet``.

    Args:
        tasks: rows of ``records.TASKS``.
        rejections: rows of ``records.REJECTIONS`` that filtering made.
        contaminated: those that decontamination made.
        run: name of the run.
        params: parameters of decontamination.
        limits: what each rule holds a candidate against, by its name; none for a rule that asks yes or no.
    """
    tasks = sorted(tasks, key=lambda row: row["task_id"])
    candidates = len(tasks) + len(rejections) + len(contaminated)
    steps = [
        [s["rule"], s["before"], s["dropped"], s["left"], _limits(limits[s["rule"]])]
        for s in funnel(candidates, rejections, contaminated)
    ]
    spreads = [("eager_ms", 3), ("compile_ms", 3), ("nearest_similarity", 3), ("flops", 0), ("bytes", 0)]
    shown = [line for line in (_spread(tasks, column, digits) for column, digits in spreads) if line is not None]
    operators = Counter(op for row in tasks for op in set(row["ops"])).most_common()
    operators.sort(key=lambda pair: (-pair[1], pair[0]))
    parts = [
        f"---\n{_front_matter(tasks, rejections, contaminated)}---",
        f"# {about.TITLE}: run `{run}`",
        about.DESCRIPTION,
        f"This file is written by the workflow from the rows themselves. {len(tasks)} tasks are left of {candidates} "
        f"candidates; they use {len(operators)} operators, counted by name: one that is called in two "
        "ways counts twice.",
        "## Use\n\n```python\nfrom datasets import load_dataset\n\n"
        'tasks = load_dataset("FOLDER")["tasks"]  # column `split` says train or test\n'
        'dropped = load_dataset("FOLDER", "dropped")  # every candidate that is no task, with the reason\n```\n\n'
        "The first three columns are those of CUDA-Agent-Ops-6K, so what reads that file reads this one. Tasks that "
        f"differ only in sizes are all in `train` or all in `test`, so the share of `test`, here {_share(tasks)}, "
        f"need not be the {100 * params.test_share:g} % aimed at.",
        "## Composition",
        _table(
            ["data_source", "composer", "split", "tasks"],
            _counts(tasks, lambda r: r["data_source"], lambda r: r["composer"], lambda r: r["split"]),
        ),
        _table(["column", "least", "median", "greatest", "known for"], shown),
        "Operators seen in most tasks: " + (", ".join(f"`{op}` ({n})" for op, n in operators[:15]) or "none") + ".",
        "## From candidates to tasks",
        _table(["rule", "before", "dropped", "left", "limits"], steps),
        f"The rules are applied in this order and a candidate is dropped by the first that it fails. "
        "`unreadable` drops what is nested too deeply to be compared; `duplicate` and "
        f"`kernelbench` drop what is more than {params.max_similarity} similar to another task or to a problem of "
        f"[KernelBench]({about.KERNELBENCH}) (levels 1 to 4, several revisions); similarity is the larger of that of "
        "token shingles and that of syntax subtrees, both without names and sizes, and 1 where the same operators "
        "follow each other.",
        "## Measured on",
        _table(["device", "name", "versions", "tasks"], _hardware(tasks)),
        "## Columns of the tasks",
        _columns(records.TASKS),
        "## Columns of what was dropped",
        _columns(records.REJECTIONS),
        "## Limits",
        "\n".join(f"- {limit}" for limit in about.LIMITS),
        "## Licences",
        f"The text of the tasks is under {about.OWN_LICENSE}. Column `spdx` names the licences of the libraries that a "
        f"task calls ({', '.join(sorted({spdx for row in tasks for spdx in row['spdx']})) or 'none'} in this set). "
        "There is no personal data in it.",
        "## Citation",
        f"Cite the paper whose method this reproduces, [arXiv:2602.24286]({about.PAPER}), and this project.",
    ]
    return "\n\n".join(parts) + "\n"
