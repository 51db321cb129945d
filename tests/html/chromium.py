# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its pipe (the DevTools protocol): no other program, no port."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = next((p for p in map(shutil.which, ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")) if p), None)
SECONDS = 120  # for an answer, on a slow machine


class Chromium:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="capo-chromium-")
        read_in, self.write = os.pipe()
        self.read, write_out = os.pipe()

        def pipes():  # Chromium reads from 3 and writes to 4
            os.dup2(read_in, 63)
            os.dup2(write_out, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)
            os.close(63)
            os.close(64)

        self.process = subprocess.Popen([PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                                         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                                         f"--user-data-dir={self.home}", "--remote-debugging-pipe", "about:blank"],
                                        preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_in)
        os.close(write_out)
        self.rest, self.events, self.last = b"", [], 0
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.do(f"{domain}.enable")

    def message(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            assert time.monotonic() < until and self.process.poll() is None, "Chromium does not answer"
            if select.select([self.read], [], [], 1)[0]:
                self.rest += os.read(self.read, 1 << 20)
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, session=None, **params):
        self.last += 1
        text = {"id": self.last, "method": method, "params": params}
        os.write(self.write, json.dumps({**text, "sessionId": session} if session else text).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def do(self, method, **params):
        return self.ask(method, self.session, **params)

    def open(self, path, width, height, dark=False, medium="", phone=False):
        self.events.clear()
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.do("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.do("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def run(self, script):
        done = self.do("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, path, whole=False):
        """A PNG, or a WebP that is a fifth of it, by the name."""
        how = {"format": "webp", "quality": 45} if path.endswith(".webp") else {"format": "png"}
        data = self.do("Page.captureScreenshot", captureBeyondViewport=whole, **how)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def complaints(self):
        """What stood on the console, and what was asked of any other place than this file."""
        bad = []
        for e in self.events:
            kind, p = e.get("method"), e.get("params", {})
            if kind in ("Runtime.exceptionThrown", "Log.entryAdded") or (kind == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning")):
                bad.append(json.dumps(p)[:300])
            if kind == "Network.requestWillBeSent" and p["request"]["url"] != p.get("documentURL"):
                bad.append("asks for " + p["request"]["url"][:200])
        return bad

    def close(self):
        try:
            self.ask("Browser.close")
            self.process.wait(30)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)
