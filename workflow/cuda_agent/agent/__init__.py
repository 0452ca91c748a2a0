"""Agents at work: the loop, the tools they have, the policies that decide, and the trajectories they leave."""

from cuda_agent.agent.policies import Completion, Policy, PolicyError, make_policy
from cuda_agent.agent.rollouts import roll_out

__all__ = ["Completion", "Policy", "PolicyError", "make_policy", "roll_out"]
