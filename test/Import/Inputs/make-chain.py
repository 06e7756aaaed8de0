#!/usr/bin/env python3
"""Prints a graph, as text, whose nodes form one long chain.

usage: make-chain.py KIND LENGTH
"""
import sys

# Operands of a node: v is the value before, m a fed [4] of integers, x a fed [4] of floats, r positions, c a condition.
KINDS = {
    "Identity": ("x", ["v"]),
    "Neg": ("x", ["v"]),
    "Sin": ("f", ["v"]),  # of positions: no feed at all
    "Add": ("m", ["v", "m"]),
    "Mul": ("m", ["v", "m"]),
    "Mod": ("m", ["m", "v"]),
    "Min": ("m", ["v", "w"]),
    "Not": ("c", ["v"]),
    "Xor": ("c", ["v", "d"]),
    "Where": ("m", ["c", "m", "v"]),
    "CumSum": ("m", ["v", "zero"]),
    "And": ("c", None),  # of as many comparisons
}
kind, length = sys.argv[1], int(sys.argv[2])
start, operands = KINDS[kind]


def node(op, inputs, output, attribute=""):
    print(f'node {{ op_type: "{op}"', *(f'input: "{i}"' for i in inputs), f'output: "{output}" {attribute} }}')


def constant(name, value):
    node("Constant", [], name, f'attribute {{ name: "value_int" type: INT i: {value} }}')


print('ir_version: 10 opset_import { version: 20 } graph { name: "g"')
for name, code in ("m", 7), ("w", 7), ("x", 1):
    print(f'input {{ name: "{name}" type {{ tensor_type {{ elem_type: {code} shape {{ dim {{ dim_value: 4 }} }} }} }} }}')
constant("zero", 0)
constant("one", 1)
constant("many", 100000)
node("Range", ["zero", "many", "one"], "r")
node("Cast", ["r"], "f", 'attribute { name: "to" type: INT i: 1 }')
node("Less", ["m", "zero"], "c")
node("Less", ["w", "zero"], "d")
before = start
for i in range(length):
    if kind == "And":
        constant(f"k{i}", i)
        node("Less", ["m", f"k{i}"], f"l{i}")
    node(kind, [before if o == "v" else o for o in operands or ["v", f"l{i}"]], f"v{i}")
    before = f"v{i}"
print(f'output {{ name: "{before}" }} }}')
