"""YAML in which each key of a mapping stands once: PyYAML, and Snakemake with it, keeps the last and says nothing."""

from __future__ import annotations

from typing import Any

import yaml


class RepeatedKeyError(yaml.YAMLError):
    """A mapping has a key twice; ``key`` is its text, ``first`` and ``again`` are lines, counted from 1."""

    def __init__(self, key: str, first: int, again: int) -> None:
        super().__init__(f"line {again}: {key}: stands in line {first} already; keep one of the two")
        self.key, self.first, self.again = key, first, again


class _Loader(yaml.SafeLoader):
    # As the text is read: later, what `<<` brings in stands among a mapping's own keys, and those may repeat it.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                raise RepeatedKeyError(key.value, lines[name], line)
            lines[name] = line
        return node


def load(text: str) -> Any:
    """What a YAML text holds.

    Raises:
        RepeatedKeyError: a mapping in it has a key twice.
        yaml.YAMLError: it is no YAML.
    """
    return yaml.load(text, Loader=_Loader)
