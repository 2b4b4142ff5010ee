#!/usr/bin/python3
"""The server as a service of systemd, for which a stand-in holds the sockets: its messages, the sockets, restarts beside clients that
write, and the watchdog."""

import contextlib
import ctypes
import ctypes.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import digest, make  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, penstock, penstock_ok as ok  # noqa: E402
from ports import free_ports  # noqa: E402
from service_manager import Service, listening  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "packaging", "systemd")


def folder(scratch):
    os.makedirs(f"{scratch}/export", exist_ok=True)
    os.chmod(f"{scratch}/export", 0o777)
    with open(f"{scratch}/export/file", "w") as file:
        file.write("text")
    return f"{scratch}/export:no_root_squash"


def supported():
    """A build without libsystemd refuses sockets."""
    with open(PENSTOCK, "rb") as program:
        if b"sd_listen_fds_with_names" not in program.read():
            raise Skip("the program was built without libsystemd")


def messages(scratch):
    """READY after everything listens; RELOADING and READY around a reload; STATUS; STOPPING."""
    supported()
    table = f"{scratch}/exports"

    def write(options):
        with open(table, "w") as out:
            out.write(f"{folder(scratch).split(':')[0]} *({options})\n")

    write("rw,insecure")
    with Service({}, scratch, [f"--exports={table}"], held=[]) as server:
        # READY=1 has come: all ports take connections.
        for port in server.ports:
            socket.create_connection((ADDRESS, port)).close()
        assert "1 export" in server.status() and "0 clients" in server.status(), server.status()
        assert server.find("RELOADING", "") is None and server.find("STOPPING", "") is None
        write("ro,insecure")
        before = time.monotonic()
        ready, began = server.reload()
        assert before * 1e6 <= int(began["MONOTONIC_USEC"]) <= time.monotonic() * 1e6, began
        assert "1 export" in ready["STATUS"], ready
        write("bad")
        ready, _ = server.reload()
        assert "mistakes" in ready["STATUS"] and "1 export" in ready["STATUS"], ready
        assert ok("cat", server.url(f"{scratch}/export/file", "tcp")) == b"text"
        write("rw,insecure")
        ready, _ = server.reload()
        assert "mistakes" not in ready["STATUS"], ready
        assert server.stop() == 0
        server.expect("STOPPING", "1")


def sockets(scratch):
    """Passed sockets replace the configured addresses, each for its transport. The MOUNT port over UDP may be left to the server."""
    supported()
    http, = free_ports(1)
    with Service({"/": folder(scratch)}, scratch) as server:
        server.held.append(("http", listening(http)))
        for transport in ("tcp", "rdma"):
            for version in ("3", "4.2"):
                assert ok("cat", server.url("/file", transport).replace("vers=3", f"vers={version}")) == b"text"
        assert f"NFS over TCP: {ADDRESS}:{server.tcp}" in server.lines, server.lines
        assert server.stop() == 0
        server.start()
        assert urllib.request.urlopen(f"http://{ADDRESS}:{http}/healthz", timeout=SECONDS).read() == b"ok\n"
    # Only one transport, at two addresses. The server opens the others.
    one, two = free_ports(2)
    os.unlink(f"{scratch}/notify")
    held = [("nfs-tcp", listening(one)), ("nfs-tcp", listening(two, address="127.0.0.2"))]
    with Service({"/": folder(scratch)}, scratch, held=held) as server:
        assert f"NFS over TCP: {ADDRESS}:{one}, 127.0.0.2:{two}" in server.lines, server.lines
        for address, port, transport in ((ADDRESS, one, "tcp"), ("127.0.0.2", two, "tcp"), (ADDRESS, server.rdma, "rdma")):
            assert ok("cat", f"nfs://{address}:{port}/file?proto={transport}&vers=4.2") == b"text"
        assert ok("cat", f"nfs://{ADDRESS}:{one}/file?proto=tcp&vers=3&mountport={server.mount}") == b"text"
        with socket.socket() as probe:
            assert probe.connect_ex((ADDRESS, server.tcp)) != 0, "the server listens at the configured address as well"


def wrong_sockets(scratch):
    """A socket with a wrong name or of a wrong type: the server does not start, and says which socket it is."""
    supported()

    def refused(name, held, *options):
        if os.path.exists(f"{scratch}/notify"):
            os.unlink(f"{scratch}/notify")
        return Service({"/": folder(scratch)}, scratch, options, held=[(name, held)]).refused(scratch)

    port, other = free_ports(2)
    with contextlib.closing(listening(port)) as stream:
        assert '"nfs"' in refused("nfs", stream) and "nfs-tcp, nfs-rdma, mount, mount-udp" in refused("nfs", stream)
        said = refused("mount-udp", stream)
        assert '"mount-udp"' in said and "ListenDatagram=" in said, said
        said = refused("nfs-rdma", stream, "--rdma=verbs")
        assert "an RDMA adapter has no sockets" in said and "nfs-rdma" in said, said
    with contextlib.closing(listening(port, socket.SOCK_DGRAM)) as datagrams:
        said = refused("nfs-tcp", datagrams)
        assert '"nfs-tcp"' in said and "ListenStream=" in said, said
        said = refused("mount-udp", datagrams)
        assert f"{ADDRESS} port {port}, but none for TCP" in said, said
    with socket.socket() as silent:
        silent.bind((ADDRESS, other))  # a server that was refused may still be ending, with the socket at `port`
        said = refused("mount", silent)
        assert '"mount"' in said and "does not listen" in said, said


def restarts(scratch):
    """Four clients write, in two versions over two transports, while the server is restarted; others connect while no server runs. No
    error, no octet lost, and the grace period ends when the clients have reclaimed."""
    supported()
    export = folder(scratch)
    make(f"{scratch}/source", SIZE)
    wanted = digest(f"{scratch}/source")
    cases = [(transport, version) for transport in ("tcp", "rdma") for version in ("3", "4.1")]
    # Much longer than the test waits for anything.
    with Service({"/": export}, scratch, ["--lease=900", "--grace=900"]) as server:
        assert "grace" not in server.status(), "no client is recorded"
        for goes_on in ("while it stops", "while no server runs"):
            restart_beside_writers(scratch, server, cases, goes_on)
            for transport, version in cases:
                path = f"{scratch}/export/{transport}-{version}"
                assert digest(path) == wanted, (transport, version)
                os.unlink(path)


def restart_beside_writers(scratch, server, cases, goes_on):
    """The clients have sent a part of their data, and send more from the moment `goes_on` on."""
    def target(transport, version):
        return lambda port: f"nfs://{ADDRESS}:{port}/{transport}-{version}?proto={transport}&vers={version}&mountport={server.mount}"

    with contextlib.ExitStack() as copies:
        held = [copies.enter_context(HeldCopy(server.rdma if transport == "rdma" else server.tcp, target(transport, version),
                                              f"{scratch}/source", upload=True)) for transport, version in cases]
        before = len(server.messages)
        server.process.terminate()
        server.expect("STOPPING", "1", before)
        if goes_on == "while it stops":
            for copy in held:
                copy.valve.open()
        assert server.process.wait(SECONDS) == 0  # a second signal would end it at once
        waiting = [subprocess.Popen([PENSTOCK, "cat", server.url("/file", transport).replace("vers=3", f"vers={version}")],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for transport, version in cases]
        with contextlib.closing(socket.create_connection((ADDRESS, server.tcp))):
            for copy in held:
                copy.valve.open()
            server.start()
            assert "grace" in server.status(), "the clients of version 4 are recorded"
            for each in waiting:
                out, said = each.communicate(timeout=SECONDS)
                assert (each.returncode, out) == (0, b"text"), (each.returncode, out, said)
        for copy in held:
            copy.finish()
        wait_until(lambda: "grace" not in server.status(), "the grace period goes on, though all clients have reclaimed")


def hang(process):
    """Stops the thread of an event loop, by ptrace(2). Returns a function that lets it go."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    seize, interrupt, detach = 0x4206, 0x4207, 17
    threads = [int(each) for each in os.listdir(f"/proc/{process.pid}/task") if int(each) != process.pid]

    def waits_for_events(thread):
        with open(f"/proc/{process.pid}/task/{thread}/wchan") as where:
            return "ep_poll" in where.read() or "epoll" in syscall_of(thread)

    def syscall_of(thread):
        with open(f"/proc/{process.pid}/task/{thread}/syscall") as what:
            return {"232": "epoll_wait", "281": "epoll_pwait", "22": "epoll_pwait"}.get(what.read().split()[0], "")

    loops = [each for each in threads if waits_for_events(each)]
    assert len(loops) == 1, f"{len(loops)} threads wait for events"
    if libc.ptrace(seize, loops[0], None, None) != 0 or libc.ptrace(interrupt, loops[0], None, None) != 0:
        raise Skip(f"no ptrace here: {os.strerror(ctypes.get_errno())}")
    os.waitpid(loops[0], 0x40000000)  # __WALL
    return lambda: libc.ptrace(detach, loops[0], None, None)


def watchdog(scratch):
    """The server shows that it lives while its loops answer, and not while one hangs."""
    supported()
    interval = 2
    with Service({"/": folder(scratch)}, scratch, ["--threads=1"], watchdog=interval) as server:
        server.expect("WATCHDOG", "1", server.expect("WATCHDOG", "1") + 1)
        let_go = hang(server.process)
        server.expect_line("an event loop does not answer")
        before = len(server.messages)
        # Each line is a round without a sign of life, which takes the half of an interval at least.
        wait_until(lambda: sum("an event loop does not answer" in line for line in server.lines) >= 4, "no more rounds")
        assert server.find("WATCHDOG", "", before) is None, server.messages[before:]
        let_go()
        server.expect("WATCHDOG", "1", before)
        assert ok("cat", server.url("/file", "tcp")) == b"text"


def settings(name, replaced):
    """The lines of a unit without comments. `replaced` is {expression for a whole line or a path at its end: replacement}."""
    with open(f"{UNITS}/{name}") as unit:
        lines = [line.rstrip("\n") for line in unit if line.strip() and not line.startswith("#")]
    for expression, replacement in replaced.items():
        lines = [re.sub(rf"(?:^|(?<==)){expression}$", replacement, line) for line in lines]
    return lines


def units(scratch):
    """systemd has no complaint about the units, and the capabilities and system calls of the service suffice."""
    supported()
    if not shutil.which("systemd-analyze") or not ctypes.util.find_library("seccomp"):
        raise Skip("systemd-analyze (package systemd) or libseccomp is missing")
    if os.geteuid() != 0:
        raise Skip("only root can drop capabilities")
    os.makedirs(f"{scratch}/units")
    for name in os.listdir(UNITS):
        with open(f"{UNITS}/{name}") as unit, open(f"{scratch}/units/{name}", "w") as copy:
            copy.write(unit.read().replace("ExecStart=penstock", f"ExecStart={os.path.abspath(PENSTOCK)}"))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *(f"{scratch}/units/{name}" for name in sorted(os.listdir(UNITS)))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (verified.returncode, verified.stdout) == (0, ""), verified.stdout
    is_further = {r"Description=.*": "Description=", "/etc/penstock/penstock.toml": "/etc/penstock/%i.toml",
                  r"ExecStart=penstock serve": "ExecStart=penstock serve --config /etc/penstock/%i.toml --state-dir /var/lib/penstock-%i",
                  r"(State|Logs)Directory=penstock": r"\1Directory=penstock-%i"}
    assert settings("penstock@.service", {r"Description=.*": "Description="}) == settings("penstock.service", is_further), "they differ"
    confined = [sys.executable, "-B", f"{HERE}/../harness/confined.py", f"{UNITS}/penstock.service"]
    with Service({"/": folder(scratch)}, scratch, under=confined) as server:
        with open(f"/proc/{server.process.pid}/status") as status:
            said = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        assert (said["Seccomp"].strip(), said["NoNewPrivs"].strip()) == ("2", "1"), said
        # CAP_SYS_ADMIN (21) and CAP_SYS_RESOURCE (24) are gone, CAP_SETUID (7) is there.
        assert int(said["CapEff"], 16) & (1 << 21 | 1 << 24 | 1 << 7) == 1 << 7, said["CapEff"]
        for transport in ("tcp", "rdma"):
            for version in ("3", "4.0", "4.2"):
                def url(path):
                    return server.url(path, transport).replace("vers=3", f"vers={version}")
                ok("mkdir", "-m", 755, url("/made"))
                ok("cp", f"{scratch}/export/file", url("/made/file"))
                assert ok("cat", url("/made/file")) == b"text"
                ok("chmod", 6755, url("/made/file"))
                assert os.stat(f"{scratch}/export/made/file").st_mode & 0o7777 == 0o6755
                ok("ln", url("/made/file"), "/made/again")
                ok("mv", url("/made/again"), "/made/moved")
                # The caller is nobody's group: only its owner, root, may read it.
                ok("chmod", 600, url("/made/file"))
                assert ok("cat", url("/made/file")) == b"text"
                as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
                shutil.copy(PENSTOCK, f"{scratch}/penstock")
                done = subprocess.run([*as_nobody, f"{scratch}/penstock", "cat", url("/made/file")], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, timeout=SECONDS)
                assert done.returncode == 1 and "denied" in done.stderr.lower(), done
                ok("rm", url("/made/file"), url("/made/moved"))
                ok("rmdir", url("/made"))
        ready, _ = server.reload()
        assert "mistakes" not in ready["STATUS"], ready
        assert not [line for line in server.lines if " error " in line or "not permitted" in line], server.lines


def no_service_manager(scratch):
    """Without a service manager nothing changes; one that does not listen does not matter."""
    environment = {**os.environ, "NOTIFY_SOCKET": f"{scratch}/nobody", "WATCHDOG_USEC": "200000"}
    from penstock import Server
    with Server({"/": folder(scratch)}, environment=environment) as server:
        assert ok("cat", server.url("/file", "rdma")) == b"text"
    assert penstock("--version", env=environment).returncode == 0


if __name__ == "__main__":
    main({"messages": messages, "sockets": sockets, "wrong_sockets": wrong_sockets, "restarts": restarts, "watchdog": watchdog, "units": units,
          "no_service_manager": no_service_manager})
