"""Graph-only models: how weights are drawn instead of the weights.

Each float parameter becomes an empty sparse initializer (name, type, shape, no
values), and ONNX's `training_info` says how to draw it: one RandomNormal,
RandomUniform or ConstantOfShape node per parameter in its initialization graph,
tied to the name by initialization_binding.

Which of them, and with what numbers, is read off the values that the framework
itself gives to freshly built modules. Names play no part.
"""
import math

import numpy
import onnx
from onnx import TensorProto, helper
import torch

SAMPLES = 4096     # values per parameter that are enough to tell its distribution
INSTANCES = 64     # modules built at most to get them
LARGEST = 1 << 16  # values looked at per parameter


def initial_values(make, names) -> dict:
    """{name: f64 [n]}: values of each parameter over freshly built modules `make()`;
    n is at least SAMPLES, or what INSTANCES modules have, and at most LARGEST."""
    values = {name: [] for name in names}
    for seed in range(INSTANCES):
        torch.manual_seed(seed)
        for name, p in make().named_parameters():
            values[name].append(p.detach().double().numpy().ravel()[:LARGEST])
        if all(sum(map(len, v)) >= SAMPLES for v in values.values()):
            break
    return {name: numpy.concatenate(v)[:LARGEST] for name, v in values.items()}


def shortest(low: float, high: float) -> float:
    """The number of fewest digits in [low, high]; 0 if it lies there."""
    if low <= 0 <= high:
        return 0.0
    middle = (low + high) / 2
    for digits in range(1, 17):
        number = float(f"{middle:.{digits}g}")
        if low <= number <= high:
            return number
    return middle


def _distance(values: numpy.ndarray, cumulative) -> float:
    """Kolmogorov-Smirnov: the largest distance between the values' distribution and
    `cumulative`, in units of 1/sqrt(n): above 2 about once in 3000 fits."""
    ordered = numpy.sort(values)
    expected = cumulative(ordered)
    n = len(ordered)
    above = numpy.arange(1, n + 1) / n - expected
    below = expected - numpy.arange(n) / n
    return float(max(above.max(), below.max()) * math.sqrt(n))


def distribution_of(values: numpy.ndarray, name: str) -> tuple:
    """("constant", value), ("uniform", low, high) or ("normal", mean, standard
    deviation) that `values` [n] come from. Numbers are the shortest decimals within
    what the sample allows. Raises ValueError where neither fits."""
    n, least, most = len(values), float(values.min()), float(values.max())
    if least == most:
        return ("constant", least)
    mean, deviation = float(values.mean()), float(values.std())
    kurtosis = float(((values - mean) ** 4).mean() / deviation ** 4)  # uniform 1.8, normal 3
    if kurtosis < 2.4:
        slack = 5 * (most - least) / n  # the ends lie this far out: missed once in e^5 = 150
        low, high = shortest(least - slack, least), shortest(most, most + slack)
        end = max(-least, most), min(slack - least, most + slack)
        if end[0] <= end[1]:
            high = shortest(*end)
            low = -high
        fit = ("uniform", low, high)
        distance = _distance(values, lambda x: (x - low) / (high - low))
    else:
        error = 3 * deviation / math.sqrt(n)
        mean = shortest(mean - error, mean + error)
        error /= math.sqrt(2)
        deviation = shortest(deviation - error, deviation + error)
        fit = ("normal", mean, deviation)
        erf = numpy.vectorize(math.erf)
        distance = _distance(values, lambda x: (1 + erf((x - mean) / deviation / math.sqrt(2))) / 2)
    if distance > 2.2:
        raise ValueError(f"the initial values of {name} are neither constant, uniform nor normal "
                         f"(kurtosis {kurtosis:.2f}, distance from {fit}: {distance:.1f})")
    return fit


def _draw(distribution: tuple, output: str, shape, graph: onnx.GraphProto) -> onnx.NodeProto:
    """The node that draws `output` of `shape` (f32); its inputs are added to `graph`."""
    kind, *numbers = distribution
    if kind == "uniform":
        return helper.make_node("RandomUniform", [], [output], name=output, dtype=TensorProto.FLOAT,
                                shape=shape, low=numbers[0], high=numbers[1])
    if kind == "normal":
        return helper.make_node("RandomNormal", [], [output], name=output, dtype=TensorProto.FLOAT,
                                shape=shape, mean=numbers[0], scale=numbers[1])
    dims = "shape_" + "x".join(map(str, shape))
    if all(tensor.name != dims for tensor in graph.initializer):
        graph.initializer.append(helper.make_tensor(dims, TensorProto.INT64, [len(shape)], shape))
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], numbers)
    return helper.make_node("ConstantOfShape", [dims], [output], name=output, value=value)


def graph_only(model: onnx.ModelProto, make) -> onnx.ModelProto:
    """`model` (an export in which parameters have the module's own names) without the
    values of its parameters of rank 1 and more; `make()` builds a fresh module."""
    shapes = {name: list(p.shape) for name, p in make().named_parameters() if p.dim() > 0}
    values = initial_values(make, [name for name, _ in make().named_parameters()])
    lost = set(shapes) - {tensor.name for tensor in model.graph.initializer}
    if lost:
        raise ValueError("parameters that are no initializers: " + ", ".join(sorted(lost)))
    draws = {name: distribution_of(values[name], name) for name in shapes}
    return without_values(model, shapes, draws)


def without_values(model: onnx.ModelProto, shapes: dict, draws: dict) -> onnx.ModelProto:
    """`model` with the parameters in `shapes` ({name: extents}) as empty sparse tensors
    that are drawn as `draws` says ({name: distribution})."""
    graph = model.graph
    dense = [tensor for tensor in graph.initializer if tensor.name not in shapes]
    del graph.initializer[:]
    graph.initializer.extend(dense)
    info = model.training_info.add()
    info.initialization.name = "initialization"
    for name, shape in shapes.items():
        sparse = graph.sparse_initializer.add(dims=shape)
        sparse.values.CopyFrom(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[0]))
        sparse.indices.CopyFrom(TensorProto(name=f"{name}_indices", data_type=TensorProto.INT64,
                                            dims=[0]))
        output = f"initial_{name}"
        info.initialization.node.append(_draw(draws[name], output, shape, info.initialization))
        info.initialization.output.append(
            helper.make_tensor_value_info(output, TensorProto.FLOAT, shape))
        info.initialization_binding.add(key=name, value=output)
    onnx.checker.check_model(model)
    return model
