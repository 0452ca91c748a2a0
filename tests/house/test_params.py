"""Parameters: what is refused, what the message says, and that every way of overriding means the same."""

from pathlib import Path

import pytest
import yaml
from cuda_agent import params
from dvc.utils.hydra import apply_overrides
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"measurements": "fresh"}


def with_value(dotted, value):
    out = params.merge(CONFIG, {})
    *path, last = dotted.split(".")
    inner = out
    for key in path:
        inner[key] = dict(inner[key])
        inner = inner[key]
    inner[last] = value
    return out


@pytest.mark.parametrize("run", sorted(p.stem for p in (ROOT / "workflow" / "runs").glob("*.yaml")))
def test_every_run_is_valid(run):
    assert params.load(ROOT, run).run == run


@pytest.mark.parametrize("run", sorted(p.stem for p in (ROOT / "workflow" / "runs").glob("*.yaml")))
def test_a_run_file_names_every_section_and_nothing_that_dvc_would_miss(run):
    keys = set(yaml.safe_load((ROOT / "workflow" / "runs" / f"{run}.yaml").read_text()))
    sections = {name for name, value in CONFIG.items() if isinstance(value, dict)}
    assert keys == sections | {"measurements"}


def test_an_experiment_changes_one_line_of_the_parameters_and_no_other(tmp_path):
    """``dvc exp run -S`` writes the file anew: it is kept in the form that DVC gives it."""
    changed = tmp_path / "params.yaml"
    changed.write_text((ROOT / "params.yaml").read_text())
    apply_overrides(changed, ["filtering.agreement=0.125"])
    before, after = (ROOT / "params.yaml").read_text().splitlines(), changed.read_text().splitlines()
    assert len(before) == len(after)
    differing = [line for line, other in zip(after, before, strict=True) if line != other]
    assert len(differing) == 1 and differing[0].split()[:2] == ["agreement:", "0.125"]


def test_every_key_is_explained_where_it_stands_or_where_its_name_first_does():
    explained, silent, comment_above = set(), [], False
    for line in (ROOT / "params.yaml").read_text().splitlines():
        bare = line.strip()
        if bare.startswith("- "):
            continue
        if bare.startswith("#") or not bare:
            comment_above = bare.startswith("#")
            continue
        key, _, rest = bare.partition(":")
        if "#" in rest or comment_above:
            explained.add(key)
        elif key not in explained and not key.startswith("torch#") and key != "transformers":
            silent.append(key)
        comment_above = False
    assert not silent


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("filtering.time_window_ms", [5, 0.5], "lower end must be below"),
        ("filtering.time_window_ms", "soon", "'soon'"),
        ("filtering.time_window_ms", 5, "got 5; allowed: a list of two numbers"),
        ("filtering.time_window_ms", [1], "got [1]; allowed: a list of two numbers"),
        ("filtering.time_window_ms", [1, 2, 3], "a list of two numbers"),
        ("synthesis.target_bytes", 5, "a list of two whole numbers"),
        ("filtering.typo", 1, "filtering.typo: unknown key (value 1); keys of filtering: agreement, indist"),
        ("synthesis.llm.typo", 1, "keys of synthesis.llm: api_key_env, base_url"),
        ("filter", {}, "sections: decontamination, execution, filtering, judging"),
        ("typo", 1, "keys: measurements, run, seed"),
        ("filtering", None, "filtering: got nothing (null); allowed: a mapping"),
        ("filtering", "{a: [", "filtering: got '{a: ['; allowed: a mapping"),
        ("filtering", "*x", "filtering: got '*x'; allowed: a mapping"),
        ("filtering", "{typo: 1}", "filtering.typo: unknown key"),
        ("sandbox.allow_unisolated", "maybe", "allowed: true or false"),
        ("observation.torch_threads", "all", "allowed: a whole number or null"),
        ("execution.threads", "many", "execution.threads: got 'many'; allowed: a whole number or 'auto'"),
        ("rollouts.policies", "codegen", "allowed: a list"),
        ("rollouts.policies", [], "a list with at least 1"),
        ("run", "A B", "lower-case letters"),
        ("run", 5, "allowed: text"),
        ("synthesis.llm.temperature", 9, "allowed: at most 2"),
        ("decontamination.kernelbench", 5, "allowed: a path"),
        ("policies.codegen", {}, "policies.codegen.kind: missing; allowed: 'codegen', 'openai', 'replay', 'command'"),
        ("policies.codegen", {"kind": "replay"}, "policies.codegen.trajectories: missing"),
        ("policies.openai.temperature", 9, "policies.openai.temperature: got 9; allowed: at most 2"),
        ("observation.repeats", 0, "at least 1"),
        ("observation.repeats", 10**30, "allowed: at most 1099511627776"),
        ("execution.shards", 100_000, "execution.shards: got 100000; allowed: at most 1024"),
        ("decontamination.kernelbench", "params.yaml", "kernelbench: got 'params.yaml'; allowed: a .parquet file"),
        ("decontamination.kernelbench", "data/laptop/tasks.parquet", "data/laptop holds what the run itself makes"),
        ("decontamination.kernelbench", "./data/x/../laptop/a/b.parquet", "data/laptop holds what the run itself"),
        ("decontamination.kernelbench", str(Path("work/x.parquet").absolute()), "work holds what the run itself makes"),
        ("sandbox.memory_mb", 10**30, "allowed: at most 1099511627776"),
        ("judging.timeout_s", 1e30, "allowed: at most 1099511627776"),
        ("observation.repeats", True, "observation.repeats: got True; true and false are no numbers"),
        ("seed", True, "seed: got True"),
        ("filtering.time_window_ms", [True, 5], "true and false are no numbers"),
        ("operators.sources", [], "a list with at least 1"),
        ("operators.sources", ["torch", "torch"], "allowed: each once"),
        ("operators.names", "(", "operators.names: got '('; allowed: a regular expression"),
        ("rollouts.policies", ["codegen", "codegen"], "allowed: each once"),
        ("results.fast_p", [1, 0.5], "rising order"),
        ("observation.device", "tpu", "'cpu' or 'cuda'"),
        ("synthesis.candidates", "many", "a whole number"),
        ("synthesis.mix", {"torch#9": 1}, "torch#9"),
        ("synthesis.mix", {"torch#1": 0}, "at least one weight"),
        ("rollouts.policies", ["nobody"], "'nobody'"),
        ("rollouts.backend", "cuda", "judging.device"),
        ("results.confidence", 1.0, "less than 1"),
        ("results.confidence", float("nan"), "results.confidence"),
        ("policies.codegen", {"kind": "magic"}, "magic"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(key, value, said):
    with pytest.raises(params.ParamsError) as error:
        params.parse(with_value(key, value))
    assert key.split(".")[0] in str(error.value)
    assert said in str(error.value)


def using(policy):
    return params.merge(CONFIG, {"policies": {"used": policy}, "rollouts": {"policies": ["used"]}})


COMMAND = {"kind": "command", "argv": ["agent"], "base_url": None, "api_key_env": "KEY"}
OPENAI = CONFIG["policies"]["openai"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (OPENAI, "policies.used.model: got ''; allowed: the name"),
        (
            OPENAI | {"model": "m", "base_url": "localhost:8000"},
            "policies.used.base_url: got 'localhost:8000'",
        ),
        ({"kind": "replay", "trajectories": "nosuch.zst"}, "policies.used.trajectories: got 'nosuch.zst'"),
        (COMMAND | {"argv": []}, "policies.used.argv: got []"),
        (COMMAND | {"argv": [" "]}, "policies.used.argv: got [' ']; its first item names a program"),
        (COMMAND | {"base_url": "api.example.com"}, "policies.used.base_url: got 'api.example.com'"),
    ],
)
def test_a_policy_that_is_used_must_be_usable_before_any_job_starts(policy, said):
    with pytest.raises(params.ParamsError) as error:
        params.parse(using(policy))
    assert said in str(error.value)


def test_a_policy_that_is_not_used_or_was_measured_elsewhere_may_lack_what_it_needs():
    assert params.parse(CONFIG).policies["openai"].model == ""
    assert params.parse(using(OPENAI) | {"measurements": "pinned"}).rollouts.policies == ["used"]


@pytest.mark.parametrize("path", ["data/laptop.parquet", "data/h200/x.parquet", "/elsewhere/data/laptop/x.parquet"])
def test_fingerprints_may_lie_anywhere_else(path):
    assert str(params.parse(with_value("decontamination.kernelbench", path)).decontamination.kernelbench) == path


def test_the_llm_composer_needs_a_model():
    with pytest.raises(params.ParamsError, match=r"synthesis\.llm\.model: got ''; allowed: the name"):
        params.parse(with_value("synthesis.composer", "llm"))
    llm = CONFIG["synthesis"] | {"composer": "llm", "llm": CONFIG["synthesis"]["llm"] | {"model": "m"}}
    assert params.parse(with_value("synthesis", llm)).synthesis.llm.model == "m"


@pytest.mark.parametrize("text", ["seed: [", "- 1"])
def test_a_params_file_that_is_no_mapping_is_named(tmp_path, text):
    with pytest.raises(params.ParamsError, match=r"params\.yaml: not there"):
        params.load(tmp_path)
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(params.ParamsError, match=r"params\.yaml: (is no YAML|got \[1\])"):
        params.load(tmp_path)


def test_a_params_file_without_a_run_is_named(tmp_path):
    (tmp_path / "workflow" / "runs").mkdir(parents=True)
    (tmp_path / "workflow" / "runs" / "laptop.yaml").touch()
    (tmp_path / "params.yaml").write_text("")
    with pytest.raises(params.ParamsError, match=r"params\.yaml: has no key run"):
        params.load(tmp_path)


def test_all_wrong_values_are_named_at_once():
    wrong = with_value("observation.repeats", 0)
    wrong["judging"] = {**wrong["judging"], "timing_pairs": -1}
    with pytest.raises(params.ParamsError, match=r"(?s)observation\.repeats.*judging\.timing_pairs"):
        params.parse(wrong)


def test_a_missing_key_is_named():
    wrong = params.merge(CONFIG, {})
    wrong["filtering"] = {k: v for k, v in wrong["filtering"].items() if k != "repeat_rtol"}
    with pytest.raises(params.ParamsError, match=r"filtering\.repeat_rtol: missing"):
        params.parse(wrong)


def _as_text(value):
    """What Snakemake's --config makes of nested values: strings at the leaves."""
    if isinstance(value, dict):
        return {k: _as_text(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_as_text(v) for v in value]
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("section", sorted(k for k, v in CONFIG.items() if isinstance(v, dict)))
def test_values_as_text_mean_the_same(section):
    assert params.parse({**CONFIG, section: _as_text(CONFIG[section])}) == params.parse(CONFIG)


@pytest.mark.parametrize("section", sorted(k for k, v in CONFIG.items() if isinstance(v, dict)))
def test_a_section_survives_the_way_to_a_script(section):
    parsed = getattr(params.parse(CONFIG), section)
    if section == "policies":
        for policy in parsed.values():
            assert params.read_policy(policy.model_dump_json()) == policy
    else:
        assert type(parsed).model_validate_json(parsed.model_dump_json()) == parsed


@given(low=st.floats(0.001, 1e3), high=st.floats(0.001, 1e3))
def test_a_window_is_accepted_exactly_when_it_is_not_empty(low, high):
    config = with_value("filtering.time_window_ms", [low, high])
    if low < high:
        assert params.parse(config).filtering.time_window_ms == (low, high)
    else:
        with pytest.raises(params.ParamsError):
            params.parse(config)


def test_an_unknown_run_names_the_known_ones():
    with pytest.raises(params.ParamsError, match="laptop"):
        params.load(ROOT, "nowhere")
