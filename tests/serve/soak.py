#!/usr/bin/env python3
"""Overload, disconnects and shutdown of one server.

    soak.py FORKCAST BUNDLE [SECONDS]

Eight clients against a queue of four, each with its own marker; then 100 clients that hang up in the middle;
then SIGTERM under load.
"""

import http.client
import json
import pathlib
import sys
import threading
import time

from fleet import Replica, answer, chat, metric, resident_kib


def main():
    program, bundle = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    server = Replica(program, bundle, "--max-queue", "4").wait_until_ready()
    try:
        overload(server, seconds)
        disconnects(server)
        shutdown(server)
    finally:
        if server.process.poll() is None:
            server.process.kill()


def questions():
    """Eight prompts of different kinds, so that answers differ."""
    folder = pathlib.Path(__file__).parents[1] / "models/prompts"
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("prompts_[abcd].jsonl"))]
    return [json.loads(line)["messages"][0]["content"] for two in zip(*lines) for line in two][:8]


def overload(server, seconds):
    """No error but 429, every client gets the answer to its own question, memory stays flat."""
    plain = {"max_tokens": 60, "chat_template_kwargs": {"enable_thinking": False}}
    prompts = questions()
    alone = [answer(chat(server.address, p, **plain)[1]) for p in prompts]
    assert len(set(alone)) == 8, "clients get equal answers: they prove nothing"
    counts, wrong, over = {}, [], threading.Event()

    def client(number):
        i = 0
        while not over.is_set():
            i += 1
            status, body = chat(server.address, prompts[number], stream=i % 2 == 0, **plain)
            counts[status] = counts.get(status, 0) + 1
            if status == 200 and answer(body) != alone[number]:
                wrong.append((number, answer(body)))
            if status == 429:
                time.sleep(0.05)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    middle = resident_kib(server.process.pid)
    time.sleep(seconds / 2)
    end = resident_kib(server.process.pid)
    over.set()
    for thread in threads:
        thread.join()
    print(f"overload, {seconds:.0f} s: {counts}, resident {middle} KiB in the middle, {end} KiB at the end")
    assert set(counts) <= {200, 429} and counts.get(429), counts
    assert not wrong, wrong[:3]
    assert end < middle * 1.03 + 2048, (middle, end)


def disconnects(server):
    worst = 0.0
    for _ in range(100):
        connection = http.client.HTTPConnection(server.address, timeout=60)
        body = {"messages": [{"role": "user", "content": "Tell me a long story."}], "stream": True, "max_tokens": 2000}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 200, reply.status
        reply.readline()
        reply.readline()
        reply.readline()
        connection.sock.close()
        reply.close()
        begin = time.monotonic()
        while metric(server.address, "forkcast_requests_running") > 0:
            assert time.monotonic() - begin < 10
        worst = max(worst, time.monotonic() - begin)
    cancelled = metric(server.address, 'forkcast_requests_total{outcome="cancelled"}')
    print(f"100 disconnects: the stream was free after at most {worst * 1000:.0f} ms, {cancelled:.0f} counted as cancelled")


def shutdown(server):
    results = []

    def client():
        try:
            results.append(chat(server.address, "Count to twenty.", max_tokens=200)[0])
        except OSError as error:
            results.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(5)]
    for thread in threads:
        thread.start()
    while metric(server.address, "forkcast_requests_waiting") < 4 and any(t.is_alive() for t in threads):
        time.sleep(0.005)
    code = server.stop()
    for thread in threads:
        thread.join()
    print(f"SIGTERM under load: exit code {code}, answers {results}")
    assert code == 0 and results == [200] * 5, (code, results)
    lines = [line for line in server.log if line["target"] == "forkcast::request"]
    ids = [line["request_id"] for line in lines]
    assert len(ids) == len(set(ids)) and all(line["finish_reason"] for line in lines)
    print(f"{len(lines)} log lines, one a request")


if __name__ == "__main__":
    main()
