"""Fingerprints of tasks: hashes only, so that they may be shipped where the text may not.

Hashes are BLAKE2b of text; nothing depends on the process, the platform or the version of Python.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cuda_agent.tasks.calls import called_operators, canonical_sequence
from cuda_agent.tasks.clean import clean
from cuda_agent.tasks.hashes import text_hash
from cuda_agent.tasks.normal import normal_form_of
from cuda_agent.tasks.structure import model_only, structure, subtrees, tokens

SHINGLE = 5  # tokens
PERMUTATIONS = 256  # what a shipped fingerprint holds; comparing may use fewer


def _hash(text: str, size: int = 8) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big")


@functools.cache
def _permutations(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Odd factors and offsets of ``count`` permutations of the 64-bit integers; a prefix is the same for any count."""
    factors = [_hash(f"factor {i}") | 1 for i in range(count)]
    offsets = [_hash(f"offset {i}") for i in range(count)]
    return np.array(factors, dtype=np.uint64), np.array(offsets, dtype=np.uint64)


def minhash(items: Iterable[str], permutations: int = PERMUTATIONS) -> np.ndarray:
    """MinHash signature (Broder 1997) of a set of texts, 32 bits for each permutation.

    Own code because a shipped signature must not change with a library's version.
    """
    values = np.array(sorted({_hash(item) for item in items}), dtype=np.uint64)
    if not len(values):
        return np.full(permutations, np.iinfo(np.uint32).max, dtype=np.uint32)
    factors, offsets = _permutations(permutations)
    with np.errstate(over="ignore"):
        permuted = values[None, :] * factors[:, None] + offsets[:, None]
    return (permuted.min(axis=1) >> np.uint64(32)).astype(np.uint32)


def shingles(sequence: Sequence[str], width: int = SHINGLE) -> set[str]:
    """All runs of ``width`` tokens; the whole sequence if it is shorter."""
    return {" ".join(sequence[i : i + width]) for i in range(max(1, len(sequence) - width + 1))}


def _words(normal: str) -> list[str]:
    """Tokens of a normal form without its brackets and the names of its fields."""
    return [word for word in normal.split() if word not in "()[]" and not word.startswith(":")]


def fingerprint(code: str, ops: Iterable[str] | None = None, permutations: int = PERMUTATIONS) -> dict[str, Any]:
    """What decontamination compares.

    Args:
        code: text of the task.
        ops: operators that were seen to run, if it was run.
        permutations: length of the MinHash signatures.

    Returns:
        ``exact``: hash of the normal form, equal for texts that differ in names, order, formatting or dead code only.
        ``structure``: hash of the model without names, sizes and other numbers.
        ``sequence``, ``multiset``: hashes of the operators that the text calls, in order and without order.
        ``traced``: hash of the operators that were seen to run, in order; empty without ``ops``.
        ``minhash``: signature of the shingles of the structure's tokens, uint32.
        ``sized_minhash``: the same of the normal form, sizes and inputs included.
        ``subtrees``: hashes of the structure's subtrees, uint32, sorted, with repetitions.
        The hash of an empty list of operators is the empty text.

    Raises:
        SyntaxError: the text is not Python, or nested too deeply.
    """
    try:
        return _fingerprint(code, ops, permutations)
    except RecursionError:
        raise SyntaxError("nested too deeply") from None


def _fingerprint(code: str, ops: Iterable[str] | None, permutations: int) -> dict[str, Any]:
    tree = clean(code)
    normal = normal_form_of(copy.deepcopy(tree))
    called = called_operators(model_only(copy.deepcopy(tree)))
    traced = canonical_sequence(ops or ())
    shape = structure(tree)
    sequence = [token for part in shape.body for token in tokens(part)]
    parts = [" ".join(part) for top in shape.body for part in subtrees(top)]
    return {
        "exact": text_hash(normal),
        "structure": text_hash(" ".join(sequence)),
        "sequence": text_hash(" ".join(called)) if called else "",
        "multiset": text_hash(" ".join(sorted(called))) if called else "",
        "traced": text_hash(" ".join(traced)) if traced else "",
        "minhash": minhash(shingles(sequence), permutations).tolist(),
        "sized_minhash": minhash(shingles(_words(normal)), permutations).tolist(),
        "subtrees": sorted(_hash(part, 4) for part in parts),
    }


_PROBE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
width = 4 * 8
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = n ** 0.5
        self.body = nn.Sequential(nn.Linear(n, n, bias=False), nn.ReLU())
    def forward(self, x):
        return F.softmax(self.body(x) / self.scale, dim=-1)
class Model(nn.Module):
    def __init__(self, n):
        super(Model, self).__init__()
        self.blocks = nn.ModuleList([Block(n) for _ in range(2)])
        layers = [nn.Dropout(0.1)]
        layers.append(nn.LayerNorm(n, eps=1e-6))
        self.norm = nn.Sequential(*layers)
        self.tail = self.make(n)
        self.shift = nn.Parameter(torch.zeros(n))
    def make(self, n):
        return nn.Sequential(nn.Linear(n, n), nn.Tanh())
    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        rows, columns = x.shape
        y = nn.SiLU()(self.norm(x).view(rows, columns)).mul_(-self.shift)
        if columns > 4:
            y @= x.transpose(0, 1) @ self.tail(x)
        unused = torch.exp(y)
        return torch.logsumexp(y, dim=1).clamp(min=0.5)
def get_inputs():
    return [torch.randn(8, width)]
def get_init_inputs():
    return [width]
"""


@functools.cache
def scheme() -> str:
    """Which way of making fingerprints this is: fingerprints of different schemes must not be compared."""
    return text_hash(json.dumps(fingerprint(_PROBE), sort_keys=True))
