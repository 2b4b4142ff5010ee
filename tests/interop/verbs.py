#!/usr/bin/python3
"""RDMA by verbs without an adapter: in the guest the kernel's software RoCE (rxe) and software iWARP (siw) are the
devices."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import MIB, assert_same, digests, make  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried, with_libraries  # noqa: E402
from guest_python import python_and_tests  # noqa: E402
from kernel_client import real_tree  # noqa: E402
from linux import require  # noqa: E402
from mounts import SHELL, exported, serve  # noqa: E402
from penstock import PENSTOCK, penstock_ok as run  # noqa: E402
from ports import free_ports  # noqa: E402
from script import ScriptFailed, hashes  # noqa: E402

SUITE = os.environ.get("TEST_VERBS_SUITE", "build/release/src/rdma/verbs/verbs_suite")
ADDRESS, ADDRESS6 = "10.0.2.15", "fd00:2::15"

# siw enforces the limit on locked memory even for root.
DEVICES = """
ulimit -l unlimited
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; ip addr add %(address6)s/64 dev eth0
device() { rdma link delete siw0 2>/dev/null; rdma link delete rxe0 2>/dev/null; rdma link add ${1}0 type $1 netdev eth0; }
suite() {
  TEST_VERBS_ADDRESS=$1 verbs_suite --gtest_brief=1 --gtest_filter="$2" || exit 1
}
""" % {"address6": ADDRESS6}
SUITES = """
for kind in rxe siw; do
  device $kind || exit 1
  suite %(address)s '*'
  echo "suite over $kind passed"
  suite %(address6)s '*InfoNames*:*PrivateData*:*WithoutAListener*:*TransfersLargeData*'
  echo "IPv6 over $kind passed"
done
""" % {"address": ADDRESS, "address6": ADDRESS6}


def guest(script, files, **options):
    require()
    return Guest(DEVICES + script, files=files, **options)


def suite(_):
    """The conformance suite of the provider interface over both kinds of device."""
    with guest(SUITES, with_libraries("verbs_suite", SUITE)) as there:
        said = there.finish(300)
    for kind in ("rxe", "siw"):
        for what in ("suite", "IPv6"):
            assert f"{what} over {kind} passed" in said


# Our server, and the URL options for the client's commands.
PROGRAM = """
mkdir -p /srv /mnt /tmp/made /tmp/got; mount -t tmpfs -o size=600m srv /srv; mkdir /srv/export; chmod 777 /srv/export
start_server() {
  : >/tmp/server.log  # discard the messages of the previous server
  penstock serve --export /export=/srv/export:no_root_squash --listen %(address)s --tcp-port 2049 --rdma-port 20049 \\
    --mount-port 20048 --state-dir /tmp/state --rdma verbs --lease 5 --grace 5 -v >/tmp/server.log 2>&1 &
  server=$!
  while ! grep -q ^ready /tmp/server.log; do kill -0 $server || { cat /tmp/server.log; exit 1; }; sleep 0.1; done
  grep '^NFS over RDMA' /tmp/server.log
}
url() { echo "nfs://%(address)s:20049$1?proto=rdma&vers=$2&mountport=20048"; }
make_files() {
  for size in 0 1 4097 300001 5000000; do octets $size >/tmp/made/$size; done
}
same() { for f in /tmp/made/*; do cmp $f $1/${f##*/} || exit 1; done; }
""" % {"address": ADDRESS}

# The tests of the other transports, run inside the guest, where both peers are on one machine and use the device.
INSIDE = """
device rxe || exit 1
penstock devices
export PENSTOCK=/bin/penstock TEST_INSIDE=%(address)s TEST_GUEST_DIR=/tmp/image
inside() { script=$1; shift; (cd /tmp && python3 -u -B /tests/$script "$@") || exit 1; }
""" % {"address": ADDRESS}


def inside(scripts, seconds, files=None):
    """Runs cases ({script: their names}) in a guest that has rxe0; each must pass."""
    body = "".join(f"inside {script} {' '.join(cases)}\n" for script, cases in scripts.items())
    files = with_libraries("penstock", PENSTOCK) | python_and_tests() | carried("files") | (files or {})
    with guest(INSIDE + body, files) as there:
        said = there.finish(seconds)
    for case in (case for cases in scripts.values() for case in cases):
        assert any(line.startswith(f"passed {case} in ") for line in said), case
    return said


def kernel(version):
    """Our server with the kernel's client, and our client with the kernel's server."""
    def run(scratch):
        prefix = "rdma" if version == "3" else f"rdma_v{version.replace('.', '')}"
        scripts = {"interop/kernel_client.py": [f"{prefix}_{case}" for case in ("files", "tree", "copy", "restart")],
                   "interop/kernel_server.py": [prefix]}
        said = inside(scripts, 500, {"usr/share/doc": real_tree(scratch)})
        assert any("NFS over RDMA (rxe0, RoCE): " in line for line in said)

    return run


END_TO_END = ["rdma", "versions", "directory_argument", "stops_cleanly", "restarts_on_its_ports", "read_only", "squash", "access_control_list",
              "networks", "bench", "no_server"]


def ours(_):
    """Our client with our server: the end-to-end tests that concern RDMA. Then the messages of both if RDMA is not
    available."""
    set_up = ["unknown_device", "no_permission", "memory_limit", "memory_limit_later", "no_device"]
    said = inside({"e2e/e2e.py": END_TO_END, "interop/verbs_set_up.py": set_up}, 500)
    assert any(line.startswith("rxe0: RoCE, port active; memory for a peer: type 2 windows") for line in said)
    assert any("NFS over RDMA (rxe0, RoCE): " in line for line in said)


ACROSS = SHELL + PROGRAM + """
device siw || exit 1
make_files
start_server
echo "==== serving"
while [ ! -e /srv/export/finished ]; do sleep 0.5; done
for f in /srv/export/*; do echo "put $(b2sum $f)"; done
for vers in 3 4.1; do
  for f in /tmp/made/*; do
    penstock cp -q $f "%(url)s/${f##*/}?proto=rdma&vers=$vers&mountport=%(mount)d" || exit 1
    penstock cp -q "%(url)s/${f##*/}?proto=rdma&vers=$vers&mountport=%(mount)d" /tmp/got/ || exit 1
  done
  same /tmp/got
  rm /tmp/got/*
done
for f in /tmp/made/*; do echo "made $(b2sum $f)"; done
penstock -v ping -c 1 "%(url)s?proto=rdma&mountport=%(mount)d" || exit 1
kill -TERM $server; wait $server
"""


def across(scratch):
    """Our software iWARP on the host with a device in the guest (siw), each as server and as client."""
    folder, mine, got = exported(scratch), f"{scratch}/mine", f"{scratch}/got"
    os.mkdir(mine), os.mkdir(got)
    for size in (0, 1, 4097, 3 * MIB + 1):
        make(f"{mine}/{size}", size)
    with serve(folder) as server:
        rdma, mount = free_ports(2)
        script = ACROSS % {"url": f"nfs://10.0.2.2:{server.rdma}/export", "mount": server.mount}
        with guest(script, with_libraries("penstock", PENSTOCK), forwards={rdma: 20049, mount: 20048}) as there:
            there.wait_for("==== serving", 120)
            for vers in ("3", "4.1"):
                for name in os.listdir(mine):
                    url = f"nfs://127.0.0.1:{rdma}/export/{name}?proto=rdma&vers={vers}&mountport={mount}"
                    run("cp", "-q", f"{mine}/{name}", url)
                    run("cp", "-q", url, f"{got}/{name}")
                assert_same(digests(got), digests(mine), f"to the guest and back, version {vers}")
            run("cp", "-q", f"{mine}/0", url.replace(f"/{name}?", "/finished?"))
            said = there.finish(120)
    put = hashes(said, "put")
    del put["finished"]
    assert_same(put, digests(mine), "what the host wrote, in the guest")
    assert_same(digests(folder), hashes(said, "made"), "what the guest wrote, on the host")
    assert any("RDMA to 10.0.2.2: siw0, iWARP" in line for line in said)


# A copy is under way each time, and continues after the failure.
LOSSES = SHELL + PROGRAM + """
octets 60000000 >/tmp/large
begin() {
  rm -f /srv/export/*
  penstock cp -q --rdma verbs /tmp/large "$(url /export/large 4.1)" & copy=$!
  while [ ! -s /srv/export/large ] || [ $(stat -c %s /srv/export/large) -lt 3000000 ]; do
    kill -0 $copy || { wait $copy; echo "the copy ended with $?"; exit 1; }
    sleep 0.05
  done
  kill -0 $copy || { echo "the copy was over before $1"; exit 1; }
}
# The kernel deletes the link once no process has the device open.
delete_link() {
  rdma link delete ${kind}0 & deleting=$!
  n=0; while kill -0 $deleting 2>/dev/null; do
    [ $n -lt 300 ] || {
      echo "the link stays"; cat /proc/$deleting/stack; ls -l /proc/[0-9]*/fd | grep infiniband; tail -30 /tmp/server.log; exit 1; }
    n=$((n + 1)); sleep 0.2
  done
}
end() {
  wait $copy || { tail -30 /tmp/server.log; exit 1; }
  cmp /tmp/large /srv/export/large || exit 1
  echo "$kind: survived $1"
}
# A client that has no connection and is idle for a minute closes the device, too.
idle_client() {
  : >/tmp/idle.log
  penstock ping -c 2 -i 60000 --rdma verbs "$(url /export 4.1)" >/tmp/idle.log & idle=$!
  while ! grep -q "NFS version" /tmp/idle.log; do kill -0 $idle || exit 1; sleep 0.1; done
  kill -9 $server; wait $server; sleep 0.5
  delete_link
  kill -0 $idle || exit 1; kill -9 $idle; wait $idle
  rdma link add ${kind}0 type $kind netdev eth0 || exit 1
  echo "$kind: survived an idle client"
  start_server
}
killed_server() {
  begin "the server was killed"; kill -9 $server; wait $server; sleep 0.5; start_server; end "a killed server"
}
deleted_link() {
  begin "the link was deleted"; delete_link; kill -0 $server || exit 1
  sleep 1; rdma link add ${kind}0 type $kind netdev eth0 || exit 1
  end "a deleted link"
}
interface_down() {
  begin "the interface went down"; ip link set eth0 down; sleep 2; ip link set eth0 up
  # rxe 6.1 sends no datagram of the connection manager's any more, if it was to send one meanwhile.
  if [ $kind = rxe ]; then sleep 1; rdma link delete rxe0; rdma link add rxe0 type rxe netdev eth0; fi
  end "an interface that was down"
}
lose() {
  kind=$1; shift
  device $kind || exit 1
  start_server
  for step in "$@"; do $step; done
  kill -0 $server || exit 1
  kill -TERM $server; wait $server || exit 1
}
"""
# siw comes last: in its last step it may crash the kernel, after everything else is done.
ALL_LOSSES = """
lose rxe idle_client killed_server deleted_link interface_down
lose siw idle_client killed_server deleted_link interface_down
"""
LAST_LOSS = "lose siw interface_down\n"
SIW_CRASH = "siw_netdev_down"
CRASHES = 3


def lose(script):
    """Returns the guest's output, and whether siw crashed. A crash usually does no harm."""
    with guest(LOSSES + script, with_libraries("penstock", PENSTOCK)) as there:
        try:
            crashed = SIW_CRASH in there.wait_for(rf"{there.END} \d+|{SIW_CRASH}", 400)
            return there.finish(20 if crashed else 10), False
        except ScriptFailed:
            if not any(SIW_CRASH in line for line in there.output()):
                raise
            return there.output(), True


def losses(_):
    """The peer is killed, the RDMA link is deleted under load and with an idle client, the interface is taken down:
    copies under way continue."""
    steps = [f"{kind}: survived {what}" for kind in ("rxe", "siw")
             for what in ("an idle client", "a killed server", "a deleted link", "an interface that was down")]
    said, failed = lose(ALL_LOSSES)
    for crash in range(1, CRASHES):
        if not failed:
            break
        missing = [step for step in steps[:-1] if step not in said]
        assert not missing, f"siw crashed in the kernel, but not in its last step: {missing}"
        print(f"OUTSIDE: Linux's siw crashed when its interface went down ({SIW_CRASH}, see docs/hardware.md) and nothing goes on since; "
              f"time {crash} of at most {CRASHES}. This step is done again, in another guest.", flush=True)
        again, failed = lose(LAST_LOSS)
        said += again
    assert not failed, f"siw crashed in the kernel {CRASHES} times out of {CRASHES}"
    for step in steps:
        assert step in said, step


CASES = {"suite": suite, "ours": ours, "kernel_v3": kernel("3"), "kernel_v41": kernel("4.1"), "across": across, "losses": losses}

if __name__ == "__main__":
    main(CASES)
