#!/usr/bin/python3
"""Two Linux clients in conflict: locks, recalled delegations, the same names, the same mapped files.

Each case leaves a capture of its traffic for check_capture.py.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import assert_same, digests  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried  # noqa: E402
from mounts import Mount, exported, one_client, serve, two_clients  # noqa: E402
from ports import free_ports  # noqa: E402
from script import hashes  # noqa: E402

# The server calls a client of version 4.0 at its announced address. Here that is the host, which forwards it to the
# guest.
CALLED_AT = "echo %d >/sys/module/nfs/parameters/callback_tcpport || exit 1\n"

TOGETHER = """
mkdir /mnt/locks /mnt/races
delegations /mnt /mnt/delegated /other/delegated || exit 1
locks /mnt/locks /other/locks %(rounds)d || exit 1
races /mnt/races /other/races 60 || exit 1
mapped /mnt/locks /other/locks || exit 1
# Exchange the roles of the two clients.
delegations /other /other/back /mnt/back || exit 1
echo "made $(b2sum /tmp/mapped)"
umount /mnt || exit 1
%(again)s
echo "remounted $(b2sum /mnt/locks/mapped)"
"""
READ_FILES = 6


def make_delegable(folder):
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    for number in range(READ_FILES):
        with open(f"{folder}/read-{number}", "w") as file:
            file.write("original")
        os.chmod(f"{folder}/read-{number}", 0o666)


def check_races(folder, lines, rounds):
    """Checks that the file has exactly what the winners wrote."""
    names = os.listdir(folder)
    taken = [name for name in names if ".taken-by-" in name]
    assert len(taken) == rounds and len(names) == 2 * rounds, f"{len(names)} names, {len(taken)} of them taken"
    winners = [open(f"{folder}/{name}").read() for name in taken]
    for racer in range(4):
        assert f"racer {racer} won {winners.count(str(racer))}" in lines, winners


def together(first, second, rounds):
    def run(scratch, name):
        folder = exported(scratch)
        make_delegable(f"{folder}/delegated")
        make_delegable(f"{folder}/back")
        programs = carried("delegations", "locks", "races", "mapped")
        with serve(folder) as server, Capture(name, server):
            (port,) = free_ports(1)
            body = TOGETHER % {"rounds": rounds, "again": one_client(server, first)}
            script = CALLED_AT % port + two_clients(server, first, second, body)
            with Guest(script, files=programs, networks=2, forwards={port: port}) as guest:
                lines = guest.finish(300)
        check_races(f"{folder}/races", lines, 60)
        made = hashes(lines, "made")
        assert_same(hashes(lines, "remounted"), made, "what was written through mappings, mounted again")
        assert_same({"mapped": digests(f"{folder}/locks")["mapped"]}, made, "what was written through mappings, on the host")

    return run


# A client of version 4.0 that waits for a lock asks again after longer and longer pauses, so it wins less often.
CASES = {
    "clients_rdma": together(Mount("rdma", "4.2"), Mount("rdma", "4.1"), 10),
    "clients_mixed": together(Mount("tcp", "4.0", ",clientaddr=127.0.0.1"), Mount("tcp", "4.1"), 3),
}

if __name__ == "__main__":
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
