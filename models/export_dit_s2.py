"""Writes dit_s2.onnx: a graph-only DiT-S/2 for latents of 256x256 pictures.

    models/export_dit_s2.py [OUT.onnx]     (default: beside this script)

Inputs: sample [batch, 4, 32, 32]; timestep [batch] f32, 0..999; class_labels [batch]
i64, 1000 means "no class". 33 M parameters.
"""
import sys
from pathlib import Path

import onnx
import torch

from dit import dit_s2
from graph_only import graph_only
from onnx_names import export_named


def main(out: Path) -> None:
    inputs = {"sample": torch.randn(2, 4, 32, 32), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 1000])}
    onnx.save(graph_only(export_named(dit_s2().eval(), inputs, opset=23), dit_s2), out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("dit_s2.onnx"))
