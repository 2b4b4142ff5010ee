#!/usr/bin/python3
"""The real program, end to end: its client against its server, and how both behave after errors. Over loopback. The
cases that concern RDMA also run over an adapter, in a guest (tests/interop/verbs.py)."""

import contextlib
import filecmp
import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from certificates import Authority  # noqa: E402
from cases import Skip, main  # noqa: E402
from files import SIZES, assert_same, digests, make, make_sizes  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import ADDRESS, INSIDE, PENSTOCK, TRANSPORTS, Server, penstock, serve_refused, serving  # noqa: E402
from penstock import penstock_misused as misused, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from ports import free_ports  # noqa: E402
from trees import url_of  # noqa: E402


def folders(scratch, *names):
    for name in names:
        os.makedirs(f"{scratch}/{name}")
        os.chmod(f"{scratch}/{name}", 0o777)


def exchange(scratch, transport):
    """ping, ls, cat, and cp of every file size in both directions."""
    folders(scratch, "export", "export/made", "export/put", "mine", "got")
    make_sizes(f"{scratch}/export/made")
    make_sizes(f"{scratch}/mine")
    with Server({"/export": f"{scratch}/export:no_root_squash"}) as server:
        ok("ping", server.url("/export", transport))
        listed = ok("ls", server.url("/export/made", transport)).decode().split()
        assert all(name in listed for name in SIZES), listed
        for name in SIZES:
            ok("cp", server.url(f"/export/made/{name}", transport), f"{scratch}/got/{name}")
            ok("cp", f"{scratch}/mine/{name}", server.url(f"/export/put/{name}", transport))
        with open(f"{scratch}/export/text", "w") as text:
            text.write("one\ntwo\n")
        assert ok("cat", server.url("/export/text", transport)) == b"one\ntwo\n"
        refused("cat", server.url("/export/absent", transport), mentions=["absent"])
        refused("cat", server.url("/export", transport), mentions=["/export", "is a directory"])
        refused("ls", server.url("/elsewhere", transport), mentions=["elsewhere"])
    assert_same(digests(f"{scratch}/got"), digests(f"{scratch}/export/made"), "copied from the server")
    assert_same(digests(f"{scratch}/export/put"), digests(f"{scratch}/mine"), "copied to the server")


def rdma(scratch):
    exchange(scratch, "rdma")


def tcp(scratch):
    exchange(scratch, "tcp")


def versions(scratch):
    """The operations on a file, in every version of NFS over both transports: copy to the server, rename, link, read,
    remove."""
    folders(scratch, "export")
    make(f"{scratch}/file", 3 << 20)
    with open(f"{scratch}/file", "rb") as file:
        content = file.read()
    with Server({"/export": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            for version in ("3", "4.0", "4.1", "4.2"):
                def url(path):
                    return server.url(f"/export{path}", transport).replace("vers=3", f"vers={version}")

                assert f"NFS version {version} ".encode() in ok("ping", "-c", 1, url("/"))
                ok("mkdir", "-m", 710, url("/one"), url("/two"))
                assert os.stat(f"{scratch}/export/one").st_mode & 0o7777 == 0o710
                refused("mkdir", url("/one"), mentions=["one", "exists"])
                ok("cp", f"{scratch}/file", url("/one/file"))
                ok("chmod", 604, url("/one/file"))
                assert os.stat(f"{scratch}/export/one/file").st_mode & 0o7777 == 0o604
                ok("ln", url("/one/file"), "/export/two")  # a directory as target: the file keeps its name
                ok("ln", "-s", "two/file", url("/soft"))
                assert os.readlink(f"{scratch}/export/soft") == "two/file"
                assert os.stat(f"{scratch}/export/soft").st_nlink == 2
                ok("mv", url("/one/file"), "/export/two/moved")
                assert ok("cat", url("/soft")) == ok("cat", url("/two/moved")) == content
                refused("mv", url("/two/moved"), "two/again", mentions=["two/again"])
                refused("rmdir", url("/two"), mentions=["two", "not empty"])
                refused("rm", url("/two"), mentions=["two", "is a directory"])
                refused("rmdir", url("/two/file"), mentions=["file", "not a directory"])
                ok("rm", url("/two/file"), url("/two/moved"), url("/soft"))
                ok("rmdir", url("/one"), url("/two"))
                assert os.listdir(f"{scratch}/export") == []


def directory_argument(scratch):
    """`penstock serve DIR` serves DIR, prints where it listens, and prints a mount command for each transport."""
    folders(scratch, "export")
    make(f"{scratch}/export/file", 10)
    server = Server({})
    server.arguments.insert(1, f"{scratch}/export")
    with server:
        said = "\n".join(server.lines)
        commands = re.findall(r"mount -t nfs -o (\S+) (\S+):(\S+) ", said)
        assert {("rdma" if "proto=rdma" in options else "tcp") for options, _, _ in commands} >= {"rdma"}, said
        for options, host, path in commands:
            assert host == ADDRESS and ("vers=4.2" in options or f"mountport={server.mount}" in options), said
            assert f"port={server.rdma if 'proto=rdma' in options else server.tcp}" in options, said
            transport = "rdma" if "proto=rdma" in options else "tcp"
            assert b"file" in ok("ls", server.url(path, transport)).split()


def many_exports(scratch):
    """The server prints the commands of the first exports, with what they require, and how many more there are."""
    folders(scratch, "export")
    make(f"{scratch}/export/file", 10)
    with Server({f"/{name}": f"{scratch}/export" for name in "abcdef"}) as server:
        said = "\n".join(server.lines)
        shown = {path for _, _, path in re.findall(r"mount -t nfs -o (\S+) (\S+):(\S+) ", said)}
        assert len(shown) == 3 and "There are 3 more exports" in said, said
    for security, wanted in (("none", ",sec=none "), ("none:sys", "")):
        with Server({"/": f"{scratch}/export:sec={security}"}) as server:
            found = {re.search(r",sec=\S+ |$", line)[0] for line in server.lines if "mount -t nfs" in line}
            assert found == {wanted}, (security, found)
    # A path is one word for the shell, and encoded in a URL.
    with Server({"/it's $(id)": f"{scratch}/export"}) as server:
        linux = next(line for line in server.lines if "mount -t nfs" in line)
        assert shlex.split(linux)[-2] == f"{ADDRESS}:/it's $(id)", linux
        own = next(line for line in server.lines if " ls 'nfs://" in line)
        command = own.strip().replace(own.split()[0], PENSTOCK, 1)
        assert subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout == b"file\n"
    # No command for what no client can reach.
    certificate = Authority(f"{scratch}/certificates").issue("server", "IP:127.0.0.1")
    with Server({"/": f"{scratch}/export:xprtsec=tls"}, ["--listen-tcp=none", *certificate]) as server:
        assert not any("mount -t" in line or "nfs://" in line for line in server.lines), server.lines
    # A program that a shell finds by its name is called by its name.
    path = f"{os.path.dirname(os.path.abspath(PENSTOCK))}:{os.environ['PATH']}"
    with Server({"/": f"{scratch}/export"}, environment=os.environ | {"PATH": path}) as server:
        assert any(line.startswith("  penstock ls 'nfs://") for line in server.lines), server.lines


def bad_directory(scratch):
    serve_refused(scratch, f"{scratch}/absent", mentions=[f"{scratch}/absent"])
    make(f"{scratch}/file", 1)
    serve_refused(scratch, f"{scratch}/file", mentions=[f"{scratch}/file"])


def directory_gone(scratch):
    """The exported directory is removed while the server runs: client and server report it."""
    folders(scratch, "export")
    with Server({"/": f"{scratch}/export"}) as server:
        ok("ls", server.url("/", TRANSPORTS[0]))
        os.rmdir(f"{scratch}/export")
        refused("ls", server.url("/", TRANSPORTS[0]))
        refused("ls", server.url("/", TRANSPORTS[0]).replace("vers=3", "vers=4.2"), mentions=["gone"])
        assert "export /" in server.expect_line("its directory is gone")


def rdma_choice(scratch):
    """`penstock devices` lists the RDMA devices. The loopback interface belongs to none of them, so auto means software
    iWARP there."""
    listed = ok("devices").decode().splitlines()
    print("devices|", *listed, sep="\n  ")
    assert listed == ["no RDMA devices: Penstock uses software iWARP"] or all("IRD" in line for line in listed), listed
    folders(scratch, "export")
    for options in (["--rdma=verbs"], ["--rdma-device=absent0"]):
        serve_refused(scratch, f"{scratch}/export", *options, mentions=["RDMA" if "verbs" in options[0] else "absent0"])
    assert penstock(*serving(free_ports(3), f"{scratch}/export", f"--state-dir={scratch}/state", "--rdma=infiniband")).returncode != 0
    with Server({"/export": f"{scratch}/export"}) as server:
        assert any(line.startswith("NFS over RDMA (software iWARP): ") for line in server.lines), server.lines
        ok("ping", "-c", 1, "--rdma=iwarp", server.url("/export", "rdma"))
        refused("ping", "-c", 1, "--rdma=verbs", server.url("/export", "rdma") + "&timeout=1", mentions=["RDMA"])


def busy_port(scratch):
    """Each of the three ports is in use: one line names the port."""
    folders(scratch, "export")
    for role in range(3):
        ports = free_ports(3)
        with socket.socket() as taken:
            taken.bind((ADDRESS, ports[role]))
            taken.listen()
            serve_refused(scratch, f"{scratch}/export", ports=ports, mentions=[str(ports[role])])


def no_permission(scratch):
    """A directory that the user may not read: one line names it. As root, the test runs it as another user."""
    folders(scratch, "closed", "state")
    os.chmod(f"{scratch}/state", 0o700)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if as_nobody and not shutil.which("setpriv"):
        raise Skip("setpriv (package util-linux) is not installed")
    program = f"{scratch}/penstock"  # The build folder may be closed to other users.
    shutil.copy(PENSTOCK, program)
    os.chmod(program, 0o755)
    os.chmod(f"{scratch}/closed", 0)
    if as_nobody:
        os.chown(f"{scratch}/state", 65534, 65534)
    arguments = serving(free_ports(3), f"{scratch}/closed", f"--state-dir={scratch}/state")
    done = subprocess.run([*as_nobody, program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    print(done.stderr)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done
    assert f"{scratch}/closed" in done.stderr


def stops_cleanly(scratch):
    """SIGINT and SIGTERM, idle and with connected clients, also during the set-up of a connection: exit code 0."""
    folders(scratch, "export")
    for how in (signal.SIGINT, signal.SIGTERM):
        with Server({"/": f"{scratch}/export"}) as server:
            assert server.stop(how) == 0
        with Server({"/": f"{scratch}/export"}) as server, contextlib.ExitStack() as clients:
            for port in (server.tcp, server.mount) if INSIDE else server.ports:
                clients.enter_context(socket.create_connection((ADDRESS, port)))
            for transport in TRANSPORTS:
                client = subprocess.Popen([PENSTOCK, "ping", "-c", "100", "-i", "1000", server.url("/", transport)],
                                          stdout=subprocess.PIPE, text=True)
                clients.callback(client.wait)
                clients.callback(client.kill)
                assert "NFS version" in client.stdout.readline()
            assert server.stop(how) == 0


def restarts_on_its_ports(scratch):
    """A server that was killed with connected clients can bind its ports again."""
    folders(scratch, "export")
    with Server({"/": f"{scratch}/export"}) as server:
        for _ in range(3):
            ok("ls", server.url("/", "rdma"))
            with socket.create_connection((ADDRESS, server.tcp)):
                server.kill()
                server.start()


def read_only(scratch):
    folders(scratch, "export")
    make(f"{scratch}/export/file", 5000)
    with Server({"/ro": f"{scratch}/export:ro,no_root_squash", "/rw": f"{scratch}/export:rw,no_root_squash"}) as server:
        for transport in TRANSPORTS:
            ok("cp", server.url("/ro/file", transport), f"{scratch}/got")
            refused("cp", f"{scratch}/got", server.url("/ro/new", transport), mentions=["new"])
            assert not os.path.exists(f"{scratch}/export/new")
            ok("cp", f"{scratch}/got", server.url(f"/rw/{transport}", transport))


def squash(scratch):
    """The owner of a file that root made: root, the anonymous user, or the named user."""
    if os.geteuid() != 0:
        raise Skip("needs root: only root can be squashed")
    folders(scratch, "export")
    make(f"{scratch}/file", 10)
    exports = {"/none": "no_root_squash", "/root": "root_squash", "/all": "all_squash,anonuid=1234,anongid=1235"}
    with Server({path: f"{scratch}/export:{options}" for path, options in exports.items()}) as server:
        for path, owner in (("/none", (0, 0)), ("/root", (65534, 65534)), ("/all", (1234, 1235))):
            ok("cp", f"{scratch}/file", server.url(f"{path}{path}", "rdma"))
            status = os.stat(f"{scratch}/export{path}")
            assert (status.st_uid, status.st_gid) == owner, (path, status)
        make(f"{scratch}/export/secret", 10)
        os.chmod(f"{scratch}/export/secret", 0o600)
        ok("cat", server.url("/none/secret", "tcp"))
        refused("cat", server.url("/root/secret", "tcp"), mentions=["secret"])


def access_control_list(scratch):
    """An access control list lets a caller other than root read and write. Each program uses another connection, and
    the thread that has served one caller serves the next."""
    if os.geteuid() != 0:
        raise Skip("needs root: to act as a caller")
    folders(scratch, "export")
    make(f"{scratch}/file", 20)
    make(f"{scratch}/export/file", 10)
    os.chmod(f"{scratch}/export/file", 0o600)
    no_id = 0xffffffff
    entries = ((0x01, 6, no_id), (0x02, 6, 1234), (0x04, 0, no_id), (0x10, 6, no_id), (0x20, 0, no_id))
    try:
        os.setxattr(f"{scratch}/export/file", "system.posix_acl_access",
                    struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
    except OSError as error:
        raise Skip(f"no access control lists on this file system: {error}")
    exports = {"/listed": "all_squash,anonuid=1234,anongid=1235", "/other": "all_squash,anonuid=1236,anongid=1235"}
    with Server({path: f"{scratch}/export:{options}" for path, options in exports.items()}) as server:
        for transport in TRANSPORTS:
            for _ in range(2):
                ok("cp", "--in-place", f"{scratch}/file", server.url("/listed/file", transport))
                ok("cat", server.url("/listed/file", transport))
                refused("cat", server.url("/other/file", transport), mentions=["permission denied"])
            assert filecmp.cmp(f"{scratch}/file", f"{scratch}/export/file", shallow=False)


def first_minute(scratch):
    """A directory of root, exported without options: root copies a file there with the command that the server prints.
    From an unprivileged port, root is squashed."""
    if os.geteuid() != 0:
        raise Skip("needs root: for ports below 1024")
    os.makedirs(f"{scratch}/export", mode=0o755)
    make(f"{scratch}/file", 100_000)
    server = Server({})
    server.arguments.insert(1, f"{scratch}/export")
    with server:
        said = [line.split() for line in server.lines if "?proto=rdma'" in line]
        assert [words[1] for words in said] == ["ls", "cp"], server.lines
        url = said[1][-1].strip("'").replace("FILE", "put")
        ok("cp", f"{scratch}/file", url)
        assert ok("ls", said[0][-1].strip("'")).split() == [b"put"]
        assert os.stat(f"{scratch}/export/put").st_uid == 0
        for transport in TRANSPORTS:
            for version in ("3", "4.0", "4.2"):
                at = server.url("/put", transport).replace("vers=3", f"vers={version}")
                ok("cp", f"{scratch}/file", at)
                refused("cp", f"{scratch}/file", at + "&noresvport", mentions=["permission denied", "no_root_squash"])
        said = server.expect_line("is refused an operation of its root in the export /:")
        assert "port is below 1024" in said and "no_root_squash" in said, said


def squashed_root(scratch):
    """Root that an export squashes cannot copy a file into root's directory. Its command and the server's log name the
    option that allows it, once for each export."""
    if os.geteuid() != 0:
        raise Skip("needs root: only root can be squashed")
    make(f"{scratch}/file", 1000)
    exports = {"/root": "root_squash", "/all": "all_squash", "/none": "no_root_squash"}
    for path in exports:
        os.makedirs(f"{scratch}{path}", mode=0o755)
    with Server({path: f"{scratch}{path}:{option}" for path, option in exports.items()}) as server:
        for transport in TRANSPORTS:
            for version in ("3", "4.0", "4.2"):
                def url(path):
                    return server.url(f"{path}/put", transport).replace("vers=3", f"vers={version}")

                ok("cp", f"{scratch}/file", url("/none"))
                for path in ("/root", "/all"):
                    refused("cp", f"{scratch}/file", url(path), mentions=["permission denied", "no_root_squash"])
        assert "no_root_squash would give it those of root" in server.expect_line("its root in the export /root: its root has the rights of uid 65534")
        assert "all_squash" in server.expect_line("its root in the export /all: its root has the rights of uid 65534")
        # A count of those that were not logged may follow after a minute.
        assert {line.split("in the export ")[1].split(":")[0] for line in server.lines if "is refused an operation of its root" in line} == {"/root", "/all"}


def program(scratch):
    """The server's host executes a program as soon as a client has written it and closed it (no ETXTBSY)."""
    os.makedirs(f"{scratch}/export")
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            for version in ("3", "4.0", "4.2"):
                for size in (10, 3 << 20):
                    with open(f"{scratch}/source", "w") as source:
                        source.write("#!/bin/sh\nexit 7\n" + "#" * size)
                    name = f"{transport}-{version}-{size}"
                    with open(f"{scratch}/export/{name}", "w"):
                        os.chmod(f"{scratch}/export/{name}", 0o755)
                    for _ in range(5):
                        ok("cp", f"{scratch}/source", server.url(f"/{name}", transport).replace("vers=3", f"vers={version}"))
                        assert subprocess.run([f"{scratch}/export/{name}"], check=False).returncode == 7, name


def networks(scratch):
    """An export with `client=` refuses other clients and serves the named ones."""
    folders(scratch, "export")
    make(f"{scratch}/export/file", 10)
    near = ipaddress.ip_network(f"{ADDRESS}/8", strict=False)
    exports = {"/near": f"client={near}", "/far": "client=192.0.2.0/24", "/both": f"client=192.0.2.0/24,client={ADDRESS}"}
    with Server({path: f"{scratch}/export:{options}" for path, options in exports.items()}) as server:
        for transport in TRANSPORTS:
            assert b"file" in ok("ls", server.url("/near", transport)).split()
            assert b"file" in ok("ls", server.url("/both", transport)).split()
            refused("ls", server.url("/far", transport), mentions=["far"])
        assert "client=" in server.expect_line("is refused the export /far")
        assert len([line for line in server.lines if "refused the export" in line]) == 1, server.lines
    with Server({"/far": f"{scratch}/export:client=192.0.2.0/24"}) as server:
        for version in ("4.0", "4.2"):
            assert ok("ls", server.url("/", TRANSPORTS[0]).replace("vers=3", f"vers={version}")) == b""
        assert ADDRESS in server.expect_line("no export admits it")


def ports_of_clients(server_port):
    """Returns the peers' ports of the connections to that port of this host."""
    found = set()
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            local, peer, state = line.split()[1:4]
            if state == "01" and int(peer.split(":")[1], 16) == server_port:
                found.add(int(local.split(":")[1], 16))
    return found


def reserved_ports(scratch):
    """Root's client uses a port below 1024 over both transports, and another port with noresvport."""
    if os.geteuid() != 0:
        raise Skip("needs root: for ports below 1024")
    folders(scratch, "export")
    with Server({"/": f"{scratch}/export"}) as server:
        for transport, port in (("rdma", server.rdma), ("tcp", server.tcp)):
            for option in ("", "&noresvport"):
                with subprocess.Popen([PENSTOCK, "ping", "-c", "100", "-i", "1000", server.url("/", transport) + option],
                                      stdout=subprocess.PIPE, text=True) as client:
                    try:
                        assert "NFS version" in client.stdout.readline()
                        (used,) = ports_of_clients(port)
                    finally:
                        client.kill()
                assert (used < 1024) == (option == ""), (transport, option, used)


def secure(scratch):
    """An export with `secure`: root's client uses a privileged port unless noresvport is set. It matters over TCP only."""
    if os.geteuid() != 0:
        raise Skip("needs root: for ports below 1024")
    folders(scratch, "export")
    make(f"{scratch}/export/file", 10)
    with Server({"/export": f"{scratch}/export:secure"}) as server:
        for version in ("3", "4.0", "4.1"):
            def url(transport):
                return server.url("/export", transport).replace("vers=3", f"vers={version}")

            for transport in TRANSPORTS:
                assert b"file" in ok("ls", url(transport)).split()
            # Version 3 calls MOUNT, which is on TCP only.
            refused("ls", url("tcp") + "&noresvport", mentions=["export"])
            if version != "3":
                assert b"file" in ok("ls", url("rdma") + "&noresvport").split()
    with Server({"/export": f"{scratch}/export:insecure"}) as server:
        for transport in TRANSPORTS:
            assert b"file" in ok("ls", server.url("/export", transport) + "&noresvport").split()


def bench(scratch):
    """The table and the JSON have a row for each operation and depth; the server keeps no file of the benchmark."""
    folders(scratch, "export")
    operations, depths, file_size = ("null", "getattr", "read1m", "write1m", "read4k", "write4k"), (1, 4), 2 << 20
    rows = [(operation, depth) for operation in operations for depth in depths]
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            file = f"{scratch}/{transport}.json"
            table = ok("bench", server.url("/", transport), "--ops", ",".join(operations), "--depth",
                       ",".join(map(str, depths)), "--seconds", 0.3, "--size", file_size, "--json", file,
                       "--server-pid", server.process.pid).decode()
            assert [(row[0], int(row[1])) for row in map(str.split, table.splitlines()[1:])] == rows, table
            with open(file) as written:
                record = json.load(written)
            assert record["transport"] == transport and record["file_size"] == file_size, record
            assert [(m["operation"], m["depth"]) for m in record["measurements"]] == rows, record
            for m in record["measurements"]:
                assert m["count"] > 0 and m["per_second"] > 0 and m["client_cpu_us"] > 0 and m["server_cpu_us"] > 0, m
                assert 0 < m["latency_us"]["p50"] <= m["latency_us"]["p99"] <= m["latency_us"]["max"], m
                assert (m["mib_per_second"] > 0) == ("read" in m["operation"] or "write" in m["operation"]), m
        began = time.monotonic()
        ok("bench", server.url("/", "tcp"), "--ops", "getattr", "--depth", "4", "--rate", "100", "--seconds", 0.5, "--size", file_size, "--json", file)
        with open(file) as written:
            (measured,) = json.load(written)["measurements"]
        most = 100 * (time.monotonic() - began) + 1
        assert 0 < measured["executed"] <= most, (measured, most)
        assert os.listdir(f"{scratch}/export") == []
        misused("bench", server.url("/", "rdma"), "--ops", "read1m,erase", mentions=["erase"])


def bench_names(scratch):
    """Each version measures operations on names, on several connections. The plot has a line for each measurement, and no file stays, also after an error."""
    folders(scratch, "export")
    operations = ["lookup", "stat", "readdir", "open", "create", "remove", "rename", "mkdir", "mix4k", "seqread64k", "randwrite1m"]
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for version, transport in zip(("3", "4.0", "4.1", "4.2"), 4 * TRANSPORTS):
            url, file, svg = url_of(server, transport, version), f"{scratch}/names.json", f"{scratch}/names.svg"
            chosen = [each for each in operations if each != "open" or version != "3"]
            ok("bench", url, "--ops", ",".join(chosen), "--depth", "3", "--connections", "2", "--seconds", 0.05, "--size", 2 << 20,
               "--files", "150", "--json", file, "--svg", svg)
            with open(file) as written:
                record = json.load(written)
            assert record["connections"] == 2 and record["version"] == version, record
            assert [m["operation"] for m in record["measurements"]] == chosen, record
            assert all(m["count"] > 0 and m["executed"] >= m["count"] for m in record["measurements"]), record
            assert len(ElementTree.parse(svg).findall(".//{http://www.w3.org/2000/svg}polyline")) == len(chosen)
            assert os.listdir(f"{scratch}/export") == []
        refused("bench", server.url("/", "tcp"), "--ops", "create,open", "--depth", "1", mentions=["open: version 3 has no call that opens a file"])
        assert os.listdir(f"{scratch}/export") == []
        ok("bench", server.url("/", "tcp"), "--ops", "null,getattr", "--depth", "1", "--seconds", 0.05)
        refused("bench", server.url("/", "tcp"), "--ops", "null", "--depth", "1", "--seconds", 0.05, "--svg", f"{scratch}/absent/plot.svg",
              mentions=["plot.svg: No such file or directory"])


def full(scratch):
    """A server with its maximum of connections: the next client gets a clear message, and is served when there is room."""
    folders(scratch, "export")
    for transport in TRANSPORTS:
        with Server({"/": f"{scratch}/export"}, ["--max-connections=1", "--idle-limit=86400"]) as server:
            url = server.url("/", transport).replace("vers=3", "vers=4.1")
            with subprocess.Popen([PENSTOCK, "ping", "-c", "100", "-i", "1000", url], stdout=subprocess.PIPE,
                                  text=True) as client:
                try:
                    assert "NFS version" in client.stdout.readline()
                    # TCP cannot report the reason: the client guesses it.
                    warnings = ["its port for RDMA; trying again for up to 1 s"] if transport == "tcp" else []
                    refused("ls", url + "&timeout=1", mentions=["full" if transport == "tcp" else "the server is full"],
                            warnings=warnings)
                finally:
                    client.kill()


def memory_option(scratch):
    """--memory accepts valid sizes; for others the message names the value and gives an example."""
    folders(scratch, "export")
    for value in ("0", "much", "31MiB", "-1", "", "100 potatoes", "10000PiB"):
        done = penstock(*serving(free_ports(3), f"{scratch}/export", f"--memory={value}", f"--state-dir={scratch}/state"))
        assert done.returncode not in (0, 1) and "--memory" in done.stderr, f"{value!r}: {done.returncode} {done.stderr}"
        assert done.returncode > 0, f"{value!r}: ended by a signal"
    for value in ("32MiB", "64M", "1073741824"):
        with Server({"/": f"{scratch}/export"}, [f"--memory={value}"]) as server:
            ok("ls", server.url("/", TRANSPORTS[0]))


def no_server(scratch):
    """No listener, or a listener that is no NFS server: one line, no hang."""
    (port,) = free_ports(1)
    for transport in TRANSPORTS:
        line = refused("ping", f"nfs://{ADDRESS}:{port}/?vers=3&proto={transport}&mountport={port}", mentions=[str(port)])
        assert line.lower().count("refused") == 1, line


main({case.__name__: case for case in (
    rdma, tcp, versions, directory_argument, many_exports,
    bad_directory, directory_gone, rdma_choice, busy_port, no_permission, stops_cleanly, restarts_on_its_ports,
    read_only, squash, access_control_list, first_minute, squashed_root, program, networks, secure, reserved_ports, bench, bench_names, full, memory_option,
    no_server)})
