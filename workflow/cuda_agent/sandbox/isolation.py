"""What this machine offers to keep untrusted code apart, found by trying."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cuda_agent.sandbox import jail
from cuda_agent.sandbox.limits import IsolationError

_REMEDY = (
    "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits unshare), or use "
    "a kernel with Landlock and seccomp, or, on a machine to throw away, set sandbox.allow_unisolated: true"
)

_NEEDS = {"rofs": "mntns", "pidmax": "pidns"}


def _works(features: list[str], folder: str) -> bool:
    plan = jail.Plan(tuple(features), folder, "cpu", jail.readable_folders(), 4096, 16, 1000)
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        jail.contain(plan, report, set(), lambda: os._exit(0))
    os.close(report)
    with os.fdopen(reading, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    os.waitpid(child, 0)
    return lines == [{"exit": 0}]


def _probe() -> list[str]:
    with tempfile.TemporaryDirectory(prefix="cuda-agent-probe-") as folder:
        if _works(list(jail.FEATURES), folder):
            return list(jail.FEATURES)
        features: list[str] = []
        for feature in jail.FEATURES:
            if _NEEDS.get(feature, feature) in [*features, feature] and _works([*features, feature], folder):
                features.append(feature)
        return features


@functools.cache
def features() -> tuple[str, ...]:
    """Those of `jail.FEATURES` that work here together. A process of its own finds out, as this one has threads."""
    code = "from cuda_agent.sandbox import isolation; isolation.main()"
    path = str(Path(__file__).resolve().parents[2])
    argv = [sys.executable, "-P", "-c", code]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=120, encoding="utf-8")
    if done.returncode != 0:
        raise IsolationError(f"the probe of this machine's isolation failed: {done.stderr.strip()[-500:]}")
    return tuple(json.loads(done.stdout))


def main() -> None:
    """Print the features that work, as JSON."""
    print(json.dumps(_probe()))


def check_isolation(sandbox: Any) -> str:
    """What will keep untrusted code apart on this machine, e.g. ``userns+netns+pidns+landlock+seccomp``.

    Args:
        sandbox: the ``sandbox`` section of the parameters.

    Raises:
        IsolationError: files or the network cannot be protected and ``sandbox.allow_unisolated`` is not set.
    """
    found = features()
    missing = []
    if not {"landlock", "rofs"} & set(found):
        missing.append("files (needs Landlock or a read-only mount namespace)")
    if not {"netns", "seccomp"} & set(found):
        missing.append("the network (needs a network namespace or seccomp)")
    if missing and not sandbox.allow_unisolated:
        raise IsolationError(f"nothing here protects {' and '.join(missing)}: {_REMEDY}")
    return "+".join(found) or "none"
