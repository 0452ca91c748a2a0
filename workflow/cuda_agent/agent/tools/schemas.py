"""What each tool is called, takes and does, as the model is told; arguments are checked against this.

Names and arguments are those of the tools in the published environment, so that models trained on such tools know them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class ArgumentError(ValueError):
    """A tool call that cannot be carried out; the message is for the model."""


class Tool(BaseModel):
    """Arguments of a tool; the docstring is what the model is told."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


_Path = Annotated[str, Field(min_length=1, description="Path of the file, absolute or from the workspace folder.")]
_Folder = Annotated[str | None, Field(description="Folder to search; the workspace folder if left out.")]


class Bash(Tool):
    """Run a command in bash and return what it printed (standard output and error together) and its exit status.

    The working directory carries over to the next call; variables do not. There is no network, and only the workspace
    folder and /tmp can be written to. Output beyond 30,000 characters loses its middle. What the command leaves running
    is ended with it, unless run_in_background is set.
    """

    command: str = Field(min_length=1, description="The command line.")
    timeout: float | None = Field(None, gt=0, description="Milliseconds until it is ended.")
    description: str | None = Field(None, description="What it is for, in a few words.")
    run_in_background: bool = Field(False, description="Return at once; read its output with BashOutput.")


class BashOutput(Tool):
    """Return what a background command printed since this was last asked, and whether it still runs."""

    bash_id: str = Field(description="The id that Bash gave it.")
    filter: str | None = Field(None, description="Regular expression; only lines that match are returned.")


class KillBash(Tool):
    """End a background command."""

    shell_id: str = Field(description="The id that Bash gave it.")


class Read(Tool):
    """Return a text file with line numbers: 2,000 lines unless limit says otherwise, each cut at 2,000 characters."""

    file_path: _Path
    offset: int | None = Field(None, ge=1, description="Number of the first line to return, from 1.")
    limit: int | None = Field(None, ge=1, description="How many lines to return.")


class Write(Tool):
    """Write a file, making its folders. A file that is there already must have been read before."""

    file_path: _Path
    content: str = Field(description="The whole text of the file.")


class Edit(Tool):
    """Replace a piece of a file that was read before. The piece must occur exactly once, unless replace_all is set."""

    file_path: _Path
    old_string: str = Field(description="The text to replace, without line numbers.")
    new_string: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence.")


class OneEdit(Tool):
    """One replacement."""

    old_string: str
    new_string: str
    replace_all: bool = False


class MultiEdit(Tool):
    """Make several replacements in one file, one after the other; if one of them fails, none is made."""

    file_path: _Path
    edits: Annotated[list[OneEdit], Field(min_length=1)]


class Glob(Tool):
    """Return the files whose path matches a pattern such as **/*.cu, sorted by path."""

    pattern: str = Field(min_length=1, description="Pattern; ** stands for any number of folders.")
    path: _Folder = None


class Grep(Tool):
    """Search text files for a regular expression (Python's syntax). Binary files and hidden folders are passed over."""

    pattern: str = Field(min_length=1, description="Regular expression.")
    path: Annotated[str | None, Field(description="File or folder; the workspace folder if left out.")] = None
    glob: str | None = Field(None, description="Only files whose name matches, e.g. *.cu")
    output_mode: Literal["content", "files_with_matches", "count"] = Field(
        "files_with_matches", description="Matching lines, names of files, or number of matching lines of each file."
    )
    before: int | None = Field(None, alias="-B", ge=0, description="Lines of context before (content).")
    after: int | None = Field(None, alias="-A", ge=0, description="Lines of context after (content).")
    context: int | None = Field(None, alias="-C", ge=0, description="Lines of context around (content).")
    numbers: bool = Field(False, alias="-n", description="Show line numbers (content).")
    ignore_case: bool = Field(False, alias="-i", description="Upper and lower case are the same.")
    multiline: bool = Field(False, description="The pattern may span lines, and . matches the end of a line.")
    head_limit: int | None = Field(None, ge=1, description="Only the first so many lines of the result.")


class Todo(Tool):
    """One item of the plan."""

    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str | None = None


class TodoWrite(Tool):
    """Write down the plan, replacing the one before; at most one item is in progress."""

    todos: list[Todo]


TOOLS: dict[str, type[Tool]] = {
    tool.__name__: tool for tool in (Bash, BashOutput, KillBash, Read, Write, Edit, MultiEdit, Glob, Grep, TodoWrite)
}


def _plain(schema: Any) -> Any:
    """Leave out what models gain nothing from: titles, and null as an alternative to leaving an argument out."""
    if isinstance(schema, list):
        return [_plain(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: _plain(v) for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    kinds = [s for s in out.get("anyOf", []) if s != {"type": "null"}]
    if len(kinds) == 1:
        del out["anyOf"]
        out = kinds[0] | out
        if out.get("default", 0) is None:
            del out["default"]
    return out


def definitions() -> list[dict[str, Any]]:
    """The tools in OpenAI's form: ``{"type": "function", "function": {name, description, parameters}}``."""
    out = []
    for name, tool in TOOLS.items():
        parameters = _plain(tool.model_json_schema(by_alias=True))
        text = " ".join(parameters.pop("description").split())
        out.append({"type": "function", "function": {"name": name, "description": text, "parameters": parameters}})
    return out


def parse(name: Any, arguments: Any) -> dict[str, Any]:
    """Check the arguments of a call.

    Args:
        name: name of the tool.
        arguments: JSON text, as a model wrote it.

    Raises:
        ArgumentError: no such tool, no JSON, or wrong arguments.
    """
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise ArgumentError(f"there is no tool {name!r}; the tools are {', '.join(TOOLS)}")
    try:
        return tool.model_validate(json.loads(arguments or "{}")).model_dump()
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or name}: {e['msg']}" for e in error.errors()]
        raise ArgumentError(f"wrong arguments for {name}: " + "; ".join(lines)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentError(f"the arguments of {name} are not JSON: {error}") from None
