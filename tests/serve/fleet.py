"""Starts servers for tests, and asks them things. Standard library only."""

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Replica:
    """A `forkcast serve` process."""

    def __init__(self, program, bundle, *flags, env=None, port=None):
        self.port = port or free_port()
        command = [program, "serve", bundle, "--port", str(self.port), "--log-format", "json", *flags]
        # A file: a pipe that nobody reads would stop the server when it is full.
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stderr=self.errors, env={**os.environ, **(env or {})})
        self.log = []

    def said(self):
        """Everything on stderr so far."""
        self.errors.seek(0)
        return self.errors.read()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def wait_until_ready(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended: {self.said()}")
            try:
                if get(self.address, "/health")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit("the server was not ready in time")

    def stop(self, sig=signal.SIGTERM, seconds=60):
        self.process.send_signal(sig)
        self.process.wait(timeout=seconds)
        self.log = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return self.process.returncode


def get(address, path, timeout=30):
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def chat(address, text, timeout=120, name=None, **more):
    """Status and parsed body of a chat request; `stream=True` gives the list of chunks. `name` is the request's id."""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24, **more}
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        headers = {"content-type": "application/json", **({"x-request-id": name} if name else {})}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        data = reply.read().decode()
    finally:
        connection.close()
    if reply.status == 200 and more.get("stream"):
        events = [line[6:] for line in data.splitlines() if line.startswith("data: ")]
        if not events or events[-1] != "[DONE]":
            raise ConnectionError("the stream was cut: " + (events[-1] if events else ""))
        return 200, [json.loads(e) for e in events[:-1]]
    return reply.status, json.loads(data)


def answer(result):
    """Reasoning and content of an answer, whole or streamed."""
    if isinstance(result, list):
        deltas = [c["choices"][0]["delta"] for c in result if c["choices"]]
        return "".join((d.get("reasoning_content") or "") + (d.get("content") or "") for d in deltas)
    message = result["choices"][0]["message"]
    return (message.get("reasoning_content") or "") + (message["content"] or "")


def metric(address, name):
    for line in get(address, "/metrics")[1].splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    return 0.0


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
