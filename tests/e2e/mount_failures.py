#!/usr/bin/python3
"""penstock mount: servers that stop, are silent, or cannot store data."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK  # noqa: E402
from trees import HostLog, WRITER, mounted, process_of, read, require_fuse, served, url_of, works, write  # noqa: E402


def server_restarts(scratch):
    """The server is killed and started again while a program writes: the program sees no error, and no octet is lost."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.2")):
            end = f"{scratch}/{version}"
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                # Another process, because this one starts the server: a process that starts a program closes its files.
                writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{tree}/file", end], stdout=subprocess.PIPE, text=True)
                for _ in range(2):
                    time.sleep(0.3)
                    server.kill()
                    server.start()
                write(end, "")
                said, _ = writer.communicate(timeout=SECONDS)
                assert writer.returncode == 0
                with open(f"{scratch}/export/file", "rb") as file:
                    assert file.read() == bytes(range(256)) * 400 * int(said), "octets are lost"


def failing_disk(scratch):
    """The program that has written learns of each error of the server's disk, at the latest in close(). The tree lives on."""
    for faults, numbers in (("write:enospc", (errno.ENOSPC,)), ("commit:eio", (errno.EIO,)), ("read:eio", (errno.EIO,))):
        here = f"{scratch}/{faults.replace(':', '-')}"
        os.mkdir(here)
        with served(here, f"--faults={faults}") as server:
            make(f"{here}/export/file", 3 << 20)
            for transport, version in (("tcp", "3"), ("rdma", "4.2")):
                with mounted(url_of(server, transport, version), f"{here}/tree") as tree:
                    for attempt in range(3):
                        try:
                            if faults.startswith("read"):
                                assert len(read(f"{tree}/file")) < 0, "octets that cannot be read came as success"
                            with open(f"{tree}/new{attempt}", "wb", buffering=0) as file:
                                for _ in range(40):
                                    file.write(bytes(100 << 10))
                                if attempt:
                                    os.fsync(file.fileno())
                            raise AssertionError(f"{faults}: no error")
                        except OSError as why:
                            assert why.errno in numbers, (faults, why)
                    assert "new0" in os.listdir(tree) or faults.startswith("read")
                    os.mkdir(f"{tree}/{version}")


def lost_data(scratch):
    """Data that the server's disk does not take: each program that has the file open learns of it, none reads them, and a
    lock ends."""
    with served(scratch, "--faults=write:eio") as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.2")):
            write(f"{scratch}/export/file", "old data")
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                assert read(f"{tree}/file") == "old data"

                def fails(call, *arguments):
                    try:
                        call(*arguments)
                    except OSError as why:
                        assert why.errno == errno.EIO, why
                        return
                    raise AssertionError(f"{call.__name__}: no error")

                file, other = (os.open(f"{tree}/file", os.O_RDWR) for _ in range(2))
                fcntl.lockf(file, fcntl.LOCK_EX)
                assert os.pwrite(file, b"new", 0) == 3
                # A child closes what it has inherited, and ends without a word.
                subprocess.run(["true"], pass_fds=[file], check=True)
                fcntl.lockf(file, fcntl.LOCK_UN)
                subprocess.run([sys.executable, "-c", "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
                                f"{tree}/file"], check=True, timeout=SECONDS)
                fails(os.fsync, file)
                fails(os.close, other)
                wait_until(lambda: os.pread(file, 20, 0) == b"old data", "a program reads data that are lost")
                os.close(file)
                assert read(f"{tree}/file") == "old data"


def lost_at_the_end(scratch):
    """A tree that ends without waiting for its server says of which files data are lost that no program was told of."""
    require_fuse()
    tree = f"{scratch}/tree"

    def begins(server):
        process = subprocess.Popen([PENSTOCK, "mount", "--foreground", url_of(server, "tcp", "4.2"), tree], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: os.path.ismount(tree) or process.poll() is not None, "no tree")
        return process

    def ends(process):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=SECONDS)
        return process.returncode, said

    @contextlib.contextmanager
    def written(name):
        file = os.open(f"{tree}/{name}", os.O_WRONLY | os.O_CREAT)
        try:
            assert os.write(file, b"text") == 4
            yield file
        finally:
            works(os.close, file)

    with served(scratch) as server:
        process = begins(server)
        with written("waits"):
            assert ends(process) == (0, "")
        assert read(f"{scratch}/export/waits") == "text"

        process = begins(server)
        with written("lost") as file, server.silence():
            process.send_signal(signal.SIGTERM)
            # Not by a look at the tree: it refuses requests.
            wait_until(lambda: f" {tree} " not in read("/proc/self/mounts"), "the tree stays")
            late = subprocess.run([sys.executable, "-c", f"import os; os.ftruncate({file}, 9)"], pass_fds=[file], capture_output=True,
                                  text=True, timeout=SECONDS)
            assert os.strerror(errno.ENOTCONN) in late.stderr, late.stderr
            assert process.poll() is None, "it does not wait for the server"
            code, said = ends(process)
        assert code == 1, said
        assert said.splitlines()[-1].endswith("data are lost, and the programs that have written them do not know: /lost"), said
    shutil.rmtree(f"{scratch}/export")
    os.rmdir(f"{scratch}/tree")
    os.rmdir(f"{scratch}/other")
    with served(scratch, "--faults=write:eio") as server:
        process = begins(server)
        with written("told") as file:
            assert not works(os.fsync, file)
        code, said = ends(process)
        assert code == 0, said


def silent_server(scratch):
    """A process that waits for a server that does not answer can be killed at any time."""
    with served(scratch) as server:
        make(f"{scratch}/export/file", 8 << 20)
        with mounted(url_of(server, "tcp", "4.2"), f"{scratch}/tree") as tree:
            write(f"{tree}/known", "text")
            with server.silence():
                waiting = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for words in (
                    ["cat", f"{tree}/file"], ["ls", f"{tree}/absent"], ["cp", "/etc/passwd", f"{tree}/copy"],
                    ["dd", "if=/dev/zero", f"of={tree}/known", "bs=1M", "count=4", "conv=notrunc"])]
                time.sleep(0.5)
                for process in waiting:
                    assert process.poll() is None, process.args
                    process.kill()
                # The kernel makes look-ups in a directory wait for one another.
                for process in waiting:
                    process.wait(SECONDS)
            assert read(f"{tree}/known")[:4] in ("text", "\0\0\0\0")


def soft(scratch):
    """A tree with `soft` fails with EIO when the server does not answer, and works again afterwards."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("tcp", "4.2")):
            with mounted(f"{url_of(server, transport, version)}&soft&timeo=3&retrans=1", f"{scratch}/tree") as tree:
                file = open(f"{tree}/file", "w")
                file.write("lost")
                file.flush()
                with server.silence():
                    for call, *words in ((os.listdir, tree), (os.fsync, file.fileno()), (os.mkdir, f"{tree}/new")):
                        try:
                            call(*words)
                        except OSError as why:
                            assert why.errno == errno.EIO, why
                        else:
                            raise AssertionError(f"no error from {call.__name__} in version {version}")
                file.close()
                wait_until(lambda: works(write, f"{tree}/file", "text"), "the tree stays dead")
                assert read(f"{tree}/file") == "text"


def users_wait(scratch):
    """A user whose connection is made while the server is away waits for it, as programs do that have one."""
    if os.geteuid() != 0:
        raise Skip("only root mounts for all users")
    with served(scratch) as server:
        write(f"{scratch}/export/file", "text")
        for version in ("3", "4.2"):
            with mounted(url_of(server, "tcp", version), f"{scratch}/tree", "-o", "allow_other") as tree:
                # The directories above the tree are closed to this user.
                program = subprocess.Popen(["sh", "-c", "read word && cat file"], cwd=tree, user=65534, group=65534, extra_groups=[],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                server.kill()
                program.stdin.write("go\n")
                program.stdin.flush()
                time.sleep(1)
                assert program.poll() is None, program.communicate(timeout=SECONDS)
                server.start()
                said = program.communicate(timeout=SECONDS)
                assert (program.returncode, *said) == (0, "text", ""), said


ONE_WRITE = """
import os, sys
file = open(sys.argv[1], "w")
file.write("text")
file.flush()
print("written", flush=True)
sys.stdin.read()
os.fsync(file.fileno())
"""


def log_in_the_background(scratch):
    """A tree in the background tells the log of the host how it recovers from a restart of the server."""
    require_fuse()
    with served(scratch) as server, HostLog(scratch) as log:
        words = log.words(PENSTOCK, "mount", "-v", url_of(server, "tcp", "4.2"), f"{scratch}/tree")
        started = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        if started.returncode != 0 and os.geteuid() != 0:
            raise Skip("this user cannot make a namespace")
        assert started.returncode == 0, started.stderr
        message = log.await_message("is mounted at")
        assert "<30>" in message, message
        process = process_of(message)
        # The tree is in the namespace of its process.
        tree = f"/proc/{process}/root/{scratch}/tree"
        # Not this process: a server that it starts would begin as a copy of it, and wait to close the file.
        writer = subprocess.Popen([sys.executable, "-c", ONE_WRITE, f"{tree}/file"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"written\n"
        server.kill()
        server.start()
        writer.communicate(timeout=SECONDS)
        assert writer.returncode == 0
        assert "open files reclaimed: 1" in log.await_message(f"{ADDRESS}: the server has restarted")
        os.kill(process, signal.SIGTERM)
        log.await_message("is no longer mounted at")
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the process does not end")


main({case.__name__: case for case in (server_restarts, failing_disk, lost_data, lost_at_the_end, silent_server, soft, users_wait, log_in_the_background)})
