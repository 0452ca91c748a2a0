# What all rules share: the checked parameters of this run, and how a rule names what its result depends on.
import fcntl
import json
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# Jobs run the library of this checkout, also where another one is installed (as in a copy made by `dvc exp run --temp`).
sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from cuda_agent import (
    lifeline,
    machine,
    made,
    params as parameters,
    pinning,
    provenance,
    sources,
)
from cuda_agent.errors import UserError

provenance.hand_on_to_jobs()
if workflow.is_main_process:
    lifeline.announce()


def told(check, *args, **kwargs):
    """What a call returns; what a user can mend stops Snakemake with its message alone."""
    try:
        return check(*args, **kwargs)
    except UserError as error:
        raise WorkflowError(f"{error}{taken_away()}") from None


def taken_away():
    """How to get back what DVC took away before it ran a stage that cannot run here; empty where it is not DVC's."""
    stage = os.environ.get("DVC_STAGE", "check@")
    if stage.startswith("check@"):
        return ""
    return f"\nDVC took away what {stage} had made: if DVC was told of it, `dvc checkout {stage}` brings it back"


RUN_FILE = str(told(parameters.run_file, Path(), config.get("run")))


configfile: RUN_FILE


if workflow.is_main_process:
    told(parameters.check_keys, workflow.configfiles)
PARAMS = told(parameters.parse, config)
if PARAMS.measurements == "pinned" and workflow.is_main_process:
    told(pinning.check, Path(), PARAMS)

POLICIES = PARAMS.rollouts.policies
PINNED = PARAMS.measurements == "pinned"


# Where jobs write; all else that they read is a source.
MADE = (f"data/{PARAMS.run}/", f"results/{PARAMS.run}/", "work/")

# What the results are computed from, by the name of the artefact.
ARTEFACTS = {
    name: f"data/{PARAMS.run}/{name}.parquet"
    for name in (
        "operators",
        "candidates",
        "observations",
        "rejections",
        "contaminated",
        "tasks",
    )
} | {
    "submissions": [
        f"data/{PARAMS.run}/{policy}/submissions.parquet" for policy in POLICIES
    ],
    "judgements": [
        f"data/{PARAMS.run}/{policy}/judgements.parquet" for policy in POLICIES
    ],
    "trajectories": [
        f"data/{PARAMS.run}/{policy}/trajectories.jsonl.zst" for policy in POLICIES
    ],
}


def section(name, without=None):
    """One section of the parameters as text, so that a change of it, and of nothing else, is seen."""
    value = PARAMS.model_dump(mode="json")[name]
    return json.dumps({k: v for k, v in value.items() if k != without}, sort_keys=True)


def policy(wildcards):
    """What the parameters say of one policy."""
    return PARAMS.policies[wildcards.policy].model_dump_json()


def all_parameters():
    """All parameters that may show in a result, as text: not how the work was spread, nor whether it was measured here."""
    value = PARAMS.model_dump(mode="json")
    value |= {"execution": {"shards": 1, "threads": 1}, "measurements": "pinned"}
    return json.dumps(value, sort_keys=True)


def overrides(wildcards):
    """Parameters that a notebook computes with, where they may come from the command line."""
    sections = {"results": ("seed", "results")}.get(wildcards.notebook, ())
    value = PARAMS.model_dump(mode="json")
    return {name: value[name] for name in sections}


def code(*modules):
    """The library modules that a rule runs and a hash of all they import, which Snakemake does not see."""
    return f"{' '.join(modules)} @ {provenance.code_hash(*modules)}"


def shards(pattern):
    """Paths of all shards of a step."""
    n = PARAMS.execution.shards
    return [
        pattern.replace("{shard}", str(i)).replace("{shards}", str(n)) for i in range(n)
    ]


def all_cores(wildcards=None):
    """Threads of a job that spreads its own work; as all cores are its own, nothing disturbs its timings."""
    return (
        workflow.cores
        if PARAMS.execution.threads == "auto"
        else PARAMS.execution.threads
    )


def gpus(device):
    """GPUs that a job on a device needs."""
    return 1 if device == "cuda" else 0


def check_sources():
    """Stop where a file that no job makes is missing, or another thing is where a job writes a file."""
    outputs = {
        made_by.name: [
            path.replace("{policy}", name)
            for path in made_by.output
            for name in POLICIES
        ]
        for made_by in workflow.rules
    }
    told(sources.check_places, outputs)
    told(
        sources.check,
        {r.name: r.input for r in workflow.rules},
        (*MADE, "data/pinned/"),
    )


def watch_outputs():
    """Have a job run again where its output is not what it wrote, or a source or its script not what it read.

    Contents count, not times, which a change of branch renews; Snakemake compares the times of scripts, and only with
    outputs that are still there (the profiles switch that off).

    DVC, git or a hand may have put another file there. Of what no job of this folder wrote, Snakemake cannot know which
    parameters it follows from; that is said.
    """
    for made_by in filter(lambda each: each.script, workflow.rules):
        made_by.set_params(
            replaced=lambda wildcards, patterns=made_by.output: sum(
                made.replaced(path.apply_wildcards(wildcards)) for path in patterns
            ),
            sources=lambda wildcards, patterns=made_by.input: [
                made.source_hash(path.apply_wildcards(wildcards))
                for path in patterns
                if not path.startswith(MADE)
            ],
            script=made.source_hash(
                os.path.normpath(f"workflow/rules/{made_by.script}")
            ),
        )
    lock = lock_folder() if workflow.is_main_process else None
    if lock is None:
        return  # jobs of another Snakemake may be writing
    with lock:
        for path in made.notice([f"data/{PARAMS.run}", f"results/{PARAMS.run}"]):
            logger.warning(f"{path}: is not what its job wrote; it is to be made again")
    if "DVC_STAGE" not in os.environ:  # DVC knows what its stages build on
        if text := made.unknown(PARAMS.run, ARTEFACTS.values()):
            logger.warning(text)


def lock_folder():
    """This folder's lock, as an open file; None where another Snakemake has it.

    Snakemake's own lock stays behind when it is killed, and then refuses the same command; the profiles switch it off.
    This one is the kernel's and ends with the process.
    """
    path = Path(".snakemake/held")
    path.parent.mkdir(exist_ok=True)
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def hold_folder():
    """Keep a second Snakemake out of this folder while this one lives."""
    global _held
    _held = lock_folder()
    if _held is None:
        holder = Path(".snakemake/held").read_text(encoding="utf-8") or "unknown"
        raise WorkflowError(
            f"another snakemake works in {Path.cwd()}: wait for it, or stop it (process {holder})"
        )


def check_devices():
    """Stop before any work where a measured step that is to run needs what this machine lacks.

    Jobs that run elsewhere look for themselves.
    """
    if workflow.non_local_exec:
        return
    todo = {job.rule.name for job in workflow.dag.needrun_jobs()}
    if "observe" in todo:
        told(machine.check_device, PARAMS.observation.device, compiles=False)
    if todo & {"rollout", "judge"}:
        told(machine.check_device, PARAMS.judging.device, compiles=True)
