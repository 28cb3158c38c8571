#!/usr/bin/env python3
"""What the server tells systemd, and what signals do.

    signals.py FORKCAST BUNDLE
"""

import http.client
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import time

from fleet import Replica, chat, get, metric


def main():
    program, bundle = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "notify")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(path)
        listener.settimeout(30)
        env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1500000"}
        server = Replica(program, bundle, env=env)
        try:
            notified(server, listener)
        finally:
            if server.process.poll() is None:
                server.process.kill()
    twice(program, bundle)


def notified(server, listener):
    first = listener.recv(1000).strip()
    assert first == b"READY=1", first
    assert get(server.address, "/health")[0] == 200, "ready means that requests are taken"
    beats = [listener.recv(1000).strip() for _ in range(3)]
    assert beats == [b"WATCHDOG=1"] * 3, beats
    begin = time.monotonic()
    code = server.stop()
    took = time.monotonic() - begin
    rest = set()
    listener.settimeout(0.5)
    try:
        while True:
            rest.add(listener.recv(1000).strip())
    except TimeoutError:
        pass
    assert code == 0 and b"STOPPING=1" in rest, (code, rest)
    print(f"systemd was told READY, WATCHDOG and STOPPING; SIGTERM when idle exits with 0 after {took:.1f} s")


def twice(program, bundle):
    """The first signal lets a running answer go on, the second does not wait for anything."""
    manifest = json.loads(pathlib.Path(bundle, "manifest.json").read_text())
    # Without its end tokens the model writes on until the limit.
    bias = {str(token): -100 for token in manifest["stop_ids"]}
    for sig, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        server = Replica(program, bundle).wait_until_ready()

        def ask():
            try:
                chat(server.address, "Tell me a long story.", max_tokens=1500, logit_bias=bias)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # It is cut, however that looks.

        client = threading.Thread(target=ask)
        client.start()
        while metric(server.address, "forkcast_requests_running") < 1:
            time.sleep(0.01)
        server.process.send_signal(sig)
        while get(server.address, "/health")[0] != 503:
            time.sleep(0.01)
        running = metric(server.address, "forkcast_requests_running")
        assert running == 1 and server.process.poll() is None, "the first signal lets a running answer go on"
        begin = time.monotonic()
        server.process.send_signal(sig)
        code = server.process.wait(10)
        client.join()
        assert code == expected, code
        print(f"second {sig.name}: exit code {code} after {(time.monotonic() - begin) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
