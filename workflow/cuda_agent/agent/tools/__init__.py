"""The tools of the agent. `schemas` and `client` run outside the sandbox, the other modules inside it."""
