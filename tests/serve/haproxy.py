#!/usr/bin/env python3
"""Three replicas behind real HAProxy under load: one is killed, one is drained, then all are replaced one by one.

    haproxy.py FORKCAST BUNDLE [SECONDS]

Only requests that HAProxy had given to the killed replica and that were not answered yet may fail; the drained one
must exit with 0, and the replacement must lose nothing.
"""

import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fleet import Replica, answer, chat, free_port, get

CONFIG = pathlib.Path(__file__).parents[2] / "packaging/haproxy/haproxy.cfg"
FLAGS = ["--max-queue", "8", "--threads", "1", "--busy-status", "503"]
QUESTION = "Count to five."


def main():
    program, bundle = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 20
    replicas = [Replica(program, bundle, *FLAGS) for _ in range(3)]
    balancer = None
    try:
        for replica in replicas:
            replica.wait_until_ready()
        expected = answer(chat(replicas[0].address, QUESTION)[1])
        with tempfile.TemporaryDirectory() as folder:
            balancer = Balancer(folder, replicas)
            kill_and_drain(balancer, replicas, seconds, expected)
            for i in (0, 1):
                replicas[i] = again(program, bundle, replicas[i])
            # The check has taken both in again.
            time.sleep(2)
            replace(balancer, program, bundle, replicas)
            balancer.process.terminate()
            balancer.process.wait()
    finally:
        for process in [r.process for r in replicas] + ([balancer.process] if balancer else []):
            if process.poll() is None:
                process.kill()


def again(program, bundle, replica):
    """A successor at the same address."""
    return Replica(program, bundle, *FLAGS, port=replica.port).wait_until_ready()


class Balancer:
    def __init__(self, folder, replicas):
        self.address = f"127.0.0.1:{free_port()}"
        self.log = open(folder + "/log", "w+")
        names = dict(zip(["FORKCAST_A", "FORKCAST_B", "FORKCAST_C"], [r.address for r in replicas]))
        env = {**os.environ, **names, "FORKCAST_BIND": self.address, "FORKCAST_ADMIN": folder + "/admin"}
        subprocess.run(["haproxy", "-c", "-f", CONFIG], env=env, check=True, stdout=subprocess.DEVNULL)
        self.process = subprocess.Popen(
            ["haproxy", "-db", "-f", CONFIG], env=env, stdout=self.log, stderr=subprocess.DEVNULL
        )
        self.wait()

    def wait(self):
        for _ in range(100):
            try:
                if get(self.address, "/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("HAProxy found no replica")

    def servers(self):
        """Which replica each request was given to last, as HAProxy logged it."""
        self.log.seek(0)
        return dict(re.findall(r"id=(\S+) server=(\S+)", self.log.read()))


class Load:
    """Clients that ask one after another until they are stopped."""

    def __init__(self, address, expected, **more):
        self.address, self.expected, self.more = address, expected, more
        self.results, self.lock, self.over = [], threading.Lock(), threading.Event()
        self.clients = [threading.Thread(target=self.client, args=(i,)) for i in range(6)]
        for thread in self.clients:
            thread.start()

    def client(self, number):
        i = 0
        while not self.over.is_set():
            i += 1
            name, begin = f"{id(self)}-{number}-{i}", time.monotonic()
            try:
                status, body = chat(self.address, QUESTION, name=name, stream=number % 2 == 0, **self.more)
                good = status == 200 and (self.expected is None or answer(body) == self.expected)
                outcome = "ok" if good else f"status {status}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                outcome = f"lost: {error!r}"
            with self.lock:
                self.results.append((begin, time.monotonic(), outcome, name))
            if outcome != "ok":
                time.sleep(0.05)

    def stop(self):
        self.over.set()
        for thread in self.clients:
            thread.join()
        return self.results, [r for r in self.results if r[2] != "ok"]


def kill_and_drain(balancer, replicas, seconds, expected):
    load = Load(balancer.address, expected)
    time.sleep(seconds / 3)
    killed_at = time.monotonic()
    replicas[0].process.send_signal(signal.SIGKILL)
    # Until the kernel has closed its sockets, they take requests that nobody will answer.
    replicas[0].process.wait()
    gone_at = time.monotonic()
    time.sleep(seconds / 3)
    drained = replicas[1].stop()
    drained_at = time.monotonic()
    time.sleep(seconds / 3)
    results, failed = load.stop()
    servers = balancer.servers()
    excused = [r for r in failed if r[0] <= gone_at and r[1] >= killed_at and servers[r[3]] == "a"]
    print(
        f"{len(results)} requests, {len(failed)} failed, {len(excused)} of them in flight on the killed replica "
        f"(gone {1000 * (gone_at - killed_at):.0f} ms after the signal); "
        f"{sum(r[0] > drained_at for r in results)} answered by the last one; drained replica exited with {drained}"
    )
    for begin, end, outcome, name in failed:
        times = f"{begin - killed_at:+.2f} s to {end - killed_at:+.2f} s from the kill"
        print(f"  {times}, replica {servers.get(name)}: {outcome}")
    assert drained == 0, drained
    assert failed == excused, failed
    assert {servers[r[3]] for r in results} == {"a", "b", "c"}
    assert sum(r[2] == "ok" for r in results) > 10


def replace(balancer, program, bundle, replicas):
    """Every replica is stopped without a word to HAProxy, under many short requests, and started again."""
    load = Load(balancer.address, None, max_tokens=1)
    codes = []
    for i, replica in enumerate(replicas):
        time.sleep(0.5)
        codes.append(replica.stop())
        replicas[i] = again(program, bundle, replica)
        time.sleep(1.5)
    results, failed = load.stop()
    print(f"replaced one by one: {len(results)} requests, {len(failed)} failed; exit codes {codes}")
    for result in failed[:20]:
        print(f"  replica {balancer.servers().get(result[3])}: {result[2]}")
    assert not failed and codes == [0, 0, 0]


if __name__ == "__main__":
    main()
