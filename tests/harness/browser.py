"""Drives a headless Chromium by its debugging protocol, over a pair of pipes (--remote-debugging-pipe)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

from patience import SECONDS

CHROMIUM = shutil.which("chromium")


class Browser:
    """A page in a browser of its own during a with statement. `messages` has what the page wrote to the console, and
    what went wrong in it."""

    def __init__(self, width=1280, height=1600, dark=False):
        self.size, self.dark = (width, height), dark
        self.messages, self.last, self.rest = [], 0, b""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="penstock-browser-")
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def take_pipes():  # The browser reads from descriptor 3 and writes to 4.
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.profile}",
             f"--window-size={self.size[0]},{self.size[1]}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=take_pipes)
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self.of, False)
        self.session = None
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.size[0], height=self.size[1], deviceScaleFactor=1,
                  mobile=self.size[0] < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.of)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        """Makes a call of the protocol; returns its result."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            assert time.monotonic() < deadline, f"the browser does not answer {method}"
            for answer in self.take():
                if answer.get("id") == self.last:
                    assert "error" not in answer, (method, answer["error"])
                    return answer["result"]
                self.note(answer)

    def take(self):
        """Returns the messages that have arrived, up to and with the next answer."""
        try:
            part = os.read(self.of, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        except BlockingIOError:
            time.sleep(0.01)
        taken = []
        while b"\0" in self.rest:
            message, _, self.rest = self.rest.partition(b"\0")
            taken.append(json.loads(message))
            if "id" in taken[-1]:
                break
        return taken

    def note(self, event):
        kind, facts = event.get("method"), event.get("params", {})
        if kind == "Runtime.consoleAPICalled":
            self.messages.append(f"console.{facts['type']}: {[each.get('value') for each in facts['args']]}")
        elif kind == "Runtime.exceptionThrown":
            self.messages.append(f"exception: {facts['exceptionDetails'].get('exception', {}).get('description')}")
        elif kind == "Log.entryAdded":
            self.messages.append(f"log: {facts['entry']['text']} {facts['entry'].get('url', '')}")
        elif kind == "Network.requestWillBeSent":
            self.requested = getattr(self, "requested", set()) | {facts["request"]["url"]}

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """Evaluates an expression of JavaScript; returns its value."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + SECONDS
        while not self.value(expression):
            assert time.monotonic() < deadline, f"never true in the page: {expression}"
            time.sleep(0.05)

    def screenshot(self, path):
        """Writes the whole page as a PNG."""
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
