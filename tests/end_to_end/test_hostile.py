"""Candidates and kernels that a test plants: each gets the right reason, and the run goes on."""

import json
import shutil
import socket

import pytest
from cuda_agent import records
from helpers import set_params

pytestmark = pytest.mark.end_to_end

MODULE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        {statement}
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []

{extra}
"""

# Name -> (statement in forward, statement of the module, what the reason must begin with).
CANDIDATES = {
    "hang": ("while True: pass", "", "timeout while the stage was eager"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "", "crashed while the stage was eager: SIGSEGV"),
    "allocate": ("torch.empty(30 * 2**30, dtype=torch.int8).fill_(1)", "", "memory while the stage was eager"),
    "fork": ("import os\n        while True: os.fork()", "", "processes while the stage was eager"),
    "output": ("", "while True: print('x' * 4096)", "output while the stage was load"),
    "delete": ("import shutil; shutil.rmtree('{victim}')", "", "error while the stage was eager"),
    "network": ("import socket; socket.create_connection(('1.1.1.1', 53), 2)", "", "error while the stage was eager"),
    "exit": ("import os; os._exit(0)", "", "exited while the stage was eager: exit status 0"),
    "pass": ("import sys; print('PASS'); sys.exit(0)", "", "exited while the stage was eager"),
}

# Name -> (statements before the kernel's work, a pattern for the first reason). The work itself stays right.
KERNELS = {
    "hang": ("for (volatile int i = 0;;) i = i;", "timeout (check)"),
    "segfault": ("*static_cast<volatile int*>(nullptr) = 1;", "crashed (check): SIGSEGV"),
    "allocate": ("for (long n = 0; n < 30000; ++n) memset(malloc(1 << 20), 1, 1 << 20);", "memory (check)"),
    "fork": ("for (;;) fork();", "processes (check)"),
    "output": ('for (;;) puts("0123456789012345678901234567890123456789012345678901234567890123");', "output (check)"),
    "exit": ("_exit(0);", "exited (check): exit status 0"),
    "pass": ('puts("PASS"); fflush(stdout); return;', "outputs (drawn)"),
    "delete": ('if (unlink("{victim}/kept") == 0) return;', ""),
    "network": (
        "sockaddr_in to = {{}}; to.sin_family = AF_INET; to.sin_port = htons({port});"
        " to.sin_addr.s_addr = htonl(INADDR_LOOPBACK); int s = socket(AF_INET, SOCK_STREAM, 0);"
        " if (connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return;",
        "",
    ),
    "honest": ("", ""),
}
HEADERS = ("cstdlib", "cstdio", "cstring", "unistd.h", "sys/socket.h", "netinet/in.h", "arpa/inet.h")


@pytest.fixture(scope="module")
def planted(finished, make_repository, tmp_path_factory):
    repository = make_repository("planted")
    shutil.copytree(finished.root / "data/laptop", repository.root / "data/laptop", dirs_exist_ok=True)
    set_params(
        repository.root,
        {
            "observation": {"timeout_s": 30},
            "judging": {"timeout_s": 60},
            "sandbox": {"memory_mb": 1500, "output_kb": 4},
        },
    )
    repository.victim = tmp_path_factory.mktemp("victim")
    (repository.victim / "kept").write_text("kept")
    return repository


def test_hostile_candidates_are_rejected_for_what_they_did(planted):
    home = planted.root / "data/laptop"
    honest = records.read(home / "candidates.parquet", records.CANDIDATES)[:3]
    rows = [
        {
            **honest[0],
            "candidate_id": name,
            "code": MODULE.format(statement=statement.format(victim=planted.victim), extra=extra),
        }
        for name, (statement, extra, _) in CANDIDATES.items()
    ]
    records.write(home / "candidates.parquet", [*honest, *rows], records.CANDIDATES)
    (home / "observations.parquet").unlink()
    rules = ["observe", "observations", "filter"]
    planted.snakemake("--allowed-rules", *rules, "--", "data/laptop/rejections.parquet")
    rejected = {r["candidate_id"]: r for r in records.read(home / "rejections.parquet", records.REJECTIONS)}
    assert set(rejected) == set(CANDIDATES)
    for name, (_, _, reason) in CANDIDATES.items():
        assert rejected[name]["rule"] == "runs_eager"
        assert rejected[name]["detail"].startswith(reason)
    kept = records.read(home / "filtered.parquet", records.FILTERED)
    assert {r["candidate_id"] for r in kept} == {c["candidate_id"] for c in honest}
    assert (planted.victim / "kept").read_text() == "kept"


def test_hostile_kernels_fail_for_what_they_did(planted):
    home = planted.root / "data/laptop"
    template = planted.root / "workflow/agent_workdir"
    model = (template / "model.py").read_text().replace("512, 4096", "64, 256").replace("[4096,", "[256,")
    kernel = (template / "kernels/axpby.cpp").read_text()
    task = records.read(home / "tasks.parquet", records.TASKS)[0]
    submission = records.read(home / "codegen/submissions.parquet", records.SUBMISSIONS)[0]
    tasks, submissions = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name, (statement, _) in KERNELS.items():
            text = (
                statement.format(victim=planted.victim, port=server.getsockname()[1]) if "{" in statement else statement
            )
            text = kernel.replace("  (void)config;", f"  {text}\n  (void)config;", 1)
            text = "".join(f"#include <{h}>\n" for h in HEADERS) + text
            files = {
                "model_new.py": (template / "model_new.py").read_text(),
                "kernels/axpby_binding.cpp": (template / "kernels/axpby_binding.cpp").read_text(),
                "kernels/axpby.cpp": text,
            }
            tasks.append({**task, "task_id": name, "code": model})
            submissions.append({**submission, "task_id": name, "status": "finished", "files": json.dumps(files)})
        records.write(home / "tasks.parquet", tasks, records.TASKS)
        records.write(home / "codegen/submissions.parquet", submissions, records.SUBMISSIONS)
        for made in (home / "codegen/judgements.parquet", planted.root / "results/laptop/verdicts.parquet"):
            made.unlink(missing_ok=True)
        rules = ["judge", "judgements", "verdicts"]
        planted.snakemake("--allowed-rules", *rules, "--", "results/laptop/verdicts.parquet")
    found = {v["task_id"]: v for v in records.read(planted.root / "results/laptop/verdicts.parquet", records.VERDICTS)}
    assert set(found) == set(KERNELS)
    for name, (_, reason) in KERNELS.items():
        if reason:
            assert found[name]["reward"] == -1, name
            assert found[name]["reasons"][0].startswith(reason), found[name]["reasons"]
        else:  # what it tried did not work, so its work came out right
            assert found[name]["correct"], found[name]["reasons"]
    assert found["honest"]["compliant"], found["honest"]["reasons"]
    assert (planted.victim / "kept").read_text() == "kept"
