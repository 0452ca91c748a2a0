"""Self-written problems in the KernelBench form, and ways to copy them."""

import ast
import io
import re
import tokenize

GEMM = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A linear layer, GELU, a learned scale and a row-wise log-sum-exp."""

    def __init__(self, width_in: int, width_out: int, factor: float):
        super().__init__()
        self.project = nn.Linear(width_in, width_out, bias=False)
        self.scale = nn.Parameter(torch.ones(width_out))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.project(x))  # activation
        hidden = hidden * self.scale
        return torch.logsumexp(hidden * self.factor, dim=1, keepdim=True)


rows = 512
width_in = 16 * 64
width_out = 2048
factor = 0.5


def get_inputs():
    return [torch.randn(rows, width_in)]


def get_init_inputs():
    return [width_in, width_out, factor]
'''

BLOCKS = """
import math
import torch
from torch import nn


def mixed(scores, mask):
    return torch.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1)


class Head(nn.Module):
    def __init__(self, size, heads):
        super(Head, self).__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.heads = heads

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(size // self.heads)
        mask = torch.tril(torch.ones(length, length, device=x.device))
        y = mixed(scores, mask) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, size))


class Model(nn.Module):
    def __init__(self, size, heads, depth):
        super(Model, self).__init__()
        self.layers = nn.ModuleList([Head(size, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return x


batch, length, size = 4, 128, 256


def get_inputs():
    return [torch.rand(batch, length, size)]


def get_init_inputs():
    return [size, 8, 2]
"""

CONV = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels_in, channels_out, kernel):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels_in, channels_out, kernel, stride=2, padding=1)
        self.pool = nn.MaxPool2d(kernel_size=2)
        self.norm = nn.GroupNorm(num_groups=4, num_channels=channels_out)

    def forward(self, x):
        x = self.norm(self.pool(self.conv(x)))
        x = torch.nn.functional.hardtanh(x, min_val=-2.0, max_val=2.0)
        return torch.mean(torch.tanh(x), dim=(2, 3))


def get_inputs():
    return [torch.randn(16, 32, 40, 40)]


def get_init_inputs():
    return [32, 64, 3]
"""

PROBLEMS = {"gemm": GEMM, "blocks": BLOCKS, "conv": CONV}
_KEPT = {"Model", "forward", "get_inputs", "get_init_inputs", "self", "x"} | set(dir(__builtins__))


def _own_names(code):
    tree = ast.parse(code)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    names |= {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    return {n for n in names if n not in _KEPT and not n.startswith("__")}


def renamed(code, form="renamed_{}"):
    """Every name that the text itself introduces gets another one."""
    names = {n: form.format(i) for i, n in enumerate(sorted(_own_names(code)))}
    out = []
    tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    for i, token in enumerate(tokens):
        text = token.string
        after_dot = i and tokens[i - 1].string == "." and tokens[i - 2].string != "self"
        if token.type == tokenize.NAME and text in names and not after_dot and not _is_keyword_argument(tokens, i):
            text = names[text]
        out.append((token.type, text))
    return tokenize.untokenize(out)


def _is_keyword_argument(tokens, i):
    depth = 0
    for token in tokens[:i]:
        depth += (token.string in "([{" and bool(token.string)) - (token.string in ")]}" and bool(token.string))
    return depth > 0 and tokens[i + 1].string == "="


def resized(code):
    """Every integer above 3 is doubled."""
    return re.sub(r"(?<![\w.])\d+(?![\w.])", lambda m: str(2 * int(m[0])) if int(m[0]) > 3 else m[0], code)


def reformatted(code):
    """Without comments, documentation, annotations and blank lines; other spacing."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree).replace("    ", "\t")


def reordered(code):
    """Definitions the other way round, imports and constants first."""
    tree = ast.parse(code)
    definitions = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    tree.body = [n for n in tree.body if n not in definitions] + definitions[::-1]
    return ast.unparse(tree)


def padded(code):
    """With code that does nothing."""
    code = code.replace("import torch\n", "import os\nimport torch\nimport numpy as np\nunused = 3\n", 1)
    code = code.replace(
        "    def forward(self, x", "    def helper(self):\n        return 1\n\n    def forward(self, x", 1
    )
    code += "\n\ndef spare(x):\n    return x\n\n\nif __name__ == '__main__':\n    print(Model(*get_init_inputs()))\n"
    return re.sub(r"(\n +)(return torch)", r"\1spare = 1 + 2\1print(spare)\1\2", code)
