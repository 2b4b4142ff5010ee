#!/usr/bin/python3
"""`penstock serve` is killed repeatedly, at random moments, under Linux clients that write, read back, rename, make,
remove and hold locks. No application sees an error, no octet is wrong, and no client loses a lock to another.

Each case leaves a capture of its traffic for check_capture.py. TEST_KILL_SEED repeats the moments of another run.
"""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import assert_same, digests  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried  # noqa: E402
from mounts import Mount, exported, serve, two_clients  # noqa: E402
from script import hashes  # noqa: E402

RECOVERY_SECONDS = 300  # A client without a server pauses longer each time; then comes the grace period.

# Each client works, and tries to get the locks of the other client's workers.
WORK = """
mkdir /tmp/model
for w in %(workers)s; do n=$((n + 1)); load $w /tmp/model %(seed)d$n & workers="$workers $!"; done
read line
thief %(theirs)s & thieves=$!
thief %(ours)s & thieves="$thieves $!"
read line
kill -TERM $thieves
read line
kill -TERM $workers
for w in $workers; do wait $w || exit 1; done
for t in $thieves; do wait $t || exit 1; done
drop_caches
for f in /tmp/model/*; do echo "model $(b2sum $f)"; done
for w in %(workers)s; do for f in $w/*; do echo "readback $(b2sum $f)"; done; done
dmesg | grep -i 'reclaim failed' && exit 1
"""


class Load:
    """The workers of both clients, and their output."""

    def __init__(self, ours, theirs):
        self.ours = [f"w{number}" for number in range(ours)]
        self.theirs = [f"w{number}" for number in range(ours, ours + theirs)]
        self.all = self.ours + self.theirs

    def script(self, seed):
        workers = [f"/mnt/{name}" for name in self.ours] + [f"/other/{name}" for name in self.theirs]
        return WORK % {"workers": " ".join(workers), "seed": seed,
                       "ours": " ".join(f"/other/{name}.lock" for name in self.ours),
                       "theirs": " ".join(f"/mnt/{name}.lock" for name in self.theirs)}

    def wait_for_progress(self, guest):
        """Waits until each worker has finished a round, so that all operations that a restart interrupted are done."""
        after = len(guest.output())
        for name in self.all:
            said = guest.wait_for(f"^round \\d+ of {name}$|FAILED", RECOVERY_SECONDS, after)
            assert "FAILED" not in said, said


def kill_at_random(server, guest, load, chance, count):
    """Usually under load; sometimes while the clients still recover from the last restart."""
    waited = 0
    for number in range(count):
        if number % 3 != 2:
            began = time.monotonic()
            load.wait_for_progress(guest)
            waited += time.monotonic() - began
        time.sleep(chance.uniform(0, 1.5))
        assert server.process.poll() is None, "the server ended of itself"
        server.kill()
        print(f"killed, {number + 1} of {count}", flush=True)
        server.start()
    load.wait_for_progress(guest)
    print(f"waited {waited:.1f} s for clients to recover", flush=True)


def check(folder, lines, load, count):
    """Checks that all data that the workers report is there: on the server as they read it, and on the host."""
    model = hashes(lines, "model")
    assert len(model) > 4 * len(load.all), model
    assert_same(hashes(lines, "readback"), model, "read back by the guest")
    on_host = {}
    for name in load.all:
        on_host |= digests(f"{folder}/{name}")
    assert_same(on_host, model, "read on the host")
    for name in load.all:
        (said,) = [line for line in lines if line.startswith(f"finished {name}:")]
        assert int(said.split()[-1]) <= count, f"{said}: more than one for each of {count} kills"


def kills(first, second, count, lease=10, ours=4, theirs=2):
    def run(scratch, name):
        seed = int(os.environ.get("TEST_KILL_SEED") or random.randrange(1 << 31))
        print(f"TEST_KILL_SEED={seed}", flush=True)
        folder, load = exported(scratch), Load(ours, theirs)
        programs = carried("load", "thief")
        with serve(folder, lease) as server, Capture(name, server, restarted=True):
            script = two_clients(server, first, second, load.script(seed))
            with Guest(script, files=programs, networks=2) as guest:
                load.wait_for_progress(guest)
                guest.go_on()
                kill_at_random(server, guest, load, random.Random(seed), count)
                guest.go_on()
                for lock in (f"/other/{load.ours[0]}.lock", f"/mnt/{load.theirs[0]}.lock"):
                    guest.wait_for(f"^thief of {lock} was refused", 120)
                guest.go_on()
                lines = guest.finish(RECOVERY_SECONDS)
        check(folder, lines, load, count)

    return run


# A client of version 4.0 makes each restart cost the whole grace period, because it cannot report that it has reclaimed
# everything. It loses its locks if it comes later than that, or lets its lease expire, so a busy machine needs the
# time.
CASES = {
    "kills_rdma": kills(Mount("rdma", "4.2"), Mount("rdma", "4.1"), 16),
    "kills_tcp": kills(Mount("tcp", "4.1"), Mount("tcp", "4.0"), 4, lease=20),
}

if __name__ == "__main__":
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
