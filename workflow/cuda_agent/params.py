"""Typed parameters: what ``params.yaml`` may hold, and how a run's parameters are put together.

One model per section of ``params.yaml``. Unknown keys are errors, and every error names the key, the value it got and
what is allowed. The values of the default run, each with its explanation, stand in ``params.yaml`` and nowhere else:
the models have no defaults of their own, so that there is one source for each.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from cuda_agent import plain, strict_yaml
from cuda_agent.errors import UserError

NAME = r"^[a-z0-9][a-z0-9_-]*$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
_LARGEST = 2**40  # beyond any sense, and small enough for what counts in 64 bits, in milliseconds or in bytes
Count = Annotated[int, Field(ge=0, le=_LARGEST)]
PositiveInt = Annotated[int, Field(ge=1, le=_LARGEST)]
PositiveFloat = Annotated[float, Field(gt=0, le=_LARGEST)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class ParamsError(UserError, ValueError):
    """A parameter is wrong. The message names the key, the value and what is allowed."""


def _accepts_text(annotation: Any) -> bool:
    """Whether a field of this type may hold a string, so that a string must be left as it is."""
    if annotation is str or annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return any(isinstance(a, str) for a in typing.get_args(annotation))
    if origin in (list, tuple, dict, set):
        return False
    return any(_accepts_text(a) for a in typing.get_args(annotation))


def _takes_numbers(annotation: Any) -> bool:
    """Whether a field of this type holds numbers, itself or in a list or a mapping."""
    return annotation in (int, float) or any(_takes_numbers(a) for a in typing.get_args(annotation))


def _holds_truth(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    return any(map(_holds_truth, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


class Section(BaseModel):
    """A section of the parameters: unknown keys refused, frozen once read.

    Snakemake's ``--config key='{inner: value}'`` leaves inner values as strings; a string given where none is allowed
    is therefore read as YAML, so that every way of setting a parameter means the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_text_as_yaml(cls, data: Any) -> Any:
        if isinstance(data, str):
            try:
                data = strict_yaml.load(data)
            except (yaml.YAMLError, RecursionError):
                return data  # left as text: pydantic then names the section and what it takes
        if not isinstance(data, Mapping):
            return data
        out = dict(data)
        for key, value in out.items():
            field = cls.model_fields.get(key)
            if field is None:
                continue
            if isinstance(value, str) and not _accepts_text(field.annotation):
                try:
                    out[key] = strict_yaml.load(value)
                except yaml.YAMLError:
                    continue  # left as text: pydantic then names the key and what it takes
            elif (
                isinstance(value, str)
                and value in ("null", "None", "~")
                and type(None) in typing.get_args(field.annotation)
            ):
                out[key] = None
            if _takes_numbers(field.annotation) and _holds_truth(out[key]):  # Python takes true for 1
                raise ValueError(f"{key}: got {out[key]!r}; true and false are no numbers")
        return out


def _each_once(key: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"{key}: got {names}; allowed: each once")


class Execution(Section):
    """How the work is spread. Nothing here changes a result, so no step depends on it."""

    shards: Annotated[int, Field(ge=1, le=1024)]  # Snakemake plans each job of each: more take it minutes
    threads: PositiveInt | Literal["auto"]


class Sandbox(Section):
    """Limits on code that a model wrote."""

    allow_unisolated: bool
    memory_mb: PositiveInt
    processes: PositiveInt
    file_size_mb: PositiveInt
    output_kb: PositiveInt


class Operators(Section):
    """Collection of reference operators from the installed libraries."""

    sources: Annotated[list[Literal["torch", "transformers"]], Field(min_length=1)]
    transformers_models: PositiveInt | None
    names: str
    timeout_s: PositiveFloat

    @model_validator(mode="after")
    def _check(self) -> Operators:
        _each_once("sources", self.sources)
        try:
            re.compile(self.names)
        except re.error as error:
            raise ValueError(f"names: got {self.names!r}; allowed: a regular expression of Python ({error})") from None
        return self


def _no_url(value: str | None) -> list[str]:
    fine = value is None or value.startswith(("http://", "https://"))
    return [] if fine else [f"base_url: got {value!r}; allowed: an address that begins with http:// or https://"]


class LLM(Section):
    """An OpenAI-compatible endpoint."""

    base_url: str | None
    model: str
    api_key_env: str
    temperature: Annotated[float, Field(ge=0, le=2)]
    max_tokens: PositiveInt
    timeout_s: PositiveFloat
    retries: Count

    def lacks(self) -> list[str]:
        """See `CodegenPolicy.lacks`."""
        named = "allowed: the name that the server knows the model by"
        return ([] if self.model.strip() else [f"model: got {self.model!r}; {named}"]) + _no_url(self.base_url)


class Synthesis(Section):
    """Composition of operators into candidates."""

    composer: Literal["stack", "llm"]
    candidates: PositiveInt
    mix: dict[
        Literal["torch#1", "torch#2", "torch#3", "torch#4", "torch#5", "transformers"],
        Annotated[float, Field(ge=0)],
    ]
    target_bytes: tuple[PositiveInt, PositiveInt]
    repair_rounds: Count
    llm: LLM

    @model_validator(mode="after")
    def _check(self) -> Synthesis:
        if not sum(self.mix.values()) > 0:
            raise ValueError(f"mix: got {self.mix}; at least one weight must be above 0")
        if self.target_bytes[0] > self.target_bytes[1]:
            raise ValueError(
                f"target_bytes: got {list(self.target_bytes)}; the lower end must not be above the upper end"
            )
        return self


class Observation(Section):
    """Running each candidate and recording what it showed."""

    device: Literal["cpu", "cuda"]
    timeout_s: PositiveFloat
    warmup: Count
    repeats: PositiveInt
    torch_threads: PositiveInt | None


class Filtering(Section):
    """Which candidates survive, given what was observed."""

    time_window_ms: tuple[PositiveFloat, PositiveFloat]
    agreement: PositiveFloat
    repeat_rtol: Annotated[float, Field(ge=0)]
    indistinguishable_rtol: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _check(self) -> Filtering:
        if self.time_window_ms[0] >= self.time_window_ms[1]:
            raise ValueError(
                f"time_window_ms: got {list(self.time_window_ms)}; the lower end must be below the upper end"
            )
        return self


class Decontamination(Section):
    """Repeats inside the set, and similarity to KernelBench."""

    max_similarity: Fraction
    kernelbench: Path
    minhash_permutations: Annotated[int, Field(ge=16, le=256)]
    test_share: Fraction

    @model_validator(mode="after")
    def _check(self) -> Decontamination:
        if self.kernelbench.suffix != ".parquet":
            raise ValueError(f"kernelbench: got '{self.kernelbench}'; allowed: a .parquet file of fingerprints")
        return self


class CodegenPolicy(Section):
    """Rule-based writer of fused kernels."""

    kind: Literal["codegen"]

    def lacks(self) -> list[str]:
        """What keeps it from being used: key, what it got, what is allowed. An entry that is not used may lack it."""
        return []


class OpenAIPolicy(LLM):
    """Any OpenAI-compatible server."""

    kind: Literal["openai"]


class ReplayPolicy(Section):
    """Plays recorded answers back while the tools run for real."""

    kind: Literal["replay"]
    trajectories: Path

    def lacks(self) -> list[str]:
        """See `CodegenPolicy.lacks`."""
        there = self.trajectories.is_file()
        what = "allowed: a file of trajectories, as data/{run}/{policy}/trajectories.jsonl.zst"
        return [] if there else [f"trajectories: got '{self.trajectories}', which is no file in {Path.cwd()}; {what}"]


class CommandPolicy(Section):
    """An outside coding agent, started in the workspace; ``base_url`` is the one server that it can reach, if any."""

    kind: Literal["command"]
    argv: Annotated[list[str], Field(min_length=1)]
    base_url: str | None
    api_key_env: str

    def lacks(self) -> list[str]:
        """See `CodegenPolicy.lacks`."""
        program = [] if self.argv[0].strip() else [f"argv: got {self.argv}; its first item names a program"]
        return program + _no_url(self.base_url)


Policy = Annotated[CodegenPolicy | OpenAIPolicy | ReplayPolicy | CommandPolicy, Field(discriminator="kind")]


class Rollouts(Section):
    """Which tasks are given to which policies, and how long each may try."""

    policies: Annotated[list[Name], Field(min_length=1)]
    tasks: PositiveInt
    backend: Literal["cpp", "cuda"]
    max_turns: PositiveInt
    max_tokens: PositiveInt
    timeout_s: PositiveFloat
    tool_timeout_s: PositiveFloat

    @model_validator(mode="after")
    def _check(self) -> Rollouts:
        _each_once("policies", self.policies)
        return self


class Judging(Section):
    """What is measured on every kernel."""

    device: Literal["cpu", "cuda"]
    correctness_trials: PositiveInt
    timing_pairs: PositiveInt
    min_sample_ms: PositiveFloat
    build_timeout_s: PositiveFloat
    timeout_s: PositiveFloat


class Results(Section):
    """Verdicts from the judge's measurements, and the numbers made of them."""

    rules: Literal["published", "strict"]
    faster_margin: Fraction
    fast_p: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)]
    bootstrap_samples: PositiveInt
    confidence: Annotated[float, Field(gt=0, lt=1)]

    @model_validator(mode="after")
    def _check(self) -> Results:
        if sorted(set(self.fast_p)) != self.fast_p:
            raise ValueError(f"fast_p: got {self.fast_p}; allowed: thresholds in rising order, each once")
        return self


def _inside(path: Path, folder: str) -> bool:
    """Whether a path lies in a folder of the current one, however it is written; neither need be there."""
    return Path(folder).resolve() in path.resolve().parents


class Params(Section):
    """All parameters of one run."""

    run: Name
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    measurements: Literal["fresh", "pinned"]
    execution: Execution
    sandbox: Sandbox
    operators: Operators
    synthesis: Synthesis
    observation: Observation
    filtering: Filtering
    decontamination: Decontamination
    policies: dict[Name, Policy]
    rollouts: Rollouts
    judging: Judging
    results: Results

    @model_validator(mode="after")
    def _check(self) -> Params:
        unknown = [p for p in self.rollouts.policies if p not in self.policies]
        if unknown:
            raise ValueError(f"rollouts.policies: got {unknown[0]!r}; policies defines {sorted(self.policies)}")
        needed = "cuda" if self.rollouts.backend == "cuda" else "cpu"
        if self.judging.device != needed:
            raise ValueError(
                f"judging.device: got {self.judging.device!r}; "
                f"rollouts.backend {self.rollouts.backend!r} needs {needed!r}"
            )
        kernelbench = self.decontamination.kernelbench
        own = [folder for folder in (f"data/{self.run}", f"results/{self.run}", "work") if _inside(kernelbench, folder)]
        if own:
            raise ValueError(
                f"decontamination.kernelbench: got '{kernelbench}'; {own[0]} holds what the run itself makes; "
                "allowed: a file of fingerprints, as `cuda-agent fingerprint-kernelbench` makes it, in another folder"
            )
        lacking = []
        if self.synthesis.composer == "llm":
            lacking += [f"synthesis.llm.{fault} (synthesis.composer is 'llm')" for fault in self.synthesis.llm.lacks()]
        if self.measurements == "fresh":  # pinned ones need none of what policies ask for
            lacking += [
                f"policies.{name}.{fault} (rollouts.policies has {name!r})"
                for name in self.rollouts.policies
                for fault in self.policies[name].lacks()
            ]
        if lacking:
            raise ValueError("\n  ".join(lacking))
        return self


def _wrong(error: ValidationError, model: type[BaseModel] | None, config: Any) -> ParamsError:
    return ParamsError("wrong parameters:\n  " + "\n  ".join(plain.explain(error, model, config, NAME)))


def parse(config: Mapping[str, Any]) -> Params:
    """Check a merged configuration.

    Raises:
        ParamsError: naming every wrong key, its value and what is allowed.
    """
    try:
        return Params.model_validate(dict(config))
    except ValidationError as error:
        raise _wrong(error, Params, config) from None


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``over`` on ``base``, mapping by mapping, as Snakemake does with several configuration files."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merge(out[key], value) if both else value
    return out


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ParamsError: the file is missing, is no YAML, has a key twice or holds something else.
    """
    try:
        found = strict_yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: not there; name the repository's folder, or go there") from None
    except strict_yaml.RepeatedKeyError as error:
        raise ParamsError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, Mapping | None):
        raise ParamsError(f"{path}: got {found!r}; allowed: a mapping of sections")
    return dict(found or {})


def check_keys(paths: Iterable[Path | str]) -> None:
    """See that no file of parameters has a key twice, of which Snakemake takes the last.

    Args:
        paths: files that Snakemake has read, as YAML or as JSON.

    Raises:
        ParamsError: one has; names the file, the key and its lines.
    """
    for path in map(Path, paths):
        try:
            strict_yaml.load(path.read_text(encoding="utf-8"))
        except strict_yaml.RepeatedKeyError as error:
            raise ParamsError(f"{path}: {error}") from None
        except yaml.YAMLError:
            continue  # JSON that is no YAML: Snakemake has read it


def known_runs(root: Path) -> list[str]:
    """Names of the runs that a repository has, sorted.

    Raises:
        ParamsError: it has none, as the folder is not the repository.
    """
    known = sorted(p.stem for p in (root / "workflow" / "runs").glob("*.yaml"))
    if not known:
        raise ParamsError(f"{root / 'workflow' / 'runs'}: holds no run; name the repository's folder, or go there")
    return known


def run_file(root: Path, name: Any) -> Path:
    """The file that says what a run changes.

    Raises:
        ParamsError: none is named, or there is no such file; names the runs that there are.
    """
    known = known_runs(root)
    if name is None:
        raise ParamsError(f"{root / 'params.yaml'}: has no key run, which names the run to make; known runs: {known}")
    if name not in known:
        raise ParamsError(f"run: got {name!r}; there is no workflow/runs/{name}.yaml; known runs: {known}")
    return root / "workflow" / "runs" / f"{name}.yaml"


def load(root: Path, run: str | None = None, overrides: Mapping[str, Any] | None = None) -> Params:
    """Parameters of a run as the workflow would see them: ``params.yaml``, the run's own file, then ``overrides``."""
    config = read_yaml(root / "params.yaml")
    overrides = overrides or {}
    name = overrides.get("run", config.get("run")) if run is None else run
    config = merge(config, read_yaml(run_file(root, name)))
    return parse(merge(config, {**overrides, "run": name}))


def read_policy(text: str) -> Policy:
    """One entry of ``policies`` from its JSON text.

    Raises:
        ParamsError: naming what is wrong.
    """
    try:
        return TypeAdapter(Policy).validate_json(text)
    except ValidationError as error:
        raise _wrong(error, None, text) from None
