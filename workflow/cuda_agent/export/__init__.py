"""The dataset for others: its card, its Croissant metadata, and the formats that trainers read.

What speaks of workspaces is imported by its own name, so that the card's code does not depend on them: `export.verl`,
`export.answer` and `export.reward`.
"""

from cuda_agent.export.card import card
from cuda_agent.export.croissant import croissant
from cuda_agent.export.sft import dumps_sft, loads_sft, to_sft

__all__ = ["card", "croissant", "dumps_sft", "loads_sft", "to_sft"]
