#!/usr/bin/python3
"""Larger workloads in a Linux mount: a folder of 100,000 files, and a build by a compiler that is itself on NFS.

Each case leaves a capture of its traffic for check_capture.py.
"""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import Skip, main  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried  # noqa: E402
from mounts import Mount, exported, serve, two_clients  # noqa: E402

COUNT, MADE_BY_GUEST, REMOVED = 100_000, 100, 1000
CROWD = """
n=%(first)d; while [ $n -lt %(count)d ]; do head -c $((n %% 5)) /dev/zero >/mnt/crowd/f$n || exit 1; n=$((n + 1)); done
crowd list /mnt/crowd %(count)d || exit 1
crowd list /other/crowd %(count)d %(removed)d & other=$!
crowd remove /mnt/crowd %(count)d %(removed)d || exit 1
wait $other || exit 1
drop_caches
echo "left $(find /mnt/crowd -type f | wc -l)"
"""


def crowd(scratch, name):
    """The host makes most of the files, the guest the last ones. One client removes some while both list them. The
    guest may use the attributes of a listing long enough for a slow machine to check all files."""
    folder = exported(scratch)
    os.mkdir(f"{folder}/crowd")
    for number in range(COUNT - MADE_BY_GUEST):
        with open(f"{folder}/crowd/f{number}", "wb") as file:
            file.write(bytes(number % 5))
    numbers = {"first": COUNT - MADE_BY_GUEST, "count": COUNT, "removed": REMOVED}
    with serve(folder) as server, Capture(name, server):
        script = two_clients(server, Mount("rdma", "4.2", ",actimeo=120"), Mount("tcp", "4.1"), CROWD % numbers)
        with Guest(script, files=carried("crowd"), networks=2) as guest:
            lines = guest.finish(400)
    left = {f"f{number}" for number in range(COUNT) if number % REMOVED}
    assert set(os.listdir(f"{folder}/crowd")) == left
    for said in (f"list /mnt/crowd: {COUNT} listed, 0 missing, 0 removed",
                 f"remove /mnt/crowd: {COUNT} listed, 0 missing, {COUNT // REMOVED} removed", f"left {len(left)}"):
        assert said in lines, f"the guest did not say {said!r}"


# The parts of a program: each prints its number, and whether the header is the old or the new one.
PARTS = 6
MAKEFILE = """
CC = gcc
CFLAGS = -O1 -Wall -Werror
objects = main.o $(patsubst %.c,%.o,$(wildcard part*.c))
program: libparts.a main.o ; $(CC) -o $@ main.o -L. -lparts
libparts.a: $(filter part%,$(objects)) ; ar rcs $@ $^
$(objects): parts.h
"""
BUILD = """
in_root() { chroot /tmp/root /usr/bin/env -i PATH=/usr/bin /bin/sh -c "cd /project && $1"; }
mkdir -p /tmp/root/dev /tmp/root/tmp; mount --bind /dev /tmp/root/dev
for link in bin lib lib64 sbin; do ln -s usr/$link /tmp/root/$link; done
in_root 'make -j2' || exit 1
echo "first $(in_root ./program)"
echo "nothing to do: $(in_root 'make -q && echo right')"
sed -i 's/old/new/' /tmp/root/project/parts.h
in_root 'make -q' && exit 1
in_root 'make -j2' || exit 1
echo "second $(in_root ./program)"
in_root 'gcc -o hello -x c - && ./hello' <<END || exit 1
#include <stdio.h>
int main(void) { return puts("hello from a file on NFS") < 0; }
END
umount /tmp/root/dev; umount /tmp/root/project && umount /tmp/root/usr || exit 1
"""


def write_program(folder):
    sources = {"Makefile": MAKEFILE, "parts.h": "#define STATE \"old\"\n#include <stdio.h>\n" + "".join(
        f"int part{number}(void);\n" for number in range(PARTS))}
    sources["main.c"] = "#include \"parts.h\"\nint main(void) { return " + " + ".join(
        f"part{number}()" for number in range(PARTS)) + f" - 2 * {PARTS}; }}\n"
    for number in range(PARTS):
        sources[f"part{number}.c"] = f"#include \"parts.h\"\nint part{number}(void) {{ return printf(\"{number}%c\", *STATE); }}\n"
    for name, text in sources.items():
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)


def build(scratch, name):
    """make and gcc run from the host's /usr, exported read-only, in a chroot that is entirely on NFS."""
    if not shutil.which("gcc") or not os.path.islink("/bin") or not os.path.islink("/lib64"):
        raise Skip("no gcc, or a /usr that is not the whole of a system")
    folder = exported(scratch)
    write_program(folder)
    with serve(folder, exports={"/usr": "/usr:ro"}) as server, Capture(name, server):
        script = (Mount("tcp", "4.1", ",ro").command(server, "/tmp/root/usr", path="/usr") +
                  Mount("rdma", "4.2").command(server, "/tmp/root/project") + BUILD)
        with Guest(script) as guest:
            lines = guest.finish(400)
    wanted = "".join(f"{number}%s" for number in range(PARTS))
    for said in ("first " + wanted.replace("%s", "o"), "nothing to do: right", "second " + wanted.replace("%s", "n"),
                 "hello from a file on NFS"):
        assert said in lines, f"the guest did not say {said!r}"


CASES = {"crowd": crowd, "build": build}

if __name__ == "__main__":
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
