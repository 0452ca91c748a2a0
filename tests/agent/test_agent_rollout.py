"""Whole rollouts: a scripted server, the real sandbox, a real build, and the recording of it."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from agent_runs import CODE, ROOT
from cuda_agent import params, provenance, records
from cuda_agent.agent.policies.replay import ReplayMismatch
from cuda_agent.sandbox import MachineError
from scripted_server import answer, refusal, serve

KERNEL = """\
extern "C" void scaled_relu(float* out, const float* x, long n) {
  for (long i = 0; i < n; ++i) out[i] = x[i] > 0 ? 2 * x[i] : 0;
}
"""
BINDING = """\
#include "../binding_registry.h"
extern "C" void scaled_relu(float* out, const float* x, long n);
static void scaled_relu_forward(Tensor out, Tensor x) { scaled_relu(data<float>(out), data<float>(x), x.numel()); }
REGISTER_BINDING(scaled_relu_forward, scaled_relu_forward)
"""
MODEL = """\
import cuda_extension
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cuda_extension.scaled_relu_forward(out, x)
        return out
"""
WRITES = [
    ("Write", {"file_path": "kernels/scaled_relu.cpp", "content": KERNEL}),
    ("Write", {"file_path": "kernels/scaled_relu_binding.cpp", "content": BINDING}),
    ("Write", {"file_path": "model_new.py", "content": MODEL}),
]
WORK = [
    answer("", [("Read", {"file_path": "model.py"}), ("Read", {"file_path": "model_new.py"})]),
    answer("", [("Bash", {"command": "rm kernels/*; ls -la"}), *WRITES]),
    answer("", [("Bash", {"command": "bash utils/compile.sh && python3 -m utils.verification"})]),
    answer("Done."),
]


def touch(text="# x\n"):
    """A rollout that leaves something: one command, one last word."""
    return [answer("", [("Bash", {"command": f"printf {text!r} > model_new.py"})]), answer("Done.")]


def test_a_kernel_is_written_built_and_verified(runs, tmp_path):
    with serve(WORK) as server:
        (trajectory,), (submission,) = runs(runs.policy(base_url=server.url))
        assert server.requests[1]["messages"] == trajectory["messages"][:5]
    results = [m["content"] for m in trajectory["messages"] if m["role"] == "tool"]
    assert "class Model(nn.Module)" in results[0]
    assert "verified on 5 sets of inputs (cpu)" in results[-1]
    assert trajectory["status"] == submission["status"] == "finished"
    assert json.loads(submission["files"]) == {call["file_path"]: call["content"] for _, call in WRITES}
    assert (submission["turns"], submission["tool_calls"]) == (4, 7)
    assert (submission["prompt_tokens"], submission["completion_tokens"]) == (400, 40)
    assert "scripts" not in json.dumps(trajectory["messages"])  # no folder of this machine
    records.write(tmp_path / "s.parquet", [submission], records.SUBMISSIONS)
    records.write_jsonl(tmp_path / "t.jsonl.zst", [trajectory])
    assert list(records.read_jsonl(tmp_path / "t.jsonl.zst")) == [trajectory]


def test_a_replay_says_the_same_or_what_is_different(runs, tmp_path):
    times = ("Bash", {"command": "echo took $RANDOM ms, pid $$; date; ls -l model_new.py; false"})
    with serve([WORK[0], answer("", [times, *WRITES[1:]]), answer("Done.")]) as server:
        (trajectory,), (submission,) = runs(runs.policy(base_url=server.url))
    path = tmp_path / "t.jsonl.zst"
    records.write_jsonl(path, [trajectory])

    replay = params.ReplayPolicy(kind="replay", trajectories=path)
    (again,), (submitted,) = runs(replay)
    assert submitted["files"] == submission["files"]
    for column in ("status", "usage", "calls"):
        assert again[column] == trajectory[column]

    changed = json.loads(json.dumps(trajectory))
    changed["messages"][3]["content"] = changed["messages"][3]["content"].replace("relu(x) * 2", "relu(x) * 3")
    records.write_jsonl(path, [changed])
    with pytest.raises(ReplayMismatch, match=r"message 3, the result of Read .*model\.py.*\* 3.*\* 2"):
        runs(replay)


def test_replay_of_another_task_is_refused(runs, tmp_path):
    records.write_jsonl(tmp_path / "t", [{"task_id": "other", "policy": "p", "messages": [], "tools": []}])
    with pytest.raises(ReplayMismatch, match="no trajectory of task t0"):
        runs(params.ReplayPolicy(kind="replay", trajectories=tmp_path / "t"))


def test_who_leaves_the_example_as_it_is_gave_up(runs):
    with serve([answer("I cannot.")]) as server:
        (trajectory,), (submission,) = runs(runs.policy(base_url=server.url))
    assert (trajectory["status"], submission["status"], submission["files"]) == ("gave_up", "gave_up", "{}")


def test_a_limit_keeps_what_was_written_before(runs):
    with serve(touch()[:1]) as server:
        _, (submission,) = runs(runs.policy(base_url=server.url), max_turns=2)
    assert submission["status"] == "max_turns"
    assert json.loads(submission["files"])["model_new.py"] == "# x\n"


@pytest.mark.parametrize("made", ["mkdir", "mkfifo", "ln -s model_new.py"])
def test_what_is_no_file_is_left_out_and_no_fault_of_the_machine(runs, made):
    spoil = ("Bash", {"command": f"rm model_new.py; {made} model_new.py"})
    with serve([answer("", [spoil]), answer("Done.")]) as server:
        _, (submission,) = runs(runs.policy(base_url=server.url))
    assert submission["status"] == "finished"
    assert list(json.loads(submission["files"])) == ["kernels/axpby.cpp", "kernels/axpby_binding.cpp"]


def test_a_server_that_comes_back_costs_nothing(runs):
    with serve([refusal(503, "away"), *touch()]) as server:
        (trajectory,), _ = runs(runs.policy(base_url=server.url, retries=0))
    assert trajectory["status"] == "finished"
    assert len(trajectory["usage"]) == 2


def test_a_server_that_stays_away_stops_the_job_and_the_next_tries_again(runs):
    with serve([refusal(503, "away")]) as server, pytest.raises(MachineError, match=r"none of 2 rollouts.*away"):
        runs(runs.policy(base_url=server.url, retries=0), codes=[CODE, CODE])

    def one_of_two(body):
        return refusal(503, "away") if len(server.requests) > 2 else touch()[len(server.requests) - 1]

    with serve([one_of_two]) as server:
        policy = runs.policy(base_url=server.url, retries=0)
        trajectories, _ = runs(policy, codes=[CODE, CODE])
        assert [t["status"] for t in trajectories] == ["finished", "machine_error"]
        before = len(server.requests)
        server.script[:] = [None] * before + touch()
        trajectories, submissions = runs(policy, codes=[CODE, CODE])
        assert len(server.requests) == before + 2
    assert [s["status"] for s in submissions] == ["finished", "finished"]
    assert [resumed for _, resumed in runs.messages[-2:]] == [True, False]


def test_a_command_is_a_policy(runs):
    script = "echo \"$1\" | grep -c model_new.py; echo '# by a command' > model_new.py"
    policy = runs.command("sh", "-c", script, "agent", "{prompt}")
    (trajectory,), (submission,) = runs(policy)
    assert submission["status"] == "finished"
    assert json.loads(submission["files"])["model_new.py"] == "# by a command\n"
    assert int(trajectory["messages"][3]["content"]) > 0


def test_a_command_may_take_the_whole_rollout_but_not_more(runs):
    policy = runs.command("sh", "-c", "echo '# x' > model_new.py; sleep 1000")
    _, (submission,) = runs(policy, timeout_s=1.5, tool_timeout_s=0.1)
    assert submission["status"] == "timeout"
    assert json.loads(submission["files"])["model_new.py"] == "# x\n"


def test_a_command_that_is_not_there_is_the_machines_fault(runs):
    with pytest.raises(MachineError, match="no-such-agent cannot be started"):
        runs(runs.command("no-such-agent"))


def test_a_command_reaches_one_server_and_never_sees_its_key(runs, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    ask = (
        "import json, sys, urllib.request as u; "
        "r = u.Request(sys.argv[1] + '/chat/completions', json.dumps({'n': 1}).encode(), {'Authorization': 'mine'}); "
        "open('model_new.py', 'w').write(json.load(u.urlopen(r))['choices'][0]['message']['content'])"
    )
    with serve([answer("# from the model")]) as server:
        base_url = server.url
        (trajectory,), (submission,) = runs(runs.command("python3", "-c", ask, "{base_url}", base_url=base_url))
        assert server.requests == [{"n": 1}]
        assert server.headers[0]["Authorization"] == "Bearer secret"
        assert server.headers[0]["Host"] == base_url.split("/")[2]
    assert json.loads(submission["files"])["model_new.py"] == "# from the model"
    assert "secret" not in json.dumps(trajectory)


def test_the_way_out_leads_to_no_other_server(runs):
    forged = "printf 'GET @127.0.0.1:1/x HTTP/1.0\\r\\n\\r\\n' >&3; head -c 12 <&3"
    script = f"exec 3<>/dev/tcp/127.0.0.1/8089; {forged}; echo '# x' > model_new.py"
    with serve([answer("")]) as server:
        (trajectory,), _ = runs(runs.command("bash", "-c", script, base_url=server.url))
        assert server.requests == []
    assert trajectory["messages"][3]["content"] == "HTTP/1.0 400"


def test_tasks_are_taken_by_id_and_the_number_of_workers_changes_nothing(runs):
    policy = runs.command("sh", "-c", "cp model.py model_new.py")
    codes = [f"{CODE}# {i}\n" for i in range(4)]
    rows = [{k: v for k, v in s.items() if k != "wall_s"} for s in runs(policy, codes, workers=3, tasks=3)[1]]
    runs.journal.clear()
    again = [{k: v for k, v in s.items() if k != "wall_s"} for s in runs(policy, codes, workers=1, tasks=3)[1]]
    assert rows == again
    assert [json.loads(r["files"])["model_new.py"] for r in rows] == codes[:3]


def test_a_killed_job_goes_on_where_it_was(runs, tmp_path):
    second = threading.Event()
    never = threading.Event()

    def hang(body):
        second.set()
        never.wait(60)
        return answer("too late")

    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import json; from pathlib import Path; import agent_runs;"
        "from cuda_agent import params; runs = agent_runs.Runs(params.load(agent_runs.ROOT), Path(sys.argv[2]));"
        "runs(runs.policy(base_url=sys.argv[3]), codes=[agent_runs.CODE] * 2)"
    )
    with serve([*touch(), hang, *touch("# y\n")]) as server:
        here = str(ROOT / "tests" / "agent")
        argv = [sys.executable, "-c", program, here, str(tmp_path / "journal"), server.url]
        job = subprocess.Popen(argv, start_new_session=True)
        assert second.wait(60)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        never.set()
        _, submissions = runs(runs.policy(base_url=server.url), codes=[CODE] * 2)
        assert len(server.requests) == 5
    assert [json.loads(s["files"])["model_new.py"] for s in submissions] == ["# x\n", "# y\n"]
    assert [resumed for _, resumed in runs.messages] == [True, False]


def test_an_error_that_ends_the_job_ends_all_rollouts(runs, tmp_path):
    with serve([answer("x")]) as server:
        rows, _ = runs(runs.policy(base_url=server.url), codes=[CODE] * 2)
    rows[0]["messages"][1]["content"] += "?"
    hang = {"name": "Bash", "arguments": json.dumps({"command": "sleep 10000"})}
    rows[1]["messages"][2]["tool_calls"] = [{"id": "a", "type": "function", "function": hang}]
    records.write_jsonl(tmp_path / "t", rows)
    replay = params.ReplayPolicy(kind="replay", trajectories=tmp_path / "t")
    with pytest.raises(ReplayMismatch, match="task t0: message 1, a user message"):
        runs(replay, codes=[CODE] * 2, workers=2, timeout_s=10_000.0, tool_timeout_s=10_000.0)


def test_the_hash_of_the_code_covers_what_runs_in_the_sandbox():
    covered = set(provenance.modules("cuda_agent.agent"))
    inside = {f"cuda_agent.agent.tools.{name}" for name in ("server", "shell", "files", "find", "text", "relay")}
    assert inside | {"cuda_agent.agent.policies.codegen", "cuda_agent.workspace.layout"} <= covered
