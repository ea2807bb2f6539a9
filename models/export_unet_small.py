"""Writes unet_small.onnx: a small diffusers UNet2DModel with its initial weights.

    models/export_unet_small.py [OUT.onnx]     (default: beside this script)

Inputs: sample [batch, 1, 32, 32]; timestep [batch] f32, 0..999; class_labels [batch]
i64, 10 means "no class". Attention at 8x8. 0.24 M parameters.
"""
import sys
from pathlib import Path

import onnx
import torch

from onnx_names import export_named
from unet import unet_small


def main(out: Path) -> None:
    torch.manual_seed(0)
    inputs = {"sample": torch.randn(2, 1, 32, 32), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 10])}
    onnx.save(export_named(unet_small().eval(), inputs, opset=23), out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("unet_small.onnx"))
