"""Modules of any size without the memory of their weights, and how these are drawn.

`weightless(make)` builds a module whose parameters have no memory. What the library
does to them while it builds (uniform_, normal_, fill_ ...) is recorded instead: that is
the distribution that each is drawn from.
"""
import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Recorder(TorchDispatchMode):
    """Remembers of each storage what its elements were last set to."""

    def __init__(self):
        super().__init__()
        self.known = {}  # storage -> distribution, as graph_only.distribution_of gives it
        self.alive = []  # storages that are known: their addresses are not given out again

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
        if name == "uniform_":
            self.put(result, ("uniform", float(given.get("from", 0)), float(given.get("to", 1))))
        elif name == "normal_":
            self.put(result, ("normal", float(given.get("mean", 0)), float(given.get("std", 1))))
        elif name == "fill_" and not isinstance(given["value"], torch.Tensor):
            self.put(result, ("constant", float(given["value"])))
        elif name in ("zero_", "zeros", "zeros_like"):
            self.put(result, ("constant", 0.0))
        elif name in ("ones", "ones_like"):
            self.put(result, ("constant", 1.0))
        elif name == "randn":
            self.put(result, ("normal", 0.0, 1.0))
        elif name in ("_to_copy", "clone", "mul", "div") and isinstance(args[0], torch.Tensor):
            old = self.get(args[0])
            factor = 1.0
            if name in ("mul", "div"):
                if isinstance(args[1], torch.Tensor) or old is None:
                    return result
                factor = float(args[1]) if name == "mul" else 1 / float(args[1])
            if old is not None:
                self.put(result, (old[0], *(factor * number for number in old[1:])))
        return result

    def put(self, tensor: torch.Tensor, distribution: tuple) -> None:
        storage = tensor.untyped_storage()
        self.alive.append(storage)
        self.known[storage._cdata] = distribution

    def get(self, tensor: torch.Tensor):
        return self.known.get(tensor.untyped_storage()._cdata)


@contextlib.contextmanager
def _parameters_on_meta():
    register = torch.nn.Module.register_parameter

    def without_memory(module, name, parameter):
        if parameter is not None and parameter.device.type != "meta":
            parameter = torch.nn.Parameter(parameter.detach().to("meta"))
        register(module, name, parameter)

    torch.nn.Module.register_parameter = without_memory
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def weightless(make) -> tuple:
    """(module, {parameter: distribution}); the module's parameters are one zero each,
    repeated: it can be traced, not run to any use. Buffers are as they are. Raises
    ValueError for a parameter that is drawn in a way that is not known."""
    with _parameters_on_meta(), _Recorder() as recorder:
        module = make().eval()
        draws = {name: recorder.get(p) for name, p in module.named_parameters()}
    lost = [name for name, draw in draws.items() if draw is None]
    if lost:
        raise ValueError("it is not known how these are drawn: " + ", ".join(lost[:5]))
    for owner in module.modules():
        for name, p in list(owner._parameters.items()):
            if p is not None:
                fake = torch.zeros((), dtype=p.dtype).expand(p.shape)
                owner._parameters[name] = torch.nn.Parameter(fake, requires_grad=False)
    return module, draws
