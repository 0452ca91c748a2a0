"""A wrong parameter stops DVC before it takes away anything that was made: the stage that checks comes before all."""

from pathlib import Path

import yaml

STAGES = {k: v["do"] for k, v in yaml.safe_load((Path(__file__).parents[2] / "dvc.yaml").read_text())["stages"].items()}


def generic(path):
    return path.replace("${item.run}", "RUN").replace("${item}", "RUN")


def outs(stage):
    return {generic(out if isinstance(out, str) else next(iter(out))) for out in stage["outs"]}


def sections(stage):
    """Parameters of a stage, as (file, section)."""
    for entry in stage["params"]:
        for file, keys in entry.items() if isinstance(entry, dict) else (("params.yaml", [entry]),):
            yield from ((generic(file), key.split(".")[0]) for key in keys)


def test_the_check_has_every_parameter_that_another_stage_has():
    assert {s for stage in STAGES.values() for s in sections(stage)} == set(sections(STAGES["check"]))


def test_every_stage_comes_after_the_check():
    after, found = {"check"}, True
    while found:
        made = set().union(*(outs(STAGES[name]) for name in after))
        found = {n for n, s in STAGES.items() if n not in after and made & {generic(d) for d in s["deps"]}}
        after |= found
    assert after == set(STAGES)
