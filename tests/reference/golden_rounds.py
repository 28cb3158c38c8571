"""Accepted lengths of every round at T = 0 on one prompt per domain, by loop.py."""
import json

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from loop import MAX_NEW, accepted_lengths, greedy_reply
from slow_drafter import SlowDrafter
from trees import best_first, chain

PAIRS = {"tiny-qwen3.5": ["tiny-qwen3.5-dflash", "tiny-qwen3.5-mfd"], "tiny-qwen3": ["tiny-qwen3-dflash", "tiny-qwen3-mdraft"]}
BUDGETS = (1, 15, 64, 256)


def methods(drafter):
    """(method, budget) -> tree builder, as the runtime names them; a drafter with modes also runs ddtree on mode 0."""
    builders = {("chain", 15): chain} | {("ddtree", b): lambda q, b=b: best_first(q[:1], b) for b in BUDGETS}
    if len(drafter.mode_embed) > 1:
        builders |= {("mfd", b): lambda q, b=b: best_first(q, b) for b in BUDGETS}
    return builders


def case(model, tokenizer, drafters, domain, message):
    prompt = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=False)
    reply = greedy_reply(model, prompt)
    embedding = model.get_input_embeddings().weight.detach()
    rounds = [{"drafter": name, "method": method, "budget": budget, "accepted_lengths": accepted_lengths(reply, drafter, embedding, build)}
              for name, drafter in drafters.items() for (method, budget), build in methods(drafter).items()]
    return {"domain": domain, "message": message, "prompt_ids": prompt, "token_ids": reply.ids[len(prompt):][:MAX_NEW], "rounds": rounds}


def make(out, models):
    """rounds.json: per target and domain the greedy reply and, per drafter, method and budget, the accepted lengths."""
    golden = {}
    for target, names in PAIRS.items():
        tokenizer = AutoTokenizer.from_pretrained(models / target)
        model = AutoModelForCausalLM.from_pretrained(models / target, dtype=torch.float32).eval()
        drafters = {name: SlowDrafter(models / name) for name in names if (models / name).exists()}
        golden[target] = []
        for domain in "abcde":
            first = (models / "prompts" / f"prompts_{domain}.jsonl").read_text().splitlines()[0]
            golden[target].append(case(model, tokenizer, drafters, domain, json.loads(first)["messages"][0]))
    (out / "rounds.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    print("rounds", sum(len(c["rounds"]) for cases in golden.values() for c in cases))
