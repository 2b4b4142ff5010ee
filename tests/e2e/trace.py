#!/usr/bin/python3
"""The output of `--trace`, read by tshark without options and without port numbers."""

import collections
import os
import shutil
import subprocess
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "harness"), os.path.join(TESTS, "interop")]
import check_capture  # noqa: E402
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from penstock import Server, penstock, serving  # noqa: E402
from ports import free_ports  # noqa: E402

SIZE = 3_000_000  # READs and WRITEs of a megabyte, and a rest


def ok(*arguments):
    done = penstock(*arguments)
    assert done.returncode == 0, f"penstock {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}"


def transfers(scratch):
    """Copies one file from the server and one to it, and lists a directory; each process writes a trace. Returns
    {process: path of its trace} and the server."""
    if not (shutil.which("tshark") and shutil.which("editcap")):
        raise Skip("tshark and editcap (package tshark) are not installed")
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    make(f"{scratch}/export/file", SIZE)
    traces = {whose: f"{scratch}/{whose}.pcapng" for whose in ("server", "download", "upload", "ls")}
    with Server({"/": f"{scratch}/export:no_root_squash"}, [f"--trace={traces['server']}"]) as server:
        def url(path):  # Wireshark uses some ports below 1024 for other protocols.
            return server.url(path, "rdma") + "&noresvport"

        ok("cp", url("/file"), f"{scratch}/got", f"--trace={traces['download']}")
        ok("cp", f"{scratch}/got", url("/put"), f"--trace={traces['upload']}")
        ok("ls", "-l", url("/"), f"--trace={traces['ls']}")
    return traces, server


def rows(path, *fields, wanted):
    """Returns the values of `fields` in the packets that match `wanted`, one tuple for each packet."""
    words = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-n", "-2", "-r", path, "-Y", wanted, "-T", "fields", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=True)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def procedures(path, kind):
    """Returns {NFS procedure: count} of the packets that tshark reads as calls (0) or replies (1)."""
    return collections.Counter(number for (number,) in rows(path, "nfs.procedure_v3",
                                                              wanted=f"nfs and rpc.msgtyp == {kind}"))


def complaints(path, *but):
    found = rows(path, "frame.number", "_ws.expert.message",
                 wanted=" and ".join([f"_ws.expert.severity >= {check_capture.WARNING}", "not tcp.flags.reset == 1", *but]))
    return [f"{os.path.basename(path)}, packet {number}: {message}" for number, message in found]


LOOKUP, READ, WRITE, CREATE, READDIRPLUS, COMMIT = "3", "6", "7", "8", "17", "21"


def server(scratch):
    """The server's trace is complete: each RPC message can be reassembled, with all octets in chunks."""
    traces, about = transfers(scratch)
    path = traces["server"]
    assert not complaints(path), complaints(path)
    calls, replies = procedures(path, 0), procedures(path, 1)
    assert calls == replies and {LOOKUP, READ, WRITE, CREATE, READDIRPLUS, COMMIT} <= set(calls), (calls, replies)
    assert not rows(path, "frame.number", wanted="rpc.msgtyp == 1 and not rpc.time"), "a reply to no call"
    said = [comment for (comment,) in rows(path, "frame.comment", wanted="frame.comment")]
    print(*said, sep="\n")
    assert sum("iwarp, up to" in each for each in said) == 3 and len(said) == 6, said
    # check_capture is stricter than tshark, but reads only the older format pcap.
    subprocess.run(["editcap", "-F", "nsecpcap", path, f"{scratch}/server.pcap"], check=True)
    problems, summary = check_capture.check(f"{scratch}/server.pcap",
                                            {"tcp": about.tcp, "rdma": about.rdma, "mount": about.mount},
                                            ["mpa", "rpc-over-rdma", "rdma-nfs", "rdma-write", "rdma-read"])
    print(summary)
    assert not problems, "\n".join(problems[:20])


def client(scratch):
    """A client's trace has all its messages, but not the data of READ and WRITE, which the server moves."""
    traces, _ = transfers(scratch)
    for whose, inline in (("download", LOOKUP), ("upload", CREATE), ("upload", COMMIT), ("ls", READDIRPLUS)):
        path = traces[whose]
        # A READ reply without its data looks truncated.
        found = complaints(path, f"not (rpc.msgtyp == 1 and nfs.procedure_v3 == {READ})")
        assert not found, found
        messages = collections.Counter(xid for (xid,) in rows(path, "rpcordma.xid", wanted="rpcordma.xid"))
        assert messages and set(messages.values()) == {2}, f"{whose}: messages by XID {messages}"
        assert procedures(path, 0)[inline] == procedures(path, 1)[inline] == 1, (whose, inline)
        assert len(rows(path, "frame.number", wanted="iwarp_mpa.req or iwarp_mpa.rep")) == 2
        said = [comment for (comment,) in rows(path, "frame.comment", wanted="frame.comment")]
        assert len(said) == 2 and "iwarp, up to" in said[0] and "closed from here" in said[1], said
        assert os.path.getsize(path) < 100_000


def data_in_messages(scratch):
    """Data are in the message if the server takes messages of that size, and move by RDMA Read or Write if not."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    for option, parameter, kib, in_message in (
            ("", "", 16, True), ("", "", 17, False), ("--rdma-inline=4096", "", 5, False), ("", "&inline=65536", 32, False),
            ("--rdma-inline=65536", "&inline=65536", 32, True), ("--rdma-inline=65536", "", 32, False),
            ("--rdma-inline=65536", "&inline=4096", 5, False)):
        path = f"{scratch}/trace.pcapng"
        with Server({"/": f"{scratch}/export:no_root_squash"}, [f"--trace={path}", *filter(None, [option])]) as server:
            ok("bench", f"{server.url('/', 'rdma')}&noresvport{parameter}", "--ops", f"read{kib}k", f"write{kib}k", "--depth=1",
               "--seconds=0.02", "--size=1MiB")
        for operation, procedure, which in (("write", WRITE, "reads"), ("read", READ, "writes")):
            calls = [length for (length,) in rows(path, "nfs.count3", wanted=f"rpc.msgtyp == 0 and nfs.procedure_v3 == {procedure}")]
            assert str(kib << 10) in calls, (operation, kib, set(calls))
            # The file of the measurement is made by longer calls.
            chunks = rows(path, "frame.number", wanted=f"rpcordma.{which}_count == 1 and rpcordma.rdma_length == {kib << 10}")
            assert bool(chunks) != in_message, (option, parameter, operation, kib, len(chunks))


def cannot_be_made(scratch):
    """An error of the trace file: one line names the file before anything else happens."""
    ports = free_ports(3)
    for arguments in (serving(ports, scratch, f"--state-dir={scratch}/state"),
                      ["ping", f"nfs://127.0.0.1:{ports[1]}/?vers=3&proto=rdma"]):
        done = penstock(*arguments, f"--trace={scratch}/absent/trace.pcapng")
        assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done
        assert f"{scratch}/absent/trace.pcapng" in done.stderr, done.stderr


main({case.__name__: case for case in (server, client, data_in_messages, cannot_be_made)})
