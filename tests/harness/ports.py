"""Ports of a test's own. A test that runs at the same time, of this copy of the tests or of another one, gets others."""

import errno
import os
import socket

POOL = range(20000, 32000)
# Penstock's own defaults: somebody may start a server on them while tests run.
LEFT_OUT = (20048, 20049)
# Each reserves a port for as long as this process lives. Programs that it starts do not inherit them.
claims = []


def free_ports(count):
    """Ports that nobody listens on, on any address. They are this process's until it ends, so that a server that is stopped
    finds its ports again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        first, last = map(int, limits.read().split())
    # Connections get their ports from that range. It is avoided where it leaves others.
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
    """Makes the port this process's, unless it is another test's or somebody else uses it. What tells other tests is a name
    that the kernel forgets when the process ends, and that is valid where the port is: in this network namespace."""
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
    """Whether somebody listens on the port, on whatever address: by TCP, or by UDP as a KDC does."""
    for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as probe:
                    if kind == socket.SOCK_STREAM:  # what is left of a connection does not count
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    probe.bind((anywhere, port))
            except OSError as why:
                if why.errno == errno.EADDRINUSE:
                    return True
                if family == socket.AF_INET:
                    raise
                # There is no IPv6 here.
    return False
