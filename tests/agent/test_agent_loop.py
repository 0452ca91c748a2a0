"""The loop: when it ends, and how that is called."""

import threading

import pytest
from cuda_agent.agent.loop import Loop, Stopped
from cuda_agent.agent.policies.base import Completion, ContextFull, PolicyError, assistant, call
from cuda_agent.agent.tools.client import Result
from cuda_agent.sandbox import MachineError

OPENING = [{"role": "user", "content": "begin"}]
BASH = ("Bash", {"command": "true"})


class Tools:
    """Notes calls; does nothing."""

    def __init__(self):
        self.calls = []

    def call(self, tool, arguments, timeout_s):
        self.calls.append((tool, arguments, timeout_s))
        return Result("done", False)


class Script:
    """A policy that gives these answers; an exception among them is raised."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), []

    def step(self, messages, tools):
        self.seen.append(list(messages))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def calling(*calls, usage=(), **more):
    message = assistant("", *(call(name, arguments, i) for i, (name, arguments) in enumerate(calls)))
    return Completion(message, dict(usage), **more)


@pytest.fixture
def start(settings):
    def start(policy, stop=None, **limits):
        rollouts = settings.rollouts.model_copy(update=limits)
        tools = Tools()
        return Loop(policy, tools, rollouts, "test-agent-loop", stop or threading.Event()).run(OPENING), tools

    return start


def test_an_answer_without_calls_is_the_end(start):
    talk, tools = start(Script(calling(BASH, BASH), Completion(assistant("that was it"))))
    assert talk.status == "finished"
    assert [m["role"] for m in talk.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [m["tool_call_id"] for m in talk.messages if m["role"] == "tool"] == ["call_0", "call_1"]
    assert [c["turn"] for c in talk.calls] == [0, 0]
    assert len(tools.calls) == 2


def test_a_policy_may_give_up(start):
    assert start(Script(Completion(assistant("no rule"), gave_up=True)))[0].status == "gave_up"


def test_turns_are_counted(start):
    talk, tools = start(Script(calling(BASH)), max_turns=3)
    assert (talk.status, len(tools.calls), len(talk.usage)) == ("max_turns", 3, 3)


def test_tokens_of_the_whole_conversation_are_counted(start):
    usage = {"prompt_tokens": 90, "completion_tokens": 11}
    talk, tools = start(Script(calling(BASH, usage=usage)), max_tokens=100)
    assert (talk.status, tools.calls) == ("max_tokens", [])
    talk, _ = start(Script(calling(BASH, usage=usage), ContextFull("too long")), max_tokens=101)
    assert (talk.status, talk.error) == ("max_tokens", "too long")


def test_time_is_over_before_the_next_call(start):
    talk, tools = start(Script(calling(BASH)), timeout_s=1e-9)
    assert (talk.status, tools.calls) == ("timeout", [])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PolicyError("cannot"), "failed"),
        (KeyError("a mistake"), "failed"),
        (MachineError("server away"), "machine_error"),
    ],
)
def test_errors_have_a_status_and_keep_what_was_said_before(start, error, status):
    talk, _ = start(Script(calling(BASH), error))
    assert talk.status == status
    assert str(error) in talk.error
    assert len(talk.messages) == 3


def test_wrong_calls_are_answered_and_not_carried_out(start):
    talk, tools = start(Script(calling(("Fly", {}), ("Read", {})), Completion(assistant("ok"))))
    answers = [m["content"] for m in talk.messages if m["role"] == "tool"]
    assert "there is no tool 'Fly'" in answers[0]
    assert "file_path" in answers[1]
    assert tools.calls == []
    assert [c["failed"] for c in talk.calls] == [True, True]
    assert talk.status == "finished"


def test_malformed_tool_calls_do_not_end_the_rollout(start):
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}, {"id": "b", "function": {"name": 3}}]}
    talk, _ = start(Script(Completion(message), Completion(assistant("ok"))))
    assert talk.status == "finished"
    assert len(talk.calls) == 2


def test_an_answer_that_was_cut_is_no_last_word(start):
    talk, _ = start(Script(Completion(assistant("I think th"), cut=True), Completion(assistant("done"))))
    assert talk.status == "finished"
    assert [m["role"] for m in talk.messages] == ["user", "assistant", "user", "assistant"]


def test_time_limits_of_calls(start):
    limits = {"tool_timeout_s": 7, "timeout_s": 50}
    _, tools = start(Script(calling(BASH), calling(BASH, timeout_s=float("inf")), Completion(assistant(""))), **limits)
    assert tools.calls[0][2] == 7
    assert 7 < tools.calls[1][2] <= 50


def test_text_that_cannot_be_written_is_made_writable(start):
    talk, _ = start(Script(Completion(assistant("half \ud800"))))
    talk.messages[-1]["content"].encode()


def test_measuring_commands_have_the_device_alone(start, monkeypatch):
    import contextlib

    taken = []

    @contextlib.contextmanager
    def lock(device, *, exclusive):
        taken.append(exclusive)
        yield

    monkeypatch.setattr("cuda_agent.agent.loop.device_lock", lock)
    commands = ["ls", "python3 -m utils.profiling", "python3 -m utils.check", "python3 utils/profiling.py"]
    calls = [("Bash", {"command": c}) for c in [*commands, "cat profiling.log"]]
    start(Script(calling(*calls, ("Read", {"file_path": "x"})), Completion(assistant(""))))
    assert taken == [False, True, True, True, False]  # tools on files do not take it


def test_it_stops_when_the_job_does(start):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        start(Script(calling(BASH)), stop=stop)
