"""PyTorch's time and memory for a whole training step: noise, forward, loss, backward,
clip_grad_norm_, fused AdamW, foreach EMA; eager, on the CPU.

    tests/oracle/bench_pytorch.py {dit_s2,dit_fashion} [--steps N] [--server]

Prints one JSON line after --warmup untimed steps and N timed ones:
  model, batch, threads, precision, loss (of the last step),
  step_ms          wall time of each step, milliseconds
  peak_rss_bytes   the process's resident peak so far (VmHWM)
  idle_rss_bytes   resident with torch loaded, before model and data were made

With --server it prints {"ready": true} after the warm-up, then for each line with a
number N on stdin runs N steps and prints such a line, so that two programs can be
timed in turns. The end of stdin ends it.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

from models import MAKERS

# batch, channels, labels (the last one more is "no class"), objective, lr, betas, EMA decay
CASES = {"dit_fashion": (64, 1, 10, "flow", 1e-3, (0.9, 0.99), 0.999),
         "dit_s2": (8, 4, 1000, "eps", 1e-4, (0.9, 0.999), 0.9999)}
SIZE = 32          # picture or latent side
LABEL_DROPOUT = 0.1
BATCHES = 8        # different batches, resident in memory


def status_bytes(field: str) -> int:
    """A kB field of /proc/self/status, such as VmHWM, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


class Training:
    """A model in training on resident random batches."""

    def __init__(self, name: str, batch: int, precision: str, compiled: bool):
        default, channels, self.classes, self.kind, lr, betas, self.decay = CASES[name]
        self.batch = batch or default
        self.precision = precision
        torch.manual_seed(0)
        module = MAKERS[name]().train()
        self.parameters = list(module.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.module = torch.compile(module) if compiled else module
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, betas=betas, eps=1e-8,
                                           weight_decay=0.0, fused=True)
        shape = (self.batch, channels, SIZE, SIZE)
        self.data = [(torch.randn(shape).clamp_(-1, 1),
                      torch.randint(0, self.classes, (self.batch,))) for _ in range(BATCHES)]
        self.abar = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)
        self.done = 0

    def noisy(self, clean: torch.Tensor) -> tuple:
        """x_t, timestep in steps [B] f32, and the target of one batch [B, C, S, S]."""
        noise = torch.randn_like(clean)
        if self.kind == "flow":
            t = torch.sigmoid(torch.randn(self.batch))
            s = t[:, None, None, None]
            return torch.lerp(clean, noise, s), t * 1000, noise - clean
        t = torch.randint(0, 1000, (self.batch,))
        abar = self.abar[t].float()[:, None, None, None]
        return abar.sqrt() * clean + (1 - abar).sqrt() * noise, t.float(), noise

    def step(self) -> float:
        """One optimizer step; the loss before it."""
        clean, label = self.data[self.done % BATCHES]
        x, t, target = self.noisy(clean)
        label = torch.where(torch.rand(self.batch) < LABEL_DROPOUT, self.classes, label)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            out = self.module(x, t, label)
        loss = F.mse_loss(out.float(), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.done += 1
        decay = min(self.decay, (1 + self.done) / (10 + self.done))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)
        return loss.item()

    def run(self, steps: int) -> tuple:
        """Runs `steps` steps: milliseconds of each, and the last loss."""
        times, loss = [], None
        for _ in range(steps):
            start = time.perf_counter()
            loss = self.step()
            times.append(round((time.perf_counter() - start) * 1e3, 3))
        return times, loss


def main() -> None:
    parser = argparse.ArgumentParser(description="PyTorch's whole training step, timed")
    parser.add_argument("model", choices=CASES)
    parser.add_argument("--batch", type=int, default=0, help="default: the recipe's")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--server", action="store_true", help="numbers of steps come from stdin")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    idle = status_bytes("VmRSS")
    training = Training(args.model, args.batch, args.precision, args.compile)

    def report(steps: int) -> None:
        times, loss = training.run(steps)
        print(json.dumps({"model": args.model, "batch": training.batch, "threads": args.threads,
                          "precision": args.precision, "loss": loss, "step_ms": times,
                          "peak_rss_bytes": status_bytes("VmHWM"), "idle_rss_bytes": idle}),
              flush=True)

    training.run(args.warmup)
    if not args.server:
        report(args.steps)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if line.strip():
            report(int(line))


if __name__ == "__main__":
    main()
