#!/usr/bin/python3
"""RDMA by verbs, without an adapter: in the guest the kernel's software RoCE (rxe) and software iWARP (siw) are devices."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from guest import Guest, GuestUnavailable, require  # noqa: E402
from guest_programs import with_libraries  # noqa: E402

SUITE = os.environ.get("PENSTOCK_VERBS_SUITE", "build/release/src/rdma/verbs/verbs_suite")
ADDRESS, ADDRESS6 = "10.0.2.15", "fd00:2::15"

# siw keeps to the limit on locked memory even for root.
DEVICES = """
ulimit -l unlimited
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; ip addr add %(address6)s/64 dev eth0
device() { rdma link delete siw0 2>/dev/null; rdma link delete rxe0 2>/dev/null; rdma link add ${1}0 type $1 netdev eth0; }
suite() {
  PENSTOCK_VERBS_ADDRESS=$1 verbs_suite --gtest_brief=1 --gtest_filter="$2" || exit 1
}
""" % {"address6": ADDRESS6}
SUITES = """
for kind in rxe siw; do
  device $kind || exit 1
  suite %(address)s '*'
  echo "suite over $kind passed"
  suite %(address6)s '*SidesKnow*:*PrivateData*:*NobodyListens*:*LargeTransfers*'
  echo "IPv6 over $kind passed"
done
""" % {"address": ADDRESS, "address6": ADDRESS6}


def guest(script, files, **options):
    try:
        require()
    except GuestUnavailable as why:
        raise Skip(str(why)) from None
    return Guest(DEVICES + script, files=files, **options)


def suite(_):
    """The conformance suite of the provider interface over both kinds of device."""
    with guest(SUITES, with_libraries("verbs_suite", SUITE)) as there:
        said = there.finish(300)
    for kind in ("rxe", "siw"):
        for what in ("suite", "IPv6"):
            assert f"{what} over {kind} passed" in said


CASES = {"suite": suite}

if __name__ == "__main__":
    main(CASES)
