"""Croissant 1.1 metadata with its responsible-AI extension.

https://github.com/mlcommons/croissant/blob/main/docs/croissant-spec-1.1.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cuda_agent import records
from cuda_agent.export import about
from cuda_agent.records import Row

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "arrayShape": "cr:arrayShape",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_SCHEMAS = {
    "tasks.parquet": records.TASKS,
    "rejections.parquet": records.REJECTIONS,
    "contaminated.parquet": records.REJECTIONS,
}
_KEYS = {"tasks.parquet": "task_id", "rejections.parquet": "candidate_id", "contaminated.parquet": "candidate_id"}


def _data_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Boolean" if pa.types.is_boolean(kind) else "sc:Text"


def _field(file: str, record_set: str, field: pa.Field) -> dict[str, Any]:
    array = pa.types.is_list(field.type)
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{field.name}",
        "name": field.name,
        "description": field.metadata[b"doc"].decode(),
        "dataType": _data_type(field.type.value_type if array else field.type),
        **({"isArray": True, "arrayShape": "-1"} if array else {}),
        "source": {"fileObject": {"@id": file}, "extract": {"column": field.name}},
    }


def _record_set(file: str, schema: pa.Schema) -> dict[str, Any]:
    name = file.removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"Rows of {file}.",
        "key": {"@id": f"{name}/{_KEYS[file]}"},
        "field": [_field(file, name, field) for field in schema],
    }


def croissant(
    tasks: Sequence[Row],
    run: str,
    files: Mapping[str, bytes],
    *,
    version: str = "0.1.0",
    url: str = about.PAPER,
    date: str = "2026-03-01",
) -> dict[str, Any]:
    """The JSON-LD document ``croissant.json``.

    Args:
        tasks: rows of ``records.TASKS``.
        run: name of the run.
        files: contents of the files that it describes, by name: some of ``tasks.parquet``, ``rejections.parquet``
            and ``contaminated.parquet``.
        version: of the project.
        url: where the dataset is described.
        date: of publication, ISO 8601; no clock is read, so that the same rows give the same bytes.

    Raises:
        ValueError: a file that there is no schema for.
    """
    unknown = sorted(files.keys() - _SCHEMAS.keys())
    if unknown:
        raise ValueError(f"no schema for {unknown}; known: {sorted(_SCHEMAS)}")
    names = [name for name in _SCHEMAS if name in files]
    devices = sorted({row["device_name"] for row in tasks})
    composers = sorted({row["composer"] for row in tasks})
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"open-cuda-agent-{run}",
        "description": about.DESCRIPTION,
        "url": url,
        "version": version,
        "datePublished": date,
        "license": [f"https://spdx.org/licenses/{spdx}" for spdx in about.licenses(tasks)],
        "creator": {"@type": "sc:Organization", "name": about.CREATOR},
        "publisher": {"@type": "sc:Organization", "name": about.CREATOR},
        "keywords": list(about.KEYWORDS),
        "citeAs": f"Open CUDA-Agent, a reproduction of {about.PAPER}",
        "isLiveDataset": False,
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": f"run {run}: composition ({', '.join(composers)}), observation, filtering, decontamination",
        },
        "rai:dataCollection": "Composed by a program from operators of the installed torch and transformers libraries.",
        "rai:dataCollectionType": "Synthetic",
        "rai:dataPreprocessingProtocol": [
            "Each candidate ran once in a sandbox; rules on what was observed decided, and what they dropped is kept.",
            "Repeats, and what resembles a KernelBench problem, were dropped by hashes of syntax and operators.",
        ],
        "rai:machineAnnotationTools": [f"measured on {device}" for device in devices],
        "rai:dataLimitations": list(about.LIMITS),
        "rai:dataUseCases": ["Training and evaluating agents that write GPU or CPU kernels."],
        "rai:personalSensitiveInformation": ["None."],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{len(files[name])} B",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(files[name]).hexdigest(),
            }
            for name in names
        ],
        "recordSet": [_record_set(name, _SCHEMAS[name]) for name in names],
    }
