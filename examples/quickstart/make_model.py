#!/usr/bin/env python3
"""Makes quickstart's model: a byte-level GPT-2 of 1.5 million parameters, without weights; or one of another size.

    pip install torch transformers onnx onnxscript
    python make_model.py gpt-bytes.onnx
    python make_model.py ../weight-flow/gpt-20m.onnx --vocabulary=1024 --width=448 --layers=8 --heads=7
    python make_model.py llama.onnx --family=llama --vocabulary=1024 --width=256 --layers=4 --heads=8

Those of bench/predict, packed by gzip -9n:
    gpt-5m     --vocabulary=1024 --width=320 --layers=4 --heads=5
    gpt-60m    --vocabulary=1024 --width=896 --layers=6 --heads=14
    llama-5m   --family=llama --vocabulary=1024 --width=320 --layers=4 --heads=5
    llama-60m  --family=llama --vocabulary=1024 --width=896 --layers=6 --heads=14

Only the graph is written (about 100 KB a layer): `forebay-run --init=SEED` makes the weights.
"""
import argparse

import numpy
import onnx
import torch
import transformers as hf
from torch._subclasses.fake_tensor import FakeTensorMode


def step_of(family):
    class Step(hf.LlamaForCausalLM if family == "llama" else hf.GPT2LMHeadModel):
        def forward(self, input_ids, labels):
            return super().forward(input_ids=input_ids, labels=labels, use_cache=False).loss

    return Step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    for name, default in ("vocabulary", 256), ("width", 160), ("layers", 4), ("heads", 5):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--family", choices=["gpt2", "llama"], default="gpt2")
    args = parser.parse_args()
    config = hf.LlamaConfig(
        vocab_size=args.vocabulary, hidden_size=args.width, intermediate_size=(args.width * 8 // 3 + 31) // 32 * 32, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, max_position_embeddings=256, bos_token_id=0, eos_token_id=1,
    ) if args.family == "llama" else hf.GPT2Config(
        vocab_size=args.vocabulary, n_embd=args.width, n_layer=args.layers, n_head=args.heads, n_positions=256, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=1,
    )
    with FakeTensorMode():
        model = step_of(args.family)(config).train()
        ids = torch.zeros(2, 16, dtype=torch.long)
        dims = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("seq", min=2, max=256)}
        program = torch.onnx.export(
            model, (ids, ids.clone()), input_names=["input_ids", "labels"], output_names=["loss"],
            dynamic_shapes={"input_ids": dims, "labels": dims}, dynamo=True, opset_version=23, optimize=False, verbose=False,
        )
    program.save(args.output, include_initializers=False, keep_initializers_as_inputs=True)

    # Stack traces name files of the machine that exported; nothing needs them.
    proto = onnx.load(args.output)
    # A buffer is no parameter: nothing would make its values.
    for entry in proto.graph.input:
        if entry.name.endswith("inv_freq"):
            dim = args.width // args.heads
            values = 1.0 / 10000.0 ** (numpy.arange(0, dim, 2, dtype=numpy.float32) / dim)
            kept = [i for i in proto.graph.initializer if i.name != entry.name]
            del proto.graph.initializer[:]
            proto.graph.initializer.extend(kept + [onnx.numpy_helper.from_array(values.astype(numpy.float32), entry.name)])
    keep = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.fx_node", "namespace")
    for node in proto.graph.node:
        props = [(p.key, p.value) for p in node.metadata_props if p.key in keep]
        del node.metadata_props[:]
        for key, value in props:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    onnx.save(proto, args.output)


if __name__ == "__main__":
    main()
