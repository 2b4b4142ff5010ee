#!/usr/bin/python3
"""Referrals between real servers, followed by the client: in every version of NFS that has them, over TCP and RDMA."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import MIB, make  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import ADDRESS, TRANSPORTS, Server, penstock_ok as ok, penstock_refused as refused, under_way  # noqa: E402
from ports import free_ports  # noqa: E402
from valve import Valve  # noqa: E402

VERSIONS = ("4.0", "4.1", "4.2", "4.1-sess01")
SIZE = 300_001


def at(port):
    """Returns the address of this host as exports name it, with a port."""
    return f"{ADDRESS}.{port >> 8}.{port & 255}"


class Servers:
    """Servers of one transport: `first` is mounted, and it refers to `second`, which refers to `third`."""

    def __init__(self, scratch, transport):
        self.transport, self.ports = transport, [free_ports(3) for _ in range(3)]
        self.folders = [f"{scratch}/{transport}/{name}" for name in ("first", "second", "third")]
        for folder in self.folders:
            os.makedirs(folder)
            os.chmod(folder, 0o777)
        (self.closed,) = free_ports(1)
        first, second, third = (at(ports[transport == "rdma"]) for ports in self.ports)
        nobody = at(self.closed)
        self.exports = [
            {"/here": self.folders[0], "/far": f"none:refer=/data@{second}", "/chain": f"none:refer=/next@{second}",
             "/two": f"none:refer=/data@{nobody}+{second}", "/dead": f"none:refer=/data@{nobody}",
             "/wrong": f"none:refer=/absent/data@{second}", "/loop": f"none:refer=/loop@{second}",
             "/self": f"none:refer=/self@{first}"},
            {"/data": self.folders[1], "/next": f"none:refer=/data@{third}", "/loop": f"none:refer=/loop@{first}"},
            {"/data": self.folders[2]}]

    def server(self, number, *options):
        exports = {path: f"{value}{'' if ':' in value else ':no_root_squash'}" for path, value in self.exports[number].items()}
        return Server(exports, [f"--sess01={self.transport}", *options], ports=self.ports[number])

    def url(self, path, version, more=""):
        return f"nfs://{ADDRESS}:{self.ports[0][self.transport == 'rdma']}{path}?vers={version}&proto={self.transport}{more}"


@contextlib.contextmanager
def serving(scratch):
    """All servers of both transports."""
    with contextlib.ExitStack() as stack:
        both = [Servers(scratch, transport) for transport in TRANSPORTS]
        for servers in both:
            servers.running = [stack.enter_context(servers.server(number)) for number in range(3)]
        yield both


def follows(scratch):
    """Files go to the server that the referral names, and come from there: directly, by a chain, and with a dead first
    server."""
    make(f"{scratch}/source", SIZE)
    with open(f"{scratch}/source", "rb") as file:
        contents = file.read()
    with serving(scratch) as both:
        for servers in both:
            for version in VERSIONS:
                for path, folder in (("/far", servers.folders[1]), ("/chain", servers.folders[2]), ("/two", servers.folders[1])):
                    name = f"{version}-{path[1:]}"
                    url = servers.url(f"{path}/{name}", version)
                    ok("cp", "-q", f"{scratch}/source", url)
                    with open(f"{folder}/{name}", "rb") as file:
                        assert file.read() == contents, f"{name} has other data on the host"
                    assert ok("cat", url) == contents, f"{name} came back with other data"
                ok("cp", "-q", url, f"{scratch}/got")
                with open(f"{scratch}/got", "rb") as file:
                    assert file.read() == contents, f"{name} came back with other data"
                ok("mkdir", servers.url("/far/made", version))
                ok("mv", servers.url(f"/far/{version}-far", version), "/two/made")
                assert ok("ls", servers.url("/far/made", version)).decode().split() == [f"{version}-far"]
                ok("rm", servers.url(f"/far/made/{version}-far", version))
                ok("rmdir", servers.url("/far/made", version))
            assert os.listdir(servers.folders[0]) == []


def shows(scratch):
    """A listing shows referrals as directories, and waits for none of their servers."""
    with serving(scratch) as both:
        for servers in both:
            for server in servers.running[1:]:
                server.stop()
            for version in VERSIONS:
                assert ok("ls", servers.url("/", version)).decode().split() == sorted(path[1:] for path in servers.exports[0])
                _, *lines = ok("ls", "-l", servers.url("/", version)).decode().splitlines()
                for line in lines:
                    name, mode = line.split()[-1], line.split()[0]
                    assert mode.startswith("drwx") if name == "here" else mode == "d?????????", line


def refuses(scratch):
    """What cannot be done ends with one clear line, and the other file systems of the mount go on."""
    make(f"{scratch}/source", 10)
    with serving(scratch) as both:
        for servers in both:
            for version in ("4.0", "4.2"):
                def url(path):
                    return servers.url(path, version)

                ok("cp", "-q", f"{scratch}/source", url("/here/file"))
                for path in ("/loop", "/self"):
                    refused("ls", url(path), mentions=[path[1:], "8 referrals lead to one another"])
                refused("cat", url("/dead/file"), mentions=["dead", "cannot follow the referral", f"port {servers.closed}", "refused"])
                refused("cat", url("/wrong/file"), mentions=["wrong", "cannot follow the referral", "/absent/data", "no such"])
                refused("mv", url("/here/file"), "/far/file", mentions=["file", "on another file system"])
                refused("ln", url("/here/file"), "/far/file", mentions=["file", "on another file system"])
                refused("rmdir", url("/far"), mentions=["far"])
                assert len(ok("cat", url("/here/file"))) == 10
            # Version 3 has no referrals.
            refused("ls", servers.url("/far", "3", f"&mountport={servers.ports[0][2]}"), mentions=["/far"])


def hides_its_directory(scratch):
    """The directory of a referral is below another export: no version of NFS reaches what is in it."""
    os.makedirs(f"{scratch}/export/far")
    make(f"{scratch}/export/far/secret", 10)
    exports = {"/": f"{scratch}/export:no_root_squash", "/far": f"{scratch}/export/far:refer=/data@{ADDRESS}.0.1"}
    with Server(exports) as server:
        for path in ("/far/secret", "/./far/secret"):
            url = f"nfs://{ADDRESS}:{server.tcp}{path}?vers=3&proto=tcp&mountport={server.mount}"
            refused("cat", url, mentions=["far"])
        root = f"nfs://{ADDRESS}:{server.tcp}/?vers=3&proto=tcp&mountport={server.mount}"
        assert ok("ls", root).decode().split() == ["far"]
        refused("mv", f"nfs://{ADDRESS}:{server.tcp}/far?vers=3&proto=tcp&mountport={server.mount}", "/other", mentions=["far"])
        assert os.listdir(f"{scratch}/export/far") == ["secret"]


def survives_restarts(scratch):
    """A referred server that is killed and started again in the middle of a copy loses nothing."""
    size, passing = 24 * MIB, 3 * MIB
    for transport in TRANSPORTS:
        servers = Servers(scratch, transport)
        make(f"{servers.folders[1]}/file", size)
        is_rdma = transport == "rdma"
        with servers.server(1, "--grace=0") as second, Valve(second.rdma if is_rdma else second.tcp, passing) as valve:
            servers.exports[0]["/far"] = f"none:refer=/data@{at(valve.port)}"
            with servers.server(0), under_way("cp", "-q", servers.url("/far/file", "4.1"), f"{scratch}/got") as client:
                valve.wait()
                second.kill()
                second.start()
                valve.open()
                assert client.wait(SECONDS) == 0, client.returncode
        with open(f"{scratch}/got", "rb") as got, open(f"{servers.folders[1]}/file", "rb") as source:
            assert got.read() == source.read()


CASES = {case.__name__: case for case in (follows, shows, refuses, hides_its_directory, survives_restarts)}

if __name__ == "__main__":
    main(CASES)
