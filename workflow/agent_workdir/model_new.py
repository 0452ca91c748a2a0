"""The same computation on kernels of this workspace."""

import cuda_extension
import torch
from torch import nn


class ModelNew(nn.Module):
    """Has the parameters of `Model` under the same names, so that its state_dict can be loaded."""

    def __init__(self, features, beta):
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(features))
        self.beta = beta

    def forward(self, x, y):
        out = torch.empty_like(x)
        cuda_extension.axpby_forward(out, self.alpha, x, y, self.beta, 0)
        return out
