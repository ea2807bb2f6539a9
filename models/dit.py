"""A diffusion transformer (DiT) in plain PyTorch, for export.

Source: Peebles & Xie 2022, arXiv:2212.09748 (adaLN-zero blocks, sinusoidal
timestep embedding, fixed 2-D sine-cosine position table).
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


def position_table(grid: int, width: int) -> torch.Tensor:
    """[1, grid*grid, width]: half of the width encodes the row, half the column."""
    quarter = width // 4
    omega = 1.0 / 10000 ** (torch.arange(quarter, dtype=torch.float64) / quarter)
    position = torch.arange(grid, dtype=torch.float64)
    angles = position[:, None] * omega[None]
    one = torch.cat([angles.sin(), angles.cos()], dim=1)  # [grid, width/2]
    rows = one[:, None].expand(grid, grid, -1)
    columns = one[None].expand(grid, grid, -1)
    return torch.cat([columns, rows], dim=2).reshape(1, grid * grid, width).float()


class TimestepEmbedding(nn.Module):
    """timestep [B] in steps (0..1000) -> [B, width]."""

    def __init__(self, width: int, frequencies: int = 256):
        super().__init__()
        half = frequencies // 2
        self.register_buffer("frequency", torch.exp(
            -math.log(10000) * torch.arange(half, dtype=torch.float32) / half), persistent=False)
        self.fc1 = nn.Linear(frequencies, width)
        self.fc2 = nn.Linear(width, width)

    def forward(self, timestep):
        angle = timestep[:, None] * self.frequency[None]
        return self.fc2(F.silu(self.fc1(torch.cat([angle.cos(), angle.sin()], dim=1))))


class Block(nn.Module):
    """One adaLN-zero transformer block; x [B, T, width], c [B, width]."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def attention(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads) \
                      .permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = \
            self.modulation(F.silu(c))[:, None].chunk(6, dim=2)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        h = self.fc1(self.norm2(x) * (1 + scale2) + shift2)
        return x + gate2 * self.fc2(F.gelu(h, approximate="tanh"))


class DiT(nn.Module):
    """sample [B, C, S, S], timestep [B] in steps, class_labels [B] -> [B, C, S, S].

    Label `classes` stands for "no class" (classifier-free guidance).
    """

    def __init__(self, size: int, channels: int, patch: int, width: int, depth: int, heads: int,
                 classes: int):
        super().__init__()
        self.patch, self.channels, self.grid = patch, channels, size // patch
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.register_buffer("positions", position_table(self.grid, width), persistent=False)
        self.time = TimestepEmbedding(width)
        self.label = nn.Embedding(classes + 1, width)
        nn.init.normal_(self.label.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, patch * patch * channels)
        for layer in (self.modulation, self.out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def initialize(self, label_std: float) -> "DiT":
        """The paper's initial values: Xavier for linear layers and patches, biases
        zero, adaLN-zero, a zero output; the label table has deviation `label_std`
        (0.02 in the paper)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.xavier_uniform_(self.patches.weight.view(self.patches.out_channels, -1))
        nn.init.zeros_(self.patches.bias)
        nn.init.normal_(self.label.weight, std=label_std)
        for layer in (self.time.fc1, self.time.fc2):
            nn.init.normal_(layer.weight, std=0.02)
        for layer in [self.modulation, self.out] + [block.modulation for block in self.blocks]:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        return self

    def forward(self, sample, timestep, class_labels):
        batch = sample.shape[0]
        x = self.patches(sample).flatten(2).transpose(1, 2) + self.positions
        c = self.time(timestep) + self.label(class_labels)
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.modulation(F.silu(c))[:, None].chunk(2, dim=2)
        x = self.out(self.norm(x) * (1 + scale) + shift)
        x = x.reshape(batch, self.grid, self.grid, self.patch, self.patch, self.channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(
            batch, self.channels, self.grid * self.patch, self.grid * self.patch)


def dit_tiny() -> DiT:
    """15 k parameters on 1x8x8, 3 labels and "no class": for goldens."""
    return DiT(size=8, channels=1, patch=2, width=16, depth=2, heads=2, classes=3)


def dit_fashion() -> DiT:
    """4.2 M parameters on 1x32x32, 10 labels: Fashion-MNIST, padded.

    Labels start as far apart as PyTorch's own embeddings: in a training of minutes
    the classes would otherwise hardly separate (a nearest neighbour agrees with the
    asked-for class for 65 % of the pictures instead of 80 %).
    """
    return DiT(size=32, channels=1, patch=4, width=192, depth=6, heads=6,
               classes=10).initialize(label_std=1.0)


def dit_s2() -> DiT:
    """DiT-S/2, 33 M parameters, on 4x32x32 latents, 1000 labels."""
    return DiT(size=32, channels=4, patch=2, width=384, depth=12, heads=6,
               classes=1000).initialize(label_std=0.02)
