"""Writes a small diffusers UNet2DModel (attention, class labels) by both exporters,
with PyTorch's answer for one input.

    models/export_unet_tiny.py OUT_DIR
"""
import sys
from pathlib import Path

import torch

from goldens import export_all, perturb, write_golden
from unet import unet_tiny


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = unet_tiny().eval()
    perturb(model)
    inputs = {"sample": torch.randn(2, 1, 8, 8), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 3])}
    write_golden(out / "unet_tiny_golden.safetensors", model, inputs)
    export_all(str(out / "unet_tiny"), model, inputs, opsets=(18, 21, 23))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
