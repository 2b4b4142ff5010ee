#!/usr/bin/python3
"""penstock mount: how long it tries to mount, with the options bg, fg and retry of nfs(5)."""

import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from trees import HostLog, process_of, read, require_fuse, served, url_of, write  # noqa: E402


@contextlib.contextmanager
def mounting(*arguments):
    """The command, which must end by itself."""
    with subprocess.Popen([PENSTOCK, "mount", *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said_by(process):
    _, said = process.communicate(timeout=SECONDS)
    return process.returncode, said


def waits(scratch):
    """The command waits for a server that is down, and mounts when it is there."""
    require_fuse()
    with served(scratch) as server:
        write(f"{scratch}/export/file", "text")
        for transport, version in (("tcp", "3"), ("tcp", "4.2"), ("rdma", "4.1")):
            server.kill()
            with mounting(url_of(server, transport, version), f"{scratch}/tree") as process:
                time.sleep(1)
                assert process.poll() is None, said_by(process)
                server.start()
                code, said = said_by(process)
            assert code == 0 and "trying again for 2 minutes" in said and said.count("\n") == 1, (code, said)
            assert read(f"{scratch}/tree/file") == "text"
            ok("umount", f"{scratch}/tree")


def one_attempt(scratch):
    """retry=0 means one attempt, also with bg."""
    with served(scratch) as server:
        server.kill()
        for version in ("3", "4.2"):
            for more in ("retry=0", "retry=0,bg"):
                refused("mount", "-o", more, url_of(server, "tcp", version), f"{scratch}/tree", mentions=["refused"])
        server.start()


def in_the_background(scratch):
    """With bg the command succeeds after the first attempt. Its process goes on, and tells the host's log of the end."""
    require_fuse()
    with served(scratch) as server, HostLog(scratch) as log:
        write(f"{scratch}/export/file", "text")
        for path in ("/", "/nowhere"):
            server.kill()
            # A relative name of the directory, and others, stay right in the background.
            words = log.words(PENSTOCK, "mount", "-v", "-o", "bg", url_of(server, "tcp", "4.2").replace("/?", f"{path}?"), "tree")
            started = subprocess.run(words, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
            if started.returncode != 0 and os.geteuid() != 0:
                raise Skip("this user cannot make a namespace")
            assert started.returncode == 0, started.stderr
            assert "trying again for 10000 minutes, in the background" in started.stderr, started.stderr
            server.start()
            message = log.await_message("is mounted at" if path == "/" else "no such file")
            process = process_of(message)
            if path == "/":
                assert f"is mounted at {scratch}/tree" in message, message
                # The tree is in the namespace of its process.
                assert read(f"/proc/{process}/root/{scratch}/tree/file") == "text"
                os.kill(process, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the process does not end")


# With a directory of helpers of mount(8) of its own.
MOUNT_OF_FSTAB = """
set -e
mount -t tmpfs tmpfs /usr/sbin
ln -s "$1" /usr/sbin/mount.penstock
exec mount -v --fstab "$2" "$3"
"""


def line_of_fstab(scratch):
    """mount(8) passes the options of a line of fstab(5), and succeeds while the server is down."""
    require_fuse()
    if os.geteuid() != 0:
        raise Skip("only root mounts by fstab(5)")
    with served(scratch) as server, HostLog(scratch) as log:
        write(f"{scratch}/export/file", "text")
        write(f"{scratch}/fstab", f"{ADDRESS}:/ {scratch}/tree penstock bg,retry=1,vers=4.2,port={server.tcp},nosuid,_netdev 0 0\n")
        server.kill()
        words = log.words("sh", "-c", MOUNT_OF_FSTAB, "sh", os.path.abspath(PENSTOCK), f"{scratch}/fstab", f"{scratch}/tree")
        started = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        assert started.returncode == 0 and "trying again for 1 minute, in the background" in started.stderr, started.stderr
        server.start()
        process = process_of(log.await_message("is mounted at"))
        assert read(f"/proc/{process}/root/{scratch}/tree/file") == "text"
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the process does not end")


def missing_directory(scratch):
    """With bg the directory may be missing at first, as when another file system has it (nfs(5))."""
    require_fuse()
    with served(scratch) as server:
        write(f"{scratch}/export/file", "text")
        directory = f"{scratch}/later/tree"
        refused("mount", url_of(server, "tcp", "4.2"), directory, mentions=["later/tree", "No such file"])
        with mounting("-o", "bg,retry=1", url_of(server, "tcp", "4.2"), directory) as process:
            code, said = said_by(process)
        assert code == 0 and "No such file or directory; trying again" in said, (code, said)
        os.makedirs(directory)
        wait_until(lambda: os.path.ismount(directory), "no tree")
        assert read(f"{directory}/file") == "text"
        ok("umount", directory)
        write(f"{scratch}/file", "")
        refused("mount", "-o", "bg", url_of(server, "tcp", "4.2"), f"{scratch}/file", mentions=["Not a directory"])


# With names of hosts from a file only, so that no name service is asked.
WITH_HOSTS_OF_A_FILE = 'mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@"'


def errors_that_stay(scratch):
    """What does not pass is an error at once: a path that is not exported, a host that may not mount, an unknown name."""
    with served(scratch, f"--export=/closed={scratch}/other:client=192.0.2.1") as server:
        for more in ("fg", "bg"):
            for version in ("3", "4.0", "4.2"):
                url = url_of(server, "tcp", version)
                refused("mount", "-o", more, url.replace("/?", "/nowhere?"), f"{scratch}/tree", mentions=["nowhere"])
                refused("mount", "-o", more, url.replace("/?", "/closed?"), f"{scratch}/tree", mentions=["closed"])
            write(f"{scratch}/nsswitch", "hosts: files\n")
            words = ["unshare", "-m", "sh", "-c", WITH_HOSTS_OF_A_FILE, "sh", f"{scratch}/nsswitch", PENSTOCK, "mount", "-o", more,
                     "nobody.invalid:/", f"{scratch}/tree"]
            ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
            if os.geteuid() == 0:
                assert ended.returncode == 1 and "nobody.invalid" in ended.stderr and "again" not in ended.stderr, ended


def silent(scratch):
    """A server that takes connections and does not answer: the attempt ends, also with hard."""
    require_fuse()
    with served(scratch) as server:
        write(f"{scratch}/export/file", "text")
        with server.silence():
            with mounting("-o", "bg,retry=1,hard,timeo=10,retrans=0", url_of(server, "tcp", "4.2"), f"{scratch}/tree") as process:
                code, said = said_by(process)
            assert code == 0 and "the server does not answer; trying again" in said, (code, said)
        wait_until(lambda: os.path.ismount(f"{scratch}/tree"), "no tree")
        assert read(f"{scratch}/tree/file") == "text"
        ok("umount", f"{scratch}/tree")


def ends_with_the_command(scratch):
    """Nothing goes on in the background when the command that waits is killed."""
    with served(scratch) as server:
        server.kill()
        for how in (signal.SIGINT, signal.SIGKILL):
            with mounting(url_of(server, "tcp", "4.2"), f"{scratch}/tree") as process:
                at = f"/proc/{process.pid}/task/{process.pid}/children"
                wait_until(lambda: read(at).split(), "there is no process that tries")
                children = read(at).split()
                time.sleep(0.5)
                process.send_signal(how)
                process.wait(SECONDS)
                wait_until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children), "the process goes on")
        server.start()
        assert not os.path.ismount(f"{scratch}/tree")


main({case.__name__: case for case in (waits, one_attempt, in_the_background, line_of_fstab, missing_directory, errors_that_stay, silent, ends_with_the_command)})
