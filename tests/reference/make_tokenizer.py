"""Byte-level BPE (2048 ids including specials, one digit per token) and chat template for the tiny models."""
import argparse
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer
from make_corpus import to_text

VOCABULARY = 2048
# in id order: the last ids of the vocabulary; True = special (left out of decoded text)
ADDED = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True, "<think>": False, "</think>": False, "<|mask|>": True}
PATTERN = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*\n+|\s+(?!\S)|\s+"
TEMPLATE = """{%- for m in messages %}
{%- set c = m.content if m.content is string else '' %}
{%- if m.role == 'assistant' and '</think>' in c %}{%- set c = c.split('</think>')[-1].lstrip('\\n') %}{%- endif %}
{{- '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- else %}
{{- '<think>\\n' }}
{%- endif %}
{%- endif %}
"""
CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
          "mask_token": "<|mask|>", "bos_token": None, "add_bos_token": False, "clean_up_tokenization_spaces": False,
          "model_max_length": 4096}


def texts(docs):
    for doc in docs:
        yield from (m["content"] for m in doc["messages"])
        yield doc["reply"]
        if doc["think"]:
            yield doc["think"]


def train(docs):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - len(ADDED), special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(docs), trainer)
    for text, special in ADDED.items():
        token = AddedToken(text, special=special, normalized=False)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def check(folder, docs):
    """Documents survive encode and decode, and the template renders what the corpus calls a prompt."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for doc in docs:
        prompt, reply = to_text(doc)
        ids = tokenizer.encode(prompt + reply, add_special_tokens=False)
        assert tokenizer.decode(ids, skip_special_tokens=False) == prompt + reply
        rendered = tokenizer.apply_chat_template(doc["messages"], tokenize=False, add_generation_prompt=True,
                                                 enable_thinking=doc["think"] is not None)
        assert rendered == prompt, (rendered, prompt)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=pathlib.Path, help="output folder of make_corpus.py")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    docs = [json.loads(line) for line in (args.data / "train.jsonl").open()]
    args.out.mkdir(parents=True, exist_ok=True)
    train(docs).save(str(args.out / "tokenizer.json"))
    (args.out / "tokenizer_config.json").write_text(json.dumps(CONFIG, indent=1))
    (args.out / "chat_template.jinja").write_text(TEMPLATE)
    check(args.out, docs[:500])


if __name__ == "__main__":
    main()
