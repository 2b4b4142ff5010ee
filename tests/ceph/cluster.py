#!/usr/bin/python3
"""Several servers of one cluster (penstock serve --cluster): their clients outlive each of them, in one grace period."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

from scene import Scene, program, url

from cases import main
from patience import SECONDS, wait_until
from trees import mounted


# Keeps a lock until it reads a line. Then it writes what it has locked, and says so.
HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
os.pwrite(file, b"written under the lock", 0)
os.fsync(file)
print("written", flush=True)
sys.stdin.readline()
"""
# Writes a new file.
WRITER = """
import sys
with open(sys.argv[1], "x") as file:
    file.write("text")
"""
# Succeeds if another process holds the lock.
OTHER = """
import errno, fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as why:
    sys.exit(why.errno not in (errno.EAGAIN, errno.EACCES))
sys.exit("it is not locked")
"""


def member(scene, node, grace=5):
    """Returns a server of the cluster "home"."""
    return program.Server({"/": f"{scene.location()}:no_root_squash"},
                          ["--lease=5", f"--grace={grace}", f"--cluster=home?conf={scene.cluster.conf}&node={node}"])


def make_pool(scene):
    scene.cluster.ceph("osd", "pool", "create", "penstock", 8)


@contextlib.contextmanager
def holding(path):
    """Runs a process that has locked the file."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "locked\n"
            yield holder
        finally:
            holder.kill()


def goes_on(holder):
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "written\n"


def in_grace(server):
    status = program.penstock_ok("ctl", f"--control={server.state.name}/control", "--json", "status")
    return json.loads(status)["grace_period"]


def await_grace(server):
    wait_until(lambda: in_grace(server), "the server does not enforce the grace period")


def waits_for_the_end_of_the_grace(server, path):
    """Requires that a file is not made in the grace period of this server, which has begun, but made after it."""
    with subprocess.Popen([sys.executable, "-c", WRITER, path]) as writer:
        has_waited = False

        def is_done():
            nonlocal has_waited
            done = writer.poll() is not None
            grace = in_grace(server)
            assert not (done and grace), "the server gives new state in the grace period"
            has_waited = has_waited or grace
            return done
        wait_until(is_done, "the grace period does not end")
        assert has_waited and writer.returncode == 0
    with open(path) as file:
        assert file.read() == "text"


def await_loss(server, node):
    wait_until(lambda: any(f"member {node} has been silent" in line for line in server.lines), "nobody misses the server")


def is_locked(path):
    subprocess.run([sys.executable, "-c", OTHER, path], check=True, timeout=SECONDS)


def folders(scratch, *names):
    for name in names:
        os.mkdir(f"{scratch}/{name}")
    return [f"{scratch}/{name}" for name in names]


def clients_return(scratch):
    """A server is killed, and starts again with an empty state directory. Its client keeps its lock, which the servers remember in
    the cluster."""
    first, second, third = folders(scratch, "first", "second", "third")
    with Scene() as scene:
        make_pool(scene)
        # The MDS keeps the session of a killed server for a minute, unless the server comes back with its state directory.
        with member(scene, "b", grace=120) as other, member(scene, "a", grace=120) as server, \
                mounted(url(server), first), mounted(url(other), third):
            with holding(f"{first}/file") as holder:
                server.kill()
                shutil.rmtree(server.state.name)
                os.mkdir(server.state.name, 0o700)
                server.start()
                goes_on(holder)
                with mounted(url(server), second):
                    is_locked(f"{second}/file")
                # The other server gives new state again.
                with open(f"{third}/new", "w") as file:
                    file.write("text")
            with open(f"{third}/file") as file:
                assert file.read() == "written under the lock"


def lost_server(scratch):
    """A server is killed for good. The others see it, and after a grace period they give new state."""
    first, second = folders(scratch, "first", "second")
    with Scene() as scene:
        make_pool(scene)
        with member(scene, "b", grace=20) as other, mounted(url(other), second):
            lost = member(scene, "a", grace=20)
            lost.__enter__()
            with mounted(url(lost) + "&soft", first), holding(f"{first}/file"):
                lost.kill()
                await_loss(other, "a")
                await_grace(other)
                program.penstock_refused("ctl", f"--control={other.state.name}/control", "grace", "end", mentions=("another server",))
                waits_for_the_end_of_the_grace(other, f"{second}/new")
            lost.state.cleanup()


def leaves(scratch):
    """A server that is stopped tells the others. It comes back, and its client keeps its lock."""
    first, second = folders(scratch, "first", "second")
    with Scene() as scene:
        make_pool(scene)
        with member(scene, "b", grace=120) as other, member(scene, "a", grace=120) as server, mounted(url(server), first), \
                holding(f"{first}/file") as holder:
            assert server.stop() == 0
            await_grace(other)
            server.start()
            goes_on(holder)
            with mounted(url(server), second):
                is_locked(f"{second}/file")
            wait_until(lambda: not in_grace(other), "the grace period does not end")
            assert not any("silent" in line for line in other.lines), other.lines


def expelled(scratch):
    """A server that stalls, so that the others take it for lost, ends when it goes on. When it has started again, its client keeps
    its lock."""
    first, second = folders(scratch, "first", "second")
    with Scene() as scene:
        make_pool(scene)
        with member(scene, "b", grace=120) as other, member(scene, "a", grace=120) as stalled, mounted(url(stalled), first), \
                holding(f"{first}/file") as holder:
            stalled.process.send_signal(signal.SIGSTOP)
            await_loss(other, "a")
            await_grace(other)
            stalled.process.send_signal(signal.SIGCONT)
            assert stalled.process.wait(SECONDS) == 1
            stalled.expect_line("start it again")
            stalled.start()
            goes_on(holder)
            with mounted(url(stalled), second):
                is_locked(f"{second}/file")
            wait_until(lambda: not in_grace(other), "the grace period does not end")


def stopped(scratch):
    """A server that waits for the others when it starts is stopped by a signal, and leaves the cluster."""
    (first,) = folders(scratch, "first")
    with Scene() as scene:
        make_pool(scene)
        with member(scene, "b", grace=120) as other, member(scene, "a", grace=120) as server:
            with mounted(url(server) + "&soft", first), holding(f"{first}/file"):
                server.kill()
            with other.silence():
                starting = subprocess.Popen([program.PENSTOCK, *server.arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for line in starting.stderr:
                    print("starting|", line, end="", flush=True)
                    if "these members do not enforce the grace period: b" in line:
                        break
                starting.terminate()
                starting.stderr.read()
                assert starting.wait(SECONDS) == 0
            wait_until(lambda: in_grace(other), "the client of the first run may no longer reclaim")
            server.start()


def messages(scratch):
    """What cannot be a member says why."""
    with Scene() as scene:
        def refused(name, *mentions):
            program.serve_refused(scratch, f"--export=/x={scene.location()}", f"--cluster={name}", mentions=mentions)
        conf = scene.cluster.conf
        refused(f"home?conf={conf}", "no pool penstock", "ceph osd pool create penstock")
        refused("home?conf=/nonexistent", "/nonexistent", "cannot be read")
        refused("home?color=red", "unknown option", "node")
        refused("ho/me", "letters")
        make_pool(scene)
        with member(scene, "a"):
            refused(f"home?conf={conf}&node=a", "home", "node=")
        program.serve_refused(scratch, f"--export=/x={scene.location()}", f"--cluster=home?conf={conf}", "--grace=0", mentions=("--grace",))


if __name__ == "__main__":
    main({"clients_return": clients_return, "lost_server": lost_server, "leaves": leaves, "expelled": expelled, "stopped": stopped, "messages": messages})
