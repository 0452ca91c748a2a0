"""Split filtered candidates into tasks and what is too close to another task or to KernelBench."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from cuda_agent import records
from cuda_agent.decontamination.repeats import Repeats
from cuda_agent.decontamination.similarity import Problems
from cuda_agent.errors import UserError
from cuda_agent.params import Decontamination
from cuda_agent.records import Row
from cuda_agent.tasks import fingerprint as prints


class DecontaminationError(UserError, ValueError):
    """The fingerprints of KernelBench cannot be compared with."""


def _problems(fingerprints: Sequence[Row], params: Decontamination) -> Problems:
    where = params.kernelbench
    again = "make them again: cuda-agent fingerprint-kernelbench CHECKOUT --revision NAME --out FILE"
    if not fingerprints:
        raise DecontaminationError(f"{where}: no fingerprints; {again}")
    schemes = {row["scheme"] for row in fingerprints}
    if schemes != {prints.scheme()}:
        raise DecontaminationError(
            f"{where}: fingerprints of scheme {sorted(schemes)}, this code makes {prints.scheme()}; {again}"
        )
    return Problems(fingerprints, params.minhash_permutations)


def split_of(structure: str, seed: int, test_share: float) -> str:
    """``train`` or ``test``, by a hash of the structure: tasks that differ only in sizes are on one side."""
    digest = hashlib.blake2b(f"{seed} {structure}".encode(), digest_size=8).digest()
    return "test" if int.from_bytes(digest, "big") < test_share * 2**64 else "train"


def limits(params: Decontamination) -> dict[str, dict[str, Any]]:
    """What each rule holds a candidate against, by the rule's name; empty for one that asks yes or no."""
    similar = {"max_similarity": params.max_similarity}
    return {"unreadable": {}, "duplicate": similar, "kernelbench": similar}


def _rejection(row: Row, rule: str, detail: str, measured: dict[str, Any], params: Decontamination) -> Row:
    return {
        "candidate_id": row["candidate_id"],
        "rule": rule,
        "detail": detail,
        "measured": records.dumps(measured),
        "limits": records.dumps(limits(params)[rule]),
        "data_source": row["data_source"],
        "code": row["code"],
    }


def decontaminate(
    filtered: Iterable[Row], fingerprints: Sequence[Row], params: Decontamination, seed: int
) -> tuple[list[Row], list[Row]]:
    """Drop repeats (the lowest candidate id stays) and what resembles a KernelBench problem.

    Args:
        filtered: rows of ``records.FILTERED``.
        fingerprints: rows of ``records.FINGERPRINTS``, of KernelBench.
        params: limits.
        seed: which structures are in the test split follows from it.

    Returns:
        Rows of ``records.TASKS`` and of ``records.REJECTIONS`` (rules ``unreadable``, ``duplicate`` and
        ``kernelbench``), in the order of candidate ids.

    Raises:
        DecontaminationError: there are no fingerprints, or they were made by another version.
    """
    problems = _problems(fingerprints, params)
    repeats = Repeats(params.max_similarity, params.minhash_permutations)
    tasks, rejected = [], []
    for row in sorted(filtered, key=lambda r: r["candidate_id"]):
        try:
            task = prints.fingerprint(row["code"], row["ops"])
        except SyntaxError as error:  # it ran, but no tree can be made of it
            rejected.append(_rejection(row, "unreadable", f"cannot be compared: {error}", {}, params))
            continue
        repeated = repeats.find(row["candidate_id"], task)
        nearest, similarity = problems.nearest(task)
        if repeated is not None:
            other, closeness = repeated
            measured = {"similarity": closeness, "repeats": other}
            rejected.append(_rejection(row, "duplicate", f"repeats {other}", measured, params))
        elif similarity > params.max_similarity:
            measured = {"similarity": similarity, "nearest_problem": nearest}
            detail = f"resembles KernelBench {nearest}: {similarity:.3f}"
            rejected.append(_rejection(row, "kernelbench", detail, measured, params))
        else:
            tasks.append(
                {
                    **row,
                    "task_id": task["exact"],
                    "split": split_of(task["structure"], seed, params.test_share),
                    "nearest_problem": nearest,
                    "nearest_similarity": similarity,
                }
            )
    return tasks, rejected
