"""The step ``operators``: every operator that the installed libraries offer, tried in sandboxed children."""

from __future__ import annotations

import importlib.metadata
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from cuda_agent import provenance, records
from cuda_agent.errors import UserError
from cuda_agent.journal import Journal
from cuda_agent.params import Operators, Sandbox
from cuda_agent.sandbox import Limits, MachineError, Outcome, Pool, Session

OPERATORS = 64  # torch operators that share a child
MODELS = 10  # models of transformers that do
_DISCOVER_S = 120.0
_SPDX = {"torch": "BSD-3-Clause", "transformers": "Apache-2.0"}
_TRY = {
    "torch": "cuda_agent.operators.trial:try_operator",
    "transformers": "cuda_agent.operators.modeling:try_operator",
}

Spec = dict[str, str]
Tried = tuple[Spec, dict[str, Any]]
Batch = tuple[str, list[Any]]  # a source, and its operators (torch) or models (transformers)


def discover(pool: Pool, params: Operators, sandbox: Sandbox) -> list[Batch]:
    """What there is to try, in batches that do not depend on the number of workers.

    Raises:
        MachineError: looking into a library failed.
    """
    batches: list[Batch] = []
    with pool.session(Limits.of(sandbox, _DISCOVER_S)) as session:
        if "torch" in params.sources:
            specs = _named(params, _value(session.call("cuda_agent.operators.discover:torch_operators", {})))
            batches += [("torch", specs[i : i + OPERATORS]) for i in range(0, len(specs), OPERATORS)]
        if "transformers" in params.sources:
            models = _value(session.call("cuda_agent.operators.discover:transformers_models", {}))
            models = models[: params.transformers_models]
            batches += [("transformers", models[i : i + MODELS]) for i in range(0, len(models), MODELS)]
    return batches


def _value(outcome: Outcome) -> Any:
    if outcome.status != "ok":
        raise MachineError(f"operators cannot be discovered: {outcome.status}: {outcome.error}")
    return outcome.value


def _named(params: Operators, specs: list[Spec]) -> list[Spec]:
    return [spec for spec in specs if re.fullmatch(params.names, spec["name"])]


def _try_batch(pool: Pool, batch: Batch, params: Operators, sandbox: Sandbox) -> list[Tried]:
    """Results for a batch, in its order. A child that an operator ended is replaced for those after it."""
    source, specs = batch
    if source == "transformers":
        with pool.session(Limits.of(sandbox, _DISCOVER_S)) as session:
            payload = {"models": specs}
            specs = _named(
                params, _value(session.call("cuda_agent.operators.discover:transformers_operators", payload))
            )
            return _try_specs(pool, source, specs, params, sandbox, session=session)
    return _try_specs(pool, source, specs, params, sandbox, session=None)


def _try_specs(
    pool: Pool, source: str, specs: list[Spec], params: Operators, sandbox: Sandbox, *, session: Session | None
) -> list[Tried]:
    tried: list[Tried] = []
    for spec in specs:
        if session is None:
            session = pool.session(Limits.of(sandbox, params.timeout_s * (len(specs) - len(tried)) + _DISCOVER_S))
        payload = {"name": spec["name"], "spelling": spec["spelling"]}
        outcome = session.call(_TRY[source], payload, timeout_s=params.timeout_s)
        if outcome.status == "machine":
            session.close()
            raise MachineError(f"{spec['name']}: {outcome.error}")
        result = outcome.value
        if outcome.status != "ok":
            # Which signal memory that was overwritten ends in differs from one time to the next.
            why = outcome.error.split("\n")[0][:200] if outcome.status == "error" else outcome.status
            result = {"status": "excluded", "reason": f"ended the trial: {why}"}
        tried.append((spec, result))
        if outcome.status not in ("ok", "error"):
            session.close()
            session = None
    if session is not None:
        session.close()
    return tried


def collect(
    params: Operators,
    sandbox: Sandbox,
    workers: int,
    journal: Journal | None = None,
    progress: Callable[..., None] | None = None,
) -> list[records.Row]:
    """Collect operators from the installed libraries.

    Args:
        params: the ``operators`` section.
        sandbox: the ``sandbox`` section.
        workers: children at once.
        journal: where finished batches are kept.
        progress: called once for each finished batch.

    Returns:
        Rows of `records.OPERATORS`, sorted by name: the same for the same installed libraries.

    Raises:
        MachineError: a library cannot be looked into, or no child can be started.
        UserError: no name is what ``operators.names`` asks for.
    """
    code = provenance.code_hash("cuda_agent.operators.collection")
    versions = {source: importlib.metadata.version(source) for source in params.sources}
    found: list[tuple[str, Spec, dict[str, Any]]] = []
    with Pool("cpu", sandbox, workers, compiles=False) as pool:
        batches = discover(pool, params, sandbox)
        keys = [Journal.key(source, specs, params.names, versions[source], code) for source, specs in batches]

        def drive(number: int) -> tuple[list[Tried], bool]:
            kept = journal.get(keys[number]) if journal else None
            return (kept, True) if kept is not None else (_try_batch(pool, batches[number], params, sandbox), False)

        for number, (tried, resumed) in pool.map(drive, range(len(batches))):
            source = batches[number][0]
            if journal and not resumed:
                journal.put(keys[number], tried)
            if progress:
                progress(source, resumed=resumed)
            found += [(source, spec, result) for spec, result in tried]
    if not found:
        libraries = " or ".join(params.sources)
        raise UserError(f"operators.names: no operator of {libraries} is named {params.names!r} from end to end")
    found.sort(key=lambda f: f[1]["name"])
    same = _same_as(found)
    return [_row(*item, versions[item[0]], same) for item in found]


def _same_as(found: list[tuple[str, Spec, dict[str, Any]]]) -> dict[str, str]:
    """For each verified operator the name of its group: those that ran the same ATen operators and gave the same."""
    groups: dict[str, list[str]] = defaultdict(list)
    for _, spec, result in found:
        if result["status"] == "verified":
            groups[records.dumps([result["recipe"]["aten"], result["digest"]])].append(spec["name"])
    return {name: min(names, key=lambda n: (n.count("."), n)) for names in groups.values() for name in names}


def _row(source: str, spec: Spec, result: dict[str, Any], version: str, same: dict[str, str]) -> records.Row:
    verified = result["status"] == "verified"
    recipe = result["recipe"] | {"same_as": same[spec["name"]]} if verified else {}
    return {
        "name": spec["name"],
        "source": source,
        "kind": result.get("kind", ""),
        "spelling": spec["spelling"],
        "status": result["status"],
        "reason": result["reason"],
        "recipe": records.dumps(recipe),
        "examples": records.dumps(result.get("examples", [])),
        "source_module": spec["source_module"],
        "version": version,
        "spdx": _SPDX[source],
    }
