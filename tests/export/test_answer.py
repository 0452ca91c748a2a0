"""Answers without tools: what is read of them, and what is refused."""

import pytest
from cuda_agent.export.answer import dumps_answer, loads_answer
from cuda_agent.workspace import SubmissionError
from hypothesis import given
from hypothesis import strategies as st

PATHS = st.sampled_from(["model_new.py", "kernels/a.cu", "kernels/a_binding.cpp", "kernels/deep/b.h"])
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.just("```") | st.just("~~~")).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(st.dictionaries(PATHS, TEXTS, min_size=1))
def test_what_is_written_is_read_back(files):
    assert loads_answer(dumps_answer(files)) == files


@pytest.mark.parametrize(
    "head",
    [
        "`model_new.py`\n```python",
        "### model_new.py\n\n```",
        "```model_new.py```\n```",
        "**`./model_new.py`**:\n~~~py",
        "Here:\n```python model_new.py",
    ],
)
def test_a_path_stands_above_the_block_or_in_its_first_line(head):
    fence = "~~~" if "~~~" in head else "```"
    assert loads_answer(f"I think.\n\n{head}\nx = 1\n{fence}\nDone.") == {"model_new.py": "x = 1\n"}


def test_remarks_and_thoughts_are_no_files():
    thought = "<think>\nmodel_new.py\n```\nno\n```\n or ```\n</think>"
    answer = f"{thought}\nDone.\n```\nls\n```\nmodel_new.py\n```\nx\n```\n```text\nremark\n```"
    assert loads_answer(answer) == {"model_new.py": "x\n"}


def test_the_end_of_a_thought_in_code_and_fences_deep_in_it_end_nothing():
    code = "// </think>\n        ```\nx\n"
    assert loads_answer(f"model_new.py\n```\n{code}```\nkernels/a.h\n```\n```") == {
        "model_new.py": code,
        "kernels/a.h": "",
    }
    assert loads_answer("I\n</think>\nmodel_new.py\n```\n</think>\n```") == {"model_new.py": "</think>\n"}
    assert loads_answer("<think>I.</think>model_new.py\n```\nx\n```") == {"model_new.py": "x\n"}


def test_lines_may_end_as_on_windows():
    assert loads_answer("`model_new.py`\r\n```python\r\nx = 1\r\n```\r\n") == {"model_new.py": "x = 1\n"}


BLOCK = "{}\n```\nx\n```\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "no code block under the path of a file"),
        ("```python\nx\n```", "no code block under the path of a file"),
        (BLOCK.format("utils/verification.py"), "'utils/verification.py' is not part of a submission"),
        (BLOCK.format("kernels/../model.py"), "is not part of a submission"),
        (BLOCK.format("/etc/passwd"), "is not part of a submission"),
        (BLOCK.format("kernels/run.sh"), "is not part of a submission"),
        (2 * BLOCK.format("model_new.py"), "model_new.py is there twice"),
        ("model_new.py\n```python\nx = 1\n", "the code block of model_new.py is not closed: the answer was cut"),
        ("".join(BLOCK.format(f"kernels/k{i}.h") for i in range(65)), "more than 64 files"),
        (f"model_new.py\n```\n{'x' * 2**20}\n```", "larger than 1048576 bytes"),
    ],
)
def test_what_is_no_submission_is_said(answer, said):
    with pytest.raises(SubmissionError, match=said):
        loads_answer(answer)
