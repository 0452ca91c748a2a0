"""A model behind any server that speaks OpenAI's chat completions with tool calls.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import openai

from cuda_agent.agent.policies.base import Completion, ContextFull, Message, PolicyError
from cuda_agent.params import ParamsError
from cuda_agent.sandbox import MachineError

# What is kept of an answer and sent back with the next request; the last three are how servers name a model's thoughts.
_KEPT = ("role", "content", "tool_calls", "reasoning_content", "reasoning", "reasoning_details")
_CONTEXT = ("context_length_exceeded", "context length", "maximum context", "too many tokens", "exceeds the context")


class OpenAIPolicy:
    """Ask a server for each answer. Requests that fail for a passing reason are repeated by the client.

    Raises:
        ParamsError: there is no key where one is needed.
    """

    def __init__(self, params: Any, name: str) -> None:
        key = os.environ.get(params.api_key_env)
        if not key and params.base_url is None:
            raise ParamsError(
                f"policies.{name}.api_key_env: the environment variable {params.api_key_env} is not set; "
                "a server of your own that needs no key is named by base_url"
            )
        self._params = params
        self._limit = "max_tokens"
        self._key = key or "none"
        self._seconds = params.timeout_s * (params.retries + 1)

    async def _answer(self, arguments: dict[str, Any]) -> Any:
        """One answer in bounded time: the client's own limit is that between two bytes, and servers may drip."""
        limits = {"timeout": self._params.timeout_s, "max_retries": self._params.retries}
        async with openai.AsyncOpenAI(base_url=self._params.base_url, api_key=self._key, **limits) as client:
            return await asyncio.wait_for(client.chat.completions.create(**arguments), self._seconds)

    def _ask(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Any:
        arguments: dict[str, Any] = {
            "model": self._params.model,
            "messages": list(messages),
            "tools": list(tools),
            "temperature": self._params.temperature,
            self._limit: self._params.max_tokens,
        }
        return asyncio.run(self._answer(arguments))

    def step(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """See `Policy`."""
        where = f"{self._params.base_url or 'the default server'} ({self._params.model})"
        try:
            try:
                response = self._ask(messages, tools)
            except openai.BadRequestError as error:
                if "max_completion_tokens" not in str(error) or self._limit != "max_tokens":
                    raise
                self._limit = "max_completion_tokens"  # the newer name; most servers know only the older
                response = self._ask(messages, tools)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            said = f"{error.code} {error}".lower()
            kind = ContextFull if any(text in said for text in _CONTEXT) else PolicyError
            raise kind(f"{where} refused the conversation: {error}") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise MachineError(f"{where} refused: {error}; check base_url, model and api_key_env") from None
        except openai.OpenAIError as error:
            raise MachineError(f"{where} gave no answer: {type(error).__name__}: {error}") from None
        except TimeoutError:
            raise MachineError(f"{where} gave no whole answer in {self._seconds:g} s") from None
        except ValueError as error:  # what is no JSON, or no text
            raise MachineError(f"{where} answered with something that is no completion: {error}") from None
        try:
            return self._completion(response, len(messages))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise MachineError(f"{where} answered with something that is no completion: {error}") from None

    @staticmethod
    def _completion(response: Any, place: int) -> Completion:
        choice = response.choices[0]
        message = choice.message.model_dump(mode="json", exclude_none=True)
        message = {key: message[key] for key in _KEPT if key in message}
        message["content"] = message.get("content") or ""
        if message.get("role") != "assistant" or not isinstance(message["content"], str):
            raise ValueError(f"a message of role {message.get('role')!r}, content {type(message['content']).__name__}")
        for number, call in enumerate(message.get("tool_calls", [])):
            call["id"] = call.get("id") or f"call_{place}_{number}"
            function = call["function"]
            function.setdefault("arguments", "{}")  # some servers leave them out where there are none
            texts = {"id": call["id"], "name": function["name"], "arguments": function["arguments"]}
            if wrong := [key for key, value in texts.items() if not isinstance(value, str)]:
                raise ValueError(f"a tool call whose {wrong[0]} is no text")
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
        usage = response.usage
        counted = ("prompt_tokens", "completion_tokens")
        tokens = {key: int(getattr(usage, key, None) or 0) for key in counted} if usage else {}
        return Completion(message, tokens, cut=choice.finish_reason == "length")
