"""The LLM composer against a server that says what the test tells it to."""

import json
import threading
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import small_catalogue
from cuda_agent import params as p
from cuda_agent.journal import Journal
from cuda_agent.sandbox import MachineError, Pool
from cuda_agent.synthesis import candidates, compose, prompt

ROWS = small_catalogue.rows()
GOOD = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.sin(x)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""
NO_SUCH = GOOD.replace("torch.sin", "torch.no_such_function")
NOT_FINITE = GOOD.replace("torch.sin(x)", "torch.log(-x.abs())")
SANDBOX = p.load(Path(__file__).parents[2]).sandbox


def fenced(code):
    return f"Here it is.\n```python\n{code}```\n"


@contextmanager
def serve(script):
    """A server of chat completions: each entry of the script is an answer, or a status to refuse with."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            entry = script[min(len(seen), len(script)) - 1]
            message = {"role": "assistant", "content": entry}
            body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
            body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
            if isinstance(entry, int):
                body = {"error": {"message": "busy", "type": "error"}}
            data = json.dumps(body).encode()
            self.send_response(entry if isinstance(entry, int) else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After-Ms", "1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def pool():
    with Pool("cpu", SANDBOX, compiles=False) as pool:
        yield pool


@pytest.fixture(autouse=True)
def environment(monkeypatch, pool):
    monkeypatch.setenv("SYNTHESIS_TEST_KEY", "secret")
    monkeypatch.setattr(candidates, "Pool", lambda *_, **__: nullcontext(pool))  # starting one takes seconds


def composed(url, journal=None, retries=0, model="m"):
    base = small_catalogue.synthesis().llm.model_dump()
    llm = {**base, "base_url": url, "retries": retries, "model": model}
    params = small_catalogue.synthesis(composer="llm", llm=llm)
    return compose(ROWS, params, 5, [3], sandbox=SANDBOX, journal=journal)[0]


def test_errors_are_fed_back_until_the_module_works():
    with serve([fenced(NO_SUCH), fenced(NOT_FINITE), fenced(GOOD)]) as (url, seen):
        row = composed(url)
    assert row["code"] == GOOD
    assert row["composer"] == "llm"
    assert [m["role"] for m in seen[2]["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "no_such_function" in seen[1]["messages"][-1]["content"]
    assert "NaN or infinite" in seen[2]["messages"][-1]["content"]
    assert all(name in seen[0]["messages"][1]["content"] for name in row["operators"])


def test_after_the_last_round_the_broken_module_stays_a_candidate():
    with serve([fenced(NO_SUCH)]) as (url, seen):
        row = composed(url)
    assert row["code"] == NO_SUCH
    assert len(seen) == 3


def test_an_answer_without_code_is_asked_for_again():
    with serve(["I would rather not.", fenced(GOOD)]) as (url, seen):
        assert composed(url)["code"] == GOOD
    assert "no Python code block" in seen[1]["messages"][-1]["content"]


def test_a_busy_server_is_asked_again():
    with serve([429, 503, fenced(GOOD)]) as (url, seen):
        assert composed(url, retries=3)["code"] == GOOD
    assert len(seen) == 3


def test_a_server_that_stays_busy_is_the_machines_fault():
    with serve([503]) as (url, seen), pytest.raises(MachineError, match=r"synthesis\.llm"):
        composed(url, retries=1)
    assert len(seen) == 2


def test_a_server_that_is_away_is_the_machines_fault():
    with serve([fenced(GOOD)]) as (url, _):
        gone = url
    with pytest.raises(MachineError, match="Connection"):
        composed(gone)


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(p.ParamsError, match=r"synthesis\.llm\.model"):
        composed("http://127.0.0.1:9", model="")
    monkeypatch.delenv("SYNTHESIS_TEST_KEY")
    with pytest.raises(MachineError, match="SYNTHESIS_TEST_KEY"):
        composed("http://127.0.0.1:9")


def test_a_finished_candidate_is_not_asked_for_again(tmp_path):
    with serve([fenced(GOOD)]) as (url, seen):
        first = composed(url, Journal(tmp_path))
        assert composed(url, Journal(tmp_path)) == first
    assert len(seen) == 1


def test_the_longest_block_is_the_module():
    assert prompt.code_of(f"Use\n```python\nimport torch\n```\nor\n{fenced(GOOD)}") == GOOD
    assert prompt.code_of("```cpp\nint x;\n```") == ""
