"""Build and run one module class of a transformers modeling file. Runs in a sandboxed child.

Such a class takes a configuration, whose sizes are set small here, and tensors whose axes are named after the sizes
that they must agree with, so that a task can be made with other sizes.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from cuda_agent.operators import classify, trial
from cuda_agent.operators.arguments import Parameter, python_parameters
from cuda_agent.operators.trial import Call, Excluded
from cuda_agent.tasks.load import outputs_as_list

MAX_PARAMETERS = 400_000  # at the sizes below; more is a network, not a building block

# Sizes under the names that configurations and constructors give them, and what they are called here.
SIZES = {
    "batch_size": 2,
    "seq_len": 16,
    "hidden_size": 64,
    "intermediate_size": 128,
    "head_dim": 16,
    "height": 8,
    "width": 8,
}
HEADS = 4
NAMES = {
    "hidden_size": (
        "hidden_size",
        "d_model",
        "dim",
        "embed_dim",
        "n_embd",
        "embedding_size",
        "normalized_shape",
        "size",
    ),
    "intermediate_size": ("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "mlp_dim"),
    "head_dim": ("head_dim",),
}
_COUNTS = {
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "n_head": HEADS,
    "num_heads": HEADS,
    "num_hidden_layers": 2,
    "layer_idx": 0,
    "layer_id": 0,
    "vocab_size": 128,
    "num_channels": 64,
    "in_channels": 64,
    "channels": 64,
    "out_channels": 64,
    "kernel_size": 3,
    "eps": 1e-6,
}
_SEQUENCE = ("batch_size", "seq_len", "hidden_size")
_PLANS = (
    _SEQUENCE,
    ("batch_size", "seq_len", "intermediate_size"),
    ("batch_size", "hidden_size"),
    ("batch_size", "hidden_size", "height", "width"),
    ("batch_size", "hidden_size", "seq_len"),
)
_ROTARY = ("batch_size", "seq_len", "head_dim")
_OPTIONAL = ("attention_mask", "past_key_values", "past_key_value", "cache", "head_mask", "position_bias", "layer_past")
_FLAGS = ("output_attentions", "use_cache", "training")

Axes = tuple[str, ...]


def size_of(name: str) -> int | None:
    """The trial size behind a name of a configuration or constructor."""
    return next((SIZES[s] for s, names in NAMES.items() if name in names), None)


def _overrides(config_class: Any) -> dict[str, Any]:
    """Small sizes and no dropout, for those attributes that a configuration has."""
    default = config_class()
    found: dict[str, Any] = {}
    for name in sorted(vars(default)):
        value = getattr(default, name)
        if size_of(name) is not None and isinstance(value, int):
            found[name] = size_of(name)
        elif name in _COUNTS and isinstance(value, int):
            found[name] = _COUNTS[name]
        elif "drop" in name and isinstance(value, float) and value:
            found[name] = 0.0
    return found


class ModelingCall(Call):
    """One way to build such a module and to call it."""

    def __init__(
        self,
        cls: Any,
        config: tuple[str, str, dict[str, Any]] | None,
        init: dict[str, Any],
        inputs: list[str],
        fixed: dict[str, Any],
    ) -> None:
        super().__init__(cls, True, init, fixed, [Parameter(n, "Tensor", True) for n in inputs])
        self.config = config
        self.read: set[str] = set()

    def build(self) -> Callable[..., Any]:
        """The module, in evaluation mode; which attributes of the configuration it reads is noted."""
        torch.manual_seed(0)
        arguments = dict(self.init)
        if self.config is not None:
            module, name, overrides = self.config
            config_class = getattr(importlib.import_module(module), name)
            config = config_class(**overrides)
            config._attn_implementation = "eager"
            arguments = {"config": config, **arguments}
        # Some classes leave weights to the whole model to fill: memory that was never written shows as NaN here.
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            with _reads(type(arguments.get("config")), self.read):
                built = self._target(**arguments)
        finally:
            torch.use_deterministic_algorithms(False)
        if not all(bool(w.isfinite().all()) for w in built.parameters() if w.is_floating_point()):
            raise Excluded("leaves its weights uninitialised")
        if sum(w.numel() for w in built.parameters()) > MAX_PARAMETERS:
            raise Excluded("a whole network, not a building block")
        return built.eval()

    def run(self, function: Callable[..., Any], tensors: list[torch.Tensor]) -> Any:
        """Call it; ``cos`` and ``sin`` go in as one pair."""
        named = dict(zip([p.name for p in self.tensors], tensors, strict=True))
        if "cos" in named:
            named["position_embeddings"] = (named.pop("cos"), named.pop("sin"))
        with _reads(type(getattr(function, "config", None)), self.read):
            return function(**named, **self.fixed)


class _reads:
    """Notes which attributes of instances of a class are read."""

    def __init__(self, cls: type, into: set[str]) -> None:
        self.cls, self.into = cls, into

    def __enter__(self) -> None:
        if self.cls is type(None):
            return
        plain, into = self.cls.__getattribute__, self.into

        def note(instance: Any, name: str) -> Any:
            into.add(name)
            return plain(instance, name)

        self.plain = self.cls.__dict__.get("__getattribute__")
        self.cls.__getattribute__ = note

    def __exit__(self, *_: object) -> None:
        if self.cls is type(None):
            return
        if self.plain is None:
            del self.cls.__getattribute__
        else:
            self.cls.__getattribute__ = self.plain


def _config_classes(cls: Any) -> list[type]:
    """Configuration classes to try: the annotated one, then those of the model, in alphabetical order."""
    from transformers import PretrainedConfig

    folder = cls.__module__.rpartition(".")[0]
    module = importlib.import_module(f"{folder}.configuration_{folder.rpartition('.')[2]}")
    known = {
        n: c
        for n, c in vars(module).items()
        if inspect.isclass(c) and issubclass(c, PretrainedConfig) and c.__module__ == module.__name__
    }
    annotation = inspect.signature(cls).parameters["config"].annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    first = [c for n, c in sorted(known.items()) if n in text]
    return first + [c for n, c in sorted(known.items()) if c not in first]


def _calls(cls: Any) -> Iterator[ModelingCall]:
    parameters = python_parameters(cls)
    init = {}
    for p in parameters:
        value = size_of(p.name) if size_of(p.name) is not None else _COUNTS.get(p.name)
        if p.name == "config":
            continue
        if p.required or p.name == "layer_idx":
            if value is None:
                raise Excluded(f"no value is known for its argument {p.name}")
            init[p.name] = value
    inputs: list[str] = []
    fixed: dict[str, Any] = {}
    for p in python_parameters(cls.forward):
        if p.name == "position_embeddings":
            inputs += ["cos", "sin"]
        elif p.required and p.name in _OPTIONAL:
            fixed[p.name] = None
        elif p.required and p.name in _FLAGS:
            fixed[p.name] = False
        elif p.required and p.name != "self":
            inputs.append(p.name)
    if not inputs:
        raise Excluded("takes no required input")
    if any(p.name == "config" for p in parameters):
        for config_class in _config_classes(cls)[:4]:
            try:
                yield ModelingCall(
                    cls, (config_class.__module__, config_class.__name__, _overrides(config_class)), init, inputs, fixed
                )
            except Excluded:
                raise
            except Exception:  # a configuration that refuses such sizes
                continue
    else:
        yield ModelingCall(cls, None, init, inputs, fixed)


def _axes(call: ModelingCall) -> Iterator[list[Axes]]:
    """Axes of the inputs to try: all alike, or the second one as wide as the intermediate layer."""
    names = [p.name for p in call.tensors]
    plain = [n for n in names if n not in ("cos", "sin")]
    for first in _PLANS:
        yield [_ROTARY if n in ("cos", "sin") else first for n in names]
    if len(plain) == 2:
        for first, second in itertools.permutations(_PLANS[:2]):
            yield [_ROTARY if n in ("cos", "sin") else first if n == plain[0] else second for n in names]


def try_operator(context: Any, name: str, spelling: str) -> dict[str, Any]:
    """As `cuda_agent.operators.trial.try_operator`, for a module class of transformers."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return _try(name)
    except Excluded as error:
        return {"status": "excluded", "reason": str(error)}


def _try(name: str) -> dict[str, Any]:
    cls = trial.resolve(name)
    last = "no configuration of its model can be built with small sizes"
    for call in _calls(cls):
        try:
            call.build()
        except Excluded:
            raise
        except Exception as error:  # a class may refuse the configuration of another
            last = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            continue
        examples, found = [], None
        for axes in _axes(call):
            plan = [(tuple(SIZES[a] for a in names), "normal") for names in axes]
            try:
                inputs = trial._inputs(plan, 1)
                outputs = outputs_as_list(call.run(call.build(), inputs))
            except Exception as error:  # it may refuse any shape
                last = f"{type(error).__name__}: {error}".split("\n")[0][:200]
                continue
            if not all(bool(v.isfinite().all()) for v in outputs if v.is_floating_point()):
                raise Excluded("gives NaN or infinite values for normal inputs")
            if found is None:
                found = (axes, trial._check(call, plan), trial._digest(outputs), len(outputs))
            examples.append(
                {
                    "init": call.init,
                    "fixed": call.fixed,
                    "inputs": trial._describe(inputs),
                    "outputs": trial._describe(outputs),
                }
            )
        if found is not None:
            axes, seen, digest, outputs_count = found
            kind = classify.kind(name, seen)
            return {
                "status": "verified",
                "reason": "",
                "kind": "activation" if kind == "pointwise" else kind,
                "recipe": _recipe(call, axes, seen, outputs_count),
                "examples": examples[: trial.MAX_EXAMPLES],
                "digest": digest,
            }
    raise Excluded(f"no trial ran; the last failed with {last}")


def _recipe(call: ModelingCall, axes: list[Axes], seen: list[Any], outputs: int) -> dict[str, Any]:
    config = None
    if call.config is not None:
        module, name, overrides = call.config
        config = {"module": module, "name": name, "set": {k: v for k, v in overrides.items() if _matters(k, call.read)}}
    return {
        "config": config,
        "init": call.init,
        "fixed": call.fixed,
        "inputs": [p.name for p in call.tensors],
        "axes": [list(a) for a in axes],
        "outputs": outputs,
        "tuple": outputs > 1,
        "listed": False,
        "scalars": [],
        "words": [],
        "aten": sorted({op.overloadpacket.__name__ for op in seen}),
    }


_TOGETHER = {"hidden_size", "d_model", "n_embd", "num_attention_heads", "num_key_value_heads", "n_head", "head_dim"}


def _matters(name: str, read: set[str]) -> bool:
    """Whether a setting was read, or belongs to one that was: the size of heads follows from two others."""
    return name in read or (name in _TOGETHER and bool(_TOGETHER & read))
