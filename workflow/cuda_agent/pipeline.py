"""The stages of ``dvc.yaml``, computed from the rules, so that the two cannot say different things.

One stage for each file of rules and each run (and policy). Needs Snakemake; nothing else in the package imports this.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cuda_agent import params, pinning, provenance

HEADER = """\
# Written by `make format` (cuda-agent dvc-yaml) from the rules, which are the source; a test compares the two.
# Each stage makes one step's artefacts through Snakemake; --allowed-rules keeps it from making those of another.
"""
_CHECK = "check"  # before all others, and of all parameters: docs/architecture.md says why
_MEASURED = ("observation", "rollouts", "judging")
_SCALARS = ("seed",)


@dataclass
class _Stage:
    rules: list[str] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    params: set[str] = field(default_factory=set)
    of_policy: bool = False


def _rules(root: Path, run: str, measurements: str) -> list[Any]:
    from snakemake.api import SnakemakeApi
    from snakemake.exceptions import WorkflowError
    from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings, WorkflowSettings
    from snakemake_interface_executor_plugins.settings import ExecMode

    before = Path.cwd()
    os.chdir(root)
    try:
        with (
            contextlib.redirect_stderr(io.StringIO()),
            SnakemakeApi(OutputSettings(dryrun=True, quiet=None)) as api,
        ):
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(config={"run": run, "measurements": measurements}),
                # As a job reads the rules: what a run would be checked for first is no concern of the rules.
                workflow_settings=WorkflowSettings(exec_mode=ExecMode.SUBPROCESS),
                snakefile=root / "Snakefile",
            )
            return list(workflow._workflow.rules)
    except WorkflowError as error:
        raise params.ParamsError(str(error)) from None
    finally:
        os.chdir(before)


def _paths(files: Any) -> list[str]:
    """Paths of a rule, with its wildcards by name alone."""
    return [re.sub(r"\{(\w+),[^}]*\}", r"{\1}", str(path)) for path in files]


def _published(path: str) -> bool:
    return path.startswith(("data/", "results/"))


def _in_git(path: str) -> bool:
    """Whether git keeps an output: what a reader compares between commits; DVC's cache keeps the rest."""
    return path.startswith("results/") and path.endswith((".json", ".csv", ".svg"))


def _dependency(path: Path, root: Path) -> str:
    """What DVC is told of a file of code: its package's folder; single modules where a folder serves several steps."""
    relative = path.relative_to(root)
    inside = path.relative_to(root / "workflow").parts
    if inside[0] == "agent_workdir":
        return "workflow/agent_workdir"
    if len(inside) > 2 and inside[1] != "tasks":
        return "/".join(relative.parts[:3])
    return relative.as_posix()


def _collect(root: Path, run: str) -> dict[str, _Stage]:
    stages: dict[str, _Stage] = {}
    for measurements in ("pinned", "fresh"):
        for rule in _rules(root, run, measurements):
            name = Path(rule.snakefile).stem
            if name == "Snakefile":
                continue
            stage = stages.setdefault(name, _Stage())
            if rule.name not in stage.rules:
                stage.rules.append(rule.name)
            stage.outs += [p for p in _paths(rule.output) if _published(p) and p not in stage.outs]
            stage.inputs += [p for p in _paths(rule.input) if not p.startswith(("work/", "data/pinned/"))]
            stage.of_policy |= "{policy}" in "".join(stage.outs)
            if rule.script:
                stage.code.append((Path(rule.snakefile).parent / rule.script).resolve().relative_to(root).as_posix())
            for key, value in rule.params.items():
                stage.params |= set(_keys(key))
                if key == "code":
                    modules = value.partition(" @ ")[0].split()
                    stage.code += [_dependency(p, root) for p in provenance.files(*modules)]
            stage.code.append(Path(rule.snakefile).resolve().relative_to(root).as_posix())
    return stages


def _keys(key: str) -> list[str]:
    """Parameters, as DVC names them, that a rule's parameter of this name stands for."""
    if key == "policy":
        return ["policies.${item.policy}"]
    if key == "parameters":
        return [name for name in params.Params.model_fields if name not in ("run", "measurements", "execution")]
    if key == "deciding":
        return [*pinning.DECIDING, "policies"]
    if key == "backend":
        return ["rollouts.backend"]
    if key == "rollouts":
        return [f"rollouts.{name}" for name in params.Rollouts.model_fields if name != "policies"]
    return [key] if key in params.Params.model_fields and key != "run" else []


def _expanded(paths: list[str], wildcards: dict[str, list[str]]) -> list[str]:
    out = []
    for path in paths:
        found = [path]
        for name, values in wildcards.items():
            found = [p.replace(f"{{{name}}}", v) for p in found for v in (values if f"{{{name}}}" in p else [""])]
        out += found
    return list(dict.fromkeys(out))


def stages(root: Path) -> dict[str, Any]:
    """The content of ``dvc.yaml``.

    Args:
        root: the repository.

    Raises:
        ParamsError: this is not the repository; or two runs have different policies: one list of stages cannot name
            the outputs of both.
    """
    root = root.resolve()
    runs = sorted(params.known_runs(root), key=lambda r: (r != "laptop", r))
    if not (root / "Snakefile").exists():
        raise params.ParamsError(f"{root}: is not the repository: it has no Snakefile")
    policies = {run: params.load(root, run).rollouts.policies for run in runs}
    first = policies[runs[0]]
    for run, names in policies.items():
        if names != first:
            raise params.ParamsError(f"rollouts.policies: {run} has {names}, {runs[0]} has {first}; give both the same")
    notebooks = sorted(p.stem for p in (root / "notebooks").glob("*.ipynb"))
    out: dict[str, Any] = {}
    for name, stage in _collect(root, runs[0]).items():
        item = "${item.run}" if stage.of_policy else "${item}"
        wildcards = {"policy": ["${item.policy}"] if stage.of_policy else first, "notebook": notebooks}

        def placed(paths: list[str], wildcards: Any = wildcards, item: str = item) -> list[str]:
            return [
                p.replace(f"data/{runs[0]}/", f"data/{item}/").replace(f"results/{runs[0]}/", f"results/{item}/")
                for p in _expanded(paths, wildcards)
            ]

        outs = placed(stage.outs)
        deps = [p for p in placed(stage.inputs) if p not in outs] + sorted(set(stage.code))
        run_keys = sorted(k for k in stage.params if k not in _SCALARS)
        if name in _MEASURED:
            deps.append(f"data/pinned/{item}")
        if name in (_CHECK, *_MEASURED):
            run_keys.append("measurements")
        if name == "operators":
            deps += [*out[_CHECK]["do"]["outs"], "requirements.lock"]
        of_run = sorted({k.split(".")[0] for k in run_keys})
        targets = " ".join(outs)
        out[name] = {
            "foreach": (
                {f"{run}-{policy}": {"run": run, "policy": policy} for run in runs for policy in first}
                if stage.of_policy
                else runs
            ),
            "do": {
                "cmd": f"snakemake --cores all --config run={item} "
                f"--allowed-rules {' '.join(stage.rules)} -- {targets}",
                "params": [*sorted(stage.params), {f"workflow/runs/{item}.yaml": of_run}],
                "deps": deps,
                "outs": [{p: {"cache": False}} if _in_git(p) else p for p in outs],
            },
        }
    return out


class _Dumper(yaml.SafeDumper):
    """Without aliases: each stage is read on its own."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render(root: Path) -> str:
    """The text of ``dvc.yaml``."""
    content = stages(root)
    runs = content["operators"]["foreach"]
    document = {
        "stages": content,
        "metrics": [f"results/{run}/metrics.json" for run in runs],
        "artifacts": {f"tasks-{run}": {"path": f"data/{run}/tasks.parquet", "type": "dataset"} for run in runs},
    }
    return HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``cuda-agent dvc-yaml``."""
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the current folder)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if dvc.yaml differs from the rules")


def run(args: argparse.Namespace) -> int:
    """Write ``dvc.yaml`` from the rules, or compare the two."""
    path = args.root / "dvc.yaml"
    text = render(args.root)
    if not args.check:
        path.write_text(text, encoding="utf-8")
        return 0
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old == text:
        return 0
    sys.stderr.writelines(
        difflib.unified_diff(old.splitlines(True), text.splitlines(True), "dvc.yaml", "what the rules say")
    )
    sys.stderr.write("dvc.yaml differs from the rules: write it anew with `cuda-agent dvc-yaml`\n")
    return 1
