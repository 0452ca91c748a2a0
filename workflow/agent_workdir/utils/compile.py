"""Compile `kernels/` and the bindings into `build/libcuda_extension.so`: parallel, and only what changed. Fixed.

Exit status: 0 built; 1 the code does not compile; 2 this machine cannot compile (a tool is missing).
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path("build/libcuda_extension.so")
WANTED = {"cpp": "*.cpp", "cuda": "*.cu and *_binding.cpp"}  # what is compiled, directly in kernels/

# Nothing may stay unresolved at link time: what the library calls is then what these libraries offer, and not what the
# process that loads it happens to have in memory.
LINK = "-shared -Wl,--no-undefined -Wl,--as-needed"
COMMON = "-O3 -std=c++17 -fPIC -fopenmp"
_MACHINE = re.compile(r"^(/bin/sh|ninja): .*(fork|temporarily unavailable|No space left|allocate memory)", re.MULTILINE)
DEPENDENCIES = "-MD -MF $out.d -c $in -o $out"


class ToolMissing(RuntimeError):
    """A tool that compiling needs is not on this machine."""


def _tool(*names):
    for name in names:
        if path := shutil.which(name):
            return path
    raise ToolMissing(f"none of these is on PATH: {', '.join(names)}")


def _cxx():
    return _tool(*([os.environ["CXX"]] if os.environ.get("CXX") else []), "g++", "c++", "clang++")


def default_backend():
    """What `BACKEND` says; without it cuda where a GPU and nvcc are, else cpp."""
    named = ROOT / "BACKEND"
    if named.exists():
        return named.read_text(encoding="utf-8").strip()
    return "cuda" if shutil.which("nvcc") and shutil.which("nvidia-smi") else "cpp"


def left_out(backend):
    """Sources in `kernels/` that this backend does not compile, relative to the workspace."""
    found = {p.relative_to(ROOT) for p in (ROOT / "kernels").rglob("*") if p.suffix in (".cpp", ".cu", ".cc", ".c")}
    return sorted(map(str, found - set(sources(backend))))


def tidy(output):
    """The compilers' output without the commands that ninja repeats in front of it."""
    lines, command = [], False
    for line in output.splitlines(keepends=True):
        if not command and not line.startswith("FAILED: "):
            lines.append(line)
        command = line.startswith("FAILED: ")
    return "".join(lines)


def default_arch():
    """Compute capability of the first GPU, as in sm_90; sm_90 without one."""
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, check=False, encoding="utf-8")
        lines = done.stdout.split()
        if done.returncode == 0 and lines:
            return "sm_" + lines[0].replace(".", "")
    return "sm_90"


def sources(backend):
    """Files to compile, relative to the workspace."""
    found = sorted({p for pattern in WANTED[backend].split(" and ") for p in (ROOT / "kernels").glob(pattern)})
    return [Path("binding.cpp"), *(p.relative_to(ROOT) for p in found)]


def _cuda_home(nvcc):
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    top = subprocess.run(
        [nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"], capture_output=True, check=False, encoding="utf-8"
    )
    for line in top.stderr.splitlines():
        if line.startswith("#$ TOP="):
            return Path(line.partition("=")[2]).resolve()
    return Path(named or "/usr/local/cuda")


def _packaged_cuda():
    """Include and library folders of cuBLAS and cuDNN as torch's wheels bring them."""
    base = Path(sysconfig.get_path("purelib")) / "nvidia"
    folders = [p for name in ("cublas", "cudnn", "cu13", "cu12") if (p := base / name).is_dir()]
    return [p / "include" for p in folders], [p / "lib" for p in folders]


def _cuda_libraries(folders):
    """Linker arguments for CUDA's runtime, and for those of cuBLAS, cuBLASLt and cuDNN that are here."""
    found = {}
    for name in ("cudart", "cublas", "cublasLt", "cudnn"):
        hits = [p for folder in folders for p in sorted(folder.glob(f"lib{name}.so*"))]
        if hits:
            found[name] = hits[0]
    if "cudart" not in found:
        raise ToolMissing(f"libcudart.so is in none of {', '.join(map(str, folders))}")
    paths = dict.fromkeys(str(p.parent) for p in found.values())
    return [*map(str, found.values()), *(f"-Wl,-rpath,{p}" for p in paths)]


def _libinfo():
    """`tvm_ffi.libinfo` without the package around it, which would import torch."""
    package = importlib.util.find_spec("tvm_ffi")
    if package is None or package.origin is None:
        raise ToolMissing("the Python package apache-tvm-ffi is not installed")
    spec = importlib.util.spec_from_file_location("tvm_ffi_libinfo", Path(package.origin).with_name("libinfo.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ninja_file(backend, arch):
    """Text of the file that ninja runs by. https://ninja-build.org/manual.html"""
    cxx = _cxx()
    native = "-march=native" if backend == "cpp" else ""
    info = _libinfo()
    includes = " ".join(f"-isystem {path}" for path in info.include_paths())
    ffi = Path(info.find_libtvm_ffi())
    libraries = [f"-L{ffi.parent}", f"-l{ffi.stem.removeprefix('lib')}", "-fopenmp", "-lm"]
    lines = [
        "rule cxx",
        f"  command = {cxx} {COMMON} {native} {includes} $extra {DEPENDENCIES}",
        "  depfile = $out.d",
        "  deps = gcc",
    ]
    extra = ""
    if backend == "cuda":
        nvcc = _tool("nvcc")
        home = _cuda_home(nvcc)
        packaged, folders = _packaged_cuda()
        folders = [home / "lib64", home / "lib", *folders]
        extra = " ".join(f"-isystem {p}" for p in [home / "include", *packaged])
        shown = " ".join(f"-isystem {p}" for p in packaged)
        lines += [
            "rule nvcc",
            f"  command = {nvcc} -ccbin {cxx} -O3 -std=c++17 -arch={arch} -Xcompiler -fPIC {shown} {DEPENDENCIES}",
            "  depfile = $out.d",
            "  deps = gcc",
        ]
        libraries += _cuda_libraries(folders)
    lines += ["rule link", f"  command = {cxx} {LINK} $in -o $out {' '.join(libraries)}"]
    objects = []
    for source in sources(backend):
        target = Path("build") / source.with_suffix(source.suffix + ".o").name
        objects.append(str(target))
        lines.append(f"build {target}: {'nvcc' if source.suffix == '.cu' else 'cxx'} {source}")
        if source.suffix != ".cu" and extra:
            lines.append(f"  extra = {extra}")
    lines += [f"build {LIBRARY}: link {' '.join(objects)}", f"default {LIBRARY}"]
    return "\n".join(lines) + "\n"


def build(backend=None, arch=None, jobs=None):
    """Build the library.

    Returns:
        Exit status as in the module's text, and the output of the compilers.
    """
    backend = backend or default_backend()
    if backend not in WANTED:
        return 1, f"BACKEND says {backend!r}; allowed: {' or '.join(WANTED)}\n"
    ignored = left_out(backend)
    takes = f"the backend {backend} takes {WANTED[backend]} in kernels/ itself"
    note = f"not compiled, as {takes}: {', '.join(ignored)}\n" if ignored else ""
    if len(sources(backend)) == 1:
        return 1, f"kernels/ has no {WANTED[backend]}: nothing to compile for the backend {backend}\n{note}"
    try:
        text = ninja_file(backend, arch or default_arch())
        ninja = _tool("ninja")
    except (ToolMissing, ImportError) as error:
        return 2, f"this machine cannot compile: {error}\n"
    (ROOT / "build").mkdir(exist_ok=True)
    path = ROOT / "build" / "build.ninja"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    argv = [ninja, "-f", str(path), "-k", "0", "--quiet", *(["-j", str(jobs)] if jobs else [])]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, check=False, encoding="utf-8", errors="replace")
    if done.returncode:
        (ROOT / LIBRARY).unlink(missing_ok=True)  # an older build must not pass for this one
        if _MACHINE.search(done.stdout + done.stderr):
            return 2, done.stdout + done.stderr
        return 1, tidy(done.stdout) + done.stderr + note
    return 0, done.stdout + done.stderr


def main():
    """Command line."""
    parser = argparse.ArgumentParser(prog="bash utils/compile.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["cpp", "cuda"], help="default: what the file BACKEND says")
    parser.add_argument("--arch", help="GPU architecture, as sm_90; default: that of this machine's GPU")
    parser.add_argument("--jobs", type=int, help="compilers at once; default: one for each core")
    args = parser.parse_args()
    status, log = build(args.backend, args.arch, args.jobs)
    print(log, end="")
    print(["compiled build/libcuda_extension.so", "compilation failed", "no compilation"][status])
    return status


if __name__ == "__main__":
    sys.exit(main())
