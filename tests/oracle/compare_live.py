"""Our steps beside PyTorch's on the models that people start with.

    tests/oracle/compare_live.py [dit_fashion | unet_small]...     (default: both)

For each: every weight is moved off its initial value, so that no gradient is zero
but those that always are; the same weights, noise and times go into a plan (diffrun
verify --feed, --dump) and into PyTorch in double precision. Compared are

  one step    output, loss, norm; each gradient g within 1e-4 |g| + 1e-5 |all|
  20 steps    without warm-up, on the same data: the loss falls by 20 % or more; losses
              within 1e-3, each weight's change within 1e-2 of its size, elements
              with an always-zero gradient left out (f32 noise there becomes steps of
              any sign in AdamW)

Needs the release build and the environment of models/make_venv.sh. Exit code 1 if
anything differs by more.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from make_goldens import Trainer
from models import MAKERS, ROOT, in_double

BIN = ROOT / "build" / "release" / "bin"
STEPS, BATCH = 20, 16
# kind (make_goldens), channels, size, labels
CASES = {"dit_fashion": ("flow", 1, 32, 10), "unet_small": ("eps", 1, 32, 10)}
OBJECTIVES = {"flow": "predict: flow, schedule: {kind: flow, steps: 1000}",
              "eps": "predict: eps, schedule: {kind: scaled_linear, steps: 1000}"}


def perturbed(name: str) -> torch.nn.Module:
    """Model `name`, f32 weights, each moved by noise of deviation 0.02."""
    torch.manual_seed(11)
    module = MAKERS[name]().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return module


def make_feed(channels: int, size: int, labels: int) -> dict:
    generator = torch.Generator().manual_seed(5)
    draw = lambda: torch.randn(BATCH, channels, size, size, generator=generator)  # noqa: E731
    times = torch.randint(1, 1000, (BATCH,), generator=generator).float()
    return {"role:clean": draw().clamp(-1, 1), "role:noise": draw(), "role:timestep": times,
            "role:label": torch.randint(0, labels, (BATCH,), generator=generator)}


def theirs(module: torch.nn.Module, kind: str, feed: dict) -> tuple:
    """PyTorch's first step, its losses, and its weights after STEPS, in f64."""
    trainer = Trainer(in_double(module), kind, feed)
    first = trainer.step()
    losses = [float(first["loss"])] + [float(trainer.step()["loss"]) for _ in range(STEPS - 1)]
    return first, losses, {n: p.detach() for n, p in module.named_parameters()}


def ours(name: str, kind: str, feed: dict, weights: dict, steps: int, work: Path) -> dict:
    recipe = work / "recipe.yaml"
    recipe.write_text(f"batch: {BATCH}\nobjective: {{{OBJECTIVES[kind]}}}\n"
                      "optimizer: {lr: 1.0e-3, weight_decay: 0.01, clip: 1.0}\nthreads: 2\n"
                      "inputs: {sample: noisy, timestep: timestep, class_labels: label}\n")
    plan, fed, made = work / "m.plan", work / "feed.safetensors", work / "made.safetensors"
    subprocess.run([BIN / "diffc", ROOT / "models" / f"{name}.onnx", "--recipe", recipe, "-o", plan],
                   check=True, stdout=subprocess.DEVNULL)
    save_file(feed | {f"param:{n}": w.contiguous() for n, w in weights.items()}, fed)
    subprocess.run([BIN / "diffrun", "verify", plan, "--feed", fed, "--dump", made,
                    "--steps", str(steps)], check=True, stdout=subprocess.DEVNULL)
    return load_file(made)


def compare(name: str) -> bool:
    kind, channels, size, labels = CASES[name]
    module = perturbed(name)
    weights = {n: p.detach().clone() for n, p in module.named_parameters()}
    feed = make_feed(channels, size, labels)
    with tempfile.TemporaryDirectory() as folder:
        one = ours(name, kind, feed, weights, 1, Path(folder))
        many = ours(name, kind, feed, weights, STEPS, Path(folder))
    first, losses, after = theirs(module, kind, feed)
    norm = float(first["norm"])
    worst, zeros = 0.0, 0
    for key, right in first.items():
        difference = float((one[key].double().reshape(right.shape) - right).norm())
        part = difference / (1e-4 * float(right.norm()) + 1e-5 * norm)
        worst = max(worst, part)
        if part > 1:
            print(f"  {key}: off by {difference:.3g}, {part:.2f} of what is allowed")
    fell = losses[-1] <= 0.8 * losses[0]
    loss_error = max(abs(a - b) / b for a, b in zip(many["losses"].tolist(), losses))
    worst_change = 0.0
    for n, start in weights.items():
        live = first[f"grad.{n}"].abs() > 1e-13 * norm
        zeros += int((~live).sum())
        change = (after[n] - start.double())[live]
        if not change.numel():
            continue
        difference = float(((many[f"new.{n}"] - start).double()[live] - change).norm())
        worst_change = max(worst_change, difference / float(change.norm()))
    good = worst <= 1 and fell and loss_error <= 1e-3 and worst_change <= 1e-2
    print(f"{name}: {len(weights)} parameters, {zeros} elements with a zero gradient; worst of one "
          f"step {worst:.3f} of what is allowed; {STEPS} steps: loss {losses[0]:.4f} to "
          f"{losses[-1]:.4f}, off by {loss_error:.2g} (1e-3), weight changes by {worst_change:.2g} "
          f"(1e-2): {'good' if good else 'BAD'}")
    return good


if __name__ == "__main__":
    names = sys.argv[1:] or list(CASES)
    sys.exit(0 if all([compare(name) for name in names]) else 1)
