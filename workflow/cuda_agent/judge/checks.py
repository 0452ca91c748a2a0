"""Drive a candidate's child and the reference's child through all checks and the timing, from the parent."""

from __future__ import annotations

import math
import random
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cuda_agent.judge import inputs, layout, timing
from cuda_agent.sandbox import Limits, MachineError, Outcome, Pool, Session

_REFERENCE = "cuda_agent.judge.reference:"
_CANDIDATE = "cuda_agent.judge.candidate:"


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Answered(_Answer):
    changed: list[int]


class _Traced(_Answer):
    ops: dict[str, int]
    leaks: list[str]
    threads: Annotated[list[int], Field(min_length=2, max_length=2)]  # before and after
    intact: bool
    device_kernels: dict[str, int]
    kernels: dict[str, int]


# What each function of `candidate` answers. The child runs code that nobody has read, and may answer anything.
_NOTHING = TypeAdapter(None)
_ANSWERS = {"forward": TypeAdapter(_Answered), "ghost": TypeAdapter(_Answered), "traced": TypeAdapter(_Traced)}


class Ended(Exception):
    """The candidate's child did not do what it was asked: what it submitted is at fault."""

    def __init__(self, stage: str, status: str, error: str) -> None:
        super().__init__(error)
        self.stage, self.status, self.error = stage, status, error


class TaskFails(MachineError):
    """The task itself fails, whatever was submitted to it.

    Attributes:
        status: of the sandbox's `Outcome`.
    """

    def __init__(self, status: str, error: str) -> None:
        super().__init__(f"the task fails by itself: {'' if status == 'error' else f'{status}: '}{error}")
        self.status = status


class Reference:
    """The trusted child. What fails in it is never counted against the candidate."""

    def __init__(self, pool: Pool, limits: Limits, room: int) -> None:
        """``room``: bytes for each of inputs, weights and outputs; memory is taken only as it is used."""
        self.session = pool.session(limits, buffers={"in": room, "state": room, "got": room})

    def call(self, name: str, **payload: Any) -> Any:
        """Call a function of `reference`.

        Raises:
            TaskFails: the task did.
            MachineError: it failed for another reason.
        """
        outcome = self.session.call(_REFERENCE + name, payload)
        if outcome.status == "machine":
            raise MachineError(f"the reference: {name}: {outcome.error}")
        if outcome.status != "ok":
            raise TaskFails(outcome.status, outcome.error)
        return outcome.value


class Candidate:
    """The child that runs the submission."""

    def __init__(self, pool: Pool, limits: Limits, folder: Any, specs: dict[str, Any]) -> None:
        self.stage = "load"
        sizes = {"in": specs["inputs"], "state": specs["state"], "out": specs["outputs"]}
        buffers = {name: layout.total(kind) for name, kind in sizes.items()}
        self.session = pool.session(limits, folder, buffers=buffers)

    def call(self, name: str, **payload: Any) -> Any:
        """Call a function of `candidate`.

        Raises:
            Ended: it failed, by its own fault.
            MachineError: it failed, and not by its fault.
        """
        outcome: Outcome = self.session.call(_CANDIDATE + name, payload)
        if outcome.status == "machine":
            raise MachineError(f"the candidate's child: {outcome.error}")
        if outcome.status != "ok":
            status = "load" if self.stage == "load" and outcome.status == "error" else outcome.status
            raise Ended(self.stage, status, outcome.error)
        try:
            _ANSWERS.get(name, _NOTHING).validate_python(outcome.value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise Ended(self.stage, "error", f"malformed reply to {name}: {where}: {first['msg']}") from None
        return outcome.value


def _copy(source: Session, target: Session, specs: list[dict[str, Any]], name: str, to: str | None = None) -> None:
    size = layout.total(specs)
    target.buffer(to or name)[:size] = source.buffer(name)[:size]


class Examination:
    """One candidate against one reference, with secret seeds.

    Attributes:
        checks: records of what was compared, each with its name and figures; no verdict.
        launched: what was seen while the candidate ran.
    """

    def __init__(
        self, reference: Reference, candidate: Candidate, specs: dict[str, Any], judging: Any, rng: random.Random
    ) -> None:
        self.reference, self.candidate, self.specs = reference, candidate, specs
        self.judging, self.rng = judging, rng
        self.checks: list[dict[str, Any]] = []
        self.launched: dict[str, Any] = {}

    def _seed(self) -> int:
        return self.rng.getrandbits(48)

    def _weights(self, seed: int | None) -> None:
        self.reference.call("weights", seed=seed)
        _copy(self.reference.session, self.candidate.session, self.specs["state"], "state")
        self.candidate.call("load_weights")

    def _errors(self, *, scaled: bool) -> dict[str, Any]:
        _copy(self.candidate.session, self.reference.session, self.specs["outputs"], "out", "got")
        return self.reference.call("errors", scaled=scaled)

    def _ask(self, name: str = "forward") -> dict[str, Any]:
        """Hand the reference's inputs over and have them answered."""
        _copy(self.reference.session, self.candidate.session, self.specs["inputs"], "in")
        np.frombuffer(self.candidate.session.buffer("out"), np.uint8).fill(255)  # nothing stays of an earlier answer
        return self.candidate.call(name)

    def _compared(self, check: str, *, scaled: bool, **notes: Any) -> None:
        answer = self._ask()
        self.checks.append({"check": check, **notes, "changed": answer["changed"], **self._errors(scaled=scaled)})

    def correctness(self) -> None:
        """Fresh inputs, weights and distributions; each input changed by itself; a second call; kernels put to sleep.

        Raises:
            Ended, MachineError
        """
        names = list(inputs.DISTRIBUTIONS)
        for trial in range(self.judging.correctness_trials):
            self.candidate.stage = "load"
            weights = None if trial == 0 else self._seed()
            self._weights(weights)
            self.candidate.stage = "check"
            distribution, seed = names[trial % len(names)], self._seed()
            drawn = self.reference.call("draw", seed=seed, distribution=distribution)
            if not drawn["finite"] and distribution != "drawn":
                distribution = "drawn"
                drawn = self.reference.call("draw", seed=seed, distribution=distribution)
            notes = {"trial": trial, "distribution": distribution, "seed": seed, "weights": weights, **drawn}
            if not drawn["finite"]:
                self.checks.append({"check": "skipped", **notes})
                continue
            self._compared("outputs", scaled=distribution != "drawn", **notes)
            if trial == 0:
                self._compared("second call", scaled=False, **notes)
        self._weights(None)
        for index in range(len(self.specs["inputs"])):
            seed = self._seed()
            self.reference.call("draw", seed=seed, distribution="drawn")
            drawn = self.reference.call("perturb", index=index, seed=seed)
            if drawn["finite"]:
                self._compared("input changed", scaled=True, input=index, seed=seed, **drawn)
        self._watched()

    def _watched(self) -> None:
        """See what runs in forward, and whether the outputs come out right without the candidate's own kernels."""
        drawn = self.reference.call("draw", seed=self._seed(), distribution="drawn")
        try:
            self._ask("ghost")
            found = self._errors(scaled=False)
            self.launched["ghost_passed"] = bool(drawn["finite"]) and not (
                found["nonfinite"] or found["excess"] > 0 or found["mismatched"] > 0 or found["rms_error"] > 0.05
            )
        except Ended as end:
            if end.status != "error":
                raise
            self.launched["ghost_passed"] = False  # without its kernels it fails, as it should
        self.launched |= self._ask("traced")
        self.checks.append({"check": "watched call", "changed": [], **drawn, **self._errors(scaled=False)})

    def compile_baseline(self) -> None:
        """Draw the inputs that timing starts from, and compile the baseline for them."""
        self.reference.call("draw", seed=self._seed(), distribution="drawn")
        _copy(self.reference.session, self.candidate.session, self.specs["inputs"], "in")
        self.launched["compile_error"] = self.reference.call("compile_baseline")

    def timing(self) -> dict[str, list[float]]:
        """Samples in milliseconds by name, and checks of outputs of timed calls. After `compile_baseline`.

        Raises:
            Ended, MachineError
        """
        reference, candidate, specs = self.reference, self.candidate, self.specs
        candidate.stage = "time"

        def make_ring(sets: int, seed: int) -> None:
            reference.call("make_ring", sets=sets, seed=seed, turn=True)
            candidate.call("make_ring", sets=sets, seed=seed, turn=True)

        def compared(index: int, k: int) -> None:
            reference.call("answer", k=k)
            candidate.call("fetch", index=index)
            self.checks.append({"check": "timed output", "call": index, "changed": [], **self._errors(scaled=False)})

        run = {
            "candidate": lambda sets, places: candidate.call("run", sets=sets, places=places),
            "eager": lambda sets, places: reference.call("run", which="eager", sets=sets, places=places),
        }
        if not self.launched["compile_error"]:
            run["compile"] = lambda sets, places: reference.call("run", which="compile", sets=sets, places=places)
        sizes = [math.prod(s["shape"]) for s in specs["inputs"]]
        runners = timing.Runners(run, make_ring, compared)
        in_bytes, out_bytes = layout.total(specs["inputs"]), layout.total(specs["outputs"])
        return timing.measure(
            runners, sizes, in_bytes=in_bytes, out_bytes=out_bytes, judging=self.judging, rng=self.rng
        )
