#!/usr/bin/env python3
"""Makes quickstart's model: a byte-level GPT-2 of 1.5 million parameters, without weights; or one of another size.

    pip install torch transformers onnx onnxscript
    python make_model.py gpt-bytes.onnx
    python make_model.py ../weight-flow/gpt-20m.onnx --vocabulary=1024 --width=448 --layers=8 --heads=7

Only the graph is written (about 100 KB a layer): `forebay-run --init=SEED` makes the weights.
"""
import argparse

import onnx
import torch
import transformers as hf
from torch._subclasses.fake_tensor import FakeTensorMode


class Step(hf.GPT2LMHeadModel):
    def forward(self, input_ids, labels):
        return super().forward(input_ids=input_ids, labels=labels, use_cache=False).loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    for name, default in ("vocabulary", 256), ("width", 160), ("layers", 4), ("heads", 5):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    config = hf.GPT2Config(
        vocab_size=args.vocabulary, n_embd=args.width, n_layer=args.layers, n_head=args.heads, n_positions=256, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=1,
    )
    with FakeTensorMode():
        model = Step(config).train()
        ids = torch.zeros(2, 16, dtype=torch.long)
        dims = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("seq", min=2, max=256)}
        program = torch.onnx.export(
            model, (ids, ids.clone()), input_names=["input_ids", "labels"], output_names=["loss"],
            dynamic_shapes={"input_ids": dims, "labels": dims}, dynamo=True, opset_version=23, optimize=False, verbose=False,
        )
    program.save(args.output, include_initializers=False, keep_initializers_as_inputs=True)

    # Stack traces name files of the machine that exported; nothing needs them.
    proto = onnx.load(args.output)
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
