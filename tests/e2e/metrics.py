#!/usr/bin/python3
"""`penstock serve --metrics`: every metric of docs/metrics.md appears and moves, and the pages beside them."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "harness"))
import nfs4_messages as nfs4  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from cases import Skip, main  # noqa: E402
from certificates import Authority  # noqa: E402
from files import digest, make  # noqa: E402
from nfs4_callbacks import CalledClient  # noqa: E402
from nfs4_messages import BOTH, Owner, Session, look_up, op, putfh  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import PENSTOCK, TRANSPORTS, Server, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from penstock import serve_refused, under_way  # noqa: E402
from ports import free_ports  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

VERSIONS = ("3", "4.0", "4.1", "4.2")
SIZE = (5 << 20) + 5
SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """Returns {name: {labels as a sorted tuple: value}} of Prometheus' text format."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, f"not a sample: {line!r}"
        name, labels, value = match.groups()
        key = tuple(sorted((label, text.replace('\\"', '"').replace("\\\\", "\\")) for label, text in LABEL.findall(labels or "")))
        assert key not in found.setdefault(name, {}), f"twice: {line}"
        found[name][key] = float(value)
    return found


def documented():
    """Returns {name: (type, labels, whether it is constant, whether it needs Kerberos)} of docs/metrics.md."""
    table = {}
    with open(f"{ROOT}/docs/metrics.md") as page:
        for line in page:
            match = re.match(r"\| `(\w+)` \| ([^|]+) \|([^|]*)\|", line)
            if match:
                name, kind, labels = match.groups()
                assert name not in table, f"{name} is twice in the page"
                words = [word.strip() for word in kind.split(",")]
                table[name] = (words[0], set(re.findall(r"`(\w+)`", labels)), "constant" in words, "Kerberos" in words)
    assert len(table) > 40, table
    return table


def fetch(url):
    """Returns (status, type, text) of a page."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers["Content-Type"], answer.read().decode()


class Watched(Server):
    """A server with a port for monitors."""

    def __init__(self, exports, options=(), **how):
        (self.metrics_port,) = free_ports(1)
        super().__init__(exports, [f"--metrics={self.metrics_port}", *options], **how)

    def page(self, path):
        return fetch(f"http://127.0.0.1:{self.metrics_port}{path}")

    def metrics(self):
        status, kind, text = self.page("/metrics")
        assert status == 200 and kind.startswith("text/plain; version=0.0.4"), (status, kind, text)
        return parse(text)

    def total(self, name, **labels):
        return sum(value for key, value in self.metrics().get(name, {}).items() if set(labels.items()) <= set(key))


class Watcher:
    """Scrapes a server all the time during a with statement, and notes which metrics were there and which moved."""

    def __init__(self, server, seen, moved):
        self.server, self.seen, self.moved, self.ends, self.last, self.scrapes = server, seen, moved, threading.Event(), {}, 0
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.last, "nothing is scraped")
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def run(self):
        ended = False
        while not ended:
            ended = self.ends.wait(0.02)  # it scrapes once more after the end
            try:
                status, _, text = self.server.page("/metrics")
            except OSError:
                continue  # it has ended, or has not yet begun
            if status == 200:
                self.note(text)

    def note(self, text):
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.seen.setdefault(name, (kind, set()))
        for name, samples in parse(text).items():
            base = re.sub(r"_(bucket|sum|count)$", "", name) if re.sub(r"_(bucket|sum|count)$", "", name) in self.seen else name
            for key in samples:
                self.seen[base][1].update(label for label, _ in key)
            if self.last.setdefault(base, {}).setdefault(name, samples) != samples:
                self.moved.add(base)
            self.last[base][name] = samples
        self.scrapes += 1


def url_of(server, name, transport="tcp", version="4.2"):
    return server.url(name, transport).replace("vers=3", f"vers={version}")


def folder_of(scratch):
    path = f"{scratch}/export"
    os.makedirs(path)
    os.chmod(path, 0o777)
    make(f"{path}/file", SIZE)
    make(f"{scratch}/mine", SIZE)
    return path


def copy_files(server, scratch, folder):
    for transport in TRANSPORTS:
        for version in VERSIONS:
            ok("cp", "-q", f"{scratch}/mine", url_of(server, "/put", transport, version))
            assert digest(f"{folder}/put") == digest(f"{scratch}/mine")
            ok("cp", "-q", url_of(server, "/put", transport, version), f"{scratch}/got")
            os.unlink(f"{scratch}/got")
            ok("rm", url_of(server, "/put", transport, version))
            refused("cat", url_of(server, "/missing", transport, version))


def recall(server):
    """A client gets a delegation, and another one's OPEN recalls it."""
    client = CalledClient(server.tcp)
    session = Session(client, b"holder", 1, nfs4.CONN_BACK_CHAN)
    open_file = nfs4.open_op(session.client, b"owner", b"file", nfs4.READ_ACCESS | nfs4.READ_DELEGATION)
    opened = session.run(client, [putfh(look_up(client)), open_file, op(nfs4.GETFH)])
    file, delegation = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["delegation"]
    assert delegation
    other = Session(client, b"other", 1)
    write = [putfh(file), nfs4.open_op(other.client, b"owner", b"", BOTH | nfs4.NO_DELEGATION, by_handle=True)]
    assert other.run(client, write).status == nfs4.DELAY
    client.take_recall()
    assert session.run(client, [putfh(file), op(nfs4.DELEGRETURN, delegation)]).status == nfs4.OK
    assert other.run(client, write).status == nfs4.OK
    wait_until(lambda: server.total("penstock_callbacks_total", operation="CB_RECALL", result="ok") >= 1, "no recall is counted")
    return client, session


def ask_for_nonsense(server):
    client = TcpClient(server.tcp)
    client.send_call(rpc.call(program=(999_999, 1)))
    client.record()
    client.close()
    assert server.total("penstock_calls_refused_total", reason="program") >= 1
    if "rdma" in TRANSPORTS:
        client = rpc.Client(server.rdma)
        client.endpoint.send(rpc.rdma_call(rpc.call(), version=9))
        client.endpoint.receive()
        client.close()
        assert server.total("penstock_rdma_errors_total", kind="refused_call") >= 1


def connect_too_often(server):
    connections = []
    while server.total("penstock_connections_refused_total", transport="tcp", reason="address_full") == 0:
        connections.append(socket.create_connection(("127.0.0.1", server.tcp)))
        assert len(connections) < 1000, "no connection is refused"
    for each in connections:
        each.close()
    wait_until(lambda: server.total("penstock_connections", transport="tcp") < 2, "the connections stay")


def wait_for_threads(server, scratch):
    """Several clients write with one thread for all disks, until work is seen to wait for it."""
    ends = threading.Event()

    def write(number):
        while not ends.is_set():
            ok("cp", "-q", f"{scratch}/mine", url_of(server, f"/many{number}", "tcp", "3"))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in writers:
        each.start()
    try:
        wait_until(lambda: server.total("penstock_worker_queue") > 0, "no work ever waits for a thread")
    finally:
        ends.set()
        for each in writers:
            each.join()


def every_metric_moves(scratch):
    """Each metric of the page appears and moves, with its type and its labels; and the page has each metric."""
    folder = folder_of(scratch)
    authority = Authority(f"{scratch}/certificates")
    certificates = authority.issue("server", "DNS:localhost,IP:127.0.0.1") + authority.trusted
    seen, moved = {}, set()
    exports = {"/": f"{folder}:no_root_squash", "/closed": f"{scratch}:client=192.0.2.1"}
    options = ["--workers=1", "--lease=5", "--grace=5", "--max-connections-per-address=12", "--idle-limit=3600", *certificates]
    with Watched(exports, options) as server, Watcher(server, seen, moved) as watcher:
        copy_files(server, scratch, folder)
        assert server.total("penstock_export_read_bytes_total", export="/") == len(TRANSPORTS) * len(VERSIONS) * SIZE
        assert server.total("penstock_export_written_bytes_total", export="/") == len(TRANSPORTS) * len(VERSIONS) * SIZE
        for version, status in (("3", "NFS3ERR_NOENT"), *((each, "NFS4ERR_NOENT") for each in VERSIONS[1:])):
            assert server.total("penstock_operations_total", version=version, operation="LOOKUP", status=status) >= len(TRANSPORTS)
        refused("ls", url_of(server, "/closed", "tcp", "3"))
        assert server.total("penstock_operations_total", program="MOUNT", operation="MNT", status="MNT3ERR_ACCES") == 1
        ask_for_nonsense(server)
        ok("ls", "--xprtsec=tls", *authority.trusted, url_of(server, "/", "tcp"))
        assert server.total("penstock_tls_handshakes_total", result="ok") == 1
        wait_for_threads(server, scratch)
        client, session = recall(server)
        # A client that holds state when the server is killed: the next run has a grace period.
        Owner(session, b"writer").open(client, look_up(client), b"file")
        scrapes = watcher.scrapes
        wait_until(lambda: watcher.scrapes > scrapes + 1, "nothing is scraped")
        server.kill()
        client.close()
        watcher.last.clear()
        server.start()
        wait_until(lambda: server.total("penstock_grace_period") == 0, "the grace period does not end")
        connect_too_often(server)

    # Faults of the disk; and a server that is told to stop while a call is under way.
    with Watched({"/": f"{folder}:no_root_squash"}, ["--faults=write:enospc@1,read:slow=2s"]) as server, \
            Watcher(server, seen, moved):
        refused("cp", "-q", f"{scratch}/mine", url_of(server, "/put"))
        assert server.total("penstock_disk_faults_total", export="/", error="ENOSPC") >= 1
        with under_way("cat", url_of(server, "/file")):
            # The client has a delegation instead of an open (RFC 9754).
            wait_until(lambda: server.total("penstock_states", kind="delegation") == 1, "the file is not opened")
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: server.page("/readyz")[0] == 503, "the server is ready although it stops")
            assert "draining" in server.page("/readyz")[2]
            assert server.page("/healthz")[0] == 200
            wait_until(lambda: "penstock_ready" in moved, "the metric does not say that the server stops")
            assert server.process.wait(SECONDS) == 0  # a second signal would end it at once

    table = documented()
    assert not (wrong := sorted(set(seen) - set(table))), f"not in docs/metrics.md: {wrong}"
    for name, (kind, labels, constant, kerberos) in table.items():
        if kerberos and name not in seen:
            continue
        assert name in seen, f"{name} never appears"
        assert seen[name][0] == kind, f"{name} is a {seen[name][0]}"
        assert seen[name][1] - {"le"} == labels, f"{name} has the labels {seen[name][1]}"
        # A gauge may move and come back between two scrapes.
        assert constant or kerberos or kind == "gauge" or name in moved, f"{name} never moves"


def pages(scratch):
    """The pages and their answers before and after; other paths and methods are refused."""
    folder = folder_of(scratch)
    with Watched({"/": folder}) as server:
        server.expect_line(f"Metrics and dashboard: http://127.0.0.1:{server.metrics_port}/")
        assert server.page("/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
        assert server.page("/readyz") == (200, "text/plain; charset=utf-8", "ready\n")
        status, kind, text = server.page("/")
        assert status == 200 and kind.startswith("text/html") and "<title>Penstock</title>" in text
        assert not re.search(r"""(src|href)=["'](?!data:)""", text), "the page needs other files"
        data = json.loads(server.page("/dashboard.json")[2])
        assert data["ready"] is True and data["bounds"][0] == 1e-5 and data["metrics"]["penstock_ready"][0]["value"] == 1
        assert server.page("/etc/passwd")[0] == 404
        request = urllib.request.Request(f"http://127.0.0.1:{server.metrics_port}/metrics", data=b"x", method="POST")
        try:
            urllib.request.urlopen(request, timeout=60)
            raise AssertionError("POST is answered")
        except urllib.error.HTTPError as answer:
            assert answer.code == 405, answer.code
        serve_refused(scratch, f"--export=/={folder}", f"--metrics={server.metrics_port}",
                      mentions=[f"--metrics: cannot listen on 127.0.0.1:{server.metrics_port}", "another server"])
    with Server({"/": folder}) as server:
        assert not [line for line in server.lines if "Metrics" in line], "the port is open without --metrics"
    with Watched({"/": folder}) as server:
        (server.metrics_port,) = free_ports(1)
    if socket.has_ipv6:
        (port,) = free_ports(1)
        with Server({"/": folder}, [f"--metrics=[::1]:{port}"]):
            assert fetch(f"http://[::1]:{port}/healthz")[0] == 200


def slow_readers(scratch):
    """Readers that ask for nothing, or do not take their answers, disturb no client. They do not keep readers at other
    addresses away, and those at their own address only for a while."""
    folder = folder_of(scratch)
    with Watched({"/": f"{folder}:no_root_squash"}) as server:
        def connect(address):
            idle = [socket.create_connection(("127.0.0.1", server.metrics_port), source_address=(address, 0)) for _ in range(12)]
            for each in idle[:6]:
                each.sendall(b"GET /metrics HTTP/1.1\r\n")
            return idle

        def answers():
            try:
                return server.page("/healthz")[0] == 200
            except (http.client.HTTPException, OSError):
                return False

        idle = connect("127.0.0.2")
        assert answers(), "readers at another address keep this one away"
        idle += connect("127.0.0.1")
        for transport in TRANSPORTS:
            ok("cp", "-q", url_of(server, "/file", transport), f"{scratch}/got")
            assert digest(f"{scratch}/got") == digest(f"{folder}/file")
        wait_until(answers, "idle readers keep others away")
        for each in idle:
            each.close()


def promtool(scratch):
    """promtool finds nothing to complain about, in the metrics and in the expressions of Grafana's dashboard."""
    if not shutil.which("promtool"):
        raise Skip("promtool (Debian package prometheus) is not installed")
    folder = folder_of(scratch)
    with Watched({"/": f"{folder}:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            ok("cp", "-q", f"{scratch}/mine", url_of(server, "/put", transport))
        text = server.page("/metrics")[2]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert checked.returncode == 0 and not checked.stderr, checked
    rules = [{"record": f"rule:{number}", "expr": expression.replace("$__rate_interval", "1m").replace("$instance", ".*")}
             for number, expression in enumerate(expressions())]
    with open(f"{scratch}/rules.yml", "w") as out:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, out)
    checked = subprocess.run(["promtool", "check", "rules", f"{scratch}/rules.yml"], text=True, capture_output=True)
    assert checked.returncode == 0, checked


def expressions():
    with open(f"{ROOT}/dashboards/penstock.json") as file:
        board = json.load(file)
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def grafana(_):
    """Grafana's dashboard asks only for metrics and labels that exist, and for most of the metrics."""
    table, used = documented(), set()
    for expression in expressions():
        names = set(re.findall(r"\b(?:penstock|process)_\w+", expression))
        assert names, expression
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            known = name if name in table else base
            assert known in table, f"{name} does not exist: {expression}"
            assert (known == name) == (table[known][0] != "histogram"), f"{name}: {expression}"
            used.add(known)
        labels = set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            labels |= {label.strip() for label in group.split(",")}
        allowed = {"instance", "le"}.union(*(table.get(re.sub(r"_(bucket|sum|count)$", "", name), table.get(name))[1] for name in names))
        assert labels <= allowed, f"{labels - allowed}: {expression}"
    with open(f"{ROOT}/dashboards/penstock.json") as file:
        assert len({panel["id"] for panel in json.load(file)["panels"]}) > 20
    assert len(used) > len(table) * 2 / 3, sorted(set(table) - used)


if __name__ == "__main__":
    assert PENSTOCK
    main({"every_metric_moves": every_metric_moves, "pages": pages, "slow_readers": slow_readers, "promtool": promtool, "grafana": grafana})
