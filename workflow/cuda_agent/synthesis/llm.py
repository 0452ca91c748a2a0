"""The LLM composer: a model behind an OpenAI-compatible endpoint writes the module.

The operators of candidate ``i`` are drawn as the stack composer draws them, so that both follow the same mix; what the
model answers is measured, not computed, and the row keeps the answer that worked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import openai

from cuda_agent import params as p
from cuda_agent.sandbox import Limits, MachineError, Pool
from cuda_agent.synthesis import prompt

PROOF_S = 90.0  # for loading, building and running one proposal
_MAX_ERROR = 2000  # characters of an error that is fed back


def client(params: p.LLM) -> openai.OpenAI:
    """The client for an endpoint; it retries by itself on rate limits, server errors and lost connections.

    Raises:
        ParamsError: no model is named.
        MachineError: the environment variable for the key is not set.
    """
    if faults := params.lacks():
        raise p.ParamsError("\n".join(f"synthesis.llm.{fault}" for fault in faults))
    key = os.environ.get(params.api_key_env)
    if key is None:
        raise MachineError(f"synthesis.llm.api_key_env: the environment has no {params.api_key_env}; set it to the key")
    return openai.OpenAI(base_url=params.base_url, api_key=key, timeout=params.timeout_s, max_retries=params.retries)


def _complete(connection: openai.OpenAI, params: p.LLM, messages: Sequence[dict[str, str]]) -> str:
    """One answer.

    Raises:
        MachineError: the server is away, refuses the key or the model, or keeps failing.
    """
    try:
        completion = connection.chat.completions.create(
            model=params.model,
            messages=list(messages),  # type: ignore[arg-type]
            temperature=params.temperature,
            max_tokens=params.max_tokens,
        )
    except openai.OpenAIError as error:
        raise MachineError(f"synthesis.llm: {connection.base_url}: {type(error).__name__}: {error}") from error
    return (completion.choices[0].message.content or "") if completion.choices else ""


def propose(
    connection: openai.OpenAI, pool: Pool, operators: Sequence[str], target_bytes: int, params: p.Synthesis
) -> str:
    """A module that loads, builds and runs, or the last one that did not after ``repair_rounds`` corrections.

    A proposal that still fails is returned all the same: it becomes a candidate, and observing it gives the reason for
    which it is rejected.

    Raises:
        MachineError: no answer could be had, or no child could be started.
    """
    messages = prompt.first(operators, target_bytes)
    code = ""
    for round_ in range(params.repair_rounds + 1):
        answer = _complete(connection, params.llm, messages)
        code = prompt.code_of(answer)
        if code:
            outcome = pool.run(
                "cuda_agent.synthesis.proof:run_once", {"code": code}, limits=Limits.of(pool.sandbox, PROOF_S)
            )
            if outcome.status == "ok":
                return code
            if outcome.status == "machine":
                raise MachineError(f"a proposal could not be tried: {outcome.error}")
            stage, error = outcome.stage, f"{outcome.status}: {outcome.error}"[:_MAX_ERROR]
        else:
            stage, error = "parse", "the answer has no Python code block"
        if round_ < params.repair_rounds:
            messages += prompt.repair(answer, stage, error)
    return code
