"""The kernel's client beside itself: at Penstock's server, and at the kernel's own server. Both servers and the client run in one Linux
guest, that of the interoperability tests, so that both pairs have the same kernel, processors, memory, file system (tmpfs) and
link, which is the guest's loopback. bench/run uses it.

Over iWARP all of them use the kernel's software device, siw, without check values."""

import contextlib
import io
import json
import pathlib
import sys
import types

from measuring import rounded

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / folder) for folder in ("harness", "interop")]
import guest  # noqa: E402
import guest_image  # noqa: E402
from cases import Skip  # noqa: E402
from guest_programs import with_libraries  # noqa: E402
from guest_python import python_and_tests  # noqa: E402
from kernel_server import PORTS, SERVE  # noqa: E402
from mounts import NAME, Mount  # noqa: E402

WAYS = ("3", "tcp"), ("4.2", "tcp"), ("4.2", "rdma")
# That of eth0: siw does not work with the address of the loopback device.
ADDRESS = "10.0.2.15"
KERNEL, PENSTOCK = "knfsd", "Penstock"
MEMORY_MIB, BOOT_SECONDS, ROUND_SECONDS = 3000, 240, 180
# Small files and MiB in a round, on real processors and on emulated ones.
ON_REAL, ON_EMULATED = (500, 128), (60, 16)
JOBS = 4

# Between two sides in one kernel, siw now and then leaves the first message of a connection unread: mount then waits for ever.
MOUNT_AGAIN = """
mount() {
  for try in 1 2 3 4; do timeout 60 mount "$@" && return; done
  return 1
}
"""
# Penstock has a tmpfs of the same kind as the kernel's server, and its files of state are in memory as well.
SERVE_PENSTOCK = """
ulimit -l unlimited  # siw counts what Penstock registers, also for root
mkdir -p /srv/y /tmp/state; mount -t tmpfs -o size=70%% srv /srv/y; chmod 777 /srv/y
penstock serve --export /srv/y=/srv/y:no_root_squash --state-dir /tmp/state --listen %(address)s --tcp-port %(tcp)d --rdma-port %(rdma)d \\
  --mount-port %(mount)d --rdma verbs --lease 10 --grace 1 >/tmp/penstock.log 2>&1 &
tries=0
until grep -q '^ready' /tmp/penstock.log; do
  tries=$((tries + 1)); [ $tries -lt 300 ] || { cat /tmp/penstock.log; exit 1; }
  sleep 0.1
done
"""


def prepare():
    """Makes the image while there is a network; a run does not have one. Raises Skip with what is missing."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            guest_image.ensure()
            python_and_tests()
    except (guest_image.GuestUnavailable, RuntimeError) as why:
        raise Skip(str(why).splitlines()[0]) from None
    except OSError as why:
        raise Skip(f"its image cannot be made: {why.strerror}") from None


def is_emulated():
    """Without KVM, QEMU emulates the guest's processors, which have other costs than real ones."""
    return guest.accelerators()[0] != "kvm"


def script(rounds):
    files, mib = ON_EMULATED if is_emulated() else ON_REAL
    kernel = types.SimpleNamespace(tcp=PORTS[0], rdma=PORTS[1], mount=PORTS[2])
    ours = types.SimpleNamespace(tcp=3049, rdma=30049, mount=30048, address=ADDRESS)
    lines = SERVE + SERVE_PENSTOCK % vars(ours) + MOUNT_AGAIN
    for version, transport in WAYS:
        mount, at = Mount(transport, version), {}
        for name, server, path in (KERNEL, kernel, "/srv/x"), (PENSTOCK, ours, "/srv/y"):
            at[name] = f"/mnt/{version}-{transport}-{len(at)}"
            # A client of its own, so that the mounts share nothing.
            lines += NAME % at[name].rpartition("/")[2] + mount.command(server, at[name], host=ADDRESS, path=path)
        lines += f"echo '==== {version} {transport}'; python3 /compare {KERNEL}={at[KERNEL]} {PENSTOCK}={at[PENSTOCK]} "
        lines += f"--rounds {rounds} --files {files} --mib {mib} --jobs {JOBS} --json || exit 1\n"
    return lines


def measure(program, rounds):
    """Returns the release of the guest's kernel, whether its processors are emulated, and {"4.2 tcp": {server: {what: [rate, ...]}}, ...}."""
    files = with_libraries("penstock", program) | python_and_tests() | {"compare": HERE / "mounts" / "compare"}
    with contextlib.redirect_stdout(io.StringIO()):
        with guest.Guest("export PATH\nuname -r\n" + script(rounds), files=files, memory=MEMORY_MIB) as running:
            lines = running.finish(BOOT_SECONDS + ROUND_SECONDS * rounds)
    begun = next(number for number, line in enumerate(lines) if "==== guest ready" in line)
    measured, way = {}, None
    for line in lines[begun:]:
        if line.startswith("==== "):
            way = line.removeprefix("==== ")
        elif line.startswith("{"):
            measured[way] = {server: {what: [rounded(rate) for rate in rates] for what, rates in each.items()}
                             for server, each in json.loads(line).items()}
    return {"kernel": lines[begun + 1], "is_emulated": is_emulated(), "rates": measured}
