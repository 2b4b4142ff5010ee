#!/usr/bin/python3
"""The rights of the server's process: with root's rights it acts as its callers, without them as its own user."""

import contextlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, TRANSPORTS, Server, penstock_ok as ok, serve_refused, serving  # noqa: E402
from ports import free_ports  # noqa: E402
from trees import mounted, read  # noqa: E402

CAP_SYS_RESOURCE = 24  # linux/capability.h: lets a thread exceed disk quotas and use the reserved blocks of a disk


def capabilities_of_threads(process):
    """The effective capabilities of each thread of a process, as sets of bits."""
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/status") as status:
            found += [int(line.split()[1], 16) for line in status if line.startswith("CapEff:")]
    return found


def no_thread_exceeds_quotas(scratch):
    """No thread of a server of root may exceed quotas: threads act as callers that do not have this right."""
    if os.geteuid() != 0:
        raise Skip("only a server of root has the right to lose")
    os.makedirs(f"{scratch}/export")
    make(f"{scratch}/source", 1 << 20)
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            ok("cp", f"{scratch}/source", server.url(f"/{transport}", transport))
        found = capabilities_of_threads(server.process.pid)
        assert len(found) > 2 and any(found), found
        assert not any(each >> CAP_SYS_RESOURCE & 1 for each in found), [f"{each:x}" for each in found]


SERVERS_USER, OTHER_USER = 4000, 4001  # of files of this test only


def as_user(uid):
    """The beginning of a command that runs as this user, without other groups."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


@contextlib.contextmanager
def server_without_root(scratch, *options):
    """A server of SERVERS_USER that exports {scratch}/export, as {"tcp": port, "rdma": port}. Yields the program, which
    every user may run, the ports, that of MOUNT, and the lines that the server says until it is ready."""
    if os.geteuid() != 0:
        raise Skip("needs root: to run programs as several users")
    if not shutil.which("setpriv"):
        raise Skip("setpriv (package util-linux) is not installed")
    os.chmod(scratch, 0o755)
    for name in ("export", "state"):
        os.makedirs(f"{scratch}/{name}", exist_ok=True)
        os.chown(f"{scratch}/{name}", SERVERS_USER, SERVERS_USER)
    program = f"{scratch}/penstock"  # The build folder may be closed to other users.
    shutil.copy(PENSTOCK, program)
    os.chmod(program, 0o755)
    ports = free_ports(3)
    with subprocess.Popen([*as_user(SERVERS_USER), program, *serving(ports, f"{scratch}/export", f"--state-dir={scratch}/state"),
                           *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as server:
        try:
            lines = []
            while "ready" not in lines:
                lines.append(server.stdout.readline().rstrip("\n"))
                assert lines[-1] or server.poll() is None, lines
            yield program, {"tcp": ports[0], "rdma": ports[1]}, ports[2], lines
        finally:
            server.terminate()
        assert server.wait() == 0, server.returncode


def owned(path, mode, text=None):
    """Makes a file, or without a text a directory, of the server's user."""
    if text is None:
        os.mkdir(path)
    else:
        with open(path, "w") as file:
            file.write(text)
    os.chown(path, SERVERS_USER, SERVERS_USER)
    os.chmod(path, mode)


def without_root(scratch):
    """Without root's rights the server checks its callers itself. Its user is the owner of all files."""
    for path, mode, text in (("", 0o755, None), ("/secret", 0o600, "secret"), ("/public", 0o644, "public"),
                             ("/closed", 0o700, None), ("/open", 0o777, None)):
        owned(f"{scratch}/export{path}", mode, text)
    make(f"{scratch}/source", 5 << 20)
    os.chmod(f"{scratch}/source", 0o644)
    with server_without_root(scratch) as (program, ports, mount, lines):
        assert [line for line in lines if "without root's rights" in line and f"uid {SERVERS_USER}" in line], lines
        for transport, port in ports.items():
            for version in ("3", "4.0", "4.2"):
                how = f"?proto={transport}&vers={version}" + (f"&mountport={mount}" if version == "3" else "")

                def run(uid, *arguments):
                    named = [each.replace("@", f"nfs://127.0.0.1:{port}").replace("?", how) for each in arguments]
                    return subprocess.run([*as_user(uid), program, *named], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, check=False, timeout=120)

                def works(uid, *arguments):
                    done = run(uid, *arguments)
                    assert done.returncode == 0, (version, transport, uid, arguments, done.stdout)
                    return done.stdout

                def refused(uid, *arguments):
                    done = run(uid, *arguments)
                    assert done.returncode == 1, (version, transport, uid, arguments, done.stdout)
                    assert any(word in done.stdout for word in ("ermission", "not permitted", "not the owner")), done.stdout

                assert works(SERVERS_USER, "cat", "@/secret?") == "secret"
                works(SERVERS_USER, "cp", f"{scratch}/source", "@/closed/file?")
                assert works(OTHER_USER, "cat", "@/public?") == "public"
                refused(OTHER_USER, "cat", "@/secret?")
                refused(OTHER_USER, "ls", "@/closed?")
                refused(OTHER_USER, "cat", "@/closed/file?")
                refused(OTHER_USER, "cp", f"{scratch}/source", "@/new?")
                refused(OTHER_USER, "cp", f"{scratch}/source", "@/public?")
                refused(OTHER_USER, "chmod", "666", "@/public?")
                refused(OTHER_USER, "rm", "@/public?")
                # The new file belongs to the server's user, but its creator fills it.
                works(OTHER_USER, "cp", f"{scratch}/source", "@/open/file?")
                assert os.stat(f"{scratch}/export/open/file").st_uid == SERVERS_USER
                with open(f"{scratch}/source", "rb") as source, open(f"{scratch}/export/open/file", "rb") as copy:
                    assert source.read() == copy.read()
                works(OTHER_USER, "mkdir", "@/open/directory?")
                works(OTHER_USER, "cp", f"{scratch}/source", "@/open/directory/file?")
                works(OTHER_USER, "rm", "@/open/directory/file?")
                works(OTHER_USER, "rmdir", "@/open/directory?")
                works(OTHER_USER, "rm", "@/open/file?")


def as_owner(scratch):
    """With --as-owner every caller acts as the server's user. A server of root refuses the option."""
    owned(f"{scratch}/export", 0o755)
    owned(f"{scratch}/export/secret", 0o600, "secret")
    with server_without_root(scratch, "--as-owner") as (program, ports, mount, lines):
        assert [line for line in lines if "every client acts as" in line and f"uid {SERVERS_USER}" in line], lines
        for transport, port in ports.items():
            got = subprocess.run([*as_user(OTHER_USER), program, "cat", f"nfs://127.0.0.1:{port}/secret?proto={transport}"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=120)
            assert got.stdout == b"secret", got
    serve_refused(scratch, f"{scratch}/export", "--as-owner", mentions=["--as-owner", "all_squash"])


# Creates a program whose mode does not let its owner write, either from the beginning or from the middle on. The data are
# on the server by then.
CREATE = """
import os, sys
path, mode = sys.argv[1:]
program = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, int(mode, 8))
os.write(program, b"#!/bin/sh\\n")
os.fsync(program)
if mode != "555":
    os.fchmod(program, 0o555)
os.write(program, b"exit 7\\n")
os.close(program)
"""


def can_be_executed(path):
    try:
        return subprocess.run([path], check=False, timeout=SECONDS).returncode == 7
    except OSError:  # ETXTBSY
        return False


def read_only_files(scratch):
    """Who creates a file may fill it through that descriptor, even if its mode lets nobody write: without root's rights, the
    server's user could not open it again either. Once it is closed, the host may execute it."""
    os.makedirs(f"{scratch}/tree")
    owned(f"{scratch}/export", 0o777)
    with server_without_root(scratch) as (_, ports, mount, _lines):
        for version in ("3", "4.0", "4.1", "4.2"):
            url = f"nfs://{ADDRESS}:{ports['tcp']}/?vers={version}" + (f"&mountport={mount}" if version == "3" else "")
            # The file belongs to the server's user, so nobody else may change its mode.
            changes = [(SERVERS_USER, "755")] if version != "3" else []  # a server of version 3 does not know what is open
            for uid, mode in ((SERVERS_USER, "555"), (OTHER_USER, "555"), *changes):
                name = f"{version} {uid} {mode}"
                with mounted(url, f"{scratch}/tree", "-o", "allow_other") as tree:
                    subprocess.run([*as_user(uid), "/usr/bin/python3", "-c", CREATE, f"{tree}/{name}", mode], check=True,
                                   timeout=SECONDS)
                path = f"{scratch}/export/{name}"
                assert read(path) == "#!/bin/sh\nexit 7\n", name
                assert os.stat(path).st_mode & 0o7777 == 0o555, name
                if version != "3":
                    wait_until(lambda path=path: can_be_executed(path), name)


def as_root(scratch):
    """A server of root acts as its callers, and has nothing to warn of."""
    os.makedirs(f"{scratch}/export")
    with Server({"/": f"{scratch}/export"}) as server:
        assert os.geteuid() != 0 or not any("root's rights" in line for line in server.lines), server.lines


main({case.__name__: case for case in (no_thread_exceeds_quotas, without_root, as_owner, read_only_files, as_root)})
