import ast

import problems
import pytest
import torch
from cuda_agent.tasks.clean import clean
from cuda_agent.tasks.load import load_task
from problems import PROBLEMS


def outputs(code):
    task = load_task(code)
    with torch.no_grad():
        return task.build(seed=3)(*task.inputs(seed=4))


class _Plain(ast.NodeTransformer):
    def visit_Path(self, node):
        return ast.Name(id=node.id, ctx=node.ctx)


def cleaned(code):
    tree = ast.fix_missing_locations(_Plain().visit(clean(code)))
    return "import math\nimport torch\n" + ast.unparse(tree)  # resolved names read as dotted paths


SMALL = {
    "gemm": problems.GEMM.replace("16 * 64", "16").replace("2048", "32"),
    "blocks": problems.BLOCKS.replace("256", "32"),
    "conv": problems.CONV,
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("change", [str, problems.padded], ids=["plain", "padded"])
def test_what_is_left_computes_the_same(name, change):
    assert torch.equal(outputs(cleaned(change(SMALL[name]))), outputs(SMALL[name]))


def test_nothing_that_has_no_effect_is_left():
    text = cleaned(problems.padded(problems.GEMM))
    for gone in ("spare", "helper", "print", "unused", "__main__", '"""', "# "):
        assert gone not in text
