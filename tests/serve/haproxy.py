#!/usr/bin/env python3
"""Three replicas behind real HAProxy under load; one is killed, one is drained.

    haproxy.py FORKCAST BUNDLE [SECONDS]

Only requests that were in flight on the killed replica may fail; the drained one must exit with 0.
"""

import http.client
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fleet import Replica, answer, chat, free_port, get

CONFIG = pathlib.Path(__file__).parents[2] / "packaging/haproxy/haproxy.cfg"


def main():
    program, bundle = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 20
    replicas = [Replica(program, bundle, "--max-queue", "8", "--threads", "1", "--busy-status", "503") for _ in range(3)]
    for replica in replicas:
        replica.wait_until_ready()
    address = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        names = dict(zip(["FORKCAST_A", "FORKCAST_B", "FORKCAST_C"], [r.address for r in replicas]))
        env = {**os.environ, **names, "FORKCAST_BIND": address, "FORKCAST_ADMIN": folder + "/admin"}
        subprocess.run(["haproxy", "-c", "-f", CONFIG], env=env, check=True, stdout=subprocess.DEVNULL)
        balancer = subprocess.Popen(["haproxy", "-db", "-f", CONFIG], env=env, stderr=subprocess.DEVNULL)
        try:
            wait(address)
            run(address, replicas, seconds)
        finally:
            balancer.terminate()
            balancer.wait()
            for replica in replicas:
                if replica.process.poll() is None:
                    replica.process.kill()


def wait(address):
    for _ in range(100):
        try:
            if get(address, "/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("HAProxy found no replica")


def run(address, replicas, seconds):
    expected = answer(chat(replicas[0].address, "Count to five.")[1])
    results, lock, over = [], threading.Lock(), threading.Event()

    def client(number):
        while not over.is_set():
            begin = time.monotonic()
            try:
                status, body = chat(address, "Count to five.", stream=number % 2 == 0)
                outcome = "ok" if status == 200 and answer(body) == expected else f"status {status}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                outcome = f"lost: {error}"
            with lock:
                results.append((begin, time.monotonic(), outcome))
            if outcome != "ok":
                time.sleep(0.05)

    clients = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    for thread in clients:
        thread.start()
    time.sleep(seconds / 3)
    killed_at = time.monotonic()
    replicas[0].process.send_signal(signal.SIGKILL)
    time.sleep(seconds / 3)
    drained = replicas[1].stop()
    drained_at = time.monotonic()
    time.sleep(seconds / 3)
    over.set()
    for thread in clients:
        thread.join()
    failed = [r for r in results if r[2] != "ok"]
    in_flight = [r for r in failed if r[0] <= killed_at <= r[1] + 0.2]
    print(
        f"{len(results)} requests, {len(failed)} failed, {len(in_flight)} of them in flight on the killed replica; "
        f"{sum(r[0] > drained_at for r in results)} answered by the last one; drained replica exited with {drained}"
    )
    for begin, end, outcome in failed:
        print(f"  {begin - killed_at:+.2f} s to {end - killed_at:+.2f} s from the kill: {outcome}")
    assert drained == 0, drained
    # At most what all clients had sent there: nothing else may be lost.
    assert failed == in_flight and len(failed) <= 6, failed
    assert sum(r[2] == "ok" for r in results) > 10


if __name__ == "__main__":
    main()
