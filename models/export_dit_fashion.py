"""Writes dit_fashion.onnx: a graph-only DiT for Fashion-MNIST padded to 32x32.

    models/export_dit_fashion.py [OUT.onnx]     (default: beside this script)

Inputs: sample [batch, 1, 32, 32]; timestep [batch] f32, flow time t in (0, 1] times
1000; class_labels [batch] i64, 10 means "no class". 4.2 M parameters.
"""
import sys
from pathlib import Path

import onnx
import torch

from dit import dit_fashion
from graph_only import graph_only
from onnx_names import export_named


def main(out: Path) -> None:
    inputs = {"sample": torch.randn(2, 1, 32, 32), "timestep": torch.tensor([120.0, 800.0]),
              "class_labels": torch.tensor([1, 10])}
    onnx.save(graph_only(export_named(dit_fashion().eval(), inputs, opset=23), dit_fashion), out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("dit_fashion.onnx"))
