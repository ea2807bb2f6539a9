"""PyTorch's answer for one input of a model, and its export by both exporters."""
from pathlib import Path

import onnx
import torch
from safetensors.torch import save_file

from onnx_names import export_named


def perturb(model: torch.nn.Module, size: float = 0.1) -> None:
    """Adds seeded noise to every parameter, so that no initial zero hides anything."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def write_golden(path: Path, model: torch.nn.Module, inputs: dict) -> None:
    """Inputs, out, and grad.NAME = d(0.5 * sum(out^2)) / d(parameter NAME).

    Computed in double precision, stored as f32; `inputs` by argument name, in
    the order of forward's arguments.
    """
    wide = [x.double() if x.is_floating_point() else x for x in inputs.values()]
    out = model.double()(*wide)
    (0.5 * out.square().sum()).backward()
    golden = {f"grad.{name}": p.grad.float().contiguous() for name, p in model.named_parameters()}
    golden.update(inputs, out=out.detach().float().contiguous())
    save_file(golden, path)
    model.zero_grad(set_to_none=True)
    model.float()


def export_all(stem: str, model: torch.nn.Module, inputs: dict, opsets=(18, 20, 21, 23)) -> None:
    """STEM_dyn<opset>.onnx for each opset and STEM_ts17.onnx; the first dimension
    of every input is symbolic and called "batch"."""
    for opset in opsets:
        onnx.save(export_named(model, inputs, opset), f"{stem}_dyn{opset}.onnx")
    onnx.save(export_named(model, inputs, 17, dynamo=False), f"{stem}_ts17.onnx")
