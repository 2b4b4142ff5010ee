#!/usr/bin/python3
"""Several addresses and ports: a client of each transport at each address, transports that are switched off, and mistakes."""

import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from penstock import Server, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from ports import free_ports  # noqa: E402

FIRST, SECOND, SIXTH = "127.0.0.1", "127.0.0.2", "::1"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((SIXTH, 0))
        return True
    except OSError:
        return False


def folder(scratch):
    os.makedirs(f"{scratch}/export", exist_ok=True)
    os.chmod(f"{scratch}/export", 0o777)
    with open(f"{scratch}/export/file", "w") as file:
        file.write("text")
    return f"{scratch}/export"


class Listening(Server):
    """A server with these options instead of the usual addresses."""

    def __init__(self, scratch, *options):
        super().__init__({"/": f"{folder(scratch)}:no_root_squash"})
        self.arguments = [each for each in self.arguments if not each.startswith(("--listen=", "--tcp-port=", "--rdma-port=", "--mount-port="))]
        self.arguments += options

    def refuse(self, scratch, *mentions):
        """The server must not start."""
        return refused(*self.arguments, f"--state-dir={scratch}/state", mentions=mentions)


def url(address, port, transport, version="4.2", mount=None):
    host = f"[{address}]" if ":" in address else address
    return f"nfs://{host}:{port}/file?proto={transport}&vers={version}" + (f"&mountport={mount}" if mount else "")


def read(*arguments, **named):
    assert ok("cat", url(*arguments, **named)) == b"text", (arguments, named)


def addresses(scratch):
    """Two addresses of IPv4 and one of IPv6, over TCP and RDMA, in versions with and without MOUNT."""
    listed = [FIRST, SECOND, *([SIXTH] if has_ipv6() else [])]
    tcp, rdma, mount = free_ports(3)
    with Listening(scratch, *(f"--listen={each}" for each in listed), f"--tcp-port={tcp}", f"--rdma-port={rdma}",
                   f"--mount-port={mount}") as server:
        for address in listed:
            for transport, port in (("tcp", tcp), ("rdma", rdma)):
                for version in ("3", "4.0", "4.2"):
                    read(address, port, transport, version, mount)
        shown = ", ".join(f"[{each}]:{tcp}" if ":" in each else f"{each}:{tcp}" for each in listed)
        assert f"NFS over TCP: {shown}" in server.lines, server.lines
        # No other address answers.
        refused("cat", url("127.0.0.3", tcp, "tcp") + "&timeout=2")
    if SIXTH not in listed:
        raise Skip("this machine has no IPv6: only its part was left out")


def ports(scratch):
    """Each address of a transport with a port of its own."""
    one, two, three, four, mount = free_ports(5)
    with Listening(scratch, f"--listen-tcp={FIRST}:{one}", f"--listen-tcp={SECOND}:{two}", f"--listen-rdma={FIRST}:{three}",
                   f"--listen-rdma={SECOND}:{four}", f"--listen-mount={SECOND}:{mount}"):
        read(FIRST, one, "tcp")
        read(SECOND, two, "tcp", "3", mount)
        read(FIRST, three, "rdma")
        read(SECOND, four, "rdma", "3", mount)
        refused("cat", url(FIRST, two, "tcp") + "&timeout=2")
        refused("cat", url(SECOND, three, "rdma") + "&timeout=2")


def all_addresses(scratch):
    """`*`, and :: alone, serve IPv4 and IPv6. 0.0.0.0 serves IPv4 only, and stands beside ::."""
    if not has_ipv6():
        raise Skip("this machine has no IPv6")
    for options, served in ((["--listen=*"], [FIRST, SECOND, SIXTH]), (["--listen=::"], [FIRST, SIXTH]),
                            (["--listen=0.0.0.0", "--listen=::"], [FIRST, SIXTH]), (["--listen=0.0.0.0"], [FIRST]),
                            (["--listen=::", f"--listen={SECOND}"], [SECOND, SIXTH])):
        tcp, rdma, mount = free_ports(3)
        with Listening(scratch, *options, f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"):
            for address in (FIRST, SECOND, SIXTH):
                for transport, port in (("tcp", tcp), ("rdma", rdma)):
                    if address in served:
                        read(address, port, transport, "3", mount)
                    elif address != SECOND:
                        refused("cat", url(address, port, transport) + "&timeout=2")


def none(scratch):
    """A transport that is switched off has no port, and nobody mentions it."""
    tcp, rdma, mount = free_ports(3)
    numbers = [f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"]
    with Listening(scratch, *numbers, "--listen-rdma=none", "--listen-mount=none") as server:
        read(FIRST, tcp, "tcp")
        read(FIRST, tcp, "tcp", "3", tcp)  # MOUNT is there as well
        for port in (rdma, mount):
            with socket.socket() as probe:
                assert probe.connect_ex((FIRST, port)) != 0
        said = "\n".join(server.lines)
        assert "RDMA" not in said and "MOUNT" not in said and f"{rdma}" not in said, said
        assert f"mountport={tcp}" in said and "cp FILE" in said and "proto=tcp" in said, said
    with Listening(scratch, *numbers, "--listen-tcp=none") as server:
        read(FIRST, rdma, "rdma")
        read(FIRST, rdma, "rdma", "3", mount)
        with socket.socket() as probe:
            assert probe.connect_ex((FIRST, tcp)) != 0
        refused("cat", url(FIRST, mount, "tcp") + "&timeout=2")  # the port of MOUNT offers no NFS then
        refused("cat", url(FIRST, mount, "tcp", "3", mount) + "&timeout=2")
        assert not any("NFS over TCP" in line or ",proto=tcp," in line for line in server.lines), server.lines
    with Listening(scratch, *numbers, "--listen-tcp=none", "--listen-mount=none") as server:
        read(FIRST, rdma, "rdma")
        assert not any("vers=3" in line for line in server.lines), server.lines
    Listening(scratch, *numbers, "--listen-tcp=none", "--listen-rdma=none").refuse(scratch, "NFS at no address")


def duplicates(scratch):
    """An address that stands twice: the message names both options, also in a file."""
    Listening(scratch, f"--listen={FIRST}", f"--listen={FIRST}").refuse(scratch, f"--listen {FIRST} and --listen {FIRST} are the same address")
    Listening(scratch, f"--listen-tcp={FIRST}", f"--listen-tcp={FIRST}:2049").refuse(
        scratch, f"--listen-tcp {FIRST} and --listen-tcp {FIRST}:2049")
    file = f"{scratch}/penstock.toml"
    with open(file, "w") as out:
        out.write(f'[listen]\nlisten-rdma = ["{FIRST}:1", "0.0.0.0:1"]\n')
    Listening(scratch, f"--config={file}").refuse(scratch, f"{file}:2: ", "0.0.0.0 port 1 covers 127.0.0.1 port 1")


def taken(scratch):
    """An address of several is taken: the message names it."""
    tcp, rdma, mount = free_ports(3)
    numbers = [f"--listen={FIRST}", f"--listen={SECOND}", f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"]
    for port in (tcp, rdma, mount):
        with socket.socket() as other:
            other.bind((SECOND, port))
            other.listen()
            Listening(scratch, *numbers).refuse(scratch, f"{SECOND} port {port}", "in use")
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.bind((SECOND, mount))
        Listening(scratch, *numbers).refuse(scratch, f"{SECOND} port {mount} with UDP")


if __name__ == "__main__":
    main({"addresses": addresses, "ports": ports, "all_addresses": all_addresses, "none": none, "duplicates": duplicates,
          "taken": taken})
