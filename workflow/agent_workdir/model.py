"""The reference: what `model_new.py` must compute, only faster."""

import torch
from torch import nn


class Model(nn.Module):
    """alpha * x + beta * y, with a learned vector alpha."""

    def __init__(self, features, beta):
        super().__init__()
        self.alpha = nn.Parameter(torch.randn(features))
        self.beta = beta

    def forward(self, x, y):
        return self.alpha * x + self.beta * y


def get_inputs():
    return [torch.randn(512, 4096), torch.randn(512, 4096)]


def get_init_inputs():
    return [4096, 2.5]
