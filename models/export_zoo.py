"""Writes models of models/zoo.py as ONNX, with drawn weights: nothing is downloaded.

    .venv-oracle/bin/python models/export_zoo.py OUT_DIR [NAME...] [--exporter ts15 dyn18 ...] [--raw]
    .venv-oracle/bin/python models/export_zoo.py --list

For each: OUT_DIR/NAME_EXPORTER.onnx, and OUT_DIR/NAME.safetensors with the module's
parameters. ts15, ts16, ts17 are the TorchScript exporter at opsets 15 to 17, dyn18,
dyn20, dyn21, dyn23 the one of torch.export; without --exporter, all. Parameters have
the module's own names and layouts; --raw: the exporter's own file as it is.
"""
import argparse
import contextlib
import io
import warnings
from pathlib import Path

import onnx
import torch
from safetensors.torch import save_file

from goldens import perturb
from onnx_names import export, export_named
from zoo import ZOO, available

EXPORTERS = {f"ts{opset}": (opset, False) for opset in (15, 16, 17)} | \
    {f"dyn{opset}": (opset, True) for opset in (18, 20, 21, 23)}


def build(name: str) -> torch.nn.Module:
    """The module, its weights drawn by a seed and moved so that none is zero."""
    torch.manual_seed(0)
    module = ZOO[name].make().eval()
    perturb(module)
    return module


def outputs_of(name: str) -> tuple:
    return ("out", "loss") if ZOO[name].loss else ("out",)


def write_weights(module: torch.nn.Module, path: Path) -> None:
    """The parameters, each once: tied ones under their first name."""
    save_file({n: p.detach().contiguous().clone() for n, p in module.named_parameters()}, path)


def write(name: str, exporter: str, raw: bool, path: Path) -> None:
    opset, dynamo = EXPORTERS[exporter]
    # An exporter that fails prints the whole graph.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        make = export if raw else export_named
        model = make(build(name), ZOO[name].inputs(), opset, dynamo, outputs_of(name),
                     ZOO[name].symbolic)
    onnx.save(model, path)


def reason(error: Exception) -> str:
    """The root cause's first line: exporters wrap errors several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", nargs="+", choices=list(EXPORTERS), default=list(EXPORTERS))
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        for name, model in ZOO.items():
            print(f"{name:<12} {' '.join(model.about.split())}")
        return
    if options.out is None:
        parser.error("OUT_DIR is missing")
    unknown = [name for name in options.names if name not in ZOO]
    if unknown:
        parser.error(f"no model {unknown[0]}: {', '.join(ZOO)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or ZOO:
        if not available(name):
            print(f"{name}: left out, the package {ZOO[name].needs} is missing")
            continue
        write_weights(build(name), options.out / f"{name}.safetensors")
        for exporter in options.exporter:
            path = options.out / f"{name}_{exporter}.onnx"
            try:
                write(name, exporter, options.raw, path)
                print(path, flush=True)
            except Exception as error:  # the exporter's, of any kind: the others go on
                print(f"{path}: not exported: {reason(error)}", flush=True)


if __name__ == "__main__":
    main()
