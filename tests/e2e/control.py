#!/usr/bin/python3
"""`penstock ctl` asks a server that runs, and steers it."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from disk import FailingDisk  # noqa: E402
from files import digest, make  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from iwarp_peer import Ended  # noqa: E402
from logs import Client  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import (ADDRESS, PENSTOCK, STOP_SECONDS, TRANSPORTS, Server, penstock, penstock_ok, penstock_refused,  # noqa: E402
                      under_way)
from ports import free_ports  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from rpc_messages import opaque, words  # noqa: E402


class Scene:
    """A server of a folder, and the control socket in its state directory."""

    def __init__(self, scratch, *options, exports="/data"):
        self.folder = f"{scratch}/export"
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o777)
        self.server = Server({exports: f"{self.folder}:no_root_squash"}, options)

    def __enter__(self):
        self.server.__enter__()
        self.socket = f"{self.server.state.name}/control"
        return self

    def __exit__(self, *failure):
        self.server.__exit__(*failure)

    def ctl(self, *words):
        return penstock_ok("ctl", f"--control={self.socket}", *words).decode()

    def json(self, *words):
        return json.loads(self.ctl("--json", *words))

    def refused(self, *words, mentions=()):
        return penstock_refused("ctl", f"--control={self.socket}", *words, mentions=mentions)

    def url(self, name, transport, version="4.1", port=None):
        at = port or (self.server.rdma if transport == "rdma" else self.server.tcp)
        return f"nfs://{ADDRESS}:{at}/data{name}?proto={transport}&vers={version}&mountport={self.server.mount}"

    def upload(self, transport, version="4.1", name="/big"):
        """An upload that is held in the middle."""
        at = self.server.rdma if transport == "rdma" else self.server.tcp
        return HeldCopy(at, lambda port: self.url(name, transport, version, port), f"{self.folder}/../big", upload=True)


def shows(scratch):
    """Clients with their connections, sessions and opens, as tables and as JSON."""
    make(f"{scratch}/big", SIZE)
    with Scene(scratch) as scene:
        assert scene.ctl("clients") == "no clients\n" and scene.ctl("opens") == "no opens\n"
        for transport in TRANSPORTS:
            with scene.upload(transport) as copy:
                [client] = scene.json("clients")
                assert client["version"] == "4.1" and client["lease"] == "valid" and client["opens"] == 1, client
                assert client["transports"] == [transport] and client["principal"] == f"uid {os.getuid()}", client
                [session] = scene.json("sessions")
                assert session["client"] == client["id"] and session["slots"] > 0
                for words in ((), ("--client", client["id"]), ("--client", client["addresses"][0]), ("--file", "/data/big")):
                    result = scene.json("opens", *words)
                    assert result["complete"] and [each["path"] for each in result["states"]] == ["/data/big"], result
                assert scene.json("opens", "--file", "/data/other") == {"complete": True, "states": [], "unnamed": 0}
                assert not scene.json("opens", "--limit", "0")["complete"]
                assert any(each["number"] in session["connections"] for each in scene.json("connections"))
                assert client["id"] in scene.ctl("clients") and "/data/big" in scene.ctl("opens")
                copy.finish()
            wait_until(lambda: not scene.json("clients"), "the client is still there")
        with scene.upload("tcp", "3") if "tcp" in TRANSPORTS else scene.upload("rdma", "3") as copy:
            [client] = scene.json("clients")
            assert client["version"] == "2 or 3" and "id" not in client, client
            copy.finish()
        with scene.upload(TRANSPORTS[0]) as copy:
            # A file without a name may be each one of its export.
            os.unlink(f"{scene.folder}/big")
            assert scene.json("opens", "--file", "/data/big") == {"complete": True, "states": [], "unnamed": 1}
            assert scene.json("opens", "--file", "/elsewhere")["unnamed"] == 0
            assert scene.ctl("opens", "--file", "/data/big").startswith("no opens\n1 more is of a file whose name"), "nothing is said"
            [opened] = scene.json("opens")["states"]
            assert "not known" in opened["path"] and "/data" in opened["path"], opened
            copy.let_go()
        [export] = scene.json("exports")
        assert export["path"] == "/data" and export["clients"][0]["squash"] == "no_root_squash", export
        status = scene.json("status")
        assert status["ready"] and status["pid"] == scene.server.process.pid and status["exports"] == 1, status
        assert f"process {status['pid']}" in scene.ctl("status")
    with Scene(scratch, "--listen-rdma=none") as scene:
        assert scene.json("status")["listening"]["rdma"] == []
        assert "\nrdma: off\n" in scene.ctl("status")


def evicts(scratch):
    """A client that is evicted in the middle of an upload loses its open. The copy fails, or the file is whole."""
    make(f"{scratch}/big", SIZE)
    with Scene(scratch) as scene:
        for transport in TRANSPORTS:
            for version in ("4.0", "4.1"):
                with scene.upload(transport, version) as copy:
                    # Clients of version 4.0 that have ended stay until their leases are over.
                    [client] = [each for each in scene.json("clients") if each["opens"] > 0]
                    assert client["id"] in scene.ctl("evict", client["id"])
                    assert scene.json("opens")["states"] == []
                    scene.refused("evict", client["id"], mentions=["there is no such client"])
                    code, said = copy.let_go()
                    print(f"{transport}, {version}: exit code {code}: {said[-300:]}")
                    assert code in (0, 1)
                    if code == 0:
                        assert digest(f"{scene.folder}/big") == digest(f"{scratch}/big")
        scene.refused("evict", "192.0.2.1", mentions=["no client with state is at 192.0.2.1"])
        scene.refused("evict", "nonsense", mentions=["neither the ID of a client nor an address"])
        assert any("an operator has evicted the client" in line for line in scene.server.lines)


def revokes(scratch):
    """An open that is revoked is gone at once."""
    make(f"{scratch}/big", SIZE)
    with Scene(scratch) as scene, scene.upload(TRANSPORTS[0]) as copy:
        [opened] = scene.json("opens")["states"]
        scene.ctl("revoke", opened["stateid"])
        assert scene.json("opens")["states"] == []
        scene.refused("revoke", opened["stateid"], mentions=["no such open, lock or delegation"])
        scene.refused("revoke", "12", mentions=["not a stateid"])
        copy.let_go()


def drains(scratch):
    """A server that drains serves its clients, takes no new ones, and says so."""
    if os.environ.get("TEST_INSIDE"):
        raise Skip("inside a guest all clients have one address")
    make(f"{scratch}/big", SIZE)
    with Scene(scratch, "--metrics=127.0.0.1:0") as scene, scene.upload("tcp") as copy:
        scene.ctl("drain", "on")
        assert "not ready: draining" in scene.ctl("status")
        assert scene.json("status")["draining"]
        # 127.0.0.2 is another client.
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.connect(("127.0.0.1", scene.server.tcp))
            assert other.recv(1) == b"", "the server has closed the connection"
        copy.finish()
        scene.ctl("drain", "off")
        assert "\nready\n" in scene.ctl("status")
    assert digest(f"{scene.folder}/big") == digest(f"{scratch}/big")


def grace(scratch):
    """In a grace period that an operator starts, opens wait until it is ended."""
    with Scene(scratch) as scene:
        scene.refused("grace", "end", mentions=["there is no grace period"])
        scene.refused("grace", "start", "0", mentions=["from 1 to 86400"])
        scene.ctl("grace", "start", "3600")
        assert "grace period" in scene.ctl("status")
        with open(f"{scratch}/small", "wb") as file:
            file.write(b"small")
        with subprocess.Popen([PENSTOCK, "cp", "-q", f"{scratch}/small", scene.url("/small", TRANSPORTS[0])]) as copy:
            wait_until(lambda: scene.json("clients"), "the client does not come")
            assert copy.poll() is None
            scene.ctl("grace", "end")
            assert copy.wait(timeout=100) == 0
        assert not scene.json("status")["grace_period"]


def reloads(scratch):
    """A reload says what it has changed; a mistake changes nothing and is shown with its line."""
    os.makedirs(f"{scratch}/more")
    table = f"{scratch}/table"
    with open(table, "w") as file:
        file.write(f"{scratch}/more *(rw)\n")
    with Scene(scratch, f"--exports={table}") as scene:
        assert scene.ctl("reload") == "the configuration is the same as before\n"
        with open(table, "w") as file:
            file.write(f"\n{scratch}/more *(nonsense)\n")
        failed = penstock("ctl", f"--control={scene.socket}", "reload")
        assert failed.returncode == 1 and f"{table}:2: " in failed.stderr, failed.stderr
        assert "goes on with its old configuration" in failed.stderr
        assert len(scene.json("exports")) == 2
        with open(table, "w") as file:
            file.write(f"{scratch}/more *(sec=sys,rw,root_squash,sec=none,ro,all_squash)\n")
        scene.ctl("reload")
        [more] = [each for each in scene.json("exports") if each["path"] == f"{scratch}/more"]
        shown = {(each["sec"], each["access"], each["squash"]) for each in more["clients"]}
        assert shown == {("sys", "rw", "root_squash"), ("none", "ro", "all_squash")}, more
        open(table, "w").close()
        assert scene.ctl("reload") == f"the server no longer exports {scratch}/more\n"
        assert len(scene.json("exports")) == 1


def log_levels(scratch):
    """The level of a module changes while the server runs."""
    with Scene(scratch) as scene:
        assert {each["level"] for each in scene.json("log")} == {"warning"}
        assert next(each for each in scene.json("log", "debug", "rpcrdma") if each["module"] == "rpcrdma")["level"] == "debug"
        penstock_ok("ls", scene.url("", "rdma"))
        wait_until(lambda: any(" debug " in line for line in scene.server.lines), "no debug message")
        assert "rpcrdma" in scene.ctl("log")
        assert {each["level"] for each in scene.json("log", "error")} == {"error"}
        scene.refused("log", "loud", mentions=["loud"])
        scene.refused("log", "info", "nothing", mentions=["nothing"])


def traces(scratch):
    """A trace has the RDMA connections that begin while it is written, of the client that is asked for."""
    if "rdma" not in TRANSPORTS:
        raise Skip("without RDMA")
    with Scene(scratch) as scene:
        scene.refused("trace", "stop", mentions=["no trace is being written"])
        scene.refused("trace", "start", "relative", mentions=["must be absolute"])
        scene.refused("trace", "start", f"{scratch}/none/trace", mentions=["cannot write the trace"])
        scene.ctl("trace", "start", f"{scratch}/trace")
        assert stat.S_IMODE(os.stat(f"{scratch}/trace").st_mode) == 0o600
        scene.refused("trace", "start", f"{scratch}/other", mentions=["a trace is being written already"])
        assert not os.path.exists(f"{scratch}/other")
        assert scene.server.process.poll() is None
        penstock_ok("ls", scene.url("", "rdma"))
        scene.ctl("trace", "stop")
        size = os.path.getsize(f"{scratch}/trace")
        assert size > 1000
        penstock_ok("ls", scene.url("", "rdma"))
        assert os.path.getsize(f"{scratch}/trace") == size
        # No file is replaced, whatever it is.
        for there in ("trace", "link"):
            if there == "link":
                os.symlink(f"{scratch}/untouched", f"{scratch}/link")
            scene.refused("trace", "start", f"{scratch}/{there}", mentions=["File exists"])
        assert os.path.getsize(f"{scratch}/trace") == size and not os.path.exists(f"{scratch}/untouched")
        scene.ctl("trace", "start", f"{scratch}/nobody", "192.0.2.1")
        penstock_ok("ls", scene.url("", "rdma"))
        scene.ctl("trace", "stop")
        assert os.path.getsize(f"{scratch}/nobody") < 1000


def top(scratch):
    """What the clients do, per second."""
    make(f"{scratch}/big", SIZE)
    with Scene(scratch) as scene, open(f"{scratch}/shown", "w+") as shown:
        assert "0.0 operations" in scene.ctl("top", "--interval=0.1", "--count=1")
        with subprocess.Popen([PENSTOCK, "ctl", f"--control={scene.socket}", "top", "--interval=0.3"], stdout=shown) as watcher:
            def has_shown_all():
                penstock_ok("cp", "-q", f"{scratch}/big", scene.url("/big", TRANSPORTS[0]))
                shown.seek(0)
                said = shown.read()
                return all(word in said for word in ("CLIENT", ADDRESS, "EXPORT", "/data", "OPERATION", "NFS 4.1 WRITE"))

            try:
                wait_until(has_shown_all, "something is missing")
            finally:
                watcher.terminate()


def top_of_a_slow_disk(scratch):
    """The mean latency of an export and of its client tells that the disk is slow."""
    delay = 0.1  # of each operation on a file
    make(f"{scratch}/small", 1000)
    with Scene(scratch, f"--faults=any:slow={delay}s") as scene:
        ends = threading.Event()

        def work():
            # In version 3 each operation on a file is a call of its own.
            while not ends.is_set():
                penstock_ok("cp", "-q", f"{scratch}/small", scene.url("/small", TRANSPORTS[0], "3"))

        def tells():
            said = scene.ctl("top", "--interval=0.5", "--count=1")
            print(said)
            rows = [line.split() for line in said.splitlines()]
            means = {row[0]: float(row[2]) / 1e6 for row in rows if len(row) == 5 and row[0] in (ADDRESS, "/data")}
            # The client calls other programs as well, which need no disk.
            return delay / 2 < means.get("/data", 0) < 60 and delay / 10 < means.get(ADDRESS, 0) < 60

        load = threading.Thread(target=work)
        load.start()
        try:
            wait_until(tells, "top does not tell that the disk is slow")
        finally:
            ends.set()
            load.join()


def only_its_user(scratch):
    """Other users may not ask the server, unless their group is named. No server takes the socket of another one."""
    if os.getuid() != 0:
        raise Skip("only root can act as others")
    path = f"{scratch}/control"
    with Scene(scratch, f"--control={path}") as scene:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert not os.path.exists(scene.socket), "the socket is at the other place only"
        scene.socket = path
        scene.ctl("status")
        os.chmod(scratch, 0o755)
        as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PENSTOCK, "ctl", f"--control={path}", "status"]
        refused = subprocess.run(as_other, stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 1 and "only the server's user and root may use it" in refused.stderr, refused.stderr
        penstock_refused("serve", scratch, f"--control={path}", f"--state-dir={scratch}/state", *other_ports(),
                         mentions=["another server uses it"])
        scene.ctl("status")
    assert not os.path.exists(path)
    with Scene(scratch, f"--control={path}", "--control-group=nogroup") as scene:
        assert subprocess.run(as_other, stdout=subprocess.DEVNULL).returncode == 0
    penstock_refused("serve", scratch, f"--control={path}", "--control-group=no-such-group", f"--state-dir={scratch}/state", *other_ports(),
                     mentions=["there is no such group"])
    penstock_refused("serve", scratch, "--control-group=nogroup", f"--state-dir={scratch}/state", *other_ports(),
                     mentions=["--control-group needs --control FILE"])
    with Scene(scratch, "--control=none") as scene:
        scene.refused("status", mentions=["no server runs with this control socket"])


def other_ports():
    tcp, rdma, mount = free_ports(3)
    return f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"


def ends_with_its_server(scratch):
    """A stopped server leaves no socket; the next server replaces that of a killed one; an open connection ends."""
    with Scene(scratch) as scene:
        with socket.socket(socket.AF_UNIX) as idle, socket.socket(socket.AF_UNIX) as silent:
            idle.connect(scene.socket)
            idle.sendall(b'{"command": "status", "id": 3}\n')
            assert json.loads(idle.makefile().readline())["id"] == 3
            silent.connect(scene.socket)
            silent.sendall(b"{")
            assert scene.server.stop() == 0
            assert idle.recv(1) == b""
            # The server may not have read the brace yet. The kernel then ends the connection with a reset.
            try:
                assert silent.recv(1) == b""
            except ConnectionResetError:
                pass
        assert not os.path.exists(scene.socket)
        scene.refused("status", mentions=["no server runs with this control socket"])
        scene.server.start()
        scene.server.process.send_signal(signal.SIGKILL)
        scene.server.process.wait()
        assert os.path.exists(scene.socket)
        scene.server.start()
        scene.ctl("status")


def ends_beside_a_command_that_hangs(scratch):
    """A reload hangs with the disk of the configuration when SIGTERM comes. The server ends all the same: the client that
    waits for a write gets its reply, and then its connection ends."""
    os.makedirs(f"{scratch}/export")
    make(f"{scratch}/export/file", 0)
    toml = f"{scratch}/penstock.toml"
    with open(toml, "w") as file:
        file.write("[server]\nworkers = 8\n")
    disk = FailingDisk(scratch)
    with Server({"/data": f"{scratch}/export:no_root_squash"}, [f"--config={toml}"], environment=disk.environment) as server:
        client = Client(server.tcp)
        file = client.lookup(client.mounted(server, b"/data"), b"file")
        disk.fail(f"pread hang {toml}", f"pwrite hang {scratch}/export/file")
        with under_way("ctl", f"--control={server.state.name}/control", "reload") as command:
            disk.await_hanging(toml)
            client.send_call(rpc.call(rpc.WRITE, opaque(file) + rpc.hyper(0) + words(4, 0) + opaque(b"text")))
            disk.await_hanging(f"{scratch}/export/file")
            server.process.send_signal(signal.SIGTERM)
            disk.fail(f"pread hang {toml}")
            reply = rpc.RpcReply(client.take_reply())
            assert reply.status == ("success",) and reply.results[:4] == words(0), reply.results
            try:
                client.take_reply()
                raise AssertionError("a reply without a call")
            except Ended:
                pass
            assert command.wait(SECONDS) == 1
            assert server.process.wait(STOP_SECONDS) == 0
            assert not os.path.exists(f"{server.state.name}/control")
        # It did not wait for calls.
        server.expect_line("a command of the control socket, or a reload, was still being executed 5 s after the signal to stop")


if __name__ == "__main__":
    main({"shows": shows, "evicts": evicts, "revokes": revokes, "drains": drains, "grace": grace, "reloads": reloads,
          "log_levels": log_levels, "traces": traces, "top": top, "top_of_a_slow_disk": top_of_a_slow_disk,
          "only_its_user": only_its_user, "ends_with_its_server": ends_with_its_server,
          "ends_beside_a_command_that_hangs": ends_beside_a_command_that_hangs})
