"""Writes a small diffusers UNet2DModel (attention, class labels) by both exporters,
with PyTorch's answer for one input.

    models/export_unet_tiny.py OUT_DIR
"""
import sys
from pathlib import Path

import torch
from diffusers import UNet2DModel

from goldens import export_all, perturb, write_golden


class Plain(UNet2DModel):
    """The UNet with a tensor as result; sample [B, C, H, W] -> the same shape."""

    def forward(self, sample, timestep, class_labels):
        return super().forward(sample, timestep, class_labels, return_dict=False)[0]


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Plain(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1,
                  block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=8,
                  down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                  up_block_types=("AttnUpBlock2D", "UpBlock2D"), num_class_embeds=4).eval()
    perturb(model)
    inputs = {"sample": torch.randn(2, 1, 8, 8), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 3])}
    write_golden(out / "unet_tiny_golden.safetensors", model, inputs)
    export_all(str(out / "unet_tiny"), model, inputs, opsets=(18, 21, 23))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
