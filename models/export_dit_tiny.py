"""Writes small DiT models, with weights, and PyTorch's answer for one input.

    models/export_dit_tiny.py OUT_DIR

For each exporter and opset: dit_tiny_<exporter><opset>.onnx; and
dit_tiny_golden.safetensors with sample, timestep, class_labels, out, and
grad.NAME = d(0.5 * sum(out^2)) / d(parameter NAME) (f32, computed in double
precision). Weights are perturbed so that adaLN-zero does not hide anything.
"""
import sys
from pathlib import Path

import onnx
import torch
from safetensors.torch import save_file

from dit import DiT


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = DiT(size=8, channels=1, patch=2, width=16, depth=2, heads=2, classes=3).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    sample, timestep = torch.randn(2, 1, 8, 8), torch.tensor([120.0, 800.0])
    labels = torch.tensor([1, 3])
    inputs, names = (sample, timestep, labels), ["sample", "timestep", "class_labels"]
    answer = model.double()(sample.double(), timestep.double(), labels)
    (0.5 * answer.square().sum()).backward()
    golden = {f"grad.{name}": p.grad.float() for name, p in model.named_parameters()}
    golden.update(sample=sample, timestep=timestep, class_labels=labels,
                  out=answer.detach().float().contiguous())
    save_file(golden, out / "dit_tiny_golden.safetensors")
    model.zero_grad(set_to_none=True)
    model.float()
    for opset in (18, 20, 21, 23):
        batch = torch.export.Dim("batch", min=1)
        program = torch.onnx.export(model, inputs, dynamo=True, opset_version=opset,
                                    input_names=names, output_names=["out"],
                                    dynamic_shapes=({0: batch}, {0: batch}, {0: batch}))
        onnx.save(program.model_proto, out / f"dit_tiny_dyn{opset}.onnx")
    torch.onnx.export(model, inputs, str(out / "dit_tiny_ts17.onnx"), dynamo=False,
                      opset_version=17, input_names=names, output_names=["out"],
                      dynamic_axes={name: {0: "batch"} for name in names})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
