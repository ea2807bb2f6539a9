"""Writes what training must give, from PyTorch in double precision.

    tests/oracle/make_goldens.py [OUT_DIR]      (default: tests/golden)

For dit_tiny and unet_tiny, under OUT_DIR/NAME, starting at the weights of
NAME_dyn23.onnx, with one fixed feed:

  NAME_step.safetensors        role:clean, role:noise [B, C, S, S], role:timestep [B] f32,
                               role:label [B] i64; out [B, C, S, S], loss [], norm [] (of all
                               gradients); grad.PARAMETER before clipping, new.PARAMETER after
                               one step
  NAME_trajectory.safetensors  the same feed again and again: role:*, losses and norms
                               [STEPS] (each before its update), new.PARAMETER at the end
  NAME_zero_gradients.json     {parameter: [[begin, end], ...]}: row-major element ranges
                               whose gradient is zero for this feed whatever the weights
                               (attention key biases, labels that no sample has). In f32
                               some are rounding noise instead, which AdamW turns into steps
                               of any sign: leave them out of comparisons of new weights

AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01, gradients clipped to
norm 1; no warm-up. Values are computed in f64 and stored as f32.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from models import ROOT, load

STEPS = 20
BATCH = 4
# Each model's objective: (kind, timesteps in steps).
CASES = {"dit_tiny": ("flow", [120.0, 800.0, 437.5, 51.25]),
         "unet_tiny": ("eps", [3.0, 998.0, 437.0, 120.0])}


def make_feed(timesteps) -> dict:
    """The batch, rounded to f32. One label occurs twice, one not at all."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda: torch.randn(BATCH, 1, 8, 8, generator=generator)  # noqa: E731
    return {"role:clean": draw().clamp(-1, 1), "role:noise": draw(),
            "role:timestep": torch.tensor(timesteps), "role:label": torch.tensor([1, 3, 0, 1])}


def noisy_and_target(kind: str, feed: dict) -> tuple:
    """x_t and what the model is to predict, f64 [B, C, S, S].

    flow: (1 - s) x0 + s noise with s = t / 1000, and noise - x0.
    eps: sqrt(abar) x0 + sqrt(1 - abar) noise, scaled-linear betas, and noise.
    """
    clean, noise = feed["role:clean"].double(), feed["role:noise"].double()
    t = feed["role:timestep"].double()
    if kind == "flow":
        s = (t / 1000)[:, None, None, None]
        return (1 - s) * clean + s * noise, noise - clean
    betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, 1000, dtype=torch.float64) ** 2
    abar = torch.cumprod(1 - betas, 0)[t.long()][:, None, None, None]
    return abar.sqrt() * clean + (1 - abar).sqrt() * noise, noise


class Trainer:
    """Training of one module (f64) on one feed."""

    def __init__(self, module: torch.nn.Module, kind: str, feed: dict):
        self.module = module
        self.noisy, self.target = noisy_and_target(kind, feed)
        self.timestep, self.label = feed["role:timestep"].double(), feed["role:label"]
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-3, betas=(0.9, 0.999),
                                           eps=1e-8, weight_decay=0.01)

    def step(self) -> dict:
        """One step; out, loss, norm and grad.PARAMETER as they were before the update."""
        self.optimizer.zero_grad(set_to_none=True)
        out = self.module(self.noisy, self.timestep, self.label)
        loss = (out - self.target).square().mean()
        loss.backward()
        result = {"out": out.detach(), "loss": loss.detach()}
        result |= {f"grad.{n}": p.grad.clone() for n, p in self.module.named_parameters()}
        result["norm"] = torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        return result

    def weights(self) -> dict:
        return {f"new.{n}": p.detach().clone() for n, p in self.module.named_parameters()}


def zero_ranges(gradient: torch.Tensor, norm: float) -> list:
    """Ranges [begin, end) of row-major elements that are zero up to f64 rounding."""
    zero = gradient.flatten().abs() < 1e-13 * norm
    if (gradient.flatten().abs() < 1e-9 * norm).sum() != zero.sum():
        raise ValueError("gradients between rounding noise and a value: choose another feed")
    ranges = []
    for i in zero.nonzero().flatten().tolist():
        if ranges and ranges[-1][1] == i:
            ranges[-1][1] = i + 1
        else:
            ranges.append([i, i + 1])
    return ranges


def save(tensors: dict, path: Path) -> None:
    narrow = {k: (t.float() if t.is_floating_point() else t).contiguous()
              for k, t in tensors.items()}
    save_file(narrow, path)
    path.chmod(0o644)


def main(out: Path) -> None:
    torch.use_deterministic_algorithms(True)
    for name, (kind, timesteps) in CASES.items():
        feed = make_feed(timesteps)
        module = load(name, ROOT / "tests" / "golden" / name / f"{name}_dyn23.onnx")
        trainer = Trainer(module, kind, feed)
        first = trainer.step()
        stem = str(out / name / name)
        save(feed | first | trainer.weights(), Path(f"{stem}_step.safetensors"))
        norm = float(first["norm"])
        zeros = {key[5:]: zero_ranges(value, norm) for key, value in first.items()
                 if key.startswith("grad.")}
        zeros = {key: value for key, value in zeros.items() if value}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in zeros.items()]
        Path(f"{stem}_zero_gradients.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        steps = [first] + [trainer.step() for _ in range(STEPS - 1)]
        losses = torch.stack([s["loss"] for s in steps])
        if losses[-1] > 0.8 * losses[0]:
            raise ValueError(f"{name}: the loss falls from {losses[0]:.4f} to {losses[-1]:.4f} only")
        save(feed | {"losses": losses, "norms": torch.stack([s["norm"] for s in steps])}
             | trainer.weights(), Path(f"{stem}_trajectory.safetensors"))
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, first norm {norm:.3f}, "
              f"zero gradients in {len(zeros)} parameters")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden")
