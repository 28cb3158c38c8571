#!/usr/bin/env python3
"""2,000 requests against one server process: lengths, temperatures, routes and cancellations mixed.

    soak.py FORKCAST BUNDLE [REQUESTS]

Every whole answer must equal a cold run of the same request: another process, plain decoding, no kept states. Memory of the
process must be flat over the second half, and no descriptor may stay open. Prints one JSON object with what it saw.
"""

import http.client
import json
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "serve"))
from fleet import Replica, metric, resident_kib  # noqa: E402

CLIENTS = 4
KINDS = 150


def kinds():
    """Requests of mixed shape; the same list every time."""
    dice = random.Random(2000)
    folder = pathlib.Path(__file__).parents[1] / "models/prompts"
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    texts = [m["content"] for line in lines for m in json.loads(line)["messages"] if m["role"] == "user"]
    for number in range(KINDS):
        text = " ".join(dice.choices(texts, k=dice.choice([1, 1, 1, 2, 5, 12])))
        body = {
            "max_tokens": dice.choice([1, 2, 7, 20, 40, 80, 160]),
            "temperature": dice.choice([0, 0, 0.6, 1.0, 1.5]),
            "seed": number,
        }
        if dice.random() < 0.3:
            body["top_p"] = 0.9
            body["top_k"] = 20
        if dice.random() < 0.2:
            body["stop"] = [dice.choice(["the", ".", "\n\n", "ing "])]
        if dice.random() < 0.1:
            body["repetition_penalty"] = 1.2
        if dice.random() < 0.25:
            yield "/v1/completions", {**body, "prompt": text}
        else:
            earlier = [{"role": "user", "content": dice.choice(texts)}, {"role": "assistant", "content": "Yes."}]
            turns = dice.choice([0, 0, 1, 3]) * earlier
            thinking = {"chat_template_kwargs": {"enable_thinking": dice.random() < 0.5}}
            yield "/v1/chat/completions", {**body, **thinking, "messages": [*turns, {"role": "user", "content": text}]}


def ask(address, path, body, stream):
    """The answer without times, or raises."""
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        text = json.dumps({**body, "stream": stream})
        connection.request("POST", path, text, {"content-type": "application/json"})
        reply = connection.getresponse()
        data = reply.read().decode()
    finally:
        connection.close()
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {data}")
    if not stream:
        choice = json.loads(data)["choices"][0]
        message = choice.get("message") or {}
        return message.get("reasoning_content") or "", message.get("content") or choice.get("text") or "", choice["finish_reason"]
    events = [line[6:] for line in data.splitlines() if line.startswith("data: ")]
    if events[-1] != "[DONE]":
        raise RuntimeError(f"the stream was cut: {events[-1]}")
    reasoning, content, reason = "", "", None
    for event in events[:-1]:
        for choice in json.loads(event)["choices"]:
            delta = choice.get("delta") or {}
            reasoning += delta.get("reasoning_content") or ""
            content += delta.get("content") or choice.get("text") or ""
            reason = choice["finish_reason"] or reason
    return reasoning, content, reason


def hang_up(address, path, body, dice):
    """Asks for a stream and closes after some bytes of it."""
    connection = http.client.HTTPConnection(address, timeout=120)
    text = json.dumps({**body, "stream": True})
    connection.request("POST", path, text, {"content-type": "application/json"})
    if dice.random() < 0.7:
        reply = connection.getresponse()
        reply.read(dice.choice([1, 200, 1000]))
    connection.close()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def main():
    program, bundle = sys.argv[1:3]
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    listed = list(kinds())
    begin = time.monotonic()
    cold = Replica(program, bundle, "--method", "plain", "--cache-bytes", "0").wait_until_ready()
    expected = [ask(cold.address, path, body, False) for path, body in listed]
    assert cold.stop() == 0
    cold_seconds = time.monotonic() - begin

    server = Replica(program, bundle, "--budget", "24", "--cache-bytes", "33554432").wait_until_ready()
    pid = server.process.pid
    lock, counts, wrong, memory = threading.Lock(), {"whole": 0, "streamed": 0, "hung up": 0}, [], []
    numbers = iter(range(requests))
    fds = descriptors(pid)
    begin = time.monotonic()

    def client(seed):
        dice = random.Random(seed)
        while True:
            with lock:
                number = next(numbers, None)
                if number is None:
                    return
                if number % 50 == 0:
                    memory.append(resident_kib(pid))
            kind = dice.randrange(KINDS)
            path, body = listed[kind]
            way = dice.choices(["whole", "streamed", "hung up"], [4, 4, 2])[0]
            try:
                if way == "hung up":
                    hang_up(server.address, path, body, dice)
                else:
                    found = ask(server.address, path, body, way == "streamed")
                    if found != expected[kind]:
                        wrong.append((kind, expected[kind], found))
            except Exception as error:
                wrong.append((kind, repr(error)))
            with lock:
                counts[way] += 1

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    end = time.monotonic() + 20
    while metric(server.address, "forkcast_requests_running") > 0 or descriptors(pid) > fds + 1:
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    memory.append(resident_kib(pid))
    left = descriptors(pid)
    cancelled = metric(server.address, 'forkcast_requests_total{outcome="cancelled"}')
    code = server.stop()
    half = memory[len(memory) // 2]
    print(
        json.dumps(
            {
                "requests": requests,
                "ways": counts,
                "cancelled_counted": int(cancelled),
                "different_from_cold_or_failed": len(wrong),
                "seconds": round(seconds, 1),
                "cold_seconds": round(cold_seconds, 1),
                "resident_kib": {"first": memory[0], "after_a_half": half, "last": memory[-1], "most": max(memory)},
                "descriptors": {"before": fds, "after": left},
                "exit_code": code,
            }
        )
    )
    assert not wrong, wrong[:3]
    assert memory[-1] < half * 1.03 + 2048, memory
    assert left <= fds + 1, (fds, left)
    assert code == 0


if __name__ == "__main__":
    main()
