"""Agents at work: the loop, the tools they have, the policies that decide, and the trajectories they leave."""
