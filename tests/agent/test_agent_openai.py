"""A model behind a server: what is sent, what is kept, and whose fault a failure is."""

import pytest
from cuda_agent.agent.policies import ContextFull, PolicyError, make_policy
from cuda_agent.agent.tools import schemas
from cuda_agent.params import ParamsError
from cuda_agent.sandbox import MachineError
from scripted_server import DRIP, answer, refusal, serve

MESSAGES = [{"role": "user", "content": "begin"}]


@pytest.fixture
def ask(runs):
    """One answer from a server with this script."""

    def ask(*script, **changes):
        with serve(list(script)) as server:
            policy = make_policy("p", runs.policy(base_url=server.url, **changes))
            try:
                return policy.step(MESSAGES, schemas.definitions()), server
            except Exception as error:
                error.server = server
                raise

    return ask


def test_request_and_answer(ask, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    thought = {"reasoning_content": "hm"}
    script = answer("so", [("Bash", {"command": "ls"})], **thought)
    completion, server = ask(script, api_key_env="MY_KEY", temperature=0.5, max_tokens=77)
    body = server.requests[0]
    assert (body["model"], body["temperature"], body["max_tokens"], body["messages"]) == ("m", 0.5, 77, MESSAGES)
    assert body["tools"] == schemas.definitions()
    assert server.headers[0]["Authorization"] == "Bearer k"
    assert completion.message["tool_calls"][0]["function"] == {"name": "Bash", "arguments": '{"command": "ls"}'}
    assert completion.message["reasoning_content"] == "hm"
    assert completion.usage == {"prompt_tokens": 100, "completion_tokens": 10}
    assert not completion.cut


def test_an_answer_at_its_limit_is_marked(ask):
    assert ask(answer("so I", finish="length"))[0].cut


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_failures_are_tried_again(ask, status):
    completion, server = ask(refusal(status, "busy"), answer("done"))
    assert completion.message == {"role": "assistant", "content": "done"}
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("entry", "kind", "requests"),
    [
        (refusal(503, "busy"), MachineError, 2),
        (refusal(401, "bad key"), MachineError, 1),
        (refusal(404, "no such model"), MachineError, 1),
        ((200, {"object": "list"}), MachineError, 1),
        ((200, b'{"choices": [{"mess'), MachineError, 1),
        ((200, b""), MachineError, 1),
        ((200, b"\xff\xfe{"), MachineError, 1),
        ((200, b"[1, 2]"), MachineError, 1),
        ((200, {"choices": "abc"}), MachineError, 1),
        ((200, {"choices": [{}]}), MachineError, 1),
        ((200, {"choices": [{"message": None}]}), MachineError, 1),
        (answer(["not", "text"]), MachineError, 1),
        (answer("mine", role="user"), MachineError, 1),
        (answer("x", tokens=("many", 1)), MachineError, 1),
        (answer("x", tool_calls="abc"), MachineError, 1),
        (answer("x", tool_calls=[1]), MachineError, 1),
        (answer("x", tool_calls={"id": "c0"}), MachineError, 1),
        (answer("x", tool_calls=[{"id": "c0", "function": "Bash"}]), MachineError, 1),
        (answer("x", tool_calls=[{"id": "c0", "function": None}]), MachineError, 1),
        (answer("x", tool_calls=[{"id": "c0", "function": {"name": ["Bash"], "arguments": "{}"}}]), MachineError, 1),
        (answer("x", tool_calls=[{"id": "c0", "function": {"name": "Bash", "arguments": {}}}]), MachineError, 1),
        (answer("x", tool_calls=[{"id": [1], "function": {"name": "Bash", "arguments": "{}"}}]), MachineError, 1),
        (refusal(400, "messages: bad form"), PolicyError, 1),
        (refusal(400, "too long", "context_length_exceeded"), ContextFull, 1),
        (refusal(400, "This model's maximum context length is 10 tokens"), ContextFull, 1),
    ],
)
def test_whose_fault_a_failure_is(ask, entry, kind, requests):
    with pytest.raises(kind) as caught:
        ask(entry)
    assert type(caught.value) is kind
    assert len(caught.value.server.requests) == requests


def test_a_server_that_drips_without_end_is_given_up(runs):
    with serve([(200, DRIP)]) as server:
        policy = make_policy("p", runs.policy(base_url=server.url, timeout_s=0.3, retries=0))
        with pytest.raises(MachineError, match=r"gave no whole answer in 0\.3 s"):
            policy.step(MESSAGES, [])


def test_nobody_there(runs):
    policy = make_policy("p", runs.policy(base_url="http://127.0.0.1:9/v1", retries=0))
    with pytest.raises(MachineError, match=r"127\.0\.0\.1:9"):
        policy.step(MESSAGES, [])


def test_servers_that_want_the_newer_name_of_the_limit(ask):
    _, server = ask(refusal(400, "Use 'max_completion_tokens' instead."), answer("done"))
    assert "max_tokens" not in server.requests[1]
    assert server.requests[1]["max_completion_tokens"] == server.requests[0]["max_tokens"]


def test_calls_without_arguments_have_none(ask):
    called = [{"id": "c0", "type": "function", "function": {"name": "Bash"}}]
    completion, _ = ask(answer("", tool_calls=called))
    assert completion.message["tool_calls"][0]["function"] == {"name": "Bash", "arguments": "{}"}


def test_calls_without_an_id_get_one(ask):
    def strip(body):
        status, value = answer("", [("Bash", {"command": "ls"}), ("Bash", {"command": "ls"})])
        for call in value["choices"][0]["message"]["tool_calls"]:
            call["id"] = ""
        return status, value

    ids = [call["id"] for call in ask(strip)[0].message["tool_calls"]]
    assert all(ids)
    assert len(set(ids)) == 2


def test_what_is_missing_is_named(runs, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ParamsError, match=r"policies\.mine\.model"):
        make_policy("mine", runs.policy(model=""))
    with pytest.raises(ParamsError, match=r"policies\.mine\.api_key_env.*OPENAI_API_KEY"):
        make_policy("mine", runs.policy())
