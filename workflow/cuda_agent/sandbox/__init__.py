"""Run untrusted code: a pool of forked children, and commands, both locked in and watched.

See ``docs/architecture.md`` for the interface.
"""

from cuda_agent.sandbox.command import popen, run_command
from cuda_agent.sandbox.folders import private_folder
from cuda_agent.sandbox.isolation import check_isolation
from cuda_agent.sandbox.limits import IsolationError, Limits, MachineError, Outcome
from cuda_agent.sandbox.locks import device_lock
from cuda_agent.sandbox.pool import Pool
from cuda_agent.sandbox.session import Session

__all__ = [
    "IsolationError",
    "Limits",
    "MachineError",
    "Outcome",
    "Pool",
    "Session",
    "check_isolation",
    "device_lock",
    "popen",
    "private_folder",
    "run_command",
]
