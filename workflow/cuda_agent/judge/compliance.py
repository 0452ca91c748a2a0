"""What a candidate may contain and run: its text, its library and what was seen of it, held against the rules.

The text and what is seen from inside the candidate's process are tripwires; what the library can reach is not: it is
linked so that nothing stays unresolved, and thus calls what these libraries offer and nothing else of the process.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuda_agent.sandbox import Limits, MachineError, run_command
from cuda_agent.tasks import syntax
from cuda_agent.workspace import TEMPLATE

_IMPORTS = {
    *("torch", "cuda_extension", "math", "typing", "functools", "itertools", "collections", "dataclasses"),
    *("__future__",),
}
_NAMES = {"exec", "eval", "compile", "__import__", "open", "globals", "vars", "breakpoint", "__builtins__"}
_ATTRIBUTES = re.compile(
    r"_C|_dynamo|_inductor|compile|jit|ops|_ops|library|overrides|multiprocessing|distributed|hub|load|save|fx|"
    r"utils|futures|profiler|__(globals|builtins|code|subclasses|dict|torch_function|torch_dispatch|closure)__|"
    r"_python_dispatch|numpy|__array__|__dlpack__|from_numpy|from_dlpack|frombuffer|data_ptr|untyped_storage|"
    r"CUDAGraph|Stream|Event|cudart|synchronize|set_num_threads|register_.*hook.*|set_default_.*|backends"
)
_LIBRARIES = re.compile(
    r"lib(tvm_ffi|stdc\+\+|gcc_s|c|m|gomp|cudart|cublas|cublasLt|cudnn)\.so(\.[0-9]+)*|ld-linux-[a-z0-9_-]+\.so\.[0-9]+"
)
_SYMBOLS = re.compile(
    r"dl(m?open|v?sym|addr|iterate_phdr)|pthread_.*|thrd_.*|v?fork|clone3?|exec[lv].*|posix_spawn.*|system|popen|"
    r"socket.*|connect|bind|listen|accept4?|send(to|msg)?|recv(from|msg)?|(f|fd|shm_|mem)?open(at)?(64)?|memfd_create|"
    r"mmap(64)?|mprotect|ptrace|syscall|process_vm_.*|kill|tgkill|signal|sigaction|setitimer|timer_.*|clock_settime|"
    r"getenv|setenv|putenv|environ|_exit|_Exit|quick_exit|exit|longjmp|"
    r"_ZNSt6thread.*|_ZNSt13__future_base.*|_ZNSt13basic_filebuf.*|_ZNSt14basic_ifstream.*|_ZNSt14basic_ofstream.*|"
    r"TVMFFIFunctionGetGlobal|TVMFFIFunctionCall|Py[A-Z_].*|"
    r"cudaStreamCreate.*|cudaGraph.*|cudaStreamBeginCapture.*|cudaLaunchHostFunc.*|cudaStreamAddCallback.*|cudaIpc.*|"
    r"cudaDeviceSetLimit|cudaDeviceSetCacheConfig|cudaStreamSetAttribute|cudaCtxResetPersistingL2Cache|"
    r"cudaGetDriverEntryPoint.*|cudnn(Softmax|Activation|Pooling|ReduceTensor|OpTensor|BatchNorm|Normalization|RNN|"
    r"MultiHeadAttn|Dropout|LRN|CTC).*"
)
_SYSTEM_CALL = re.compile(r"\t(syscall|sysenter|int\s+\$0x80)\b")
_DEVICE_KERNELS = re.compile(r"triton_|at::native::(?!.*(fill|copy))", re.IGNORECASE)
_INSPECT = 'set -e; readelf -dW "$1"; echo ==; nm -D --undefined-only "$1"; echo ==; objdump -d --no-show-raw-insn "$1"'


@functools.cache
def _rules() -> Any:
    """The list of torch operators that a workspace's own ``utils/rules.py`` has."""
    spec = importlib.util.spec_from_file_location("cuda_agent_workspace_rules", TEMPLATE / "utils" / "rules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source_findings(files: dict[str, str]) -> list[str]:
    """What the rules forbid in the text of a submission, by name; the syntax tree is looked at, not the spelling."""
    found = set()
    try:
        tree = syntax.parse(files.get("model_new.py", ""))
    except SyntaxError:
        return []  # loading it will say so
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or "."] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            names = ["."] if isinstance(node, ast.ImportFrom) and node.level else names
            parts = [p for n in names for p in n.split(".")[1:]]
            parts += [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
            found |= {f"import of {n}" for n in names if n.split(".")[0] not in _IMPORTS}
            found |= {f"use of {p}" for p in parts if names[0].startswith("torch") and _ATTRIBUTES.fullmatch(p)}
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            found.add(f"use of {node.id}")
        elif isinstance(node, ast.Attribute) and _ATTRIBUTES.fullmatch(node.attr):
            found.add(f"use of {node.attr}")
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = getattr(node, "targets", None) or [node.target]
            roots = {_root(t) for t in targets if isinstance(t, ast.Attribute)}
            found |= {f"assignment to attributes of {r}" for r in roots & {"torch", "cuda_extension", "nn", "F"}}
    if any("torch/" in line or "ATen" in line or "c10/" in line for line in _includes(files)):
        found.add("header of torch")
    return sorted(found)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _includes(files: dict[str, str]) -> list[str]:
    pattern = re.compile(r"^\s*#\s*include\b.*", re.MULTILINE)
    return [m.group() for name, text in files.items() if name != "model_new.py" for m in pattern.finditer(text)]


def binary_findings(library: Path, folder: Path, limits: Limits, sandbox: Any) -> list[str]:
    """Libraries, symbols and instructions in a built library that the rules forbid. Runs binutils in the sandbox.

    Raises:
        MachineError: the tools are missing or failed.
    """
    big = Limits(limits.timeout_s, limits.memory_mb, limits.processes, limits.file_size_mb, 16384)
    argv = ["bash", "-c", _INSPECT, "inspect", str(library)]
    outcome = run_command(argv, folder, limits=big, sandbox=sandbox)
    if outcome.status == "machine" or (outcome.status == "ok" and outcome.value["returncode"] == 127):
        raise MachineError(f"cannot look into a library (are binutils installed?): {outcome.error or outcome.value}")
    if outcome.status != "ok" or outcome.value["returncode"] != 0:
        return ["a library that binutils cannot read"]
    dynamic, undefined, code = outcome.value["stdout"].split("\n==\n", 2)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    symbols = [line.split()[-1].partition("@")[0] for line in undefined.splitlines() if line.split()]
    found = [f"link to {name}" for name in needed if not _LIBRARIES.fullmatch(name)]
    found += [f"call of {name}" for name in symbols if _SYMBOLS.fullmatch(name)]
    if _SYSTEM_CALL.search(code):
        found.append("a system call of its own")
    return sorted(set(found))


def run_findings(launched: dict[str, Any]) -> list[str]:
    """What the rules forbid in what was seen while the candidate ran (the ``launched`` column of a judgement)."""
    found = [f"torch operator {name}" for name in forbidden_ops(launched.get("ops", {}))]
    found += [f"{name} called in forward" for name in launched.get("leaks", [])]
    found += [f"device kernel {n}" for n in launched.get("device_kernels", {}) if _DEVICE_KERNELS.search(n)]
    before, after = launched.get("threads", [0, 0])
    if after > before:
        found.append(f"{after - before} threads started in forward")
    if not launched.get("intact", True):
        found.append("the watching of forward was ended by it")
    if "kernels" in launched and not sum(launched["kernels"].values()):
        found.append("no kernel of its own was called")
    if launched.get("ghost_passed"):
        found.append("the outputs are right without its kernels")
    return found


def forbidden_ops(names: Iterable[str]) -> list[str]:
    """Those of these operators that do more than create, view or copy tensors."""
    return _rules().forbidden(names)
