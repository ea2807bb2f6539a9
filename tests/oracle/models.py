"""The models of `models/` as PyTorch modules, with the weights of their files."""
import math
import sys
from pathlib import Path

import onnx
from onnx import numpy_helper
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))

import dit    # noqa: E402
import unet   # noqa: E402

MAKERS = {"dit_tiny": dit.dit_tiny, "dit_fashion": dit.dit_fashion, "dit_s2": dit.dit_s2,
          "unet_tiny": unet.unet_tiny, "unet_small": unet.unet_small}


class WideTimesteps(torch.nn.Module):
    """diffusers' sinusoidal embedding, timestep [B] -> [B, channels], without its
    rounding of angles to f32; the frequencies stay f32, as exporters store them."""

    def __init__(self, original: torch.nn.Module):
        super().__init__()
        half = original.num_channels // 2
        exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32)
        self.frequency = torch.exp(exponent / (half - original.downscale_freq_shift)).double()
        self.cosine_first = original.flip_sin_to_cos

    def forward(self, timestep):
        angle = timestep[:, None].double() * self.frequency
        parts = [angle.sin(), angle.cos()]
        return torch.cat(parts[::-1] if self.cosine_first else parts, dim=1)


def in_double(module: torch.nn.Module) -> torch.nn.Module:
    """The module, in place, in double precision to the last operation."""
    module = module.double()
    if isinstance(module, unet.UNet):
        module.time_proj = WideTimesteps(module.time_proj)
    return module


def load(name: str, file: Path) -> torch.nn.Module:
    """Model `name` in double precision with the f32 weights of an exported file."""
    module = in_double(MAKERS[name]().eval())
    stored = {t.name: t for t in onnx.load(file).graph.initializer}
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(numpy_helper.to_array(stored[key]).copy()))
    return module
