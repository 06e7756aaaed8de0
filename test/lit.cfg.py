# lit configuration: tests are .mlir and .test files with RUN lines.
import os

import lit.formats
from lit.llvm import llvm_config

config.name = "Forebay"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.forebay_test_dir

llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.forebay_bin_dir, append_path=True)
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
# Set on machines whose OpenBLAS needs them.
llvm_config.with_system_environment(["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"])
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
config.substitutions.append(("%forebay_lib_dir", config.forebay_lib_dir))
config.substitutions.append(("%build_root", os.path.dirname(config.forebay_test_dir)))
config.substitutions.append(("%source_root", os.path.dirname(config.test_source_root)))
# `%onnx < model.txt > model.onnx`: models written as text. Encoded pieces can be concatenated: they merge.
onnx_proto = config.forebay_onnx_proto
config.substitutions.append(
    ("%onnx", "protoc --encode=onnx.ModelProto --proto_path=%s %s" % (os.path.dirname(onnx_proto), onnx_proto))
)
config.substitutions.append(("%python", config.python_executable))
config.substitutions.append(("%tiny", os.path.join(config.forebay_test_dir, "tiny")))
# Trains cases (test/Inputs/models) and compares with PyTorch's results.
config.substitutions.append(
    ("%run_case", "%s %s --bin %s" % (config.python_executable, os.path.join(config.test_source_root, "run-case"), config.forebay_bin_dir))
)
# Tests that preload a library of their own cannot run under a sanitizer.
if config.forebay_sanitizer:
    config.available_features.add("sanitizer")
