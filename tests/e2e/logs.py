#!/usr/bin/python3
"""The log of `penstock serve`: its formats, its levels while the server runs, and one line for each refusal."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import digest, make  # noqa: E402
import nfs4_messages as v4  # noqa: E402
from patience import BUSY, SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, STOP_SECONDS, TRANSPORTS, Server, penstock, penstock_ok as ok, serve_refused, serving  # noqa: E402
from ports import free_ports  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from rdma_messages import Words  # noqa: E402
from rpc_messages import ACCESS, GETATTR, LOOKUP, MKDIR, MOUNT, NFS, REMOVE, STALE, RpcReply, opaque, take_opaque, words  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

MNT = 1
ROFS, ACCES = 30, 13
AUTH_GSS = words(6) + opaque(words(1, 1, 0, 1) + opaque(b""))
READ_RIGHT = 1


class Client(TcpClient):
    """Makes one call after the other over TCP, as root from a port above 1023."""

    def reply_to(self, procedure, arguments=b"", program=NFS, **how):
        self.send_call(rpc.call(procedure, arguments, program, **how))
        return RpcReply(self.take_reply())

    def status_of(self, procedure, arguments=b"", program=NFS, **how):
        """Returns the status in the results, or that of the RPC reply."""
        reply = self.reply_to(procedure, arguments, program, **how)
        return struct.unpack_from(">I", reply.results)[0] if reply.status == ("success",) else reply.status

    def mounted(self, server, path):
        """Returns the handle of an export, from the port of MOUNT."""
        mount = Client(server.mount)
        results = Words(mount.reply_to(MNT, opaque(path), MOUNT).results)
        mount.close()
        assert results.word() == 0, f"cannot mount {path}"
        return take_opaque(results)

    def lookup(self, directory, name):
        results = Words(self.reply_to(LOOKUP, opaque(directory) + opaque(name)).results)
        assert results.word() == 0, f"no {name}"
        return take_opaque(results)


def folders(scratch, *names):
    for name in names:
        os.makedirs(f"{scratch}/{name}")


def objects(server):
    return [json.loads(line) for line in list(server.lines) if line.startswith("{")]


def refusals(server):
    return [each for each in objects(server) if each["module"] == "refusals"]


JSON = "--log-format=json"


def formats(scratch):
    """Each line of the JSON log is an object; each of the journal's begins with a priority; text has times."""
    folders(scratch, "export")
    environment = {**os.environ, "PENSTOCK_NONSENSE": "quote \" and more"}
    warning = "the variable PENSTOCK_NONSENSE of the environment belongs to no option"
    with Server({"/": f"{scratch}/export"}, [JSON, "--log-level=debug"], environment=environment) as server:
        lines = objects(server)
        assert lines and all(list(each)[:4] == ["time", "level", "module", "message"] for each in lines), lines
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", each["time"]) for each in lines), lines
        written = time.mktime(time.strptime(lines[0]["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        assert abs(time.time() - written) < 600, "the time is not UTC"
        (said,) = [each for each in lines if each["message"].endswith(warning)]
        assert said["level"] == "warning" and said["module"] == "cli", said
        assert any(each["level"] == "debug" for each in lines), lines
    with Server({"/": f"{scratch}/export"}, ["--log-format=journal"], environment=environment) as server:
        assert f"<4>warning: {warning}" in server.lines, server.lines
    with Server({"/": f"{scratch}/export"}, environment=environment) as server:
        assert any(re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}} warning warning: {warning}", line) for line in server.lines), server.lines
    done = penstock("serve", "--export=/=/", "--log-format=xml")
    assert done.returncode != 0 and "xml not in {text,json,journal}" in done.stderr, done.stderr


def journal(scratch):
    """Without --log-format, the lines have priorities if stderr is the journal's stream."""
    folders(scratch, "export")
    for is_journal in (True, False):
        with open(f"{scratch}/stderr", "w") as stderr:
            status = os.fstat(stderr.fileno())
            stream = f"{status.st_dev}:{status.st_ino + (0 if is_journal else 1)}"
            environment = {**os.environ, "PENSTOCK_NONSENSE": "1", "JOURNAL_STREAM": stream}
            command = [PENSTOCK, *serving(free_ports(3), f"--export=/={scratch}/export", f"--state-dir={scratch}/state")]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                  env=environment) as server:
                assert any(line == "ready\n" for line in server.stdout), "the server did not get ready"
                server.terminate()
                assert server.wait(60 * BUSY) == 0
        with open(f"{scratch}/stderr") as said:
            lines = said.read().splitlines()
        assert lines and all(line.startswith("<4>") == is_journal for line in lines), lines


def levels(scratch):
    """A module has a level of its own; SIGHUP changes levels and the format while the server runs."""
    folders(scratch, "export")
    config = f"{scratch}/penstock.toml"

    def write(*lines):
        with open(config, "w") as file:
            file.write(f'[exports]\nexport = ["/={scratch}/export"]\n[logging]\n' + "\n".join(lines) + "\n")

    def reload(server, part):
        before = len(server.lines)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(part in line for line in server.lines[before:]), f"no line has {part!r}")

    def call_by_rdma(server):
        """A call whose states the module rpcrdma logs at debug level."""
        client = rpc.Client(server.rdma)
        client.root(b"/")
        client.close()

    write('log-format = "json"', 'log-level = ["warning", "rpcrdma=debug"]')
    with Server({}, [f"--config={config}"]) as server:
        call_by_rdma(server)
        wait_until(lambda: any(each["module"] == "rpcrdma" and each["level"] == "debug" for each in objects(server)), "no debug line")
        assert {each["module"] for each in objects(server) if each["level"] == "debug"} == {"rpcrdma"}, objects(server)
        write('log-format = "json"', 'log-level = ["error", "cli=warning"]')
        reload(server, "another value of logging.log-level")
        before = len(server.lines)
        call_by_rdma(server)
        reload(server, "the same as before")
        assert not [line for line in server.lines[before:] if "rpcrdma" in line], server.lines[before:]
        write('log-format = "text"')
        reload(server, "another value of logging.log-format")
        assert not server.lines[-1].startswith("{"), server.lines
        write('log-level = ["nsf=debug"]')
        reload(server, 'no module "nsf"')
    serve_refused(scratch, "--export=/=/", "--log-level=loud", mentions=['"loud" is not a level'])
    serve_refused(scratch, "--export=/=/", "--log-level=nsf=debug", mentions=['no module "nsf"', "rpc.gss"])


def reasons(scratch):
    """Each kind of refusal gives exactly one line with the client, the reason and the option that would help."""
    folders(scratch, "squashed/private", "ro", "far", "reserved", "strict", "files")
    os.chmod(f"{scratch}/squashed/private", 0o700)
    exports = {"/squashed": "root_squash", "/ro": "ro,no_root_squash", "/far": "client=192.0.2.0/24", "/reserved": "secure",
               "/strict": "sec=none", "/files": "no_root_squash"}
    with Server({path: f"{scratch}{path}:{options}" for path, options in exports.items()}, [JSON]) as server:
        client, mount = Client(server.tcp), Client(server.mount)
        squashed, ro, files = (client.mounted(server, path) for path in (b"/squashed", b"/ro", b"/files"))
        strict = client.mounted(server, b"/strict")
        lines = []

        def expect(reason, export, *mentions, operation=None):
            """Expects one new line."""
            wait_until(lambda: len(refusals(server)) > len(lines), f"no line for {reason}")
            (line,) = refusals(server)[len(lines):]
            lines.append(line)
            assert line["reason"] == reason and line.get("export") == export and line["client"] == "127.0.0.1", line
            assert line["level"] == "warning" and line.get("operation") == operation, line
            assert all(each in line["message"] for each in mentions), line

        new = opaque(b"new") + words(0, 0, 0, 0, 0, 0)
        assert client.status_of(MKDIR, opaque(squashed) + new) == ACCES
        expect("root_squash", "/squashed", "uid 65534", "no_root_squash", "by uid 0", operation="MKDIR of version 3")
        assert client.status_of(MKDIR, opaque(ro) + new) == ROFS
        expect("ro", "/ro", "rw would allow it", operation="MKDIR of version 3")
        assert client.status_of(ACCESS, opaque(strict) + words(READ_RIGHT)) == ("denied", 1, 5)
        expect("sec", "/strict", "takes no calls with sec=sys, but those with sec=none")
        assert mount.status_of(MNT, opaque(b"/far"), MOUNT) == ACCES
        expect("client", "/far", "the option client=")
        assert mount.status_of(MNT, opaque(b"/reserved"), MOUNT) == ACCES
        expect("secure", "/reserved", "port is not below 1024")
        assert mount.status_of(MNT, opaque(b"/missing"), MOUNT) == 2
        expect("no_export", None, '"/missing"')
        assert mount.status_of(MNT, opaque(b"/squashed/.."), MOUNT) == ACCES
        expect("path", "/squashed", '"/squashed/.."', "follows no")
        os.mkdir(f"{scratch}/files/removed")
        removed = client.lookup(files, b"removed")
        os.rmdir(f"{scratch}/files/removed")
        assert client.status_of(GETATTR, opaque(removed)) == STALE
        expect("stale", "/files", "was removed", operation="GETATTR of version 3")
        assert client.status_of(GETATTR, opaque(b"no handle")) == rpc.BADHANDLE
        expect("bad_handle", None, "of another server", operation="GETATTR of version 3")
        assert client.status_of(GETATTR, opaque(files[:-1] + bytes([files[-1] ^ 1]))) == rpc.BADHANDLE
        expect("bad_handle", "/files", "forged", operation="GETATTR of version 3")
        assert client.reply_to(0, program=(100003, 2)).status[:2] == ("accepted", rpc.PROG_MISMATCH)
        expect("version", None, "version 2", "option nfs2")

        # Version 4
        def compound(*operations, minor=0):
            reply = client.reply_to(v4.COMPOUND, opaque(b"") + words(minor, len(operations)) + b"".join(operations), v4.NFS4)
            return struct.unpack_from(">I", reply.results)[0]

        private = client.lookup(squashed, b"private")
        before = len(lines)
        assert compound(v4.putfh(private), v4.op(v4.ACCESS, words(READ_RIGHT))) == 0
        assert compound(v4.putfh(ro), v4.create_op(v4.NF4DIR, b"new")) == ROFS
        assert compound(v4.putfh(strict), v4.op(v4.GETFH)) == v4.WRONGSEC
        assert client.status_of(ACCESS, opaque(private) + words(READ_RIGHT)) == 0
        time.sleep(0.2)
        assert len(refusals(server)) == before, "they have had their lines within this minute"
        assert compound(minor=7) == v4.MINOR_VERS_MISMATCH
        # An ordinary permission is no refusal.
        user = words(1) + opaque(words(0) + opaque(b"machine") + words(1000, 1000, 0))
        assert client.status_of(MKDIR, opaque(squashed) + new, credential=user) == ACCES
        assert client.status_of(LOOKUP, opaque(files) + opaque(b"missing")) == rpc.NOENT
        client.close()
        mount.close()
    counts = [each for each in refusals(server) if "more" in each]
    assert {(each["reason"], each.get("export")) for each in counts} >= {("root_squash", "/squashed"), ("ro", "/ro"), ("sec", "/strict")}, counts


def version4(scratch):
    """The same mechanism names what version 4 refuses."""
    folders(scratch, "squashed", "ro")
    exports = {"/squashed": "root_squash", "/ro": "ro,no_root_squash"}
    with Server({path: f"{scratch}{path}:{options}" for path, options in exports.items()}, [JSON]) as server:
        client = Client(server.tcp)

        def compound(*operations):
            reply = client.reply_to(v4.COMPOUND, opaque(b"") + words(0, len(operations)) + b"".join(operations), v4.NFS4)
            return struct.unpack_from(">I", reply.results)[0]

        for name, status in ((b"squashed", ACCES), (b"ro", ROFS)):
            assert compound(v4.op(v4.PUTROOTFH), v4.op(v4.LOOKUP, opaque(name)), v4.create_op(v4.NF4DIR, b"new")) == status
        wait_until(lambda: len(refusals(server)) == 2, "no two lines")
        one, two = refusals(server)
        assert (one["reason"], one["export"], one["operation"], one["user"]) == ("root_squash", "/squashed", "CREATE of version 4", "uid 0"), one
        assert (two["reason"], two["export"], two["operation"]) == ("ro", "/ro", "CREATE of version 4"), two
        client.close()


def thousand(scratch):
    """A thousand refusals give one line, and a count when the minute, or the server, ends."""
    folders(scratch, "ro")
    with Server({"/ro": f"{scratch}/ro:ro,no_root_squash"}, [JSON]) as server:
        client = Client(server.tcp)
        ro = client.mounted(server, b"/ro")
        for _ in range(1000):
            assert client.status_of(REMOVE, opaque(ro) + opaque(b"name")) == ROFS
        assert len(refusals(server)) == 1, refusals(server)
        client.close()
    wait_until(lambda: len(refusals(server)) == 2, "no count")
    last = refusals(server)[-1]
    assert last["more"] == "999" and "(999 more since the last such line)" in last["message"], last


def bounded(scratch):
    """Many reasons at once give at most twenty lines in a second, and then the number of the others."""
    folders(scratch, "far")
    exports = {f"/far{i}": f"{scratch}/far:client=192.0.2.0/24" for i in range(60)}
    with Server(exports, [JSON]) as server:
        mount = Client(server.mount)
        began = time.monotonic()
        for path in exports:
            assert mount.status_of(MNT, opaque(path.encode()), MOUNT) == ACCES
        seconds = time.monotonic() - began
        wait_until(lambda: any(each["reason"] == "too_many" for each in refusals(server)), "no line tells the number of the others")
        told = [each for each in refusals(server) if each["reason"] == "client"]
        assert len(told) <= 20 * (int(seconds) + 2), f"{len(told)} lines in {seconds:.1f} s"
        mount.close()
    wait_until(lambda: sum(int(each.get("more", 0)) for each in refusals(server) if each["reason"] == "too_many") + len(told) == 60,
               "not all refusals are counted")


def gone_export(scratch):
    """A handle of an export that a reload has removed."""
    folders(scratch, "stays", "goes")
    table = f"{scratch}/exports"

    def write(*names):
        with open(table, "w") as file:
            file.writelines(f"{scratch}/{name} *(rw,insecure,no_root_squash)\n" for name in names)

    write("stays", "goes")
    with Server({}, [f"--exports={table}", JSON]) as server:
        client = Client(server.tcp)
        gone = client.mounted(server, f"{scratch}/goes".encode())
        write("stays")
        server.process.send_signal(signal.SIGHUP)
        server.expect_line("no longer exports")
        assert client.status_of(GETATTR, opaque(gone)) == STALE
        wait_until(lambda: refusals(server), "no line")
        (line,) = refusals(server)
        assert line["reason"] == "export_gone" and "an export that is gone" in line["message"], line
        client.close()


def connections(scratch):
    """A connection above the limit of its address is refused with the option's name, and so are the next ones."""
    folders(scratch, "export")
    with Server({"/": f"{scratch}/export"}, [JSON, "--max-connections-per-address=2", "--idle-limit=86400"]) as server:
        clients = [Client(server.tcp) for _ in range(2)]
        for each in clients:
            assert each.reply_to(0).status == ("success",)
        surplus = [Client(server.tcp) for _ in range(3)]
        for each in surplus:
            each.endpoint.socket.settimeout(SECONDS)
            assert each.endpoint.socket.recv(1) == b"", "the server has refused it"
        wait_until(lambda: refusals(server), "no line")
        (line,) = refusals(server)
        assert line["reason"] == "connections" and "option max-connections-per-address allows more" in line["message"], line
        for each in clients + surplus:
            each.close()
    wait_until(lambda: len(refusals(server)) == 2, "no count")
    assert refusals(server)[1]["more"] == "2", refusals(server)


class Unread:
    """A server that logs everything to a pipe. Nobody reads the pipe at first."""

    def __init__(self, scratch):
        folders(scratch, "export")
        os.chmod(f"{scratch}/export", 0o777)
        make(f"{scratch}/file", 10 << 20)
        self.scratch, self.ports = scratch, free_ports(3)
        self.lines = []

    def __enter__(self):
        self.pipe, stderr = os.pipe()
        fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, 4096)
        command = [PENSTOCK, *serving(self.ports, f"--export=/={self.scratch}/export:no_root_squash", f"--state-dir={self.scratch}/state"),
                   "--log-level=debug", JSON]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)
        os.close(stderr)
        assert any(line == "ready\n" for line in self.process.stdout), "the server did not get ready"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def copy(self, transport="tcp"):
        """Copies the file there and back."""
        tcp, rdma, mount = self.ports
        url = f"nfs://{ADDRESS}:{rdma if transport == 'rdma' else tcp}/file?proto={transport}&vers=4.2&mountport={mount}"
        ok("cp", "-q", f"{self.scratch}/file", url)
        ok("cp", "-q", url, f"{self.scratch}/back")
        assert digest(f"{self.scratch}/back") == digest(f"{self.scratch}/file")
        os.unlink(f"{self.scratch}/export/file")
        os.unlink(f"{self.scratch}/back")

    def fill(self):
        """Has more logged than the pipe and the queue of the server hold: 1 MiB. Each call over RDMA has four lines."""
        client = rpc.Client(self.ports[1])
        for _ in range(4000):
            client.call()

    def read(self):
        """From now on, reads the pipe."""
        def take():
            with open(self.pipe, errors="replace") as pipe:
                for line in pipe:
                    self.lines.append(line)
        self.reader = threading.Thread(target=take, daemon=True)
        self.reader.start()

    def stop(self):
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)


def unread(scratch):
    """Nobody reads standard error, which is a full pipe: calls go on, and SIGTERM ends the server."""
    with Unread(scratch) as server:
        for transport in TRANSPORTS:
            server.copy(transport)
        server.fill()
        for transport in TRANSPORTS:
            server.copy(transport)
        assert server.stop() == 0
        os.close(server.pipe)


def read_late(scratch):
    """The pipe is read after a while: the log tells how many messages were lost, in whole lines, and goes on."""
    with Unread(scratch) as server:
        server.fill()
        server.copy()
        server.read()

        def losses():
            return [line for line in list(server.lines) if "messages were lost: standard error was not read fast enough" in line]
        wait_until(losses, "no line tells of lost messages")
        before = len(server.lines)
        server.copy("rdma")
        wait_until(lambda: len(server.lines) > before, "the log does not go on")
        assert server.stop() == 0
        server.reader.join(SECONDS)
        said = [json.loads(line) for line in server.lines]
        (first, *_) = [each for each in said if "were lost" in each["message"]]
        assert first["level"] == "warning" and first["module"] == "cli" and int(first["message"].split()[0]) > 0, first


def reader_goes(scratch):
    """The reader of standard error goes away: the server goes on."""
    with Unread(scratch) as server:
        os.close(server.pipe)
        server.copy()
        assert server.stop() == 0


class Audited:
    """A server with an audit log, which writes it to `scratch`."""

    def __init__(self, scratch, *options, path=None):
        folders(scratch, "export/folder")
        os.chmod(f"{scratch}/export", 0o777)
        self.file = path or f"{scratch}/audit"
        self.taken = 0
        self.server = Server({"/data": f"{scratch}/export:no_root_squash"}, [f"--audit={self.file}", *options])

    def lines(self):
        with open(self.file) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def take(self, count):
        """Waits for so many new lines; returns "operation path [to] result" of each."""
        wait_until(lambda: len(self.lines()) >= self.taken + count, f"no {count} more lines")
        new = self.lines()[self.taken:]
        self.taken += len(new)
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", each["time"]) for each in new), new
        assert all(each["client"] == ADDRESS and each["uid"] == 0 for each in new), new
        return [" ".join(each[key] for key in ("operation", "path", "to", "access", "result") if key in each) for each in new]


def audit_version3(scratch):
    """Each change by version 3 has a line with the path and the result; mounts have one as well."""
    audited = Audited(scratch)
    with audited.server as server:
        assert os.stat(audited.file).st_mode & 0o7777 == 0o600
        client = Client(server.tcp)
        root = client.mounted(server, b"/data")
        mount = Client(server.mount)
        assert mount.status_of(MNT, opaque(b"/other"), MOUNT) == rpc.NOENT
        assert audited.take(2) == ["mount /data ok", "mount /other MNT3ERR_NOENT"]
        folder = client.lookup(root, b"folder")
        nothing = words(0, 0, 0, 0, 0, 0)
        mode = words(1, 0o640, 0, 0, 0, 0, 0)
        assert client.status_of(rpc.CREATE, opaque(folder) + opaque(b"file") + words(1) + nothing) == 0
        file = client.lookup(folder, b"file")
        assert client.status_of(rpc.SETATTR, opaque(file) + mode + words(0)) == 0
        for _ in range(3):
            assert client.status_of(rpc.WRITE, opaque(file) + rpc.hyper(0) + words(4, 2) + opaque(b"text")) == 0
        assert audited.take(3) == ["create /folder/file ok", "setattr /folder/file ok", "write /folder/file ok"]
        assert client.status_of(MKDIR, opaque(root) + opaque(b"new") + nothing) == 0
        assert client.status_of(MKDIR, opaque(root) + opaque(b"new") + nothing) == rpc.EXIST
        assert client.status_of(rpc.LINK, opaque(file) + opaque(root) + opaque(b"link")) == 0
        assert client.status_of(rpc.SYMLINK, opaque(root) + opaque(b"symlink") + nothing + opaque(b"target")) == 0
        assert client.status_of(rpc.RENAME, opaque(folder) + opaque(b"file") + opaque(root) + opaque(b"moved")) == 0
        assert client.status_of(REMOVE, opaque(root) + opaque(b"link")) == 0
        assert client.status_of(REMOVE, opaque(root) + opaque(b"link")) == rpc.NOENT
        assert client.status_of(rpc.RMDIR, opaque(root) + opaque(b"new")) == 0
        said = audited.take(8)
        assert said[2].startswith("link /") and said[2].endswith(" /link ok"), said
        said[2] = ""
        assert said == ["mkdir /new ok", "mkdir /new file exists", "", "symlink /symlink ok", "rename /folder/file /moved ok",
                        "remove /link ok", "remove /link no such file or directory", "rmdir /new ok"], said
        assert {each["export"] for each in audited.lines() if each["operation"] != "mount"} == {"/data"}
        # What changes nothing has no line.
        assert client.status_of(LOOKUP, opaque(root) + opaque(b"folder")) == 0
        assert client.status_of(rpc.READ, opaque(file) + rpc.hyper(0) + words(4)) == 0
        client.close()
        mount.close()
    assert audited.lines()[audited.taken:] == [], "the reads have lines"


def audit_version4(scratch):
    """Changes and opens of version 4.1 have lines, over RDMA and TCP, by the client of this program."""
    audited = Audited(scratch)
    with open(f"{scratch}/local", "w") as file:
        file.write("text")
    with audited.server as server:
        for transport in ("tcp", "rdma"):
            port = server.rdma if transport == "rdma" else server.tcp

            def url(name):
                return f"nfs://{ADDRESS}:{port}/data/{name}?proto={transport}&vers=4.1"
            ok("cp", "--in-place", f"{scratch}/local", url("file"))
            said = audited.take(3)
            assert "create /file ok" in said and "write /file ok" in said, said
            assert any(re.fullmatch(r"open /file (read,)?write ok", each) for each in said), said
            assert ok("cat", url("file")) == b"text"
            wait_until(lambda: audited.lines()[-1]["operation"] == "open", "no line for the open")
            assert audited.take(1)[-1] == "open /file read ok"
            penstock("cat", url("missing"))
            ok("chmod", "600", url("file"))
            assert "setattr /file ok" in audited.take(1)
            ok("mv", url("file"), "/data/folder/moved")
            ok("rm", url("folder/moved"))
            said = audited.take(2)
            assert said[-2:] == ["rename /file /folder/moved ok", "remove /folder/moved ok"], said


def audit_rotates(scratch):
    """SIGHUP opens the file again by its name."""
    audited = Audited(scratch)
    with audited.server as server:
        client = Client(server.tcp)
        root = client.mounted(server, b"/data")
        audited.take(1)
        os.rename(audited.file, f"{scratch}/audit.1")
        assert client.status_of(MKDIR, opaque(root) + opaque(b"before") + words(0, 0, 0, 0, 0, 0)) == 0
        wait_until(lambda: '"/before"' in open(f"{scratch}/audit.1").read(), "the old file has no line")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: os.path.exists(audited.file), "the file is not made again")
        assert os.stat(audited.file).st_mode & 0o7777 == 0o600
        audited.taken = 0
        assert client.status_of(MKDIR, opaque(root) + opaque(b"after") + words(0, 0, 0, 0, 0, 0)) == 0
        assert audited.take(1) == ["mkdir /after ok"]
        client.close()


def audit_full_disk(scratch):
    """A full disk loses records, and the log says so; calls go on."""
    audited = Audited(scratch, JSON, path="/dev/full")
    with audited.server as server:
        client = Client(server.tcp)
        root = client.mounted(server, b"/data")
        for number in range(20):
            assert client.status_of(MKDIR, opaque(root) + opaque(b"%d" % number) + words(0, 0, 0, 0, 0, 0)) == 0
        line = json.loads(server.expect_line("the audit log /dev/full loses records"))
        assert line["level"] == "error" and "No space left on device" in line["message"], line
        client.close()
    assert len([line for line in server.lines if "loses records" in line]) == 1, "once a minute"
    serve_refused(scratch, "--export=/=/", f"--audit={scratch}/missing/audit", mentions=["--audit", "No such file or directory"])


if __name__ == "__main__":
    main({case.__name__: case for case in (formats, journal, levels, reasons, version4, thousand, bounded, gone_export, connections, unread, read_late, reader_goes, audit_version3,
                                       audit_version4, audit_rotates, audit_full_disk)})
