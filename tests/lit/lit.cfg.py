"""lit's configuration: .mlir files, run by the shell, with our tools on PATH."""
import os

import lit.formats

config.name = "diffc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.diffc_tools, config.llvm_tools, config.environment.get("PATH", "")])
config.substitutions.append(
    ("%models", os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "models")))
