"""The step ``candidates``: which composer makes which candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cuda_agent import params as p
from cuda_agent import provenance, records
from cuda_agent.journal import Journal
from cuda_agent.sandbox import Pool
from cuda_agent.synthesis import blocks, catalogue, llm
from cuda_agent.synthesis.catalogue import Operator
from cuda_agent.synthesis.stack import Stack, sources, target_of

Plan = tuple[int, str, list[str], str]  # number, data source, operators, and the stack composer's text


def compose(
    operators: Iterable[records.Row],
    params: p.Synthesis,
    seed: int,
    indices: Sequence[int] | None = None,
    *,
    sandbox: p.Sandbox | None = None,
    workers: int = 1,
    journal: Journal | None = None,
    progress: Callable[..., None] | None = None,
) -> list[records.Row]:
    """Compose candidates.

    Args:
        operators: rows of `records.OPERATORS`.
        params: the ``synthesis`` section.
        seed: of the run.
        indices: numbers of the candidates to make, of ``range(params.candidates)``; None for all. A candidate does
            not depend on which others are made.
        sandbox: the ``sandbox`` section; only the LLM composer runs what it proposes, and needs it.
        workers: proposals at once; LLM composer only.
        journal: where finished candidates are kept; LLM composer only.
        progress: called once for each candidate.

    Returns:
        Rows of `records.CANDIDATES`, in the order of the indices.

    Raises:
        ValueError: the catalogue or the sizes leave nothing to compose; the message names the parameter.
        MachineError: the LLM cannot be reached.
    """
    known = catalogue.read(operators)
    stack = Stack(known, params.target_bytes, seed)
    numbers = range(params.candidates) if indices is None else indices
    mix = sources(params.mix, params.candidates)
    plans = [_plan(known, stack, params, seed, (index, *mix[index])) for index in numbers]
    texts = {index: text for index, _, _, text in plans}
    if params.composer == "llm":
        if sandbox is None:
            raise ValueError("synthesis.composer: llm runs what it proposes, and needs the sandbox section")
        texts = _written(plans, params, seed, sandbox, workers=workers, journal=journal, progress=progress)
    elif progress:
        for _ in plans:
            progress()
    licences = {op.name: op.spdx for op in known}
    return [
        {
            "candidate_id": f"c{index:06d}",
            "ops": [n.rpartition(".")[2] for n in names],
            "data_source": source,
            "code": texts[index],
            "composer": params.composer,
            "operators": names,
            "spdx": sorted({licences[n] for n in names}),
        }
        for index, source, names, _ in plans
    ]


def _plan(known: Sequence[Operator], stack: Stack, params: p.Synthesis, seed: int, place: tuple[int, str, int]) -> Plan:
    index, source, rank = place
    if source == "transformers":
        block = blocks.compose(known, params.target_bytes, seed, rank, index)
        return index, source, [block.operator.name], block.code
    draft = stack.compose(source, rank, index)
    return index, source, draft.operators, draft.render()


def _written(
    plans: Sequence[Plan],
    params: p.Synthesis,
    seed: int,
    sandbox: p.Sandbox,
    *,
    workers: int,
    journal: Journal | None,
    progress: Callable[..., None] | None,
) -> dict[int, str]:
    """The texts that the model wrote. A module of transformers stays whole, as the stack composer imports it."""
    connection = llm.client(params.llm)
    code = provenance.code_hash("cuda_agent.synthesis.llm")
    settings = params.llm.model_dump() | {"repair_rounds": params.repair_rounds}
    texts: dict[int, str] = {}
    with Pool("cpu", sandbox, workers, compiles=False) as pool:

        def drive(plan: Plan) -> tuple[str, bool]:
            index, source, names, text = plan
            if source == "transformers":
                return text, False
            key = Journal.key("llm", seed, index, names, settings, code)
            kept: Any = journal.get(key) if journal else None
            if kept is not None:
                return kept["code"], True
            text = llm.propose(connection, pool, names, target_of(params.target_bytes, seed, index), params)
            if journal:
                journal.put(key, {"code": text})
            return text, False

        for plan, (text, resumed) in pool.map(drive, plans):
            texts[plan[0]] = text
            if progress:
                progress(f"c{plan[0]:06d}", resumed=resumed)
    return texts
