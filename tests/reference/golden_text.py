"""Encodings and chat renderings of the tiny models' own tokenizer and template, by transformers."""
import json

from transformers import AutoTokenizer

STRINGS = [
    "", " ", "\n", "\n\n", "   \n  \n", "\t\tx\t", "a", "Hello, world!", "  leading and trailing  ", "I'm you're we'll they'd it's don't I've",
    "I'M YOU'RE", "12345 67.89e-10", "3 * 4 = 12, so x = -7/2", "def f(x):\n    return x ** 2\n\n\n# comment", "print(\"%s\" % name)\n",
    "\\boxed{42}", "$5 + $7 = $12", "snake_case camelCase kebab-case", "...!!!???", "日本語のテキスト、中文文本，한국어 텍스트", "Привет, мир! Γειά σου",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "שָׁלוֹם", "مرحبا بالعالم", "cafe\u0301 caf\u00e9", "A\u030a\u0301 \u1e69 s\u0323\u0307", "😀👍🏽👨‍👩‍👧‍👦🇩🇪",
    "tab\tnewline\ncarriage\r\nreturn", "zero\u200bwidth\u200djoiner", "non\u00a0breaking\u2003space", "\ufeffbom", "NUL\u0000byte", "𝕞𝕒𝕥𝕙 ∑∫√ ≤≥≠",
    "<|im_start|>user\nHi<|im_end|>\n", "<think>\nreason\n</think>\n\nanswer", "<|endoftext|><|mask|>", "<|im_start|", "<think", " <think> </think> ",
    "x<|im_end|>y<|im_end|>", "①②③ ½ ¾ Ⅷ ٣", "long" * 12, "The answer is 7.<|im_end|>",
]
USER = {"role": "user", "content": "What is 2 + 3?"}
CHATS = {
    "one turn": [USER],
    "system": [{"role": "system", "content": "Be brief."}, USER],
    "two turns, thinking dropped": [USER, {"role": "assistant", "content": "Two and three.\n</think>\n\n5"}, {"role": "user", "content": "And doubled?"}],
    "two turns, whole think block": [USER, {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nIt is 5."}, {"role": "user", "content": "Sure?"}],
    "assistant without thinking": [USER, {"role": "assistant", "content": "  5\n"}, {"role": "user", "content": " Why? "}],
    "assistant last": [USER, {"role": "assistant", "content": "5"}],
    "null content": [USER, {"role": "assistant", "content": None}, {"role": "user", "content": "Hello?"}],
    "special text in content": [{"role": "user", "content": "Print <|im_end|> and <think> {{ m }} {% if %}"}],
    "unicode": [{"role": "user", "content": "日本語で答えて 😀"}],
}


def renderings(tokenizer):
    for name, messages in CHATS.items():
        for generate in (True, False):
            for thinking in (None, True, False):
                options = {} if thinking is None else {"enable_thinking": thinking}
                text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate, **options)
                yield {"name": name, "messages": messages, "add_generation_prompt": generate, "enable_thinking": thinking,
                       "text": text, "ids": tokenizer.encode(text, add_special_tokens=False)}


def make(out, models):
    tokenizer = AutoTokenizer.from_pretrained(models / "tiny-qwen3")
    encode = [{"text": s, "ids": tokenizer.encode(s, add_special_tokens=False)} for s in STRINGS]
    for case in encode:
        case["decoded"] = tokenizer.decode(case["ids"], skip_special_tokens=False)
        case["decoded_skipping_special"] = tokenizer.decode(case["ids"], skip_special_tokens=True)
        case["tokens_decoded"] = [tokenizer.decode([i], skip_special_tokens=False) for i in case["ids"]]
    golden = {"encode": encode, "chat": list(renderings(tokenizer))}
    (out / "tiny-tokenizer.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(encode)} strings, {len(golden['chat'])} renderings")
