# The experiment at a glance: operators -> candidates -> observations -> filtered -> tasks
# -> rollouts -> judgements -> results. docs/architecture.md says what each step promises.
from snakemake.utils import min_version

min_version("9.25")


configfile: "params.yaml"


include: "workflow/rules/common.smk"


# Used with `--software-deployment-method apptainer` only; the environment is requirements.lock.
container: "docker://python:3.11-bookworm"


report: "workflow/report/workflow.rst"


pathvars:
    run=config["run"],


include: "workflow/rules/check.smk"
include: "workflow/rules/operators.smk"
include: "workflow/rules/synthesis.smk"
include: "workflow/rules/observation.smk"
include: "workflow/rules/filtering.smk"
include: "workflow/rules/decontamination.smk"
include: "workflow/rules/rollouts.smk"
include: "workflow/rules/judging.smk"
include: "workflow/rules/results.smk"


watch_outputs()
if workflow.is_main_process:
    check_sources()


onstart:
    hold_folder()
    check_devices()


rule all:
    default_target: True
    input:
        rules.check.output,
        rules.operators.output,
        rules.candidates.output,
        rules.observations.output,
        rules.filter.output,
        rules.decontaminate.output,
        expand(rules.trajectories.output, policy=POLICIES),
        expand(rules.judgements.output, policy=POLICIES),
        rules.parameters.output,
        rules.verdicts.output,
        rules.metrics.output,
        rules.figures.output,
        rules.paper.output,
        expand(rules.notebook.output, notebook=NOTEBOOKS),
