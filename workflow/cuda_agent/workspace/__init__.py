"""Workspaces: the folders that agents work in, how they are laid out, built and read back.

A workspace is a copy of ``workflow/agent_workdir`` with one task in it. Only what `snapshot` takes is a submission; all
other files are fixed, and whoever judges lays them out anew.
"""

from cuda_agent.workspace.build import Build, build
from cuda_agent.workspace.diagnosis import first_error
from cuda_agent.workspace.layout import (
    TEMPLATE,
    SubmissionError,
    create,
    is_submitted,
    restore,
    snapshot,
    template_hash,
)

__all__ = [
    "TEMPLATE",
    "Build",
    "SubmissionError",
    "build",
    "create",
    "first_error",
    "is_submitted",
    "restore",
    "snapshot",
    "template_hash",
]
