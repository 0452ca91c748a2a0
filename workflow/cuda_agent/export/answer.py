"""A submission as one answer without tools: each file in a code block of its own, under a line with its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cuda_agent.workspace import SubmissionError, is_submitted
from cuda_agent.workspace.layout import MAX_FILE_BYTES, MAX_FILES

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")  # https://spec.commonmark.org/0.31.2/#fenced-code-blocks
_THOUGHT_ENDS = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda"}
_MARKUP = "#*`:\"' \t"  # what a path may be dressed in, as in "### `model_new.py`:"


def dumps_answer(files: Mapping[str, str]) -> str:
    """The answer that holds these files: path in the workspace -> text."""
    return "\n\n".join(_block(path, text) for path, text in files.items()) + "\n"


def _block(path: str, text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = _LANGUAGES.get(path[path.rfind(".") :], "cpp")
    end = "" if text.endswith("\n") or not text else "\n"
    return f"`{path}`\n{fence}{language}\n{text}{end}{fence}"


def loads_answer(answer: str) -> dict[str, str]:
    """The files of an answer: path in the workspace -> text, which ends with a line's end unless it is empty.

    A block's path is the last word of its info string, or else the whole of the last line before it that is not empty.
    A block without either, a remark for example, is no file. Thoughts before the answer, which end with
    ``</think>``, are not read.

    Raises:
        SubmissionError: no block has a path; a path is no part of a submission, or there twice; a block is not closed,
            as in an answer that was cut; there are more or larger files than a workspace may submit.
    """
    files: dict[str, str] = {}
    before, lines = "", iter(_spoken(answer.replace("\r\n", "\n")).split("\n"))
    for line in lines:
        opened = _FENCE.fullmatch(line.rstrip())
        if not opened:
            before = line if line.strip() else before
            continue
        path = _path(opened[2].split()[-1:]) or _path([before])
        text = _until(lines, opened[1], path)
        before = ""
        if path:
            _check(path, text, files)
            files[path] = text
    if not files:
        raise SubmissionError("the answer has no code block under the path of a file, as model_new.py")
    return files


def _spoken(answer: str) -> str:
    """An answer without the thoughts before it; their beginning may stand in the prompt, their end is a line then."""
    if answer.lstrip().startswith("<think>"):
        return answer.partition("</think>")[2]
    return _THOUGHT_ENDS.split(answer, maxsplit=1)[-1]


def _path(words: list[str]) -> str:
    """The word as a path, without markup; empty if it looks like none."""
    word = words[0].strip(_MARKUP).removeprefix("./") if words else ""
    return word if re.search(r"/|\.\w+$", word) and not re.search(r"\s", word) else ""


def _until(lines: Iterator[str], fence: str, path: str) -> str:
    """The lines up to the end of a block."""
    text = []
    for line in lines:
        closing = _FENCE.fullmatch(line.rstrip())
        if closing and not closing[2] and closing[1].startswith(fence):
            return "".join(f"{part}\n" for part in text)
        text.append(line)
    raise SubmissionError(f"the code block of {path or 'no file'} is not closed: the answer was cut")


def _check(path: str, text: str, files: Mapping[str, str]) -> None:
    if not is_submitted(path):
        raise SubmissionError(f"{path!r} is not part of a submission: model_new.py and sources in kernels/ are")
    if path in files:
        raise SubmissionError(f"{path} is there twice: which of them is meant?")
    if len(files) == MAX_FILES:
        raise SubmissionError(f"there are more than {MAX_FILES} files")
    if len(text.encode(errors="replace")) > MAX_FILE_BYTES:
        raise SubmissionError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
