"""The command line: ``cuda-agent COMMAND ...``. Each command lives in a module of its part, imported when used."""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Sequence

from cuda_agent.errors import UserError

USER = 2  # exit status: the command cannot do it, and says why; argparse has the same one

# Name -> (module, what it does). A module has `add_arguments(parser)` and `run(args)`, which returns the exit status.
COMMANDS = {
    "workspace": ("cuda_agent.workspace.command", "lay out a workspace with one task in it"),
    "judge": ("cuda_agent.judge.command", "judge the kernel in a workspace"),
    "export": ("cuda_agent.export.command", "write a run's dataset or trajectories in the formats that trainers read"),
    "fingerprint-kernelbench": ("cuda_agent.decontamination.kernelbench", "fingerprint a checkout of KernelBench"),
    "pin": ("cuda_agent.pinning", "keep a run's measured artefacts in git"),
    "pull": ("cuda_agent.pulling", "fetch published runs, so that Snakemake and DVC have nothing left to do"),
    "record": ("cuda_agent.recording", "tell DVC of a run that Snakemake made"),
    "dvc-yaml": ("cuda_agent.pipeline", "write dvc.yaml from the rules"),
    "readme": ("cuda_agent.readme", "write the README's table of results from the artefacts"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0; 1 where the command's own help says so; 2 for what the user can mend.

    What is wrong with files, parameters or the machine is told on the standard error, without a traceback.
    """
    for stream in (sys.stdout, sys.stderr):  # names of files may hold what no locale has a character for
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="cuda-agent", description="Tasks, agents and a judge for GPU kernels.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            importlib.import_module(module).add_arguments(sub)
    args = parser.parse_args(argv)
    try:
        return importlib.import_module(COMMANDS[args.command][0]).run(args)
    except UserError as error:
        said = str(error)
    except OSError as error:  # missing, a folder, no permission, no space: of the file that it names
        if error.filename is None:
            raise
        said = f"{error.filename}: {error.strerror}"
    print(f"cuda-agent {args.command}: {said}", file=sys.stderr)
    return USER


if __name__ == "__main__":
    sys.exit(main())
