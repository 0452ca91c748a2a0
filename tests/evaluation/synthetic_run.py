"""A made-up run with the columns of real artefacts, for tests only."""

from __future__ import annotations

import json
import math
import random

from cuda_agent import records

MIX = ["torch#1", "torch#2", "torch#2", "torch#2", "torch#3", "torch#4", "torch#5", "transformers"]
OPS = ["torch.nn.ReLU", "torch.nn.Softmax", "torch.nn.LayerNorm", "torch.nn.GELU", "torch.sum", "torch.nn.Linear"]
OPS += ["torch.nn.functional.scaled_dot_product_attention", "torch.clamp"]
VERSIONS = json.dumps(
    {"python": "3.11.9", "torch": "2.13.0+cpu", "compiler": "c++ 12.2", "cpu": "Example CPU", "cores": 8}
)
CHECK = {"check": "outputs", "changed": [], "nonfinite": 0, "mismatched": 0.0, "eager_mismatched": 0.0, "float64": True}
CHECK |= {"rms_error": 1e-7, "eager_rms_error": 1e-7, "excess": 0.0, "eager_excess": 0.0}
CHECKS = json.dumps([CHECK | {"max_error": 1e-6, "eager_max_error": 1e-6}])
TIMES = json.dumps({"candidate": [1.0, 1.1, 1.0], "eager": [1.5, 1.6, 1.5], "compile": [1.2, 1.2, 1.3]})
REASONS = ["no_submission (submission): ", "outputs (spread): 4.2% of the values differ", "build (build): error"]
CODE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


def row(schema, **values):
    unknown = set(values) - set(schema.names)
    assert not unknown, unknown
    return {name: values.get(name) for name in schema.names}


def make(*, candidates=96, tasks=48, judged=24, passing=0.7, policies=("codegen",), device="cpu", seed=0):
    """Rows by artefact name."""
    rng = random.Random(seed)
    hardware = {"device": device, "versions": VERSIONS, "isolation": "userns+landlock", "code_hash": "0" * 16}
    hardware["device_name"] = "NVIDIA H200" if device == "cuda" else "Example CPU @ 2.20GHz"
    short = {k: v for k, v in hardware.items() if k in ("device", "device_name", "versions")}
    rows = {"operators": [], "candidates": [], "observations": [], "rejections": [], "contaminated": [], "tasks": []}
    rows |= {"submissions": [], "judgements": [], "verdicts": [], "trajectories": []}
    for i in range(40):
        rows["operators"].append(
            row(
                records.OPERATORS,
                name=f"torch.nn.Op{i}",
                source="torch",
                kind=("pointwise", "reduction", "contraction")[i % 3],
                status="verified" if i % 5 else "excluded",
            )
        )
    for i in range(candidates):
        name, source = f"c{i:05d}", rng.choice(MIX)
        ops = rng.sample(OPS, 1 if source == "transformers" else int(source[-1]))
        rows["candidates"].append(
            row(
                records.CANDIDATES,
                candidate_id=name,
                ops=ops,
                operators=[f"torch.nn.Op{OPS.index(op)}" for op in ops],
                data_source=source,
                code=CODE,
                composer="stack",
            )
        )
        eager = 10 ** rng.uniform(-2, 2.2)
        rows["observations"].append(
            row(
                records.OBSERVATIONS,
                candidate_id=name,
                status="ok",
                stage="time",
                ops=ops,
                inputs=json.dumps([{"shape": [64] * (2 + i % 3), "dtype": "float32"}]),
                eager_ms=eager,
                **hardware,
            )
        )
        if i >= tasks:
            rule = rng.choice(
                ["time_window", "time_window", "repeatable", "distinguishable", "runs_compiled", "no_random"]
            )
            target = "rejections"
            if rng.random() < 0.2:
                rule, target = rng.choice(["duplicate", "kernelbench"]), "contaminated"
            rows[target].append(
                row(records.REJECTIONS, candidate_id=name, rule=rule, detail="made up", data_source=source, code=CODE)
            )
            continue
        rows["tasks"].append(
            row(
                records.TASKS,
                task_id=f"{i:016x}",
                split="train",
                candidate_id=name,
                ops=ops,
                data_source=source,
                code=CODE,
                composer="stack",
                inputs='[{"shape": [64, 64], "dtype": "float32"}]',
                outputs='[{"shape": [64, 64], "dtype": "float32"}]',
                nearest_problem="HEAD/1/19",
                nearest_similarity=rng.betavariate(4, 5) * 0.9,
                eager_ms=min(max(eager, 0.06), 99.0),
                compile_ms=min(max(eager, 0.06), 99.0) / rng.uniform(0.8, 2),
                flops=10**8,
                bytes=10**7,
                parameters=4096,
                **short,
            )
        )
    for policy in policies:
        for task in rows["tasks"][:judged]:
            _judge(rows, task, policy, rng=rng, passing=passing, hardware=hardware)
    return rows


def _judge(rows, task, policy, *, rng, passing, hardware):
    passed = rng.random() < passing
    turns = rng.randint(4, 30)
    submission = {"task_id": task["task_id"], "policy": policy, "status": "finished" if passed else "gave_up"}
    usage = {"prompt_tokens": turns * 900, "completion_tokens": turns * 120}
    rows["submissions"].append(
        row(
            records.SUBMISSIONS,
            **submission,
            files='{"model_new.py": "class ModelNew: ..."}',
            turns=turns,
            tool_calls=turns - 1,
            wall_s=turns * 3.5,
            **usage,
        )
    )
    rows["trajectories"].append(
        submission
        | usage
        | {
            "usage": [{"prompt_tokens": 900, "completion_tokens": 120}] * turns,
            "error": "",
            "tools": [],
            "calls": [{"name": "Bash", "ok": True}],
            "measured": {"wall_s": turns * 3.5},
            "messages": [
                {"role": "system", "content": "You write kernels."},
                {"role": "user", "content": "Make model.py faster."},
                {
                    "role": "assistant",
                    "content": "I compile first.",
                    "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "1", "content": "model.py"},
                {"role": "assistant", "content": "Done."},
            ],
        }
    )
    rows["judgements"].append(
        row(
            records.JUDGEMENTS,
            task_id=task["task_id"],
            policy=policy,
            status="ok",
            stage="time",
            error="",
            checks=CHECKS,
            launched="{}",
            times=TIMES,
            wall_s=9.0,
            **hardware,
        )
    )
    eager, compiled = rng.lognormvariate(0.4, 0.5), rng.lognormvariate(0.1, 0.4)
    verdict = row(
        records.VERDICTS,
        task_id=task["task_id"],
        policy=policy,
        compiled=passed or rng.random() < 0.5,
        correct=passed,
        compliant=True,
        reasons=[]
        if passed
        else [
            rng.choice(
                ["no_submission (submission): ", "outputs (spread): 4.2% of the values differ", "build (build): error"]
            )
        ],
        precision="float32" if passed else None,
        reward=-1,
    )
    if passed:
        base = task["eager_ms"]
        verdict |= {"eager_ms": base, "compile_ms": base / eager * compiled, "time_ms": base / eager}
        for name, value in (("eager", eager), ("compile", compiled)):
            verdict[f"speedup_{name}"] = value
            verdict[f"speedup_{name}_low"] = value * 0.95
            verdict[f"speedup_{name}_high"] = value * 1.06
        fast = [1 - 1 / s > 0.05 for s in (eager, compiled)]
        verdict["reward"] = 3 if all(fast) else 2 if fast[0] else 1
    rows["verdicts"].append(verdict)


def nudged(rows):
    """The same run as another processor computes it: every fraction one unit in the last place larger."""
    return {
        artefact: [
            {k: math.nextafter(v, math.inf) if isinstance(v, float) and v % 1 else v for k, v in row.items()}
            for row in of_artefact
        ]
        for artefact, of_artefact in rows.items()
    }
