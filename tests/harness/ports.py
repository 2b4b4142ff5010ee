"""Ports for one test. Concurrent tests, of this or another copy of the tests, get other ports."""

import errno
import os
import socket

POOL = range(20000, 32000)
# Penstock's default ports: a user may start a server on them while tests run. And ports where tshark expects another protocol
# (`tshark -G decodes`), so that it would not look for RPC.
LEFT_OUT = {20048, 20049, 20000, 20256, 20561, 21064, 22222, 23272, 24576, 24577, 24800, 25826, 26000, 27017, 27036, 27500, 27910,
            *range(27950, 27970), 29418, *range(30000, 30201)}
# Each reserves a port for the lifetime of this process. Child processes do not inherit them.
claims = []


def free_ports(count):
    """Returns ports without a listener on any address. They belong to this process until it ends, so that a server can
    be stopped and started again on its ports."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        first, last = map(int, limits.read().split())
    # The kernel gives ports of that range to outgoing connections. Avoid it if the pool has other ports.
    pool = [port for port in POOL if port not in LEFT_OUT]
    pool = [port for port in pool if not first <= port <= last] or pool
    start = os.getpid() * 7 % len(pool)
    found = []
    for port in pool[start:] + pool[:start]:
        if len(found) == count:
            break
        if reserve(port):
            found.append(port)
    assert len(found) == count, f"no {count} free ports in {POOL}"
    return found


def reserve(port):
    """Reserves the port for this process, unless another test or program uses it. Other tests see a name that the
    kernel removes when the process ends. The name is valid where the port is: in this network namespace."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0penstock-test-port-{port}")
    except OSError as why:
        claim.close()
        if why.errno == errno.EADDRINUSE:
            return False
        raise
    if in_use(port):
        claim.close()
        return False
    claims.append(claim)
    return True


def in_use(port):
    """Returns True if a program listens on the port, on any address, by TCP or, like a KDC, by UDP."""
    for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as probe:
                    if kind == socket.SOCK_STREAM:  # remains of a connection do not matter
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    probe.bind((anywhere, port))
            except OSError as why:
                if why.errno == errno.EADDRINUSE:
                    return True
                if family == socket.AF_INET:
                    raise
                # This machine has no IPv6.
    return False
