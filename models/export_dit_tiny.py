"""Writes a small DiT by both exporters, with PyTorch's answer for one input.

    models/export_dit_tiny.py OUT_DIR
"""
import sys
from pathlib import Path

import torch

from dit import dit_tiny
from goldens import export_all, perturb, write_golden


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = dit_tiny().eval()
    perturb(model)
    inputs = {"sample": torch.randn(2, 1, 8, 8), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 3])}
    write_golden(out / "dit_tiny_golden.safetensors", model, inputs)
    export_all(str(out / "dit_tiny"), model, inputs)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
