"""The made-up run."""

from synthetic_fixtures import empty, parameters, rows  # noqa: F401
