#!/usr/bin/env python3
"""Writes the node tests of the `onnx` package as files, in ONNX's own layout.

  export_cases.py DIR

DIR/NAME/model.onnx, DIR/NAME/test_data_set_0/{input,output}_I.pb, and
DIR/NAME/tolerance (relative and absolute). DIR is replaced as a whole, when
everything is there.
"""
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper


def message(value, info):
    """The value of a graph's input or output as protobuf; None for other types."""
    if isinstance(value, onnx.TensorProto):
        return value
    if info.type.WhichOneof("value") != "tensor_type" or value is None:
        return None
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(case, folder):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    (folder / "tolerance").write_text(f"{case.rtol} {case.atol}\n")
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for i, (value, info) in enumerate(zip(values, infos)):
            made = message(value, info)
            if made is not None:
                (data / f"{kind}_{i}.pb").write_bytes(made.SerializeToString())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[1])
    stamp = f"onnx {onnx.__version__}\n"
    if (target / "version").is_file() and (target / "version").read_text() == stamp:
        print(f"node tests: all there ({stamp.strip()})")
        return
    # The package makes its expected values in NumPy, with overflow on purpose.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for case in cases:
        if case.data_sets:
            write(case, fresh / case.name)
    (fresh / "version").write_text(stamp)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    print(f"node tests: {len(cases)} written to {target} ({stamp.strip()})")


if __name__ == "__main__":
    main()
