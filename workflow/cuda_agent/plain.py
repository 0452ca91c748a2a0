"""What pydantic finds wrong with parameters, in words for somebody who writes YAML."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

_MAPPING = "a mapping, as in {key: value}"
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text; what YAML reads as something else needs quotes",
    "path": "a path",
    "list": "a list, as in [a, b]",
    "dict": _MAPPING,
    "model": _MAPPING,
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_POLICIES = "docs/agent.md shows the keys of each kind of policy"
_COUNTS = {2: "two", 3: "three"}


def explain(error: ValidationError, model: type[BaseModel] | None, config: Any, name_pattern: str = "") -> list[str]:
    """One line for each wrong key: the key, what it got and what is allowed.

    Args:
        error: what pydantic raised.
        model: of the whole; None for one entry whose keys cannot be listed.
        config: what was given to pydantic.
        name_pattern: the pattern of names, which is told in words.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for e in error.errors():
        loc = _keys(e["loc"], config, e["type"])
        key = ".".join(map(str, loc))
        kind = e["type"]
        if kind == "value_error":
            inner = e["msg"].removeprefix("Value error, ")
            start, end = (f"{key}.{inner}" if key else inner), ""
        elif kind == "extra_forbidden":
            start, end = f"{key}: unknown {_what(loc)} (value {e['input']!r})", _known(model, loc)
        elif kind in ("union_tag_invalid", "union_tag_not_found"):
            tag = e["ctx"]["discriminator"].strip("'")
            got = f"got {e['ctx']['tag']!r}" if "tag" in e["ctx"] else "missing"
            start, end = f"{'.'.join(filter(None, (key, tag)))}: {got}", _tags(_annotation(model, loc), tag)
        elif kind == "missing" and not isinstance(loc[-1], int):
            in_params = len(_models(_annotation(model, loc[:-1]))) == 1
            start, end = f"{key}: missing", "params.yaml has it with its default" if in_params else _POLICIES
        else:
            if kind == "missing":  # an element of a list of fixed length
                loc, kind = loc[:-1], "tuple_type"
                key = ".".join(map(str, loc))
            got = "got nothing (null)" if e["input"] is None else f"got {e['input']!r}"
            start, end = f"{key or '(top level)'}: {got}", _allowed(kind, e, _annotation(model, loc), name_pattern)
        lines.setdefault((key, start), []).append(end)
    return [f"{start}; {_joined(ends)}".removesuffix("; ") for (_, start), ends in lines.items()]


def _joined(ends: list[str]) -> str:
    first, *others = dict.fromkeys(ends)
    return " or ".join([first, *(text.removeprefix("allowed: ") for text in others)])


def _keys(loc: tuple[int | str, ...], config: Any, kind: str) -> tuple[int | str, ...]:
    """Of where pydantic found it, what is a key or an index in the parameters; the rest names its own branches."""
    out: list[int | str] = []
    for i, part in enumerate(loc):
        if isinstance(config, str):
            try:
                config = yaml.safe_load(config)
            except yaml.YAMLError:
                break
        if (isinstance(config, Mapping) and part in config) or (
            isinstance(config, list | tuple) and isinstance(part, int) and part < len(config)
        ):
            config = config[part]
        elif kind != "missing" or i < len(loc) - 1:
            continue
        out.append(part)
    return tuple(out)


def _what(loc: tuple[int | str, ...]) -> str:
    return "section or key" if len(loc) == 1 else "key"


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for a in typing.get_args(annotation) for m in _models(a)]


def _tags(annotation: Any, tag: str) -> str:
    """The values of the key that says which of several kinds an entry is."""
    values = [v for m in _models(annotation) for v in typing.get_args(m.model_fields[tag].annotation)]
    return f"allowed: {', '.join(map(repr, values))}" if values else _POLICIES


def _known(model: type[BaseModel] | None, loc: tuple[int | str, ...]) -> str:
    """What there is in place of an unknown key."""
    if model is None:
        return _POLICIES
    if len(loc) == 1:
        sections = sorted(n for n, f in model.model_fields.items() if _models(f.annotation))
        return f"sections: {', '.join(sections)}; keys: {', '.join(sorted(set(model.model_fields) - set(sections)))}"
    inside = _models(_annotation(model, loc[:-1]))
    if len(inside) != 1:
        return _POLICIES
    return f"keys of {'.'.join(map(str, loc[:-1]))}: {', '.join(sorted(inside[0].model_fields))}"


def _annotation(model: Any, loc: tuple[int | str, ...]) -> Any:
    """Type of what stands there, if it is a field of a section."""
    for part in loc:
        found = [m.model_fields[part] for m in _models(model) if part in m.model_fields]
        if len(found) != 1:
            return None if not (values := _values(model)) else values
        model = found[0].annotation
    return model


def _values(annotation: Any) -> Any:
    """Type of the values of a mapping."""
    return typing.get_args(annotation)[1] if typing.get_origin(annotation) is dict else None


def _allowed(kind: str, e: Mapping[str, Any], annotation: Any, name_pattern: str) -> str:
    context = e.get("ctx") or {}
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        bound = context[name]
        return f"allowed: {words} {int(bound) if bound == int(bound) else bound}"
    if typing.get_origin(annotation) is tuple and kind in ("tuple_type", "too_long"):
        parts = typing.get_args(annotation)
        bare = {typing.get_args(p)[0] if typing.get_args(p) else p for p in parts}
        whole = "whole " if bare == {int} else ""
        return f"allowed: a list of {_COUNTS.get(len(parts), len(parts))} {whole}numbers"
    if kind == "too_short":
        return f"allowed: a list with at least {context['min_length']} of them"
    if kind == "literal_error":
        return f"allowed: {context['expected']}"
    if kind == "finite_number":
        return "allowed: a number, neither infinite nor NaN"
    if kind == "string_pattern_mismatch" and context["pattern"] == name_pattern:
        return "allowed: lower-case letters, digits, - and _, with a letter or digit first"
    if words := _WORDS.get(kind.partition("_")[0]):
        return f"allowed: {words}" + (" or null" if type(None) in typing.get_args(annotation) else "")
    return e["msg"][0].lower() + e["msg"][1:]
