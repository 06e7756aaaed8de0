#!/usr/bin/env python3
"""Makes the cases that widen make_cases.py:  python make_more_cases.py [case ...]

Accumulation, groups and a schedule; a classifier with a parameter that nothing uses; encoders with a padding mask and with padding in
their ids; soft caps, sliding windows and 1 + w norms. Needs what make_cases.py needs.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers as hf

from casekit import CAUSAL_DIMS, IGNORE, VOCAB, Case, causal_feeds, main, perturb, tokens
from make_cases import SMALL, causal, llama_model


def llama_accumulate(name):
    return causal(
        name, "llama", perturb(llama_model(), 21), 31, opset=20, clip_norm=0.7, ignore_prefix=True, accumulate=4,
        schedule=dict(kind="cosine", warmup=3, total=10, min_ratio=0.1),
        groups=[
            dict(match="norm", weight_decay=0.0, lr_scale=0.5),
            dict(match="embed", lr_scale=0.0, weight_decay=0.1),
        ],
        note="accumulation over 4 micro-steps, cosine schedule, groups; the embedding's rate is 0",
    )


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(5, 33)
        self.b = torch.nn.Linear(33, 17, bias=False)
        self.c = torch.nn.Linear(17, 3)
        self.unused = torch.nn.Parameter(torch.ones(7))
        self.rms = torch.nn.RMSNorm(17)

    def forward(self, x, y):
        h = torch.relu(self.a(x))
        h = self.rms(torch.nn.functional.silu(self.b(h)) + h.mean(-1, keepdim=True).detach())
        return torch.nn.functional.cross_entropy(self.c(h), y) + 0.1 * torch.tanh(h).pow(2).mean()


def mlp_classifier(name):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 7, 5)).astype(np.float32)
    y = rng.integers(0, 3, (20, 7))
    torch.manual_seed(3)
    return Case(name=name, family="mlp", model=Classifier(), feeds={"x": x, "y": y}, clip_norm=0.3,
                note="static shapes, detach, two losses, a parameter that nothing uses")


class MaskedLM(torch.nn.Module):
    """An encoder with its padding mask as an input."""

    def __init__(self, model):
        super().__init__()
        model.set_attn_implementation("sdpa")
        self.m = model

    def forward(self, input_ids, attention_mask, labels):
        return self.m(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss


def bert(name):
    steps = 3
    config = hf.BertConfig(
        vocab_size=VOCAB, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    ids = tokens(31, steps, 2, 32)
    rng = np.random.default_rng(5)
    mask = (np.arange(32) < rng.integers(16, 33, size=(steps, 2, 1))).astype(np.int64)
    labels = np.where((mask > 0) & (rng.random(ids.shape) < 0.3), ids, IGNORE)
    dims = {0: "batch", 1: "seq"}
    return Case(
        name=name, family="bert", model=MaskedLM(perturb(hf.BertForMaskedLM(config), 4)),
        feeds={"input_ids": ids, "attention_mask": mask, "labels": labels},
        dynamic={"input_ids": dims, "attention_mask": dims, "labels": dims}, note="encoder, padding mask, exact GELU",
    )


def gemma2(name):
    config = hf.Gemma2Config(**SMALL, head_dim=12, pad_token_id=0, query_pre_attn_scalar=20, sliding_window=8)
    case = causal(name, "gemma2", perturb(hf.Gemma2ForCausalLM(config), 4), 31, opset=18, attention="eager",
                  note="1 + w norms, GeGLU, soft caps, alternating sliding window, eager attention")
    case.feeds = causal_feeds(31, micro_steps=3)
    return case


def roberta(name):
    """Padding tokens in the ids: positions are counted from them, and neither the token's nor the position's padding row gets a gradient."""
    steps, pad = 4, 1
    config = hf.RobertaConfig(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=2, pad_token_id=pad,
        max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    rng = np.random.default_rng(6)
    mask = (np.arange(24) < rng.integers(8, 25, size=(steps, 2, 1))).astype(np.int64)
    ids = np.where(mask > 0, tokens(33, steps, 2, 24), pad)
    labels = np.where(rng.random(ids.shape) < 0.3, ids, IGNORE)  # of padding as well
    dims = {0: "batch", 1: "seq"}
    return Case(
        name=name, family="roberta", model=MaskedLM(perturb(hf.RobertaForMaskedLM(config), 4)),
        feeds={"input_ids": ids, "attention_mask": mask, "labels": labels},
        dynamic={"input_ids": dims, "attention_mask": dims, "labels": dims},
        note="positions counted from the ids, embeddings with padding_idx and padding in the ids",
    )


CASES = {
    "llama-accumulate": llama_accumulate,
    "mlp-classifier": mlp_classifier,
    "bert": bert,
    "gemma2-opset18": gemma2,
    "roberta": roberta,
}

if __name__ == "__main__":
    sys.exit(main(CASES, Path(__file__).parent, sys.argv[1:]))
