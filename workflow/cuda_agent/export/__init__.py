"""The dataset for others: its card, its Croissant metadata, and the formats that trainers read."""

from cuda_agent.export.card import card
from cuda_agent.export.croissant import croissant
from cuda_agent.export.sft import dumps_sft, loads_sft, to_sft
from cuda_agent.export.verl import VERL, from_verl, to_verl

__all__ = ["VERL", "card", "croissant", "dumps_sft", "from_verl", "loads_sft", "to_sft", "to_verl"]
