#!/usr/bin/python3
"""How clients find the ports of a server: by the real rpcbind, and by the server's own port mapper. rpcinfo and
showmount ask, tshark reads what they and the server say."""

import contextlib
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
from cases import main  # noqa: E402
from dissected import dissected, said  # noqa: E402
from penstock import Server, serve_refused  # noqa: E402
from ports import free_ports  # noqa: E402
from port_mapping import (  # noqa: E402
    HOST, MOUNT, NFS, NFSACL, NLM, NSM, PORTMAPPER, RQUOTA, addresses, listening, ports, prepare, rpcbind, until)

OTHER = "192.0.2.1"
LAYERS = ("portmap", "mount", "rquota")


def server_of(scratch, *options, listen="0.0.0.0"):
    os.makedirs(f"{scratch}/export", exist_ok=True)
    return listening(Server({"/data": f"{scratch}/export"}, options), listen)


def expected_ports(server):
    return {(NFS, 3, "tcp"): server.tcp, (NFS, 4, "tcp"): server.tcp,
            **{(MOUNT, 3, protocol): server.mount for protocol in ("tcp", "udp")},
            (NFSACL, 3, "tcp"): server.tcp,
            **{(program, version, protocol): server.mount for program, version in ((RQUOTA, 1), (RQUOTA, 2), (NLM, 4), (NSM, 1))
               for protocol in ("tcp", "udp")}}


def check_lists(server, addresses_too=True):
    listed = ports()
    expected = expected_ports(server)
    assert {key: listed.get(key) for key in expected} == expected, (listed, expected)
    if not addresses_too:
        return
    rdma = f"0.0.0.0.{server.rdma >> 8}.{server.rdma & 255}"
    found = addresses()
    assert found.get((NFS, 3, "rdma")) == found.get((NFS, 4, "rdma")) == rdma, found
    assert not any(program in (MOUNT, RQUOTA) and netid.startswith("rdma") for program, _, netid in found), found


def check_use(server):
    """A client that knows only the host finds the programs and calls them."""
    exports = said("showmount", "-e", HOST)
    assert re.search(r"^/data\s", exports, re.MULTILINE), exports
    for program, version, transport in ((NFS, 3, "tcp"), (NFS, 4, "tcp"), (MOUNT, 3, "tcp"), (MOUNT, 3, "udp"),
                                        (RQUOTA, 1, "udp"), (RQUOTA, 2, "udp"), (RQUOTA, 2, "tcp")):
        assert "ready and waiting" in said("rpcinfo", "-T", transport, HOST, str(program), str(version))
    assert "ready and waiting" in said("rpcinfo", "-a", f"{HOST}.{server.mount >> 8}.{server.mount & 255}", "-T", "udp", str(MOUNT), "3")


def registers(scratch):
    prepare("rpcbind", "showmount")
    with rpcbind():
        before = addresses()
        with server_of(scratch) as server, dissected(scratch, (server.tcp, server.mount), LAYERS):
            check_lists(server)
            check_use(server)
            assert server.stop() == 0
            assert addresses() == before, "all registrations are gone, and no others"


def registers_both_versions_of_ip(scratch):
    prepare("rpcbind", "showmount")
    with rpcbind(), server_of(scratch, listen="::") as server:
        found = addresses()
        port = f"{server.tcp >> 8}.{server.tcp & 255}"
        assert found[(NFS, 3, "tcp")] == f"0.0.0.0.{port}" and found[(NFS, 3, "tcp6")] == f"::.{port}", found
        assert (NFS, 4, "rdma6") in found and (MOUNT, 3, "udp6") in found, found
        check_lists(server)
        for netid in ("tcp6", "udp6"):
            assert "ready and waiting" in said("rpcinfo", "-T", netid, "::1", str(MOUNT), "3")
        assert "/data" in said("showmount", "-e", "::1")


def registers_several_addresses(scratch):
    """rpcbind has one address for each network: the unspecified one if the ports are the same, otherwise one that others can reach."""
    prepare("rpcbind", "showmount")
    said("ip", "addr", "replace", OTHER, "dev", "lo")
    with rpcbind():
        two_addresses = server_of(scratch, listen=HOST)
        two_addresses.arguments.append(f"--listen={OTHER}")
        with two_addresses as server:
            check_lists(server)
            for host in (HOST, OTHER):
                assert "ready and waiting" in said("rpcinfo", "-T", "tcp", host, str(NFS), "3")
                assert "/data" in said("showmount", "-e", host)
        assert not ports()
        one, two = free_ports(2)
        with server_of(scratch, f"--listen-tcp={HOST}:{one}", f"--listen-tcp={OTHER}:{two}", "--listen-mount=none", listen=HOST):
            assert addresses()[(NFS, 3, "tcp")] == f"{OTHER}.{two >> 8}.{two & 255}", "not the loopback address"
            # MOUNT is where NFS over TCP is. RDMA is at the loopback address only.
            assert ports()[(MOUNT, 3, "tcp")] == two and (MOUNT, 3, "udp") not in ports(), ports()
            assert not any(netid.startswith("rdma") for _, _, netid in addresses()), addresses()
        assert not ports()


def replaces_what_a_killed_server_has_left(scratch):
    prepare("rpcbind")
    with rpcbind():
        with server_of(scratch) as server:
            server.stop(signal.SIGKILL)
            check_lists(server)
            with server_of(scratch) as second:
                assert second.tcp != server.tcp
                check_lists(second)
            assert not ports()
            server.process.returncode = 0  # it was killed on purpose


def leaves_another_server(scratch):
    prepare("rpcbind")
    with rpcbind():
        with server_of(scratch) as first:
            with server_of(scratch) as second:
                line = second.expect_line("registered with rpcbind by another server")
                assert "NFS (program 100003)" in line and str(first.tcp & 255) in line, line
                check_lists(first)
                # Required, the registration fails, and so does the start.
                error = serve_refused(scratch, f"{scratch}/export", "--rpcbind=required")
                assert "--rpcbind required" in error and "another server" in error, error
                assert first.stop() == 0
                # The second server finds out by itself.
                until(lambda: (NFS, 3, "tcp") in ports(), "the second server registers")
                until(lambda: len(ports()) >= len(expected_ports(second)), "it registers all")
                check_lists(second)
            assert not ports()


def registers_again_when_rpcbind_was_started_again(scratch):
    prepare("rpcbind")
    with contextlib.ExitStack() as first:
        first.enter_context(rpcbind())
        with server_of(scratch) as server:
            check_lists(server)
            first.close()
            with rpcbind():
                until(lambda: len(ports()) >= len(expected_ports(server)), "the server registers again")
                check_lists(server)
                assert server.stop() == 0
                assert not ports()


def loopback_is_not_registered(scratch):
    prepare("rpcbind")
    with rpcbind():
        with server_of(scratch, listen=HOST):
            assert not ports()
        with server_of(scratch, "--rpcbind=required", listen=HOST) as server:
            assert ports() == expected_ports(server)
        with server_of(scratch, "--rpcbind=off"):
            assert not ports()


def required(scratch):
    prepare()
    error = serve_refused(scratch, f"{scratch}", "--rpcbind=required")
    assert "no rpcbind answers at /run/rpcbind.sock" in error, error
    # A host without rpcbind is no news.
    with server_of(scratch) as server:
        assert not [line for line in server.lines if "rpcbind" in line], server.lines


def portmap(scratch):
    prepare("showmount")
    with server_of(scratch, "--portmap") as server, dissected(scratch, (server.tcp, server.mount), LAYERS):
        check_lists(server)
        check_use(server)
        found = said("rpcinfo", HOST)
        for netid in ("tcp", "udp"):
            for version in (2, 3, 4):
                assert re.search(rf"^\s*{PORTMAPPER}\s+{version}\s+{netid}\s+0\.0\.0\.0\.0\.111\s", found, re.MULTILINE), found
                assert "ready and waiting" in said("rpcinfo", "-T", netid, HOST, str(PORTMAPPER), str(version))
        said("rpcinfo", "-s", HOST)
        # Nobody can change the table.
        assert subprocess.run(["rpcinfo", "-d", str(NFS), "3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
        check_lists(server)


def portmap_on_ipv6(scratch):
    prepare("showmount")
    with server_of(scratch, "--portmap", listen="::") as server:
        check_lists(server)
        assert "/data" in said("showmount", "-e", "::1")
        assert "ready and waiting" in said("rpcinfo", "-T", "udp6", "::1", str(MOUNT), "3")


def portmap_is_taken(scratch):
    prepare("rpcbind")
    with rpcbind():
        error = serve_refused(scratch, scratch, "--portmap")
        assert "--portmap" in error and "port 111" in error and "leave out --portmap" in error, error
    error = serve_refused(scratch, scratch, "--portmap", "--rpcbind=required")
    assert "--portmap takes the place of rpcbind" in error, error


def portmap_at_several_addresses(scratch):
    """The server's own port mapper tells each client the port at the address that the client asks."""
    prepare()
    said("ip", "addr", "replace", OTHER, "dev", "lo")
    one, two = free_ports(2)
    with server_of(scratch, f"--listen-tcp={HOST}:{one}", f"--listen-tcp={OTHER}:{two}", f"--listen-mount={OTHER}", "--portmap"):
        for host in (HOST, OTHER):
            assert "ready and waiting" in said("rpcinfo", "-T", "tcp", host, str(NFS), "3")
        assert "ready and waiting" in said("rpcinfo", "-T", "udp", OTHER, str(MOUNT), "3")


if __name__ == "__main__":
    namespaces.enter()
    main({case.__name__: case for case in (
        registers, registers_both_versions_of_ip, replaces_what_a_killed_server_has_left, leaves_another_server,
        registers_again_when_rpcbind_was_started_again, loopback_is_not_registered, required, portmap, portmap_on_ipv6,
        portmap_is_taken, registers_several_addresses, portmap_at_several_addresses)})
