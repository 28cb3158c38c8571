"""Train a tiny target from random initialisation: `qwen3.5` (hybrid) or `qwen3` (dense).

Loss: cross-entropy, reply tokens weigh 1, prompt tokens 0.2. Optimiser: Muon for the matrices, AdamW for the rest.
Training stops by process CPU time.
"""
import argparse
import copy
import math
import pathlib
import random
import shutil
import time

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer, GenerationConfig, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM
from optim import Muon, split_params
from packing import LENGTH, load_docs, pack
from tinynet import forward_target

BATCH, ADAM_RATE, VALIDATION_DOCS, VALIDATION_ROWS = 4, 3e-3, 300, 48
COMMON = dict(vocab_size=2048, hidden_size=192, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
              tie_word_embeddings=True, max_position_embeddings=4096, eos_token_id=2042, bos_token_id=None, pad_token_id=None)


def make_model(kind):
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(intermediate_size=512, num_hidden_layers=4, rope_parameters=rope, **COMMON))
    rope.update(partial_rotary_factor=0.25, mrope_section=[3, 3, 2], mrope_interleaved=True)
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(
        intermediate_size=384, num_hidden_layers=8, linear_key_head_dim=64, linear_value_head_dim=64, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_conv_kernel_dim=4, rope_parameters=rope,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 2, **COMMON))


def save(model, tokenizer_folder, out):
    rounded = copy.deepcopy(model).to(torch.bfloat16)
    rounded.generation_config = GenerationConfig(eos_token_id=[2044, 2042], pad_token_id=2042, do_sample=True,
                                                 temperature=0.7, top_p=0.8, top_k=20)
    rounded.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokenizer_folder / name, out / name)


def cross_entropy(params, cfg, rows):
    logits, _ = forward_target(params, cfg, rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="none")


@torch.no_grad()
def evaluate(params, cfg, ids, weight):
    """Mean loss per reply token."""
    total = count = 0.0
    for i in range(0, len(ids), BATCH):
        reply = (weight[i:i + BATCH, 1:].flatten() == 1.0).float()
        total += (cross_entropy(params, cfg, ids[i:i + BATCH]) * reply).sum().item()
        count += reply.sum().item()
    return total / count


def rows_forever(docs, rng):
    while True:
        ids, weight = pack(docs, rng)
        for i in range(0, len(ids) - BATCH + 1, BATCH):
            yield ids[i:i + BATCH], weight[i:i + BATCH]


def train(args, model, docs, held):
    cfg, params = model.config, dict(model.named_parameters())
    matrices, rest = split_params(params.items())
    muon = Muon(matrices, lr=6e-3)
    adam = torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.97), weight_decay=0.0)
    start, reported = time.process_time(), 0.0
    for step, (ids, weight) in enumerate(rows_forever(docs, random.Random(0))):
        cpu = time.process_time() - start
        spent = cpu / args.cpu_seconds
        if spent >= 1 or step == args.max_steps:
            return step
        scale = min(1.0, (step + 1) / 60) * (1.0 if spent < 0.5 else max(0.02, (1 - spent) / 0.5))
        w = weight[:, 1:].flatten()
        loss = (cross_entropy(params, cfg, ids) * w).sum() / w.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for group in adam.param_groups:
            group["lr"] = ADAM_RATE * scale
        muon.step(scale, min(0.95, 0.85 + 0.1 * step / 200))
        adam.step()
        for p in params.values():
            p.grad = None
        if cpu - reported > 120:
            reported = cpu
            print(f"cpu {cpu:.0f} step {step} loss {loss.item():.4f} held-out reply loss {evaluate(params, cfg, *held):.4f}", flush=True)
            save(model, args.tokenizer, args.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("qwen3.5", "qwen3"))
    parser.add_argument("data", type=pathlib.Path, help="output folder of make_corpus.py")
    parser.add_argument("tokenizer", type=pathlib.Path, help="output folder of make_tokenizer.py")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cpu-seconds", type=float, default=3600)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    docs = load_docs(args.data, AutoTokenizer.from_pretrained(args.tokenizer))
    ids, weight = pack(docs[:VALIDATION_DOCS], random.Random(5))
    held = ids[:VALIDATION_ROWS], weight[:VALIDATION_ROWS]
    model = make_model(args.kind)
    with torch.no_grad():
        ours, _ = forward_target(dict(model.named_parameters()), model.config, ids[:2, :LENGTH])
        print("max |logit difference| to transformers", (model(ids[:2, :LENGTH]).logits - ours).abs().max().item())
    steps = train(args, model, docs[VALIDATION_DOCS:], held)
    save(model, args.tokenizer, args.out)
    saved = type(model).from_pretrained(args.out, dtype=torch.float32)
    loss = evaluate(dict(saved.named_parameters()), saved.config, *held)
    print(f"done: steps {steps} held-out reply loss after bf16 rounding {loss:.4f} (perplexity {math.exp(loss):.3f})")


if __name__ == "__main__":
    main()
