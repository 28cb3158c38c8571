#!/usr/bin/env python3
"""The built-in page in headless Chromium (Debian packages chromium and chromium-driver).

    page.py BASE_URL [SCREENSHOT.png]

Speaks the WebDriver protocol itself, so nothing but the two packages is needed.
"""

import base64
import json
import subprocess
import sys
import time
import urllib.request

from fleet import free_port


class Browser:
    def __init__(self):
        self.port = free_port()
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,1000"]
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        for _ in range(100):
            try:
                value = self.call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
                break
            except OSError:
                time.sleep(0.1)
        self.session = "/session/" + value["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def script(self, text, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": text, "args": list(arguments)})

    def wait(self, text, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.script("return " + text)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {text}; error shown: {self.script('return document.getElementById(`error`).textContent')}")

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()


def main():
    browser = Browser()
    try:
        check(browser, sys.argv[1])
        if len(sys.argv) > 2:
            image = browser.call("GET", browser.session + "/screenshot")
            with open(sys.argv[2], "wb") as file:
                file.write(base64.b64decode(image))
    finally:
        browser.close()


def check(browser, url):
    browser.open(url)
    browser.wait("document.getElementById('about').textContent.length > 3")
    browser.script(
        "document.getElementById('prompt').value = arguments[0]; document.getElementById('temperature').value = '0';"
        "document.getElementById('limit').value = '120'; document.getElementById('form').requestSubmit();",
        "Maya has 3 apples and buys 4 more. How many apples does she have?",
    )
    # While it streams: tokens, tau, speed and a tree are there before the end. Seen in one go, or it could end in between.
    live = browser.wait(
        """(() => { const get = id => document.getElementById(id).textContent;
        const there = document.querySelectorAll('#answer span').length > 3 && document.querySelectorAll('#tree line.taken').length > 0;
        return there && [get('tau'), get('speed'), get('finish')] })()"""
    )
    assert float(live[0]) >= 1 and float(live[1]) > 0 and live[2] == "-", live
    finish = browser.wait("document.getElementById('finish').textContent !== '-' && document.getElementById('finish').textContent")
    seen = browser.script(
        """const spans = [...document.querySelectorAll('#answer span')];
        const get = id => document.getElementById(id).textContent;
        return {text: spans.map(s => s.textContent).join(''), rounds: new Set(spans.map(s => s.dataset.round)).size,
          colours: new Set(spans.map(s => s.style.background)).size, tau: get('tau'), speed: get('speed'), tokens: get('tokens'),
          nodes: get('nodes'), circles: document.querySelectorAll('#tree circle').length, error: get('error')}"""
    )
    print(f"live {live}, ended by {finish}: {seen}")
    assert not seen["error"] and finish in ("stop", "length")
    assert seen["text"].strip() and seen["rounds"] > 2 and seen["colours"] == seen["rounds"]
    assert float(seen["tau"]) >= 1 and float(seen["speed"]) > 0 and int(seen["tokens"]) > 0
    assert seen["circles"] == int(seen["nodes"]) + 1 > 1
    # Stopping in the middle frees the server.
    browser.script("document.getElementById('limit').value = '2000'; document.getElementById('form').requestSubmit()")
    browser.wait("document.querySelectorAll('#answer span').length > 2")
    browser.script("document.getElementById('halt').click()")
    browser.wait("['you', 'stop', 'length'].includes(document.getElementById('finish').textContent)")
    problems = [e for e in browser.call("POST", browser.session + "/se/log", {"type": "browser"}) if "favicon" not in e["message"]]
    assert not problems, problems


if __name__ == "__main__":
    main()
