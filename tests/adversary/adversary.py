"""Runs a group of attacks on the real program: `adversary.py GROUP`, or all of them. See docs/limits.md."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import cases  # noqa: E402
import client_cases  # noqa: E402
import datagram_cases  # noqa: E402
import delegation_cases  # noqa: E402
import flow_cases  # noqa: E402
import iwarp_cases  # noqa: E402
import lock_cases  # noqa: E402
import memory_cases  # noqa: E402
import mpa_cases  # noqa: E402
import namespaces  # noqa: E402
import nfs4_cases  # noqa: E402
import nfs4_state_cases  # noqa: E402
import nfs_cases  # noqa: E402
import record_cases  # noqa: E402
import referral_cases  # noqa: E402
import rpcrdma_cases  # noqa: E402
import sess01_attack  # noqa: E402  (before the others: it knows where tests/sess01 is)
import sess01_cases  # noqa: E402
import sess01_client_cases  # noqa: E402
import sess01_crowds  # noqa: E402
import sess01_wire_cases  # noqa: E402
import tls_cases  # noqa: E402
from client import RDMA, STEP_UP  # noqa: E402
from attack import MIB, Attacked, Dialled  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402


def on_a_server(group, connect=None, **how):
    """A group whose cases each get a connection to one server."""
    def run(scratch):
        with Attacked(scratch, **how) as server:
            server.run(group(), connect)
    return run


def records(scratch):
    with Attacked(scratch) as server:
        for port in (server.tcp, server.mount):
            server.run(record_cases.cases(), lambda _, port=port: TcpClient(port))


GROUPS = {
    "mpa": on_a_server(mpa_cases.cases, Dialled),
    "iwarp": on_a_server(iwarp_cases.cases),
    "record_marking": records,
    "datagrams": datagram_cases.datagrams,
    "delegations": delegation_cases.delegations,
    "host_locks": lock_cases.hostile,
    "host_locks_storm": lock_cases.storms,
    "host_locks_stop": lock_cases.stopped,
    "nfs": on_a_server(nfs_cases.cases),
    "nfs4": on_a_server(nfs4_cases.cases, options=["--grace=0"]),
    "nfs4_state": on_a_server(nfs4_state_cases.cases, options=["--grace=0"]),
    "nfs4_numbers": on_a_server(nfs4_state_cases.number_cases, options=["--grace=0"], max_growth=160 * MIB),
    "client_headers": client_cases.group(client_cases.header_cases),
    "client_rpc": client_cases.group(client_cases.rpc_cases),
    "client_wire": client_cases.group(client_cases.wire_cases),
    "client_memory": client_cases.group(client_cases.memory_cases),
    "referrals": referral_cases.referrals,
    "stalls": flow_cases.stalls,
    "floods": flow_cases.floods,
    "crowds": flow_cases.crowds,
    "connections": flow_cases.many,
    "silence": flow_cases.silence,
    "memory": memory_cases.memory,
    "stop": flow_cases.stopped_among_them,
    "rpcrdma": on_a_server(rpcrdma_cases.cases),
    "sess01": sess01_attack.on_sessions(*sess01_cases.CASES),
    "sess01_wire": sess01_attack.on_sessions(*sess01_wire_cases.CASES, models=(STEP_UP, RDMA)),
    "sess01_slow": sess01_crowds.slow,
    "sess01_crowd": sess01_crowds.crowd,
    "sess01_client": sess01_client_cases.client,
    "sess01_client_quick": sess01_client_cases.quick_client,
    "sess01_great_crowd": sess01_crowds.great_crowd,
    **tls_cases.GROUPS,
}

if __name__ == "__main__":
    if any(name.startswith("host_locks") for name in sys.argv[1:] or GROUPS):
        namespaces.enter()
    cases.main(GROUPS)
