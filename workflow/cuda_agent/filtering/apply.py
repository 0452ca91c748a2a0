"""Hold every observation against the rules."""

from __future__ import annotations

from collections.abc import Iterable

from cuda_agent import records
from cuda_agent.errors import UserError
from cuda_agent.filtering.rules import RULES, limits
from cuda_agent.params import Filtering
from cuda_agent.records import Row
from cuda_agent.tasks.hashes import text_hash

_FROM_CANDIDATE = ("candidate_id", "data_source", "code", "composer", "spdx")
_FROM_OBSERVATION = tuple(n for n in records.FILTERED.names if n not in _FROM_CANDIDATE)


class FilteringError(UserError, ValueError):
    """Candidates and observations do not belong together, or a candidate was not really observed."""


def _by_candidate(rows: Iterable[Row], what: str) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in rows:
        if row["candidate_id"] in found:
            raise FilteringError(f"{what}: {row['candidate_id']} is there twice")
        found[row["candidate_id"]] = row
    return found


def _matched(candidates: Iterable[Row], observations: Iterable[Row]) -> list[tuple[Row, Row]]:
    asked, seen = _by_candidate(candidates, "candidates"), _by_candidate(observations, "observations")
    missing, foreign = sorted(asked.keys() - seen.keys()), sorted(seen.keys() - asked.keys())
    if missing or foreign:
        raise FilteringError(
            f"{len(missing)} candidates without an observation {missing[:5]}, "
            f"{len(foreign)} observations of unknown candidates {foreign[:5]}: observe these candidates again"
        )
    other = sorted(i for i in asked if text_hash(asked[i]["code"]) != seen[i]["candidate_hash"])
    if other:
        raise FilteringError(
            f"{len(other)} observations are of other code than the candidates of the same number, first {other[0]}: "
            "observe these candidates again (measurements: fresh)"
        )
    broken = sorted(i for i, row in seen.items() if row["status"] == "machine")
    if broken:
        raise FilteringError(
            f"{len(broken)} observations ended by the machine's fault, first {broken[0]} "
            f"({seen[broken[0]]['error']}): a candidate is not judged by that; observe again"
        )
    return [(asked[i], seen[i]) for i in sorted(asked)]


def apply(candidates: Iterable[Row], observations: Iterable[Row], filtering: Filtering) -> tuple[list[Row], list[Row]]:
    """Split candidates into those that pass every rule and those that fail one.

    Args:
        candidates: rows of ``records.CANDIDATES``.
        observations: rows of ``records.OBSERVATIONS``, one for each candidate.
        filtering: limits.

    Returns:
        Rows of ``records.FILTERED`` and of ``records.REJECTIONS``, each in the order of candidate ids; together they
        hold every candidate exactly once.

    Raises:
        FilteringError: a candidate was not observed, or other code under its name was, or its observation ended by the
            machine's fault.
    """
    kept, rejected = [], []
    held_against = {name: records.dumps(values) for name, values in limits(filtering).items()}
    for candidate, observation in _matched(candidates, observations):
        failures = ((name, check(observation, filtering)) for name, check in RULES.items())
        name, failure = next(((n, f) for n, f in failures if f is not None), (None, None))
        if failure is None:
            row = {n: candidate[n] for n in _FROM_CANDIDATE} | {n: observation[n] for n in _FROM_OBSERVATION}
            kept.append(row)
        else:
            rejected.append(
                {
                    "candidate_id": candidate["candidate_id"],
                    "rule": name,
                    "detail": failure.detail,
                    "measured": records.dumps(failure.measured),
                    "limits": held_against[name],
                    "data_source": candidate["data_source"],
                    "code": candidate["code"],
                }
            )
    return kept, rejected
