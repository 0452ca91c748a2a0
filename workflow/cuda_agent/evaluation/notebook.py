"""Execute a notebook so that the same inputs give the same bytes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda_agent.errors import UserError

PACKAGES = Path(__file__).parents[2]
ANSI = re.compile(r"\x1b\[[0-9;]*m")  # colours in tracebacks


class NotebookError(UserError, RuntimeError):
    """A cell failed; the message names the notebook, the cell and the exception."""


def execute_notebook(
    source: Path | str,
    out: Path | str,
    parameters: Mapping[str, Any],
    folder: Path | str = ".",
    timeout_s: float = 600,
) -> None:
    """Run a notebook from top to bottom with other values in its parameters cell, and keep the executed copy.

    The kernel is the Python that calls this; no kernel spec has to be installed. Time stamps, random cell ids and
    versions of the kernel are left out of the copy, and output streams are joined: equal artefacts give equal files.

    Args:
        source: notebook with one cell tagged ``parameters`` (papermill's convention).
        out: where the executed copy goes; its folder is made.
        parameters: values for the names in that cell. Give paths relative to ``folder``: they end up in the copy.
        folder: working folder of the kernel.
        timeout_s: for each cell.

    Raises:
        NotebookError: a cell failed. Nothing is written.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    class ThisPython(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    async def run(client: NotebookClient, manager: AsyncKernelManager, environment: dict[str, str]) -> None:
        try:
            await client.async_execute(env=environment)
        finally:
            if client.kc is not None:  # whose sockets nbclient leaves open where the manager is not its own
                client.kc.stop_channels()
            if manager.has_kernel:
                await manager.shutdown_kernel(now=True)

    notebook = load_notebook_node(str(source))
    if not any("parameters" in c.metadata.tags for c in notebook.cells):
        raise NotebookError(f"{source}: no cell is tagged 'parameters'")
    notebook = parameterize_notebook(notebook, dict(parameters), kernel_name="python3", language="python")
    inherited = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory() as private:
        # Sockets in a private folder instead of TCP ports, and none of the user's IPython start-up files.
        manager = AsyncKernelManager(
            kernel_spec_manager=ThisPython(),
            kernel_name="python3",
            transport="ipc",
            connection_file=str(Path(private) / "kernel.json"),
        )
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=timeout_s,
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
        )
        environment = os.environ | {
            "IPYTHONDIR": private,
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join([str(PACKAGES), *([inherited] if inherited else [])]),
        }
        try:
            asyncio.run(run(client, manager, environment))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise NotebookError(f"{source}: {ANSI.sub('', str(error))}") from None
    _strip(notebook)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out)


def _strip(notebook: Any) -> None:
    """Remove what differs between two runs on the same inputs."""
    notebook.metadata = type(notebook.metadata)(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for number, cell in enumerate(notebook.cells):
        tags = list(cell.metadata.get("tags", []))
        cell.metadata = type(cell.metadata)({"tags": tags} if tags else {})
        if "injected-parameters" in tags:
            cell.id = f"parameters-{number}"
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with neighbouring pieces of one stream made one: how a stream is cut into messages depends on timing."""
    out: list[Any] = []
    for item in outputs:
        last = out[-1] if out else None
        if last is not None and item.output_type == last.output_type == "stream" and item.name == last.name:
            last.text += item.text
        else:
            out.append(item)
    return out
