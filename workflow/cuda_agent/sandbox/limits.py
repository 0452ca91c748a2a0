"""What a sandboxed call may use, and how it can end."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cuda_agent.errors import UserError

Status = Literal["ok", "error", "timeout", "memory", "crashed", "exited", "output", "processes", "machine"]

OUTPUT_FACTOR = 64  # a child that prints more than this many times `output_kb` is ended
ADDRESS_SPACE_MB = 8192  # address space beyond `memory_mb`: mappings and stacks that are never resident


class IsolationError(UserError, RuntimeError):
    """This machine cannot keep untrusted code apart. The message says what to do."""


class MachineError(UserError, RuntimeError):
    """The machine, and not the untrusted code, is at fault."""


@dataclass(frozen=True)
class Limits:
    """Limits on one child and all processes that it starts.

    Attributes:
        timeout_s: wall time of its calls together, seconds; waiting between two calls is not counted.
        memory_mb: resident memory of all its processes, MiB.
        processes: processes and threads at once, beyond those of torch.
        file_size_mb: largest file it may write, MiB.
        output_kb: what is kept of its output, KiB; more than `OUTPUT_FACTOR` times that ends it.
    """

    timeout_s: float
    memory_mb: int
    processes: int
    file_size_mb: int
    output_kb: int

    @classmethod
    def of(cls, sandbox: Any, timeout_s: float) -> Limits:
        """Limits from the ``sandbox`` section of the parameters."""
        return cls(timeout_s, sandbox.memory_mb, sandbox.processes, sandbox.file_size_mb, sandbox.output_kb)

    @property
    def tasks(self) -> int:
        """Processes and threads that the watchdog allows: torch has a team of threads for each pool of its own."""
        return self.processes + 2 * (os.cpu_count() or 1) + 16

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """How a sandboxed call ended.

    Attributes:
        status: ``ok``; ``error`` (an exception, or a malformed answer); ``timeout``; ``memory``; ``crashed`` (a
            signal); ``exited`` (ended without an answer); ``output`` (printed too much); ``processes`` (too many);
            ``machine`` (not the code's fault).
        value: what the target returned, if ok.
        error: first line ``Type: message``, a signal's name or the limit that was passed; then where it happened.
        stage: the last stage that the target named.
        stdout: what it printed (standard output and error together), cut in the middle at ``output_kb``.
        wall_s: seconds that the call took.
        peak_mb: largest resident memory of its processes together, MiB, as sampled from outside.
    """

    status: Status
    value: Any = None
    error: str = ""
    stage: str = ""
    stdout: str = ""
    wall_s: float = 0.0
    peak_mb: float = 0.0
