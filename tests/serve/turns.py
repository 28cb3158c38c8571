#!/usr/bin/env python3
"""Time to first token of a second turn, against the length of the first.

    turns.py FORKCAST BUNDLE

Prints a line per length: the second turn with the state of the first, and the same request on a server that
keeps nothing. The texts must be equal, and the warm time must not grow with the length.
"""

import statistics
import sys

from fleet import Replica, answer, chat

REPEATS = 5


def conversation(words):
    first = "Remember this: " + "apples and pears and plums " * (words // 5) + ". What did I say?"
    return [{"role": "user", "content": first}]


def second_turn(server, words):
    """Median seconds to the first token of the second turn, its text, and its cached and prompt tokens."""
    times = []
    for i in range(REPEATS):
        # A different first message each time: nothing but this conversation is reused.
        messages = conversation(words)
        messages[0]["content"] = f"{i}. " + messages[0]["content"]
        first = ask(server, messages)
        content = first["choices"][0]["message"]["content"] or "yes"
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "Now say it again."}]
        second = ask(server, messages)
        made = second["forkcast"]
        times.append(made["first_token_seconds"] - made["queue_seconds"])
    usage = second["usage"]
    return statistics.median(times), answer(second), usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def ask(server, messages):
    status, body = chat(
        server.address, "", messages=messages, max_tokens=16, chat_template_kwargs={"enable_thinking": False}
    )
    assert status == 200, body
    return body


def main():
    program, bundle = sys.argv[1:3]
    warm = Replica(program, bundle).wait_until_ready()
    cold = Replica(program, bundle, "--cache-bytes", "0").wait_until_ready()
    try:
        rows = []
        for words in (50, 200, 800):
            time, text, cached, prompt = second_turn(warm, words)
            cold_time, cold_text, nothing, _ = second_turn(cold, words)
            assert text == cold_text and nothing == 0 and cached > words, (text, cold_text, cached)
            rows.append(time)
            print(
                f"{prompt} prompt tokens, {cached} reused: {time * 1000:.1f} ms to the first token, "
                f"{cold_time * 1000:.1f} ms without reuse (ratio {time / cold_time:.3f})"
            )
        print(f"longest against shortest first turn: {rows[-1] / rows[0]:.2f}")
    finally:
        warm.stop()
        cold.stop()


if __name__ == "__main__":
    main()
