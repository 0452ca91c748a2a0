"""Names of what the installed libraries offer, found by looking into them. Runs in a sandboxed child."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import torch
from torch import nn

Spec = dict[str, str]

_NAMESPACES = ("torch", "torch.functional", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")


def torch_operators(context: Any) -> list[Spec]:
    """Module classes of ``torch.nn``, overridable functions of torch, and methods that are no function as well."""
    specs = {}
    for name in torch.nn.modules.__all__:
        cls = getattr(nn, name)
        if inspect.isclass(cls) and issubclass(cls, nn.Module):
            specs[f"torch.nn.{name}"] = ("module", cls.__module__)
    spaces = {getattr(space, "__name__", ""): fs for space, fs in torch.overrides.get_overridable_functions().items()}
    for space in _NAMESPACES:
        for function in spaces[space]:
            name = getattr(function, "__name__", "")
            public = "torch" if space == "torch.functional" else space
            name = name.removeprefix(f"{space.rpartition('.')[2]}_") if space.count(".") == 1 else name
            owner = importlib.import_module(public)
            if name and not name.startswith("_") and hasattr(owner, name):
                specs[f"{public}.{name}"] = ("function", getattr(function, "__module__", None) or public)
    functions = {name.rpartition(".")[2] for name in specs}
    for method in dir(torch.Tensor):
        value = inspect.getattr_static(torch.Tensor, method, None)
        if not method.startswith("_") and callable(value) and method not in functions:
            specs[f"torch.Tensor.{method}"] = ("method", "torch.Tensor")
    return [{"name": n, "spelling": s, "source_module": str(m)} for n, (s, m) in sorted(specs.items())]


def transformers_models(context: Any) -> list[str]:
    """Packages below ``transformers.models`` that have a modeling file for torch, in alphabetical order."""
    import transformers.models

    found = []
    for package in pkgutil.iter_modules(transformers.models.__path__):
        inner = importlib.util.find_spec(f"transformers.models.{package.name}")
        if inner is None or not inner.submodule_search_locations:
            continue
        modules = [m.name for m in pkgutil.iter_modules(list(inner.submodule_search_locations))]
        if f"modeling_{package.name}" in modules:
            found.append(package.name)
    return sorted(found)


def transformers_operators(context: Any, models: list[str]) -> list[Spec]:
    """Module classes that the modeling files of these models define, whole models left out."""
    return [spec for model in models for spec in _classes(model)]


def _classes(model: str) -> list[Spec]:
    from transformers import PreTrainedModel

    name = f"transformers.models.{model}.modeling_{model}"
    try:
        module = importlib.import_module(name)
    except ImportError:  # needs a library that is not installed
        return []
    specs = []
    for cls in vars(module).values():
        if inspect.isclass(cls) and cls.__module__ == name and issubclass(cls, nn.Module):
            if issubclass(cls, PreTrainedModel) or cls.forward is getattr(nn.Module, "forward", None):
                continue
            specs.append({"name": f"{name}.{cls.__name__}", "spelling": "module", "source_module": name})
    return sorted(specs, key=lambda s: s["name"])
