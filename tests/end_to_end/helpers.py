"""A copy of the repository with a small experiment in it, for the real Snakemake, DVC, compiler and sandbox."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

SMALL = {
    "operators": {"sources": ["torch"], "names": r"torch\.(nn\.[A-Z]|[a-e])\w+"},
    "synthesis": {"candidates": 6, "mix": {"torch#1": 1, "torch#2": 1}, "target_bytes": [200_000, 1_000_000]},
    "observation": {"repeats": 3, "warmup": 1},
    "filtering": {"time_window_ms": [0.001, 1000]},
    "rollouts": {"tasks": 3},
    "judging": {"correctness_trials": 2, "timing_pairs": 3, "min_sample_ms": 1},
    "results": {"bootstrap_samples": 100},
}


def copy_repository(target):
    """All files that git knows or would add, committed in a repository of their own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if (source.is_file() or source.is_symlink()) and not name.startswith("results/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    (target / "dvc.lock").unlink(missing_ok=True)
    return target


def set_params(root, changes, file="params.yaml"):
    """Change values in a parameter file, keeping its comments out of it: the copy needs none."""
    path = root / file
    config = yaml.safe_load(path.read_text())
    for section, values in changes.items():
        if isinstance(values, dict):
            config[section] = {**(config.get(section) or {}), **values}
        else:
            config[section] = values
    path.write_text(yaml.safe_dump(config, sort_keys=False))


class Repository:
    """Commands in a copy of the repository."""

    def __init__(self, root):
        self.root = root

    def run(self, *argv, ok=True, env=None, timeout=1500):
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SNAKEMAKE", "PYTEST"))},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.root / "workflow"),
            **(env or {}),
        }
        done = subprocess.run(
            argv, cwd=self.root, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        text = done.stdout + done.stderr
        if ok:
            assert done.returncode == 0, f"{' '.join(map(str, argv))}\n{text[-6000:]}"
        return done.returncode, text

    def snakemake(self, *args, cores="all", **kwargs):
        return self.run("snakemake", "--cores", str(cores), *args, **kwargs)

    def git(self, *args):
        return self.run("git", *args)[1]

    def experiment(self, name, path):
        """Text of a file as an experiment of DVC left it."""
        refs = self.git("for-each-ref", "refs/exps", "--format=%(refname)").split()
        (ref,) = [r for r in refs if r.endswith(f"/{name}")]
        return self.git("show", f"{ref}:{path}")

    def commit(self, message):
        self.git("add", "-A")
        self.git("-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-qm", message)

    def bytes_of(self, *folders):
        """Contents of all files that a run publishes, by path."""
        return {
            str(p.relative_to(self.root)): p.read_bytes()
            for folder in folders
            for p in sorted((self.root / folder).rglob("*"))
            if p.is_file() and p.name != ".gitignore"
        }


def jobs(text):
    """How many jobs of each rule a run of Snakemake says that it made."""
    table = text.partition("Job stats:")[2].partition("total")[0]
    return {name: int(n) for name, n in re.findall(r"^(\w+)\s+(\d+)\s*$", table, re.MULTILINE)}
