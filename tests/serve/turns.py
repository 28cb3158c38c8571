#!/usr/bin/env python3
"""Time to first token of a second turn, against the length of the first.

    turns.py FORKCAST BUNDLE [REPEATS]

The lengths take turns, so that whatever else the machine does falls on all of them; the best time of each counts. A
server that keeps nothing answers the same requests: the texts must be equal. The longest prompt has nine times the tokens
of the shortest. What must not grow with it is the prefill. What does are the attention of the new tokens to the kept
ones, much of the work in so small a model, and the tokenizer. Fails when a kept token costs more than a twentieth of
a computed one, or the longest two and a half times the shortest.
"""

import sys

from fleet import Replica, answer, chat

LENGTHS = (50, 200, 800)
LIMIT = 2.5
KEPT = 0.05


def conversation(words, number):
    """A first message of this length; another number is another conversation from its first word on."""
    text = f"{number}. Remember this: " + "apples and pears and plums " * (words // 5) + ". What did I say?"
    return [{"role": "user", "content": text}]


def second_turn(server, words, number):
    """Seconds from the arrival to the first token of the second turn, and the answer."""
    messages = conversation(words, number)
    first = ask(server, messages)
    content = first["choices"][0]["message"]["content"] or "yes"
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "Now say it again."}]
    second = ask(server, messages)
    return second["forkcast"]["first_token_seconds"], second


def ask(server, messages):
    status, body = chat(
        server.address, "", messages=messages, max_tokens=16, chat_template_kwargs={"enable_thinking": False}
    )
    assert status == 200, body
    return body


def cached(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


def main():
    program, bundle = sys.argv[1:3]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    warm = Replica(program, bundle).wait_until_ready()
    cold = Replica(program, bundle, "--cache-bytes", "0").wait_until_ready()
    best, last, without = {}, {}, {}
    try:
        for number in range(repeats):
            for words in LENGTHS:
                time, last[words] = second_turn(warm, words, number)
                best[words] = min(best.get(words, time), time)
                assert cached(last[words]) > words, last[words]["usage"]
        for words in LENGTHS:
            without[words], body = second_turn(cold, words, repeats - 1)
            assert answer(body) == answer(last[words]) and cached(body) == 0, (words, body, last[words])
    finally:
        warm.stop()
        cold.stop()
    for words in LENGTHS:
        print(
            f"{last[words]['usage']['prompt_tokens']} prompt tokens, {cached(last[words])} reused: "
            f"{best[words] * 1000:.1f} ms to the first token, {without[words] * 1000:.1f} ms without reuse, same text"
        )
    short, long = LENGTHS[0], LENGTHS[-1]
    ratio, cold_ratio = best[long] / best[short], without[long] / without[short]
    kept = (best[long] - best[short]) / (without[long] - without[short])
    print(
        f"longest against shortest first turn: {ratio:.2f} (best of {repeats}), without reuse {cold_ratio:.1f}; "
        f"a kept token costs {kept * 100:.1f} % of a computed one"
    )
    assert ratio < LIMIT and kept < KEPT, (ratio, kept)


if __name__ == "__main__":
    main()
