#!/usr/bin/python3
"""The dashboard of `serve --metrics` in a headless Chromium, beside a server under load."""

import os
import sys
import threading

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "harness"))
import browser  # noqa: E402
from browser import Browser  # noqa: E402
from cases import Skip, main  # noqa: E402
from metrics import Watched, folder_of, url_of  # noqa: E402
from penstock import TRANSPORTS, penstock, penstock_ok as ok  # noqa: E402

SCREENSHOTS = f"{ROOT}/build/reports/dashboard"


class Load:
    """Clients at work during a with statement: all transports, two versions, and an error now and then."""

    def __init__(self, server, scratch):
        self.server, self.scratch, self.ends = server, scratch, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(transport, version))
                        for transport in TRANSPORTS for version in ("3", "4.2")]

    def __enter__(self):
        for each in self.threads:
            each.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.ends.set()
        for each in self.threads:
            each.join()

    def run(self, transport, version):
        while not self.ends.wait(0.1):
            name = f"/put-{transport}-{version}"
            ok("cp", "-q", f"{self.scratch}/mine", url_of(self.server, name, transport, version))
            ok("cat", url_of(self.server, name, transport, version))
            penstock("cat", url_of(self.server, "/missing", transport, version))


def prepare(scratch):
    if not browser.CHROMIUM:
        raise Skip("Chromium is not installed")
    os.makedirs(SCREENSHOTS, exist_ok=True)
    return Watched({"/data": f"{folder_of(scratch)}:no_root_squash"})


def rows(page, table):
    """Returns {key: the data of the row} of a table of the page."""
    return page.value(f"Object.fromEntries([...document.querySelectorAll('#{table} tr[data-key]')].map(row => "
                      "[row.dataset.key, {...row.dataset, text: row.innerText}]))")


def numbers(scratch):
    """The page shows a load while it runs; afterwards its numbers are those of /metrics."""
    with prepare(scratch) as server:
        at = f"http://127.0.0.1:{server.metrics_port}/"
        # The URLs of the server's own tests have the export "/".
        plain = server.url
        server.url = lambda path, transport: plain(f"/data{path}", transport)
        with Browser() as page, Load(server, scratch) as load:
            page.open(at)
            page.wait_for("document.body && Number(document.body.dataset.updates || 0) >= 8")
            page.wait_for("document.getElementById('read-rate').innerText.includes('MiB/s')")
            page.wait_for("document.getElementById('write-rate').innerText.includes('MiB/s')")
            page.wait_for("document.getElementById('error-rate').innerText !== '0'")
            assert page.value("document.getElementById('state').innerText") == "ready"
            assert page.value("Number(document.getElementById('op-rate').innerText.replaceAll(',', ''))") > 1
            assert page.value("document.getElementById('latency').innerText").endswith("s")
            # The charts are drawn: they have pixels of more than one color.
            for chart in ("throughput", "heat"):
                assert page.value(f"""(() => {{
                    const canvas = document.getElementById('{chart}'), colors = new Set();
                    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                    for (let i = 0; i < data.length; i += 4) colors.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
                    return colors.size; }})()""") > 5, chart
            for table in ("clients", "exports"):
                page.wait_for(f"[...document.querySelectorAll('#{table} tr[data-key]')].some("
                              "row => 0 < row.dataset.mean && row.dataset.mean < 60)")
            page.screenshot(f"{SCREENSHOTS}/load.png")
            load.stop()
            updates = page.value("Number(document.body.dataset.updates)")
            page.wait_for(f"Number(document.body.dataset.updates) >= {updates + 2}")
            now = server.metrics()

            shown = rows(page, "operations")
            expected = {f"{labels['program']} {labels['version']} {labels['operation']}": value for labels, value in
                        ((dict(key), value) for key, value in now["penstock_operation_seconds_count"].items())}
            assert {key: float(row["total"]) for key, row in shown.items()} == expected
            assert f"{int(expected['NFS 3 READ']):,}" in shown["NFS 3 READ"]["text"]
            labels = {"program": "NFS", "version": "3", "operation": "LOOKUP", "status": "NFS3ERR_NOENT"}
            missing = now["penstock_operations_total"][tuple(sorted(labels.items()))]
            assert float(rows(page, "errors")["NFS 3 LOOKUP NFS3ERR_NOENT"]["total"]) == missing > 0
            export, client = rows(page, "exports")["/data"], rows(page, "clients")["127.0.0.1"]
            for row, label in ((export, "export"), (client, "client")):
                for name in ("read", "written"):
                    total = sum(now[f"penstock_{label}_{name}_bytes_total"].values())
                    assert float(row[name]) == total > 0, (row, name, total)
                total = now[f"penstock_{label}_operation_seconds_total"][((label, row["key"]),)]
                assert abs(float(row["seconds"]) - total) < 1e-6 and total > 0, (row, total)
            assert page.value("document.getElementById('transport').innerText").count("\n") > 8
            assert not page.messages, page.messages
            assert page.requested == {at, f"{at}dashboard.json"}, page.requested

            server.stop()
            page.wait_for("getComputedStyle(document.getElementById('lost')).display === 'block'")


def looks(scratch):
    """The page fits a desk and a phone, in light and in dark colors; its text is legible on its background."""
    with prepare(scratch) as server:
        plain = server.url
        server.url = lambda path, transport: plain(f"/data{path}", transport)
        with Load(server, scratch):
            for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
                with Browser(width, 900, dark) as page:
                    page.open(f"http://127.0.0.1:{server.metrics_port}/")
                    page.wait_for("document.body && Number(document.body.dataset.updates || 0) >= 4")
                    assert page.value("document.documentElement.scrollWidth <= innerWidth"), f"wider than {width}"
                    contrast = page.value("""(() => {
                        const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(each => { const c = each / 255;
                            return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
                        const card = light(getComputedStyle(document.querySelector('.tile')).backgroundColor);
                        return Math.min(...['.tile b', '.tile span', '#operations td', '#operations th', 'dt', 'dd'].map(each => {
                            const text = light(getComputedStyle(document.querySelector(each)).color);
                            return (Math.max(text, card) + .05) / (Math.min(text, card) + .05); })); })()""")
                    assert contrast > 4.4, f"contrast {contrast} ({width}, dark: {dark})"
                    background = page.value("getComputedStyle(document.body).backgroundColor")
                    assert (sum(map(int, background[4:-1].split(","))) < 200) == dark, background
                    page.screenshot(f"{SCREENSHOTS}/{'phone' if width < 600 else 'desk'}-{'dark' if dark else 'light'}.png")
                    assert not page.messages, page.messages


if __name__ == "__main__":
    main({"numbers": numbers, "looks": looks})
