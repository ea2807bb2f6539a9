"""Exported graphs with the module's own parameters in them.

Exporters fold transposes and reshapes into weights and invent names for the
result. `export_named` exports a module so that each of its parameters is one
initializer under its own name and in its own layout, everything else that is
float data is a `Constant` node, and metadata of the exporter is gone.
"""
import contextlib
import io

import numpy
import onnx
from onnx import helper, numpy_helper
import torch


@contextlib.contextmanager
def fingerprinted(module: torch.nn.Module):
    """Inside: every parameter holds random values of its own, so that a tensor of
    the exported graph tells which parameter it was and equal ones are not merged.
    Yields {name: values}; the old values come back at the end."""
    generator = torch.Generator().manual_seed(77)
    old = {name: p.detach().clone() for name, p in module.named_parameters()}
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.1 + 1)
    try:
        yield {name: p.detach().numpy().copy() for name, p in module.named_parameters()}
    finally:
        with torch.no_grad():
            for name, p in module.named_parameters():
                p.copy_(old[name])


def strip(model: onnx.ModelProto) -> None:
    """Drops what only the exporter's tools read: metadata, doc strings, inferred types."""
    graph = model.graph
    del graph.value_info[:]
    del graph.quantization_annotation[:]
    for thing in [model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output]:
        thing.ClearField("metadata_props")
        thing.ClearField("doc_string")


def _key(array: numpy.ndarray) -> bytes:
    return numpy.ascontiguousarray(array, dtype=numpy.float32).tobytes()


def _variants(parameters: dict) -> dict:
    """Bytes of a tensor -> (parameter name, transposed?), for each parameter as it
    is and, if it is a matrix, transposed. Shapes are left to the caller."""
    known = {}
    for name, values in parameters.items():
        if values.ndim == 2:
            known[_key(values.T)] = (name, True)
    for name, values in parameters.items():  # as it is wins: vectors as matrices
        known[_key(values)] = (name, False)
    return known


def name_parameters(model: onnx.ModelProto, parameters: dict) -> None:
    """Makes each of `parameters` ({name: values in the graph}) an initializer of that
    name and shape; tensors that the exporter derived from one are computed from it
    by Transpose and Reshape nodes. Float data that is no parameter becomes Constant
    nodes, save scalars. Raises ValueError where a parameter is not in the graph."""
    graph = model.graph
    known = _variants(parameters)
    kept, nodes, found, shapes, renamed = [], [], {}, {}, {}
    taken = set(parameters)
    for tensor in graph.initializer:
        floating = tensor.data_type == onnx.TensorProto.FLOAT
        if not floating or (not tensor.dims and tensor.name not in parameters):
            kept.append(tensor)
            continue
        values = numpy_helper.to_array(tensor)
        name, transposed = known.get(_key(values), (None, False))
        if name is None:
            if tensor.name in parameters:
                raise ValueError(f"the graph holds other values for parameter {tensor.name}")
            nodes.append(helper.make_node("Constant", [], [tensor.name],
                                          name=f"constant_{tensor.name}", value=tensor))
            continue
        own = parameters[name]
        if name not in found:
            found[name] = numpy_helper.from_array(own, name)
        if not transposed and own.shape == values.shape:
            if tensor.name != name:
                renamed[tensor.name] = name
            continue
        if tensor.name in taken:
            raise ValueError(f"the graph calls a tensor made from {name} {tensor.name}")
        shape = own.shape[::-1] if transposed else own.shape
        step = name
        if transposed:
            step = tensor.name if shape == values.shape else f"{tensor.name}_transposed"
            nodes.append(helper.make_node("Transpose", [name], [step], perm=[1, 0],
                                          name=f"transpose_{tensor.name}"))
        if shape != values.shape:
            to = "shape_" + "x".join(map(str, values.shape))
            shapes[to] = numpy_helper.from_array(numpy.array(values.shape, numpy.int64), to)
            nodes.append(helper.make_node("Reshape", [step, to], [tensor.name],
                                          name=f"reshape_{tensor.name}"))
    missing = sorted(set(parameters) - set(found))
    if missing:
        raise ValueError("parameters that are not in the exported graph: " + ", ".join(missing))
    for node in graph.node:
        for i, value in enumerate(node.input):
            node.input[i] = renamed.get(value, value)
    rest = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    ordered = [found[name] for name in parameters] + list(shapes.values()) + kept
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes + rest)
    graph.initializer.extend(ordered)


def set_values(model: onnx.ModelProto, module: torch.nn.Module) -> None:
    """Gives the initializers that are parameters of `module` the module's values."""
    own = dict(module.named_parameters())
    for tensor in model.graph.initializer:
        if tensor.name in own:
            values = own[tensor.name].detach().float().contiguous().numpy()
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def export(module: torch.nn.Module, inputs: dict, opset: int, dynamo: bool = True,
           outputs=("out",), symbolic: bool = True) -> onnx.ModelProto:
    """What the exporter itself makes of `module`: `inputs` by argument name in forward's
    order, the first dimension of each symbolic and called "batch", unless the batch is to
    stay that of the inputs (`symbolic` false)."""
    names, values = list(inputs), tuple(inputs.values())
    if dynamo:
        batch = torch.export.Dim("batch", min=1)
        shapes = tuple({0: batch} for _ in names) if symbolic else None
        return torch.onnx.export(module, values, dynamo=True, opset_version=opset,
                                 input_names=names, output_names=list(outputs), verbose=False,
                                 dynamic_shapes=shapes).model_proto
    data = io.BytesIO()
    torch.onnx.export(module, values, data, dynamo=False, opset_version=opset,
                      input_names=names, output_names=list(outputs),
                      dynamic_axes={name: {0: "batch"} for name in names} if symbolic else None)
    return onnx.load_from_string(data.getvalue())


def export_named(module: torch.nn.Module, inputs: dict, opset: int, dynamo: bool = True,
                 outputs=("out",), symbolic: bool = True) -> onnx.ModelProto:
    """export(), with the module's own parameters in it."""
    with fingerprinted(module) as parameters:
        model = export(module, inputs, opset, dynamo, outputs, symbolic)
    strip(model)
    name_parameters(model, parameters)
    set_values(model, module)
    onnx.checker.check_model(model)
    return model
