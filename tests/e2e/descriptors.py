#!/usr/bin/python3
"""The server's file descriptors: all exports and connections share them, and no client waits forever."""

import errno
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import nfs4_messages as nfs4  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from cases import main  # noqa: E402
from files import make  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import TRANSPORTS, Server, penstock_ok as ok, penstock_refused as refused, under_way  # noqa: E402
from rdma_messages import Words  # noqa: E402
from rpc_messages import hyper, opaque, take_opaque, words  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

FILES = 300
UNSTABLE, FILE_SYNC = 0, 2
READ_ONLY_HOST = "192.0.2.1"


def limit_descriptors(count):
    """Limits the open files of the programs that start from here on."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


class Client(TcpClient):
    """Calls of NFS version 3 that must succeed. NFS3ERR_JUKEBOX is a failure."""

    def call(self, procedure, arguments, program=rpc.NFS):
        reply = rpc.RpcReply(nfs4.transact(self, rpc.call(procedure, arguments, program)))
        assert reply.status == ("success",), reply.status
        results = Words(reply.results)
        status = results.word()
        assert status == rpc.OK, f"procedure {procedure} ended with {status}"
        return results

    def root(self, path):
        return take_opaque(self.call(1, opaque(path), rpc.MOUNT))

    def look_up(self, directory, name):
        return take_opaque(self.call(rpc.LOOKUP, opaque(directory) + opaque(name)))

    def read(self, file):
        self.call(rpc.READ, opaque(file) + hyper(0) + words(10))

    def write(self, file, data, stable=UNSTABLE):
        self.call(rpc.WRITE, opaque(file) + hyper(0) + words(len(data), stable) + opaque(data))

    def commit(self, file):
        self.call(rpc.COMMIT, opaque(file) + hyper(0) + words(0))


def exports_of_files(scratch, exports, files):
    served = {}
    for export in range(exports):
        folder = f"{scratch}/{export}"
        os.makedirs(folder)
        os.chmod(folder, 0o777)
        for number in range(files):
            make(f"{folder}/{number}", 10)
        served[f"/{export}"] = f"{folder}:no_root_squash"
    return served


def six_exports(scratch):
    """Each export serves hundreds of files, one after the other and in turn, for reads and writes, by versions with and
    without opens. The process may open 1024 files."""
    served = exports_of_files(scratch, 6, FILES)
    limit_descriptors(1024)
    with Server(served) as server:
        client = Client(server.tcp)
        files = []
        for path in served:
            directory = client.root(path.encode())
            files.append([client.look_up(directory, str(number).encode()) for number in range(FILES)])
            for file in files[-1]:
                client.write(file, b"written")
                client.read(file)
        for in_turn in zip(*files):
            for file in in_turn:
                client.write(file, b"written again")
                client.read(file)
        session = nfs4.Session(client, b"opens many")
        for path in served:
            directory = nfs4.look_up(client, path[1:].encode())
            for number in range(FILES // 3):
                owner = nfs4.Owner(session, b"owner")
                file, stateid = owner.open(client, directory, str(number).encode())
                results = session.run(client, nfs4.at(file, nfs4.write_op(stateid, 0, b"opened"),
                                                      nfs4.op(nfs4.READ, stateid, hyper(0), words(10))))
                assert results.status == nfs4.OK, (path, number, results.statuses)
        assert not any("too many" in line for line in server.lines), server.lines
        client.close()


def connections_beside_files(scratch):
    """Connections use the descriptors that files do not need. If there are too many connections, new ones wait, one
    line reports it, and they are served when others have ended."""
    served = exports_of_files(scratch, 2, FILES)
    served["/1"] += f",client={READ_ONLY_HOST}"
    wanted = 200
    with Server(served, ["--threads=2"]) as server:
        # UBSan needs descriptors when it first checks a type, so do everything once before.
        refused("ls", server.url("/1", "tcp"))
        for transport in TRANSPORTS:
            ok("ping", "-c", 1, server.url("/0", transport))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (wanted + 56, wanted + 56))
        client = Client(server.tcp)
        directory = client.root(b"/0")
        files = [client.look_up(directory, str(number).encode()) for number in range(FILES)]
        for file in files:
            try:
                client.read(file)
            except AssertionError:
                pass  # the server divided its descriptors before the limit was lowered
        for transport in TRANSPORTS:
            clients = [TcpClient(server.tcp) for _ in range(wanted)]
            for other in clients:
                other.send_call(rpc.call())
            for other in clients[:wanted - 50]:
                other.record()
            clients += [TcpClient(server.tcp) for _ in range(100)]
            server.expect_line("cannot accept a connection")
            with under_way("ping", "-c", 1, server.url("/0", transport)) as ping:
                time.sleep(2)  # long enough for a log line at each retry
                for other in clients:
                    other.close()
                assert ping.wait(SECONDS) == 0, "a listener that is deaf"
        said = [line for line in server.lines if "cannot accept a connection" in line]
        assert len(said) == 1 and "LimitNOFILE" in said[0], said
        client.close()


def few(scratch):
    """The process may have 256 open files. A client that opens and locks more files, and many idle connections, do not
    use up the last descriptors: the server still serves clients, also one of another host that connects last."""
    served = exports_of_files(scratch, 2, FILES)
    limit_descriptors(256)
    with Server(served, ["--lease=60"]) as server:
        server.expect_line("no more than 64 of 1024 connections")
        client = TcpClient(server.tcp)
        session = nfs4.Session(client, b"opens and locks")
        directory = nfs4.look_up(client, b"0")
        held = []
        for number in range(FILES):
            arguments = nfs4.open_op(session.client, b"opener", str(number).encode(), nfs4.BOTH | nfs4.NO_DELEGATION)
            opened = session.run(client, nfs4.at(directory, arguments, nfs4.op(nfs4.GETFH)))
            if opened.status != nfs4.OK:
                continue
            file, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
            session.run(client, nfs4.at(file, nfs4.lock_op(session.client, b"locker %d" % number, stateid, 0, 10)))
            held.append((file, stateid))
        assert len(held) > FILES // 10, len(held)
        idle = [TcpClient(server.tcp) for _ in range(140)]
        for other in idle:
            other.send_call(rpc.call())
        server.expect_line("127.0.0.1 is refused a connection")
        idle[0].record()
        for number in range(FILES):
            found = nfs4.run(idle[0], nfs4.at(directory, nfs4.op(nfs4.LOOKUP, opaque(str(number).encode())), nfs4.op(nfs4.GETFH)))
            assert found.status == nfs4.OK, (number, found.statuses)
        for file, stateid in held:
            written = session.run(client, nfs4.at(file, nfs4.write_op(stateid, 0, b"written")))
            assert written.status == nfs4.OK, written.statuses
        another = Client(server.tcp, source="127.0.0.2")
        another.read(another.look_up(another.root(b"/1"), b"0"))
        for other in (client, another, *idle):
            other.close()
        assert not any("cannot be opened" in line for line in server.lines), server.lines


def executes(path):
    """Waits until the program can be executed. Its writer has closed it without notifying anyone."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return subprocess.run([path], check=False).returncode
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def programs(scratch):
    """The server's host can execute a program that was written over NFS, in any version."""
    text = b"#!/bin/sh\nexit 7\n"
    with open(f"{scratch}/program", "wb") as file:
        file.write(text)
    os.chmod(f"{scratch}/program", 0o755)
    with Server(exports_of_files(scratch, 1, 0)) as server:
        client = Client(server.tcp)
        directory = client.root(b"/0")
        attributes = words(1, 0o755, 0, 0, 0, 0, 0)
        for name, stable, commits in ((b"synced", FILE_SYNC, False), (b"unsynced", UNSTABLE, False), (b"committed", UNSTABLE, True)):
            made = client.call(rpc.CREATE, opaque(directory) + opaque(name) + words(1) + attributes)
            assert made.word() == 1, "no handle"
            file = take_opaque(made)
            client.write(file, text, stable)
            if commits:
                client.commit(file)
            assert executes(f"{scratch}/0/{name.decode()}") == 7, name
            client.write(file, text, stable)  # writing it still works
            assert executes(f"{scratch}/0/{name.decode()}") == 7, name
        client.close()
        for transport in TRANSPORTS:
            for version in ("3", "4.0", "4.1", "4.2"):
                name = f"{transport}-{version}"
                ok("cp", f"{scratch}/program", server.url(f"/0/{name}", transport).replace("vers=3", f"vers={version}"))
                os.chmod(f"{scratch}/0/{name}", 0o755)
                assert executes(f"{scratch}/0/{name}") == 7, name


main({case.__name__: case for case in (six_exports, connections_beside_files, few, programs)})
