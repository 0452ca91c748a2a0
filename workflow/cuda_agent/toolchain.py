"""What compiling takes besides Python packages; asked with the standard library alone, before any of them is there.

``python toolchain.py`` prints one line for each thing that this machine lacks.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def lacks() -> list[str]:
    """What this machine lacks to compile C++ as torch.compile and the build of kernels do; each with its package."""
    found = []
    compiler = os.environ.get("CXX") or "g++"
    if shutil.which(compiler) is None:
        named = "which CXX names" if os.environ.get("CXX") else "or what CXX names"
        found.append(f"a C++ compiler ({compiler}, {named}): Debian package g++")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        found.append("Python.h, which torch.compile needs: Debian package python3-dev")
    return found


if __name__ == "__main__":
    print("\n".join(lacks()))
