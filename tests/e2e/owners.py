#!/usr/bin/python3
"""Owners and groups, as the real server sends them and as `penstock ls` shows them. Each case has an /etc of its own, with
two users and groups more than this host, and an idmapd.conf."""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
from cases import main  # noqa: E402
from patience import wait_until  # noqa: E402
from penstock import ADDRESS, TRANSPORTS, Server, penstock_ok as ok, penstock_refused as refused, serve_refused  # noqa: E402

VERSIONS = ("3", "4.0", "4.1", "4.2", "4.1-sess01")
CLONE_NEWUTS = 0x04000000  # linux/sched.h
ANNA, BERTA, STAFF, CREW = 41001, 41002, 42001, 42002
STRANGER = 43210  # no user and no group has this number
NUMBERS = {"annas": (str(ANNA), str(STAFF)), "bertas": (str(BERTA), str(CREW)), "roots": ("0", "0"),
           "strangers": (str(STRANGER), str(STRANGER))}
NAMES = {"annas": ("anna", "staff_of_test"), "bertas": ("berta", "crew"), "roots": ("root", "root"), "strangers": NUMBERS["strangers"]}


def with_domain(domain):
    """The same with the domain behind each name."""
    def text(word):
        return word if word.isdigit() else f"{word}@{domain}"
    return {name: (text(owner), text(group)) for name, (owner, group) in NAMES.items()}


class Etc:
    """The configuration of the host for one case."""

    def __init__(self, scratch, domain=None, host="host"):
        namespaces.require()
        assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS) == 0, "unshare"
        socket.sethostname(host)
        subprocess.run(["cp", "-a", "/etc", f"{scratch}/etc"], check=True)
        subprocess.run(["mount", "--bind", f"{scratch}/etc", "/etc"], check=True)
        shutil.rmtree("/etc/idmapd.conf.d", ignore_errors=True)
        self.write("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        self.write("hosts", f"127.0.0.1 localhost\n127.0.1.1 {host}\n")
        self.add("passwd", f"anna:x:{ANNA}:{STAFF}::/:/bin/sh\nberta:x:{BERTA}:{CREW}::/:/bin/sh\n")
        self.add("group", f"staff_of_test:x:{STAFF}:\ncrew:x:{CREW}:\n")
        self.set_domain(domain)

    @staticmethod
    def write(name, text):
        path = f"/etc/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.replace(f"{path}.new", path)

    @staticmethod
    def read(name):
        with open(f"/etc/{name}") as file:
            return file.read()

    def add(self, name, text):
        self.write(name, self.read(name) + text)

    def set_domain(self, domain):
        line = f"Domain = {domain}" if domain else "# Domain = localdomain"
        self.write("idmapd.conf", f"[General]\n\nVerbosity = 0\n{line}\n\n[Mapping]\n\nNobody-User = nobody\n")


def export(scratch):
    folder = f"{scratch}/export"
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    for name, (owner, group) in NUMBERS.items():
        with open(f"{folder}/{name}", "w") as file:
            file.write(name)
        os.chown(f"{folder}/{name}", int(owner), int(group))
    return {"/": f"{folder}:no_root_squash"}


def url(server, version, transport=TRANSPORTS[-1], path="/"):
    port = server.rdma if transport == "rdma" else server.tcp
    more = f"&mountport={server.mount}" if version == "3" else ""
    return f"nfs://{ADDRESS}:{port}{path}?vers={version}&proto={transport}{more}"


def shown(*arguments):
    """The owners and groups in a listing: {file: (owner, group)}."""
    total, *rows = [line.split() for line in ok("ls", *arguments).decode().splitlines()]
    assert total[0] == "total", total
    assert all(row[0].startswith("-rw") for row in rows), rows
    return {row[-1]: (row[2], row[3]) for row in rows}


def expect(listed, wanted, what):
    assert listed == wanted, f"{what}: {listed} in place of {wanted}"


def lists(scratch):
    """`ls -l` shows the names of this host, `ls -n` numbers: in every version, from a server that sends numbers and from one
    that sends names."""
    Etc(scratch, "example.org")
    exports = export(scratch)
    for options in (), ("--nfs4-names",):
        with Server(exports, [*options, "--sess01=tcp"]) as server:
            for version in VERSIONS:
                for transport in TRANSPORTS if version == "4.1" else ("tcp",):
                    place, what = url(server, version, transport), f"version {version} over {transport} {options}"
                    expect(shown("-l", place), NAMES, what)
                    for flags in ["-n"], ["-ln"], ["-l", "-n"]:
                        expect(shown(*flags, place), NUMBERS, what)
                # Without a domain the client shows what the server sends.
                sent = with_domain("example.org") if options and version != "3" else NUMBERS
                expect(shown("-n", "--nfs4-domain=none", url(server, version)), sent, f"sent in version {version} {options}")


def domains(scratch):
    """Names of another domain are shown as they are. Their users are not those of this host."""
    Etc(scratch, "example.com")
    with Server(export(scratch), ["--nfs4-domain=example.org", "--nfs4-names"]) as server:
        place = url(server, "4.2")
        for flag in "-l", "-n":
            expect(shown(flag, place), with_domain("example.org"), f"another domain, {flag}")
        expect(shown("-l", "--nfs4-domain=EXAMPLE.org", place), NAMES, "the domain as an option")
        expect(shown("-n", "--nfs4-domain=example.org", place), NUMBERS, "the domain as an option")
        expect(shown("-l", url(server, "3", path="/")), NAMES, "version 3 has no domains")


def sources(scratch):
    """The domain comes from the option, from idmapd.conf and its folder, from the host's name, or is localdomain."""
    etc = Etc(scratch, "conf.example", host="host.name.example")
    exports = export(scratch)

    def domain_of(*options):
        with Server(exports, ["--nfs4-names", *options]) as server:
            wanted = server.expect_line("Owners in NFSv4: name@").split("@")[1]
            expect(shown("-n", "--nfs4-domain=none", url(server, "4.1")), with_domain(wanted), "as the server says")
            expect(shown("-l", "--nfs4-domain", wanted, url(server, "4.1")), NAMES, "as the server says")
            if not options:
                expect(shown("-l", url(server, "4.1")), NAMES, "the client finds the same domain")
            return wanted

    assert domain_of("--nfs4-domain=option.example") == "option.example"
    assert domain_of() == "conf.example"
    etc.write("idmapd.conf.d/10-site.conf", "[general]\ndomain = \"folder.example\" # ours\n")
    assert domain_of() == "folder.example"
    shutil.rmtree("/etc/idmapd.conf.d")
    etc.set_domain(None)
    assert domain_of() == "name.example"
    socket.sethostname("short")
    etc.write("hosts", "127.0.0.1 localhost\n127.0.1.1 short.hosts.example short\n")
    assert domain_of() == "hosts.example"
    etc.write("hosts", "127.0.0.1 localhost\n")
    os.remove("/etc/idmapd.conf")
    assert domain_of() == "localdomain"


def numbers(scratch):
    """Without a domain there are only numbers, and options that make no sense are refused."""
    Etc(scratch, "example.org")
    with Server(export(scratch), ["--nfs4-domain=none"]) as server:
        assert not any("Owners in NFSv4" in line for line in server.lines), server.lines
        expect(shown("-n", "--nfs4-domain=none", url(server, "4.2")), NUMBERS, "only numbers")
        refused("ls", "-l", url(server, "4.2", path="/absent"), mentions=["absent"])
    serve_refused(scratch, scratch, "--nfs4-domain=me@example.org", mentions=["--nfs4-domain", "me@example.org"])
    serve_refused(scratch, scratch, "--nfs4-domain=none", "--nfs4-names", mentions=["--nfs4-names"])


@contextlib.contextmanager
def hanging_users():
    """Look-ups of users hang: whoever opens /etc/passwd waits for a writer that does not come."""
    os.rename("/etc/passwd", "/etc/passwd.kept")
    os.mkfifo("/etc/passwd")
    try:
        yield
    finally:
        os.rename("/etc/passwd", "/etc/passwd.hanging")
        os.rename("/etc/passwd.kept", "/etc/passwd")
        # Whoever waits gets a pipe, which is no database of users.
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                os.close(os.open("/etc/passwd.hanging", os.O_WRONLY | os.O_NONBLOCK))
            time.sleep(0.05)
        os.remove("/etc/passwd.hanging")


def directory_hangs(scratch):
    """A directory service that does not answer: clients get numbers after a moment, other calls go on, `ls` ends, and the
    server stops. Afterwards there are names again."""
    Etc(scratch, "example.org")
    halved = {name: (NUMBERS[name][0], with_domain("example.org")[name][1]) for name in NUMBERS}
    with Server(export(scratch), ["--nfs4-names"]) as server:
        place = url(server, "4.2")
        with hanging_users():
            assert {owner for owner, _ in shown("-n", "--nfs4-domain=none", place).values()} == {row[0] for row in NUMBERS.values()}
            server.expect_line("users and groups of this host cannot be looked up")
            # A call does not wait for groups as well, but the server remembers the answers.
            wait_until(lambda: shown("-n", "--nfs4-domain=none", place) == halved, "no names of groups")
            assert ok("cat", url(server, "4.2", path="/annas")) == b"annas"
            assert {owner for owner, _ in shown("-l", url(server, "3")).values()} == {row[0] for row in NUMBERS.values()}, "`ls` itself"
        wait_until(lambda: shown("-n", "--nfs4-domain=none", place) == with_domain("example.org"), "no names after the outage")
    with Server({"/": f"{scratch}/export:no_root_squash"}, ["--nfs4-names"]) as server, hanging_users():
        shown("-n", "--nfs4-domain=none", url(server, "4.2"))
        assert server.stop() == 0
        assert not any("still being executed" in line for line in server.lines), server.lines


if __name__ == "__main__":
    namespaces.enter()
    main({case.__name__: case for case in (lists, domains, sources, numbers, directory_hangs)})
