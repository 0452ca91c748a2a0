"""Run every candidate in a sandbox and record what it showed; nothing is judged here (paper, section 3.1)."""

from cuda_agent.observation.observe import ObservationError, observe

__all__ = ["ObservationError", "observe"]
