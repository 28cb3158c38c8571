"""What transformers computes in float32 for the trained tiny targets: prompts, taps, logits, greedy continuations."""
import json

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TARGETS = {"tiny-qwen3.5": [1, 4, 6], "tiny-qwen3": [0, 1, 2]}
PROMPTS = ("a", "c", "e")
CONTINUATION = 64


@torch.no_grad()
def greedy(model, ids):
    """CONTINUATION greedy tokens (stop tokens are not heeded) and the gap between the two best logits at each step."""
    ids, tokens, gaps = list(ids), [], []
    for _ in range(CONTINUATION):
        best = model(torch.tensor([ids]), use_cache=False).logits[0, -1].topk(2)
        tokens.append(int(best.indices[0]))
        gaps.append(float(best.values[0] - best.values[1]))
        ids.append(tokens[-1])
    return torch.tensor(tokens), torch.tensor(gaps)


@torch.no_grad()
def case(model, ids, taps):
    out = model(torch.tensor([ids]), use_cache=False, output_hidden_states=True)
    logits = out.logits[0]
    rows = torch.tensor(sorted({0, 1, len(ids) // 2, len(ids) - 2, len(ids) - 1}))
    tap_rows = torch.tensor(sorted({0, 7, len(ids) // 2, len(ids) - 1}))
    tokens, gaps = greedy(model, ids)
    return {"ids": torch.tensor(ids), "logit_rows": rows, "logits": logits[rows], "argmax": logits.argmax(-1),
            "hidden": out.hidden_states[-1][0][rows], "tap_rows": tap_rows,
            "taps": torch.stack([out.hidden_states[layer + 1][0][tap_rows] for layer in taps], 1),
            "greedy": tokens, "greedy_gap": gaps}


def make(out, models):
    """One file per target with the tensors of every prompt, named `<domain>.<tensor>`."""
    for name, taps in TARGETS.items():
        tokenizer = AutoTokenizer.from_pretrained(models / name)
        model = AutoModelForCausalLM.from_pretrained(models / name, dtype=torch.float32).eval()
        tensors = {"tap_layers": torch.tensor(taps)}
        for domain in PROMPTS:
            first = (models / "prompts" / f"prompts_{domain}.jsonl").read_text().splitlines()[0]
            message = json.loads(first)["messages"][:1]
            ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
            tensors |= {f"{domain}.{key}": t.contiguous() for key, t in case(model, ids, taps).items()}
            print(f"{name} {domain}: {len(ids)} ids, smallest greedy gap {tensors[f'{domain}.greedy_gap'].min():.4f}")
        save_file(tensors, out / f"{name}.safetensors")
