"""A catalogue of a few operators, written down instead of collected."""

from __future__ import annotations

import inspect
import json

import torch
from cuda_agent import params as p
from cuda_agent.operators import behaviour

MODULES = ("ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "LeakyReLU", "ELU", "Softplus", "Mish", "Hardtanh")
FUNCTIONS = ("sin", "exp", "abs", "square", "sqrt", "log", "tanh", "sign", "floor")
BINARY = ("add", "sub", "mul", "div", "maximum")
OTHERS = (
    *("torch.nn.Linear", "torch.matmul", "torch.bmm", "torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.ConvTranspose2d"),
    *("torch.nn.LayerNorm", "torch.nn.RMSNorm", "torch.nn.GroupNorm", "torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d"),
    *(
        "torch.nn.Softmax",
        "torch.nn.functional.log_softmax",
        "torch.sum",
        "torch.mean",
        "torch.amax",
        "torch.logsumexp",
    ),
    *(
        "torch.nn.MaxPool2d",
        "torch.nn.AvgPool1d",
        "torch.nn.AdaptiveAvgPool2d",
        "torch.nn.PixelShuffle",
        "torch.nn.GLU",
    ),
    *("torch.cumsum", "torch.nn.MSELoss", "torch.nn.functional.scaled_dot_product_attention", "torch.nn.Upsample"),
)
_SAME = [
    {"init": {}, "inputs": [{"shape": [4, 8], "dtype": "float32"}], "outputs": [{"shape": [4, 8], "dtype": "float32"}]}
]


def row(name, kind, inputs=("input",), words=(), *, scalars=(), source="torch", **recipe):
    short = name.rpartition(".")[2]
    recipe = {"same_as": name, "words": list(words), "inputs": list(inputs), "scalars": list(scalars), **recipe}
    return {
        "name": name,
        "source": source,
        "kind": kind,
        "spelling": "module" if short[0].isupper() else "function",
        "status": "verified",
        "reason": "",
        "recipe": json.dumps({"init": {}, "fixed": {}, **recipe}),
        "examples": json.dumps(_SAME),
        "source_module": name.rpartition(".")[0],
        "version": "1",
        "spdx": "BSD-3-Clause" if source == "torch" else "Apache-2.0",
    }


def rows():
    found = [row(name, "other") for name in OTHERS]
    for name in MODULES:
        cls = getattr(torch.nn, name)
        scalars = [p for p in inspect.signature(cls).parameters if p != "inplace"]
        found.append(row(f"torch.nn.{name}", "pointwise", words=behaviour.words(cls()), scalars=scalars))
    found += [row(f"torch.{n}", "pointwise", words=behaviour.words(getattr(torch, n))) for n in FUNCTIONS]
    found += [row(f"torch.{n}", "pointwise", ("input", "other"), [] if n == "div" else ["finite"]) for n in BINARY]
    module = "transformers.models.llama.modeling_llama"
    config = {"module": "transformers.models.llama.configuration_llama", "name": "LlamaConfig"}
    sizes = {"hidden_size": 64, "intermediate_size": 128}
    axes = [["batch_size", "seq_len", "hidden_size"]]
    found.append(
        row(
            f"{module}.LlamaMLP",
            "mlp",
            ["x"],
            source="transformers",
            config={**config, "set": sizes},
            axes=axes,
            tuple=False,
        )
    )
    found.append(
        row(
            f"{module}.LlamaRMSNorm", "normalization", ["hidden_states"], source="transformers", config=None, axes=axes,
            tuple=False, **{"init": {"hidden_size": 64}},
        )
    )  # fmt: skip
    return found


def synthesis(**changes):
    """The section of the parameters, with small sizes."""
    llm = {"base_url": None, "model": "m", "api_key_env": "SYNTHESIS_TEST_KEY", "temperature": 0.0}
    llm |= {"max_tokens": 99, "timeout_s": 5, "retries": 0}
    base = {"composer": "stack", "candidates": 60, "mix": {"torch#2": 1.0}, "target_bytes": (100_000, 400_000)}
    return p.Synthesis.model_validate({**base, "repair_rounds": 2, "llm": llm, **changes})
