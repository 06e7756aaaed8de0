#!/usr/bin/env python3
"""Makes operators.json: small ONNX graphs, their inputs, and the outputs that ONNX's reference evaluator or onnxruntime computes.

    pip install onnx onnxruntime numpy
    python make_operators.py

check-operators.py imports each graph, evaluates the IR and compares. The cases are one operator each, in the forms that exporters
write, and random chains of index arithmetic (`chain-N`), which check expressions and how they are emitted.
"""
import base64
import json
import random
import sys
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)
F, I, B = np.float32, np.int64, np.bool_
cases = []
rng = np.random.default_rng(7)


def data(*shape):
    return rng.standard_normal(shape).astype(F)


def positive(*shape):
    return (rng.random(shape) + 0.5).astype(F)


def ids(high, *shape, low=0):
    return rng.integers(low, high, shape).astype(I)


def mask(*shape):
    return rng.integers(0, 2, shape).astype(B)


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name="n" + str(rng.integers(1 << 30)), **attributes)


def case(name, nodes, inputs, consts=(), outputs=("y",), opset=23, reference="ort"):
    """`inputs` are fed, `consts` become Constant nodes."""
    first = [
        helper.make_node("Constant", [], [k], name="const_" + k, value=numpy_helper.from_array(np.asarray(v), k))
        for k, v in dict(consts).items()
    ]
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
    names = [n for n in (x for m in nodes for x in m.output)]
    assert len(set(names)) == len(names)
    for i, n in enumerate(first + nodes):
        n.name = f"{name}_{i}"
    graph = helper.make_graph(
        first + nodes,
        name,
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    if reference == "ort":
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run(list(outputs), inputs)
    else:
        values = ReferenceEvaluator(model).run(list(outputs), inputs)
    del model.graph.value_info[:]
    model.producer_name = ""

    def pack(array):
        array = np.asarray(array)
        if array.dtype.kind == "f":
            flat = [float(x) if np.isfinite(x) else str(x) for x in array.reshape(-1)]
        else:
            flat = [int(x) for x in array.reshape(-1)]
        return {"dtype": array.dtype.str, "shape": list(array.shape), "data": flat}

    cases.append({
        "name": name,
        "model": base64.b64encode(zlib.compress(model.SerializeToString(), 9)).decode(),
        "inputs": {k: pack(v) for k, v in inputs.items()},
        "outputs": {k: pack(v) for k, v in zip(outputs, values)},
    })


def elementwise():
    x, y = data(2, 3, 4), data(3, 1)
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
        case(op, node(op, "xz"), {"x": x, "z": y})
        case(op + "-int", node(op, "xz"), {"x": ids(9, 2, 3, low=-9), "z": ids(9, 3, low=1)})
    case("Max-one", node("Max", "x"), {"x": x})
    case("Max-three", node("Max", "xzw"), {"x": x, "z": y, "w": data(4)})
    case("Sum", node("Sum", "xzw"), {"x": x, "z": y, "w": data(4)})
    case("Mean", node("Mean", "xz"), {"x": x, "z": y})
    for op in ["Neg", "Abs", "Exp", "Tanh", "Erf", "Sin", "Cos", "Ceil", "Floor", "Round", "Sigmoid", "Relu", "LeakyRelu", "HardSwish",
               "Softplus", "Elu", "Selu", "Softsign", "HardSigmoid", "Reciprocal", "Mish"]:
        case(op, node(op, "x"), {"x": x * 3})
    for op in ["Sqrt", "Log"]:
        case(op, node(op, "x"), {"x": positive(3, 4)})
    for op in ["Neg", "Abs"]:
        case(op + "-int", node(op, "x"), {"x": ids(9, 7, low=-9)})
    for p in [-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 1.7]:
        case(f"Pow{p}", node("Pow", "xp"), {"x": positive(3, 4)}, {"p": F(p)})
    case("Pow-int-exponent", node("Pow", "xp"), {"x": data(3, 4)}, {"p": I(2)})
    case("Pow-tensor", node("Pow", "xz"), {"x": positive(3, 4), "z": data(4)})
    for bounds in [("", "hi"), ("lo", ""), ("lo", "hi"), ("", "")]:
        case("Clip" + "-".join(bounds), node("Clip", ["x", *bounds]), {"x": x * 2}, {b: F(v) for b, v in zip(bounds, [-0.5, 1.5]) if b})
    case("Clip-int", node("Clip", ["x", "lo", "hi"]), {"x": ids(20, 9)}, {"lo": I(3), "hi": I(11)})
    for approximate in ["none", "tanh"]:
        case("Gelu-" + approximate, node("Gelu", "x", approximate=approximate), {"x": x})
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        case(op, node(op, "xz"), {"x": np.round(x), "z": np.round(y)})
        case(op + "-int", node(op, "xz"), {"x": ids(4, 3, 5), "z": ids(4, 5)})
    case("Equal-bool", node("Equal", "xz"), {"x": mask(3, 5), "z": mask(5)})
    for op in ["And", "Or", "Xor"]:
        case(op, node(op, "xz"), {"x": mask(3, 5), "z": mask(5)})
    case("Not", node("Not", "x"), {"x": mask(3, 5)})
    bad = np.array([1, np.nan, np.inf, -np.inf, 0], F)
    case("IsNaN", node("IsNaN", "x"), {"x": bad})
    case("IsInf", node("IsInf", "x"), {"x": bad})
    case("Relu-nan", node("Relu", "x"), {"x": bad})
    case("Where", node("Where", "cxz"), {"c": mask(2, 1, 4), "x": x, "z": y})
    case("Where-const", node("Where", "cxz"), {"c": mask(2, 3, 4)}, {"x": F(0), "z": F(-3.4028235e38)})
    case("Mod", node("Mod", "xz"), {"x": ids(20, 11, low=-20), "z": ids(7, 11, low=1)})
    case("Mod-fmod", node("Mod", "xz", fmod=1), {"x": ids(20, 11, low=-20), "z": ids(7, 11, low=1)})
    for name, to, value in [("bool", TensorProto.BOOL, x.round()), ("int", TensorProto.INT64, x * 5), ("double", TensorProto.DOUBLE, x),
                            ("int32", TensorProto.INT32, ids(9, 3)), ("float", TensorProto.FLOAT, ids(9, 3)),
                            ("from-bool", TensorProto.FLOAT, mask(4)), ("bool-to-int", TensorProto.INT64, mask(4))]:
        case("Cast-" + name, node("Cast", "x", to=to), {"x": value})
    case("CastLike", node("CastLike", "xz"), {"x": ids(9, 3), "z": data(1)})
    case("broadcast-both", node("Add", "xz"), {"x": data(3, 1), "z": data(1, 4)})
    case("broadcast-scalar", node("Mul", "xz"), {"x": data(), "z": data(2, 4)})
    case("broadcast-rank", node("Mul", "xz"), {"x": data(1, 1), "z": data(4)})


def views():
    x = data(2, 3, 4)
    case("Reshape", node("Reshape", "xs"), {"x": x}, {"s": I([4, -1])})
    case("Reshape-zero", node("Reshape", "xs"), {"x": x}, {"s": I([0, 2, 0, -1][:2] + [-1])})
    case("Reshape-allowzero", node("Reshape", "xs", allowzero=1), {"x": data(0, 3)}, {"s": I([3, 0])})
    case("Reshape-ones", node("Reshape", "xs"), {"x": data(1, 3, 1, 4)}, {"s": I([3, 1, 2, 2, 1])})
    case("Reshape-scalar", node("Reshape", "xs"), {"x": data(1, 1)}, {"s": I([])})
    case("Reshape-regroup", node("Reshape", "xs"), {"x": data(4, 6)}, {"s": I([3, 8])})
    case("Flatten", node("Flatten", "x", axis=-1), {"x": x})
    case("Flatten0", node("Flatten", "x", axis=0), {"x": x})
    case("Squeeze", node("Squeeze", "x"), {"x": data(1, 3, 1)})
    case("Squeeze-axes", node("Squeeze", "xa"), {"x": data(1, 3, 1)}, {"a": I([-1])})
    case("Unsqueeze", node("Unsqueeze", "xa"), {"x": x}, {"a": I([0, -1])})
    case("Unsqueeze-scalar-axis", node("Unsqueeze", "xa"), {"x": x}, {"a": I([1])})
    case("Transpose", node("Transpose", "x", perm=[2, 0, 1]), {"x": x})
    case("Transpose-default", node("Transpose", "x"), {"x": x})
    case("Transpose-twice", [node("Transpose", "x", "a", perm=[2, 0, 1]), node("Transpose", "a", perm=[1, 2, 0])], {"x": x})
    case("Transpose-reshaped", [node("Reshape", "xs", "a"), node("Transpose", "a", "b", perm=[0, 2, 1]), node("Reshape", "bt")],
         {"x": data(2, 3, 4, 5)}, {"s": I([-1, 4, 5]), "t": I([2, 3, 5, 4])})
    case("Expand", node("Expand", "xs"), {"x": data(3, 1)}, {"s": I([2, 1, 4])})
    case("Expand-empty-shape", node("Expand", "xs"), {"x": data(3)}, {"s": I([])})
    case("Slice", node("Slice", ["x", "b", "e"]), {"x": x}, {"b": I([0, 1]), "e": I([1, 3])})
    case("Slice-axes", node("Slice", ["x", "b", "e", "a", "s"]), {"x": x}, {"b": I([-3, 0]), "e": I([2**63 - 1, -1]), "a": I([2, 1]), "s": I([2, 1])})
    case("Slice-empty", node("Slice", ["x", "b", "e", "a"]), {"x": x}, {"b": I([4]), "e": I([9]), "a": I([2])})
    case("Slice-back-int", node("Slice", ["x", "b", "e", "a", "s"]), {"x": ids(50, 3, 5)}, {"b": I([2**62]), "e": I([-(2**63)]), "a": I([1]), "s": I([-2])})
    case("Slice-back-one", node("Slice", ["x", "b", "e", "a", "s"]), {"x": x}, {"b": I([3]), "e": I([2]), "a": I([2]), "s": I([-1])})
    case("Concat", node("Concat", "xz", axis=1), {"x": data(2, 3), "z": data(2, 2)})
    case("Concat-one", node("Concat", "x", axis=0), {"x": data(2, 3)})
    case("Concat-empty", node("Concat", "xz", axis=-1), {"x": data(2, 3), "z": data(2, 0)})
    case("Concat-int", node("Concat", "xzw", axis=1), {"x": ids(5, 2, 3), "w": ids(5, 2, 1)}, {"z": I([[7], [8]])})
    case("Split", node("Split", "x", ["y", "z", "w"], axis=1, num_outputs=3), {"x": data(2, 8)}, outputs=("y", "z", "w"))
    case("Split-sizes", node("Split", "xs", ["y", "z"], axis=-1), {"x": data(2, 8)}, {"s": I([3, 5])}, outputs=("y", "z"))
    case("SplitToSequence", [node("SplitToSequence", "xs", "q", axis=1), node("SequenceAt", "qi")], {"x": data(2, 7)}, {"s": I(3), "i": I(-1)})
    case("SplitToSequence-keepdims0", [node("SplitToSequence", ["x"], "q", axis=1, keepdims=0), node("SequenceAt", "qi")], {"x": data(2, 3)}, {"i": I(1)})
    case("ConcatFromSequence", [node("SplitToSequence", "xs", "q", axis=1), node("ConcatFromSequence", "q", axis=0)], {"x": data(2, 6)}, {"s": I(3)})
    case("ConcatFromSequence-new", [node("SequenceConstruct", "xz", "q"), node("ConcatFromSequence", "q", axis=-1, new_axis=1)], {"x": data(2, 6), "z": data(2, 6)})
    case("Pad", node("Pad", "xp"), {"x": data(2, 3)}, {"p": I([1, 0, 0, 2])})
    case("Pad-cut", node("Pad", ["x", "p", "v"]), {"x": data(4, 3)}, {"p": I([-1, 1, 2, -2]), "v": F(2.5)})
    case("Pad-axes", node("Pad", ["x", "p", "v", "a"]), {"x": data(4, 3)}, {"p": I([0, 2]), "v": F(-1), "a": I([-1])})
    case("Pad-labels", [node("Pad", ["x", "p", "v"], "a"), node("Slice", ["a", "b", "e", "c"], "z"), node("Reshape", "zs")], {"x": ids(90, 2, 5)},
         {"p": I([0, 0, 0, 1]), "v": I(-100), "b": I([1]), "e": I([2**63 - 1]), "c": I([1]), "s": I([-1])})
    case("Tile", node("Tile", "xr"), {"x": data(2, 3)}, {"r": I([2, 3])})
    case("Identity", node("Identity", "x"), {"x": x})
    case("Dropout-eval", node("Dropout", "x"), {"x": x})
    case("Trilu", node("Trilu", "x", upper=0), {"x": data(2, 4, 5)})
    case("Trilu-upper", node("Trilu", "xk"), {"x": data(4, 5)}, {"k": I(1)})
    case("Trilu-mask", [node("Expand", "os", "a"), node("Trilu", "a", "b", upper=0), node("Equal", "bz", "c"), node("Where", "clz", "d"),
                        node("Add", "xd")], {"x": data(2, 5, 5)}, {"o": F(1), "s": I([5, 5]), "z": F(0), "l": F(-3.4028235e38)})


def constants():
    x = data(2, 3, 4)
    case("Shape", node("Shape", "x"), {"x": x})
    case("Shape-part", node("Shape", "x", start=-2, end=2), {"x": x})
    case("Shape-none", node("Shape", "x", end=0), {"x": x})
    case("Size", node("Size", "x"), {"x": x})
    case("Range", node("Range", "abc"), {}, {"a": I(3), "b": I(-8), "c": I(-3)})
    case("Range-float", node("Range", "abc"), {}, {"a": F(0.5), "b": F(3), "c": F(0.5)})
    case("Range-none", node("Range", "abc"), {}, {"a": I(3), "b": I(3), "c": I(1)})
    case("ConstantOfShape", node("ConstantOfShape", "s", value=numpy_helper.from_array(I([3]), "v")), {}, {"s": I([2, 3])})
    case("EyeLike", node("EyeLike", "x", k=1), {"x": data(4, 5)}, reference="onnx")
    for exclusive in (0, 1):
        for reverse in (0, 1):
            case(f"CumSum-int-{exclusive}{reverse}", node("CumSum", "xa", exclusive=exclusive, reverse=reverse), {"x": ids(9, 3, 5)}, {"a": I(1)})
            case(f"CumSum-ones-{exclusive}{reverse}", node("CumSum", "xa", exclusive=exclusive, reverse=reverse), {}, {"x": np.ones((3, 5), I), "a": I(0)})
            case(f"CumSum-const-{exclusive}{reverse}", node("CumSum", "xa", exclusive=exclusive, reverse=reverse), {}, {"x": ids(9, 2, 5, 3), "a": I(1)})
    case("OneHot", node("OneHot", "xdv"), {"x": ids(5, 2, 3, low=-5)}, {"d": I(5), "v": F([-1, 2])})
    case("OneHot-axis", node("OneHot", "xdv", axis=0), {"x": ids(5, 2, 3)}, {"d": I(5), "v": I([0, 1])})


def gathers():
    x = data(5, 3, 4)
    case("Gather", node("Gather", "xi"), {"x": x, "i": ids(5, 2, 2, low=-5)})
    case("Gather-axis", node("Gather", "xi", axis=1), {"x": x, "i": ids(3, 2, 3)})
    case("Gather-last", node("Gather", "xi", axis=-1), {"x": x, "i": ids(4, 3)})
    case("Gather-scalar", node("Gather", "xi", axis=1), {"x": x}, {"i": I(-1)})
    case("Gather-const", node("Gather", "xi", axis=1), {"x": x}, {"i": I([2, 0, 2, 1])})
    case("Gather-iota", [node("Range", "abc", "r"), node("Gather", "xr", axis=0)], {"x": x}, {"a": I(1), "b": I(5), "c": I(2)})
    case("Gather-iota-batch", [node("Range", "abc", "r"), node("Expand", "rs", "e"), node("Gather", "xe")], {"x": x}, {"a": I(0), "b": I(3), "c": I(1), "s": I([2, 3])})
    case("Gather-int-data", node("Gather", "xi", axis=1), {"x": ids(99, 2, 6), "i": ids(6, 3)})
    case("Gather-unit", node("Gather", "xi"), {"x": data(1, 3), "i": ids(1, 4)})
    case("GatherND", node("GatherND", "xi"), {"x": x, "i": ids(3, 4, 2)})
    case("GatherND-one", node("GatherND", "xi"), {"x": x, "i": ids(5, 2, 4, 1)})
    case("GatherND-all", node("GatherND", "xi"), {"x": x, "i": ids(3, 4, 3, low=-3)})
    case("GatherElements", node("GatherElements", "xi", axis=1), {"x": x, "i": ids(3, 4, 2, 4, low=-3)})
    case("GatherElements-const", node("GatherElements", "xi", axis=0), {"x": data(3, 4)}, {"i": ids(3, 2, 4)})
    case("GatherElements-int", node("GatherElements", "xi", axis=-1), {"x": ids(99, 3, 4), "i": ids(4, 3, 6)})
    case("GatherElements-label", [node("LogSoftmax", "x", "p"), node("Unsqueeze", "ia", "u"), node("GatherElements", "pu", axis=-1)], {"x": data(2, 3, 5), "i": ids(5, 2, 3)}, {"a": I([-1])})
    for exclusive in 0, 1:
        for reverse in 0, 1:
            case(f"CumSum-float-{exclusive}{reverse}", node("CumSum", "xa", exclusive=exclusive, reverse=reverse), {"x": data(2, 7, 3)}, {"a": I(1)})
            case(f"CumSum-fed-{exclusive}{reverse}", node("CumSum", "xa", exclusive=exclusive, reverse=reverse), {"x": ids(9, 5, 13, low=-9)}, {"a": I(-1)})
    # Bloom's biases: batch and heads are joined.
    case("fed-joined",
         [node("CumSum", "ma", "s"), node("Mul", "sm", "p"), node("Unsqueeze", "pa", "u"), node("Cast", "u", "c", to=TensorProto.FLOAT),
          node("Mul", "cf", "b"), node("Reshape", "bg", "j"), node("Add", "xj")],
         {"m": ids(2, 3, 6), "x": data(12, 5, 6)}, {"a": I(1), "f": F([[0.5], [0.25], [2], [3]]), "g": I([12, 1, 6])})
    case("CumSum-one", node("CumSum", "xa"), {"x": ids(9, 5, 1)}, {"a": I(1)})
    # OPT's positions: a float mask of ones that is added up.
    case("Gather-float-positions",
         [node("Expand", "os", "m"), node("CumSum", "ma", "c"), node("Mul", "cm", "p"), node("Sub", "po", "q"), node("Cast", "q", "i", to=TensorProto.INT64), node("Gather", "xi")],
         {"x": data(9, 3)}, {"o": F(1), "s": I([2, 6]), "a": I(1)})
    case("Div-fed", [node("Div", "xz", "d"), node("Mod", "xz", "m"), node("Mod", "xz", "f", fmod=1), node("Add", "dm", "s"), node("Add", "sf")], {"x": ids(20, 4, 6, low=-20), "z": ids(9, 4, 6, low=1) * ids(2, 4, 6, low=-1) * 2 + 1})
    case("GatherElements-sum", [node("CumSum", "ia", "s"), node("Sub", "so", "t"), node("GatherElements", "xt", axis=1)], {"x": data(2, 30), "i": ids(4, 2, 5, low=1)}, {"a": I(1), "o": I(1)})
    case("Gather-sum", [node("CumSum", "ia", "s"), node("Mul", "si", "t"), node("Gather", "xt")], {"x": data(30, 3), "i": ids(2, 2, 5)}, {"a": I(1)})
    case("GatherND-sum", [node("CumSum", "ia", "s"), node("GatherND", "xs")], {"x": data(12, 12, 2), "i": ids(3, 2, 5, 2)}, {"a": I(1)})
    grid = np.stack(np.meshgrid(np.arange(2), np.arange(6), indexing="ij"), -1).astype(I)
    case("GatherND-mask", node("GatherND", "xi"), {"x": ids(2, 2, 6)}, {"i": grid})
    # transformers' padding mask: batch and key positions by Range, Unsqueeze, Max (for its shape), Expand, Concat.
    case("GatherND-padding",
         [node("Cast", "x", "m", to=TensorProto.BOOL),
          node("Range", ["0", "b", "1"], ["rb"]), node("Range", ["0", "s", "1"], ["rs"]),
          node("Unsqueeze", ["rb", "a123"], ["ub"]), node("Unsqueeze", ["rs", "a012"], ["us"]),
          node("Max", ["ub", "us"], ["mx"]), node("Shape", ["mx"], ["sh"]),
          node("Expand", ["ub", "sh"], ["eb"]), node("Expand", ["us", "sh"], ["es"]),
          node("Unsqueeze", ["eb", "last"], ["lb"]), node("Unsqueeze", ["es", "last"], ["ls"]),
          node("Concat", ["lb", "ls"], ["ix"], axis=-1), node("GatherND", ["m", "ix"], ["g"]),
          node("Unsqueeze", ["rs", "a013"], ["q"]), node("LessOrEqual", ["us", "q"], ["causal"]),
          node("And", ["g", "causal"], ["both"]), node("Expand", ["both", "full"], ["wide"]),
          node("Where", ["wide", "z", "l"], ["add"]), node("Add", ["w", "add"], ["y"])],
         {"x": ids(2, 2, 6), "w": data(2, 3, 6, 6)},
         {"0": I(0), "1": I(1), "b": I(2), "s": I(6), "a123": I([1, 2, 3]), "a012": I([0, 1, 2]), "a013": I([0, 1, 3]), "last": I([-1]),
          "full": I([2, 1, 6, 6]), "z": F(0), "l": F(-1e9)})


def reductions():
    x = data(2, 3, 4)
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"]:
        case(op, node(op, "xa", keepdims=0), {"x": x}, {"a": I([-1])})
        case(op + "-keep", node(op, "xa"), {"x": x}, {"a": I([0, 2])})
        case(op + "-all", node(op, "x", keepdims=0), {"x": x})
    case("ReduceLogSum", node("ReduceLogSum", "xa"), {"x": positive(3, 4)}, {"a": I([1])})
    case("ReduceSum-noop", node("ReduceSum", "x", noop_with_empty_axes=1), {"x": x})
    case("ReduceSum-int", node("ReduceSum", "xa", keepdims=0), {"x": ids(9, 3, 4)}, {"a": I([1])})
    case("ReduceMax-int", node("ReduceMax", "xa", keepdims=0), {"x": ids(9, 3, 4, low=-9)}, {"a": I([1])})
    case("ReduceSum-empty", node("ReduceSum", "xa", keepdims=0), {"x": data(3, 0)}, {"a": I([1])})
    case("ReduceProd-shape", [node("Shape", "x", "s"), node("ReduceProd", "s", "p"), node("Reshape", "xp")], {"x": x})
    case("ReduceMean18", node("ReduceMean", "xa"), {"x": x}, {"a": I([1])}, opset=18)


def matrices():
    case("MatMul", node("MatMul", "xz"), {"x": data(3, 4), "z": data(4, 5)})
    case("MatMul-linear", [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "xt", "m"), node("Add", "mb")],
         {"x": data(2, 3, 4), "w": data(5, 4), "b": data(5)})
    case("MatMul-batch", node("MatMul", "xz"), {"x": data(2, 3, 4, 5), "z": data(2, 3, 5, 6)})
    case("MatMul-broadcast", node("MatMul", "xz"), {"x": data(2, 1, 4, 5), "z": data(3, 5, 6)})
    case("MatMul-ones", node("MatMul", "xz"), {"x": data(1, 1, 4, 5), "z": data(1, 5, 6)})
    case("MatMul-scores", [node("Transpose", "z", "t", perm=[0, 1, 3, 2]), node("MatMul", "xt")], {"x": data(2, 3, 4, 5), "z": data(2, 3, 6, 5)})
    case("MatMul-left-transposed", [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "tz")], {"x": data(2, 4, 3), "z": data(2, 4, 5)})
    case("MatMul-row", node("MatMul", "xz"), {"x": data(4), "z": data(2, 4, 5)})
    case("MatMul-column", node("MatMul", "xz"), {"x": data(2, 3, 4), "z": data(4)})
    case("MatMul-dot", node("MatMul", "xz"), {"x": data(4), "z": data(4)})
    case("MatMul-empty", node("MatMul", "xz"), {"x": data(3, 0), "z": data(0, 4)}, reference="onnx")
    for a in (0, 1):
        for b in (0, 1):
            case(f"Gemm-{a}{b}", node("Gemm", "xzc", transA=a, transB=b, alpha=0.5, beta=2.0),
                 {"x": data(*((4, 3) if a else (3, 4))), "z": data(*((5, 4) if b else (4, 5))), "c": data(3, 1)})
    case("Gemm-no-bias", node("Gemm", "xz", transB=1), {"x": data(3, 4), "z": data(5, 4)})
    case("Gemm-bias-scalar", node("Gemm", "xzc"), {"x": data(3, 4), "z": data(4, 5), "c": data()})


def einsums():
    a, b = data(2, 3, 4), data(2, 4, 5)
    for label, equation, *operands in [
        ("batch", "bij,bjk->bik", a, b),
        ("implicit", "bij, bjk", a, b),
        ("heads", "bqhd,bkhd->bhqk", data(2, 3, 2, 4), data(2, 5, 2, 4)),
        ("values", "bhqk,bkhd->bqhd", data(2, 2, 3, 5), data(2, 5, 2, 4)),
        ("outer", "i,j->ji", data(3), data(4)),
        ("dot", "i,i->", data(5), data(5)),
        ("elementwise", "ij,ij->ji", data(3, 4), data(3, 4)),
        ("scaled-rows", "ij,i->ij", data(3, 4), data(3)),
        ("alone", "ijk,kl->il", data(3, 2, 4), data(4, 5)),
        ("ellipsis", "...ij,...jk->...ik", data(2, 1, 3, 4), data(5, 4, 2)),
        ("ellipsis-implicit", "...j,jk", data(2, 3, 4), data(4, 5)),
        ("ellipsis-summed", "...j,j->j", data(2, 3, 4), data(4)),
        ("repeated-one", "ij,jk->ik", data(3, 1), data(4, 5)),
        ("transpose", "ijk->kij", a),
        ("reduce", "ijk->j", a),
        ("implicit-transpose", "ba", data(3, 4)),
        ("three", "ij,jk,kl->il", data(2, 3), data(3, 4), data(4, 5)),
        ("three-shared", "bi,bj,b->ij", data(4, 2), data(4, 3), data(4)),
        ("empty", "ij,jk->ik", data(2, 0), data(0, 3)),
    ]:
        names = "xzw"[: len(operands)]
        # numpy's is the reference: onnxruntime's takes fewer forms.
        case("Einsum-" + label, node("Einsum", names, equation=equation), dict(zip(names, operands)), reference=None)


def norms():
    for axis in (-1, 0, 1):
        case(f"Softmax{axis}", node("Softmax", "x", axis=axis), {"x": data(3, 4, 5)})
        case(f"LogSoftmax{axis}", node("LogSoftmax", "x", axis=axis), {"x": data(3, 4, 5)})
    case("LayerNormalization", node("LayerNormalization", "xwb", axis=-1, epsilon=1e-4), {"x": data(2, 3, 8), "w": data(8), "b": data(8)})
    case("LayerNormalization-axis", node("LayerNormalization", "xw", axis=1), {"x": data(2, 3, 8), "w": data(3, 8)})
    case("LayerNormalization-plain", node("LayerNormalization", "xw", axis=-1), {"x": data(2, 3, 8)}, {"w": np.ones(8, F)})
    case("LayerNormalization-statistics", node("LayerNormalization", "xwb", ["y", "m", "s"], axis=-1), {"x": data(2, 3, 8), "w": data(8), "b": data(8)}, outputs=("y", "m", "s"))
    case("RMSNormalization", node("RMSNormalization", "xw", axis=-1, epsilon=1e-4), {"x": data(2, 3, 8), "w": data(8)}, reference="onnx")
    case("RMSNormalization-axis", node("RMSNormalization", "xw", axis=1), {"x": data(2, 3, 8), "w": data(3, 8)}, reference="onnx")
    case("InstanceNormalization", node("InstanceNormalization", "xwb"), {"x": data(2, 3, 4, 5), "w": data(3), "b": data(3)})
    case("GroupNormalization", node("GroupNormalization", "xwb", num_groups=2), {"x": data(2, 4, 5), "w": data(4), "b": data(4)}, reference="onnx")


def attentions():
    q, k, v = data(2, 4, 5, 8), data(2, 2, 5, 8), data(2, 2, 5, 6)
    case("Attention", node("Attention", "qkv"), {"q": q, "k": k, "v": v}, reference="onnx")
    case("Attention-causal", node("Attention", "qkv", is_causal=1, scale=0.3), {"q": q, "k": k, "v": v}, reference="onnx")
    case("Attention-cross", node("Attention", "qkv"), {"q": q, "k": data(2, 2, 7, 8), "v": data(2, 2, 7, 6)}, reference="onnx")
    case("Attention-cross-causal", node("Attention", "qkv", is_causal=1), {"q": q, "k": data(2, 2, 7, 8), "v": data(2, 2, 7, 6)}, reference="onnx")
    full = mask(2, 1, 5, 5)
    full[..., 0] = True
    case("Attention-mask", node("Attention", "qkvm"), {"q": q, "k": k, "v": v, "m": full}, reference="onnx")
    case("Attention-mask-heads", node("Attention", "qkvm"), {"q": q, "k": k, "v": v, "m": np.repeat(full, 4, 1)}, reference="onnx")
    case("Attention-mask-2d", node("Attention", "qkvm"), {"q": q, "k": k, "v": v, "m": full[0, 0]}, reference="onnx")
    case("Attention-float-mask", node("Attention", "qkvm"), {"q": q, "k": k, "v": v, "m": data(5, 5)}, reference="onnx")
    case("Attention-softcap", node("Attention", "qkv", softcap=2.0), {"q": q, "k": k, "v": v}, reference="onnx")
    case("Attention-3d", node("Attention", "qkv", q_num_heads=4, kv_num_heads=2), {"q": data(2, 5, 32), "k": data(2, 5, 16), "v": data(2, 5, 12)}, reference="onnx")
    padding = ids(2, 2, 5)
    padding[:, 0] = 1
    case("Attention-padding", [node("Cast", "p", "b", to=TensorProto.BOOL), node("Unsqueeze", "ba", "m"), node("Attention", "qkvm")],
         {"q": q, "k": k, "v": v, "p": padding}, {"a": I([1, 2])}, reference="onnx")
    positions = [node("Range", "osi", "r"), node("Unsqueeze", ["r", "a1"], ["qp"]), node("Unsqueeze", ["r", "a0"], ["kp"])]
    pos = {"o": I(0), "s": I(5), "i": I(1), "a0": I([0]), "a1": I([1])}
    window = positions + [node("LessOrEqual", ["kp", "qp"], ["c"]), node("Sub", ["qp", "w"], ["qw"]), node("Greater", ["kp", "qw"], ["g"]), node("And", "cg", "m")]
    case("Attention-window", window + [node("Attention", "qkvm")], {"q": q, "k": k, "v": v}, {**pos, "w": I(2)}, reference="onnx")
    case("Attention-window-float", window + [node("Where", "mzl", "f"), node("Attention", "qkvf")], {"q": q, "k": k, "v": v},
         {**pos, "w": I(2), "z": F(0), "l": F(-3.4028235e38)}, reference="onnx")
    x, cos, sin = data(2, 3, 5, 8), data(10, 4), data(10, 4)
    case("Rotary", node("RotaryEmbedding", "xcsp"), {"x": x, "c": cos, "s": sin, "p": ids(10, 2, 5)}, reference="onnx")
    case("Rotary-interleaved", node("RotaryEmbedding", "xcsp", interleaved=1), {"x": x, "c": cos, "s": sin, "p": ids(10, 2, 5)}, reference="onnx")
    case("Rotary-partial", node("RotaryEmbedding", "xcsp", rotary_embedding_dim=4), {"x": x, "c": cos[:, :2], "s": sin[:, :2], "p": ids(10, 2, 5)}, reference="onnx")
    case("Rotary-given", node("RotaryEmbedding", "xcs"), {"x": x, "c": data(2, 5, 4), "s": data(2, 5, 4)}, reference="onnx")
    case("Rotary-3d", node("RotaryEmbedding", "xcsp", num_heads=3), {"x": data(2, 5, 24), "c": cos, "s": sin, "p": ids(10, 2, 5)}, reference="onnx")
    case("Rotary-iota", [node("Range", "oni", "r"), node("Expand", "re", "p"), node("RotaryEmbedding", "xcsp")], {"x": x, "c": cos, "s": sin},
         {"o": I(0), "n": I(5), "i": I(1), "e": I([2, 5])}, reference="onnx")


def losses():
    labels = ids(7, 6)
    labels[2] = -100
    for reduction in ("mean", "sum"):
        case("CrossEntropy-" + reduction, node("SoftmaxCrossEntropyLoss", "xz", reduction=reduction, ignore_index=-100), {"x": data(6, 7), "z": labels})
    case("CrossEntropy-ranks", node("SoftmaxCrossEntropyLoss", "xz"), {"x": data(2, 7, 3, 2), "z": ids(7, 2, 3, 2)})
    case("CrossEntropy-int32", node("SoftmaxCrossEntropyLoss", "xz"), {"x": data(6, 7), "z": ids(7, 6).astype(np.int32)})


def chains(count):
    """Random index arithmetic over [4, 6] with a fed mask, then a use of it by a float tensor."""
    for seed in range(count):
        r = random.Random(seed)
        nodes, consts, shapes, kinds = [], {}, {}, {}
        n = 0

        def name():
            nonlocal n
            n += 1
            return f"v{n}"

        def const(value):
            k = name()
            consts[k] = value
            return k

        def emit(op, inputs, **attributes):
            out = name()
            nodes.append(node(op, inputs, [out], **attributes))
            return out

        values = [("m", (4, 6), "int")]
        row = emit("Range", [const(I(0)), const(I(6)), const(I(1))])
        values.append((row, (6,), "int"))
        column = emit("Unsqueeze", [emit("Range", [const(I(r.randint(-3, 0))), const(I(r.randint(1, 4) * 4)), const(I(1))]), const(I([1]))])
        length = None
        # Slice the column to 4 rows.
        column = emit("Slice", [column, const(I([0])), const(I([4])), const(I([0]))])
        rows = 4
        values.append((emit("Expand", [column, const(I([4, 6]))]) if r.random() < 0.5 else column, None, "int"))
        # Shapes by the reference evaluator's own inference: keep everything broadcastable to [4, 6].
        pool = {"int": [v[0] for v in values], "bool": []}

        def pick(kind):
            if kind == "bool" and not pool["bool"]:
                return emit("LessOrEqual", [pick("int"), pick("int")])
            return r.choice(pool[kind])

        for _ in range(r.randint(4, 14)):
            what = r.randint(0, 13)
            if what <= 1:
                pool["int"].append(emit(r.choice(["Add", "Sub", "Mul"]), [pick("int"), pick("int")]))
            elif what == 2:
                pool["int"].append(emit(r.choice(["Min", "Max"]), [pick("int"), pick("int")]))
            elif what == 3:
                pool["int"].append(emit(r.choice(["Mod", "Div"]), [pick("int"), const(I(r.randint(1, 5)))]))
            elif what == 4:
                pool["bool"].append(emit(r.choice(["Less", "LessOrEqual", "Equal", "Greater", "GreaterOrEqual"]), [pick("int"), pick("int")]))
            elif what == 5:
                pool["bool"].append(emit(r.choice(["And", "Or"]), [pick("bool"), pick("bool")]))
            elif what == 6:
                pool["bool"].append(emit("Not", [pick("bool")]))
            elif what == 7:
                pool["int"].append(emit("Where", [pick("bool"), pick("int"), pick("int")]))
            elif what == 8:
                pool["int"].append(emit("Cast", [pick("bool")], to=TensorProto.INT64))
            elif what == 9:
                wide = emit("Expand", [pick("int"), const(I([4, 6]))])
                moved = emit("Transpose", [emit("Reshape", [wide, const(I([6, 4]))])], perm=[1, 0])
                pool["int"].append(moved)
            elif what == 10:
                wide = emit("Expand", [pick("int"), const(I([4, 6]))])
                cut = r.randint(1, 5)
                a = emit("Slice", [wide, const(I([0])), const(I([cut])), const(I([1]))])
                b = emit("Slice", [wide, const(I([cut])), const(I([6])), const(I([1]))])
                pool["int"].append(emit("Concat", [b, a], axis=1))
            elif what == 11:
                wide = emit("Expand", [pick("int"), const(I([4, 6]))])
                padded = emit("Pad", [wide, const(I([0, r.randint(0, 2), 0, r.randint(0, 2)])), const(I(r.randint(-100, 3)))])
                start = r.randint(-6, -6)
                pool["int"].append(emit("Slice", [padded, const(I([-6])), const(I([2**62])), const(I([1]))]))
            elif what == 12:
                wide = emit("Expand", [pick("int"), const(I([4, 6]))])
                index = emit("Mod", [pick("int"), const(I(6))])
                index = emit("Reshape", [emit("Slice", [emit("Reshape", [emit("Expand", [index, const(I([4, 6]))]), const(I([-1]))]),
                                                        const(I([r.randint(0, 9)])), const(I([2**62])), const(I([0])), const(I([2]))]), const(I([-1]))])
                index = emit("Slice", [emit("Concat", [index, const(I([0, 1, 2, 3, 4, 5]))], axis=0), const(I([0])), const(I([6])), const(I([0]))])
                pool["int"].append(emit("Gather", [wide, index], axis=1))
            else:
                wide = emit("Expand", [pick("int"), const(I([4, 6]))])
                pool["int"].append(emit("Slice", [wide, const(I([2**62])), const(I([-(2**62)])), const(I([r.randint(0, 1)])), const(I([-1]))]))
        condition = emit("Expand", [pick("bool"), const(I([4, 6]))])
        numbers = emit("Cast", [emit("Expand", [pick("int"), const(I([4, 6]))])], to=TensorProto.FLOAT)
        nodes.append(node("Where", [condition, "x", numbers], ["y"]))
        nodes.append(node("Identity", [condition], ["z"]))
        case(f"chain-{seed}", nodes, {"m": ids(4, 4, 6, low=-1), "x": data(4, 6)}, consts, outputs=("y", "z"))


def view_chains(count):
    """Random views of a float tensor between operations that take them: how reshapes, transposes, slices and broadcasts are joined."""
    for seed in range(count):
        r = random.Random(seed)
        nodes, consts = [], {}
        n = 0

        def name():
            nonlocal n
            n += 1
            return f"v{n}"

        def const(value):
            k = name()
            consts[k] = I(value)
            return k

        def emit(op, inputs, **attributes):
            out = name()
            nodes.append(node(op, inputs, [out], **attributes))
            return out

        shape = tuple(r.randint(1, 4) for _ in range(r.randint(1, 4)))
        x, value = data(*shape), "x"

        def split(count):
            """A random factorization of a number of elements."""
            sizes = []
            for factor in (2, 2, 3, 2, 3, 4):
                if count % factor == 0 and r.random() < 0.6:
                    sizes.append(factor)
                    count //= factor
            sizes.append(count)
            sizes += [1] * r.randint(0, 2)
            r.shuffle(sizes)
            return sizes

        for _ in range(r.randint(3, 10)):
            rank, elements = len(shape), int(np.prod(shape))
            what = r.randint(0, 10)
            axis = r.randrange(rank) if rank else 0
            if what <= 1:
                shape = tuple(split(elements))
                value = emit("Reshape", [value, const(shape)])
            elif what <= 3 and rank:
                order = list(range(rank))
                r.shuffle(order)
                shape = tuple(shape[i] for i in order)
                value = emit("Transpose", [value], perm=order)
            elif what == 4 and rank:
                start, step = r.randrange(shape[axis]), r.randint(1, 2)
                length = len(range(start, shape[axis], step))
                shape = shape[:axis] + (length,) + shape[axis + 1 :]
                value = emit("Slice", [value, const([start]), const([2**62]), const([axis]), const([step])])
            elif what == 5 and rank and elements < 200:
                value = emit("Concat", [value, emit("Neg", [value])], axis=axis)
                shape = shape[:axis] + (2 * shape[axis],) + shape[axis + 1 :]
            elif what == 6 and elements < 200:
                shape = (r.randint(1, 3),) + tuple(s if s != 1 else r.randint(1, 3) for s in shape)
                value = emit("Expand", [value, const(shape)])
            elif what == 7 and rank < 5:
                at = r.randint(0, rank)
                shape = shape[:at] + (1,) + shape[at:]
                value = emit("Unsqueeze", [value, const([at])])
            elif what == 8 and rank:
                value = emit("ReduceMean", [value, const([axis])], keepdims=1)
                shape = shape[:axis] + (1,) + shape[axis + 1 :]
            elif what == 9 and rank >= 2:
                other = emit("Transpose", [value], perm=list(range(rank - 2)) + [rank - 1, rank - 2])
                value = emit("Tanh", [emit("MatMul", [value, other])])
                shape = shape[:-1] + (shape[-2],)
            elif what == 10 and rank:
                table = emit("Reshape", ["w", const([5] + [1] * rank)])
                start = r.randint(0, 3)
                table = emit("Slice", [table, const([start]), const([start + 2]), const([0])])
                value = emit("Mul", [value, table])
                shape = (2,) + shape
        nodes.append(node("Identity", [value], ["y"]))
        case(f"view-{seed}", nodes, {"x": x, "w": data(5)}, consts)


def extremes():
    """Where a formula overflows on the way to a finite result. Data of its own: the numbers of the others stay."""
    far = F([-100, -90, -20, -1e-6, 0, 1e-6, 20, 90, 100])
    for op in ["Softplus", "Elu", "Selu", "Mish", "HardSwish", "HardSigmoid", "Softsign", "Sigmoid", "Tanh", "Gelu"]:
        case(op + "-far", node(op, "x"), {"x": far})
    case("Elu-alpha", node("Elu", "x", alpha=0.3), {"x": far})
    case("Selu-alpha", node("Selu", "x", alpha=0.3, gamma=2.0), {"x": far})
    case("Celu", node("Celu", "x"), {"x": far})
    case("Celu-alpha", node("Celu", "x", alpha=2.5), {"x": far})
    case("LogSoftmax-far", node("LogSoftmax", "x"), {"x": far})
    rows = F([[1, 2, 3], [1, np.inf, 2], [np.nan, 1, 2], [1e38, 3e38, -3e38], [-np.inf, 1, 2]])
    case("ReduceLogSumExp-inf", node("ReduceLogSumExp", "xa", keepdims=0), {"x": rows}, {"a": I([1])})
    # The same as torch.logsumexp; onnxruntime gives NaN.
    case("ReduceLogSumExp-none", node("ReduceLogSumExp", "xa", keepdims=0), {"x": F([[-np.inf, -np.inf]])}, {"a": I([1])})
    cases[-1]["outputs"]["y"]["data"] = ["-inf"]


def main():
    elementwise()
    views()
    constants()
    gathers()
    reductions()
    matrices()
    norms()
    attentions()
    losses()
    chains(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    view_chains(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    einsums()
    extremes()
    with open("operators.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
