"""Every model of models/zoo.py, as every exporter writes it, against PyTorch.

    .venv-oracle/bin/python tests/oracle/check_models.py [NAME...] [--exporter ts17 dyn23 ...] [--fresh]

For each model x exporter, four stages, each only where the one before holds:

  imports    the exporter's own file becomes a plan; its weights are the module's own, by
             name, shape and value
  forward    output and loss are PyTorch's, within 1e-4
  gradients  so is each parameter's gradient: |difference| <= 1e-4 |g| + 1e-5 |all|
  trains     five AdamW steps on the same data change each weight as PyTorch's do,
             within 1e-2 of the change

PyTorch computes in double precision on the same f32 weights, which are moved off
their initial values first, so that only what is always zero is zero.

Writes docs/models.md. What was exported and found before stays in build/models:
naming models or exporters checks these again and keeps the other rows; --fresh also
exports again. Needs the release build and the environment of models/make_venv.sh.
Exit code 1 if a cell of this run is not green.
"""
import argparse
import contextlib
import json
import math
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from models import ROOT
from export_zoo import EXPORTERS, build, reason, write, write_weights  # noqa: E402
from zoo import ZOO, available  # noqa: E402

BIN = ROOT / "build" / "release" / "bin"
WORK = ROOT / "build" / "models"
RESULTS = WORK / "results.json"
TABLE = ROOT / "docs" / "models.md"
STEPS = 5
STAGES = ("export", "imports", "forward", "gradients", "trains")


@contextlib.contextmanager
def wide_timesteps():
    """Inside: diffusers' sinusoidal embedding does not round its angles to f32; the
    frequencies stay f32, as exporters store them."""
    from diffusers.models import embeddings

    def embed(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1,
              max_period=10000):
        half = embedding_dim // 2
        exponent = -math.log(max_period) * torch.arange(half, dtype=torch.float32)
        frequency = torch.exp(exponent / (half - downscale_freq_shift)).double()
        angle = scale * timesteps[:, None].double() * frequency
        parts = [angle.cos(), angle.sin()] if flip_sin_to_cos else [angle.sin(), angle.cos()]
        return torch.nn.functional.pad(torch.cat(parts, 1), (0, embedding_dim % 2))

    old, embeddings.get_timestep_embedding = embeddings.get_timestep_embedding, embed
    try:
        yield
    finally:
        embeddings.get_timestep_embedding = old


class Reference:
    """PyTorch's first step and its weights after STEPS, in double precision."""

    def __init__(self, name: str):
        entry = ZOO[name]
        module = build(name)
        self.inputs = entry.inputs()
        self.weights = {n: p.detach().clone() for n, p in module.named_parameters()}
        module = module.double()
        wide = [x.double() if x.is_floating_point() else x for x in self.inputs.values()]
        with wide_timesteps():
            shape = self._run(module, wide)[0].shape
            self.target = None
            if not entry.loss:
                self.target = torch.randn(shape, generator=torch.Generator().manual_seed(9))
            optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, betas=(0.9, 0.999),
                                          eps=1e-8, weight_decay=0.01)
            for step in range(STEPS):
                optimizer.zero_grad(set_to_none=True)
                out, *rest = self._run(module, wide)
                loss = rest[0] if rest else (out - self.target.double()).square().mean()
                loss.backward()
                if step == 0:
                    self.out, self.loss = out.detach(), float(loss.detach())
                    self.gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone()
                                      for n, p in module.named_parameters()}
                norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                if step == 0:
                    self.norm = float(norm)
                optimizer.step()
        self.after = {n: p.detach() for n, p in module.named_parameters()}

    @staticmethod
    def _run(module, inputs) -> tuple:
        result = module(*inputs)
        return result if isinstance(result, tuple) else (result,)


class Failure(Exception):
    """A cell that is not green: (stage, why)."""


def run(stage: str, *command) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        text = (done.stderr.strip() or f"exit code {done.returncode}").replace(f"{WORK}/", "")
        raise Failure(stage, text)


def ours(name: str, model: Path, reference: Reference, steps: int, work: Path) -> dict:
    """What diffc and diffrun make of the model: diffrun verify --dump."""
    entry = ZOO[name]
    roles = ", ".join(f"{n}: {role}" for n, role in entry.roles.items())
    recipe = work / "recipe.yaml"
    recipe.write_text(
        f"batch: {len(next(iter(reference.inputs.values())))}\nthreads: 2\n"
        f"objective: {{kind: {'loss_output' if entry.loss else 'regression'}}}\n"
        f"optimizer: {{lr: 1.0e-3, weight_decay: 0.01, clip: 1.0}}\ninputs: {{{roles}}}\n")
    plan, fed, made = work / "m.plan", work / "feed.safetensors", work / "made.safetensors"
    run("imports", BIN / "diffc", model, "--recipe", recipe, "--parameters",
        WORK / f"{name}.safetensors", "-o", plan)
    feed = {f"input:{n}": x.contiguous() for n, x in reference.inputs.items()}
    if reference.target is not None:
        feed["role:target"] = reference.target
    save_file(feed | {f"param:{n}": w.contiguous() for n, w in reference.weights.items()}, fed)
    stored = load_file(plan.with_suffix(".safetensors"))
    wrong = sorted(set(stored) ^ set(reference.weights)) or \
        [n for n, w in reference.weights.items() if not torch.equal(stored[n], w)]
    if wrong:
        raise Failure("imports", f"{len(wrong)} weights are not the module's own by name, shape and "
                                 f"value: {', '.join(wrong)[:200]}")
    run("imports", BIN / "diffrun", "verify", plan, "--feed", fed, "--dump", made,
        "--steps", steps)
    return load_file(made)


def off(mine: torch.Tensor, right: torch.Tensor) -> float:
    return float((mine.double().reshape(right.shape) - right).norm())


def compare(name: str, model: Path, reference: Reference) -> dict:
    """The figures of a green cell. Raises Failure."""
    with tempfile.TemporaryDirectory() as folder:
        first = ours(name, model, reference, 1, Path(folder))
        last = ours(name, model, reference, STEPS, Path(folder))
    error = max(off(first["out"], reference.out) / float(reference.out.norm()),
                abs(float(first["loss"]) - reference.loss) / abs(reference.loss))
    if not error <= 1e-4:
        raise Failure("forward", f"output or loss is off by {error:.2g} of its size")
    parts = {n: off(first[f"grad.{n}"], g) / (1e-4 * float(g.norm()) + 1e-5 * reference.norm)
             for n, g in reference.gradients.items()}
    worst = max(parts, key=lambda n: parts[n] if parts[n] == parts[n] else math.inf)
    if not parts[worst] <= 1:
        wrong = sum(not part <= 1 for part in parts.values())
        raise Failure("gradients", f"{wrong} of {len(parts)} are off, {worst} by {parts[worst]:.3g} "
                                   "of what is allowed")
    changes = {}
    for n, start in reference.weights.items():
        # Elsewhere f32 noise would become steps of any sign in AdamW.
        live = reference.gradients[n].abs() > 1e-8 * reference.norm
        right = (reference.after[n] - start.double())[live]
        if right.numel():
            mine = (last[f"new.{n}"].double() - start.double())[live]
            changes[n] = off(mine, right) / float(right.norm())
    moved = max(changes, key=changes.get)
    if not changes[moved] <= 1e-2:
        raise Failure("trains", f"after {STEPS} steps {moved} has changed by "
                                f"{changes[moved]:.2g} of its change too much or too little")
    return {"gradient": parts[worst], "change": changes[moved], "forward": error}


def cell(name: str, exporter: str, reference: Reference, fresh: bool) -> dict:
    model = WORK / f"{name}_{exporter}.onnx"
    try:
        if fresh or not model.exists():
            try:
                write(name, exporter, True, model)
            except Exception as error:  # the exporter's, of any kind
                raise Failure("export", reason(error)) from error
        return compare(name, model, reference)
    except Failure as failure:
        return {"stage": failure.args[0], "why": failure.args[1]}


def short(why: str) -> str:
    """The reason on one line, without what differs by opset; of many nodes the kinds of
    operators."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    listed = [line for line in lines if line.startswith("node ")]
    text = lines[0]
    if listed:
        kinds = sorted({line.rsplit(" ", 1)[-1].rsplit("-", 1)[0] for line in listed})
        text = "not imported: " + ", ".join(kinds)
    text = re.sub(r" to ONNX opset version \d+", "", text)
    text = re.sub(r"^(diffc|diffrun): error: |/tmp/\S*/", "", text)
    return text if len(text) < 300 else text[:297] + "..."


def table(results: dict) -> str:
    text = """# Models

Written by `tests/oracle/check_models.py`, which says what each stage means: small configurations
of `models/zoo.py` with moved weights, exported to ONNX, compiled for the CPU, against PyTorch in
double precision. A cell is **ok** if the weights of the exporter's own file become the module's by
name, shape and value, output and loss are PyTorch's, every parameter's gradient is (|difference| <= 1e-4 |g| + 1e-5
|all|) and five AdamW steps change each weight as PyTorch's do (1e-2). Otherwise it names the stage
that fails, with the reason below. ts15 to ts17: the TorchScript exporter at opsets 15 to 17; dyn18
to dyn23: torch.export. The last two columns are the largest error of a gradient, as a part of what
is allowed, and of a weight's change, over the row.

"""
    names = [n for n in ZOO if n in results]
    text += "| model | " + " | ".join(EXPORTERS) + " | gradients | changes |\n"
    text += "|---" * (len(EXPORTERS) + 3) + "|\n"
    reasons: list = []
    good = total = 0
    for name in names:
        row, cells = [], results[name]
        for exporter in EXPORTERS:
            found = cells.get(exporter)
            if found is None:
                row.append("not run")
                continue
            total += 1
            if "stage" not in found:
                good += 1
                row.append("ok")
                continue
            why = short(found["why"].replace(f"{name}_{exporter}.onnx: ", ""))
            if why not in reasons:
                reasons.append(why)
            row.append(f"{found['stage']} ({reasons.index(why) + 1})")
        green = [c for c in cells.values() if "stage" not in c]
        figures = [f"{max(c[key] for c in green):.2g}" if green else "" for key in
                   ("gradient", "change")]
        text += f"| {name} | " + " | ".join(row + figures) + " |\n"
    text += f"\n{good} of {total} cells are ok.\n"
    if reasons:
        text += "\nReasons:\n\n" + "".join(f"{i}. {why}\n" for i, why in enumerate(reasons, 1))
    text += "\nThe models:\n\n"
    for name in names:
        text += f"- {name}: {' '.join(ZOO[name].about.split())}\n"
    return text


def save(results: dict) -> None:
    RESULTS.write_text(json.dumps(results, indent=1))
    TABLE.write_text(table(results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", nargs="+", choices=list(EXPORTERS), default=list(EXPORTERS))
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in ZOO]
    if unknown:
        parser.error(f"no model {unknown[0]}: {', '.join(ZOO)}")
    WORK.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    good = True
    for name in options.names or ZOO:
        cells = results.setdefault(name, {})
        if not available(name):
            missing = {"stage": "export", "why": f"the Python package {ZOO[name].needs} is missing"}
            cells.update({exporter: missing for exporter in options.exporter})
            print(f"{name}: {missing['why']}")
            good = False
            save(results)
            continue
        write_weights(build(name), WORK / f"{name}.safetensors")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = Reference(name)
            for exporter in options.exporter:
                cells[exporter] = found = cell(name, exporter, reference, options.fresh)
                good &= "stage" not in found
                print(f"{name} {exporter}: " + (
                    f"{found['stage']}: {short(found['why'])}" if "stage" in found else
                    f"ok, gradients {found['gradient']:.2g} of what is allowed, changes "
                    f"{found['change']:.2g}"), flush=True)
        save(results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
