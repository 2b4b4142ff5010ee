#!/usr/bin/python3
"""Reads a capture with tshark, an independent dissector: no malformed packet and no error of any layer (MPA, DDP,
RDMAP, RPC-over-RDMA, RPC, MOUNT, NFS, NLM, NSM); every RPC reply has its call, and every call its reply.

    check_capture.py NAME [WHAT...]     the capture NAME that a test left; each WHAT must occur in it (see OCCURRENCES)
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import capture  # noqa: E402
from frames import BadFraming, Frames, FramesView, Listeners, mpa_frame_length, rpc_fragment_length  # noqa: E402
from pcap import BadCapture, Writer  # noqa: E402
from rdma_messages import MessagesView  # noqa: E402

# tshark reads the capture in three views. In each view it dissects the named layers without errors of its own:
#   records   one packet for each fragment of an RPC record over TCP: RPC, MOUNT and NFS                (see frames.py)
#   frames    one packet for each MPA frame: MPA, DDP, RDMAP, RPC-over-RDMA, and the RPC headers above  (see frames.py)
#   messages  the reassembled RPC messages over RDMA: RPC and NFS                                (see rdma_messages.py)
#   others    all other packets as they are, if the capture is not limited to the server's TCP ports: UDP, and the calls of
#             the server to programs of its clients
VIEWS = {
    "records": (),
    "frames": ("--disable-protocol", "nfs", "--disable-protocol", "nfsacl", "--disable-protocol", "mount", "-o",
               "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE"),
    "messages": (),
    "others": (),
}
# The occurrences that a capture must have, so that a check of an empty capture never passes: the view, and the field
# that shows it.
OCCURRENCES = {
    "mpa": ("frames", "iwarp_mpa.rep", None),
    "rdma-write": ("frames", "iwarp_rdma.opcode", "0x00"),
    "rdma-read": ("frames", "iwarp_rdma.opcode", "0x02"),
    "rpc-over-rdma": ("frames", "rpcordma.xid", None),
    "rdma-nfs": ("messages", "nfs.procedure_v3", None),
    "tcp-nfs": ("records", "nfs.procedure_v3", None),
    "rdma-nfsacl": ("messages", "nfsacl.procedure_v3", None),
    "tcp-nfsacl": ("records", "nfsacl.procedure_v3", None),
    "rdma-nfsacl2": ("messages", "nfsacl.procedure_v2", None),
    "tcp-nfsacl2": ("records", "nfsacl.procedure_v2", None),
    "rdma-nfs2": ("messages", "nfs.procedure_v2", None),
    "tcp-nfs2": ("records", "nfs.procedure_v2", None),
    "rdma-nfs4": ("messages", "nfs.procedure_v4", None),
    "tcp-nfs4": ("records", "nfs.procedure_v4", None),
    "rdma-recall": ("messages", "nfs.cb.operation", "4"),
    "tcp-recall": ("records", "nfs.cb.operation", "4"),
    "rdma-notify-lock": ("messages", "nfs.cb.operation", "13"),
    "tcp-notify-lock": ("records", "nfs.cb.operation", "13"),
    # COPY, and its end if it continued after its reply.
    "rdma-copy": ("messages", "nfs.opcode", "60"),
    "tcp-copy": ("records", "nfs.opcode", "60"),
    "rdma-offload": ("messages", "nfs.cb.operation", "15"),
    "tcp-offload": ("records", "nfs.cb.operation", "15"),
    # Calls under RPCSEC_GSS, and clients whose state only their machine may change (SP4_MACH_CRED).
    "rdma-gss": ("messages", "rpc.auth.flavor", "6"),
    "tcp-gss": ("records", "rpc.auth.flavor", "6"),
    "tcp-mach-cred": ("records", "nfs.exchange_id.state_protect", "1"),
    "mount": ("records", "mount.procedure_v3", None),
    "mount1": ("records", "mount.procedure_v1", None),
    # Locks by NLM, the server's calls when a lock that a client waits for is free, and restarts of the server or the client.
    "nlm": ("records", "nlm.procedure_v4", None),
    "granted": ("others", "nlm.procedure_v4", "5"),
    "portmap": ("others", "portmap.procedure_v2", "3"),
    "nsm": ("others", "stat.procedure_v1", "6"),
}
# A request of a client appears in the call even if the server refuses it.
IN_REPLIES = ("tcp-mach-cred",)
# RFC 6581 §4 (revision 2 and the enhanced-mode flag) is newer than this dissector, which only knows RFC 5044. It
# reports the deprecated stateid for every CLOSE, because each result of CLOSE has a stateid.
ALLOWED = ("Res field is NOT set to zero as required by RFC 5044", "Rev field is NOT set to one as required by RFC 5044",
           "State ID deprecated in CLOSE responses [RFC7530 16.2.5]")
WARNING, SEQUENCE_GROUP = 0x00600000, 0x02000000  # TCP's own observations (window full, ...) are not our errors
FIELDS = ["frame.number", "tcp.stream", "udp.stream", "rpc.msgtyp", "rpc.xid", "rpc.time", "_ws.expert.severity", "_ws.expert.group",
          "_ws.expert.message", "iwarp_mpa.crc_check"]


def rows(path, ports, view):
    """Returns {field: [values]} of each packet that concerns RPC or RDMA, or about which tshark complains."""
    fields = FIELDS + sorted({field for _, field, _ in OCCURRENCES.values()})
    wanted = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(
        # Two passes: only the second one has complete data that is reassembled from several packets.
        ["tshark", "-n", "-2", "-r", path, "-d", f"tcp.port=={ports['tcp']},rpc", "-d", f"tcp.port=={ports['mount']},rpc", "-d", f"udp.port=={ports['mount']},rpc",
         "-o", "tcp.try_heuristic_first:TRUE", "-o", "udp.try_heuristic_first:TRUE", *VIEWS[view], "-Y",
         f"rpc or iwarp_mpa or iwarp_ddp or _ws.expert.severity >= {WARNING}", "-T", "fields", "-E", "aggregator=|", *wanted], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"tshark failed: {done.stderr}")
    for line in done.stdout.splitlines():
        yield {field: [value for value in column.split("|") if value] for field, column in zip(fields, line.split("\t"))}


def expert_findings(row):
    """Returns tshark's complaints about a packet, except for the permitted ones."""
    for severity, group, message in zip(row["_ws.expert.severity"], row["_ws.expert.group"], row["_ws.expert.message"]):
        if int(severity, 0) >= WARNING and int(group, 0) != SEQUENCE_GROUP and message not in ALLOWED:
            yield message
    if any(check.lower() in ("bad", "0", "false") for check in row["iwarp_mpa.crc_check"]):
        yield "bad MPA CRC"


class View:
    """The findings of tshark in one view: complaints, calls and replies, and the count of each occurrence."""

    def __init__(self, path, ports, name):
        self.problems, self.replies, self.seen = [], 0, dict.fromkeys(OCCURRENCES, 0)
        self.calls, self.answered = {}, set()
        for row in rows(path, ports, name):
            where = f"{name}, packet {row['frame.number'][0]}"
            self.problems += [f"{where}: {finding}" for finding in expert_findings(row)]
            if name != "frames":
                self._match(row, where)
            for what, (view, field, value) in OCCURRENCES.items():
                if view == name and (what not in IN_REPLIES or "1" in row["rpc.msgtyp"]):
                    self.seen[what] += row[field].count(value) if value else len(row[field])

    def _match(self, row, where):
        if len(row["rpc.time"]) < row["rpc.msgtyp"].count("1"):
            self.problems.append(f"{where}: a reply to no call, XID {' '.join(row['rpc.xid'])}")
        for kind, xid in zip(row["rpc.msgtyp"], row["rpc.xid"]):
            call = tuple(row["tcp.stream"][:1]), tuple(row["udp.stream"][:1]), xid
            if kind == "0":
                self.calls[call] = f"{where}: a call without a reply, XID {xid}"
            else:
                self.replies += 1
                self.answered.add(call)

    def unanswered(self):
        return [line for call, line in self.calls.items() if call not in self.answered]


def write_views(path, paths, ports, restarted):
    """Writes the views to their paths; returns (problems, whether a connection may have broken off)."""
    writers = {view: Writer(paths[view], path) for view in VIEWS}
    records = rpc_fragment_length, "RPC record", FramesView(writers["records"])
    messages = MessagesView(writers["messages"], ports["rdma"], ports["tcp"])
    mpa = mpa_frame_length, "MPA frame", Listeners(FramesView(writers["frames"]), messages)
    others = writers["others"].packet if ports.get("others") else None
    frames = Frames(path, {ports["tcp"]: records, ports["mount"]: records, ports["rdma"]: mpa}, others)
    try:
        frames.read()
    finally:
        for writer in writers.values():
            writer.close()
    may_break_off = restarted or messages.distrusted
    return [*frames.problems(may_break_off), *messages.problems], may_break_off


def check(path, ports, wanted, restarted=False):
    """Returns (problems, summary) of a capture file; `restarted` permits a connection that broke off in the middle."""
    paths = {view: f"{path}.{view}" for view in VIEWS}
    try:
        problems, may_break_off = write_views(path, paths, ports, restarted)
        views = [View(paths[name], ports, name) for name in VIEWS]
    except (BadFraming, BadCapture) as why:
        return [str(why)], "not read"
    finally:
        for view in paths.values():
            if os.path.exists(view):
                os.unlink(view)
    for view in views:
        problems += view.problems + ([] if may_break_off else view.unanswered())
    replies, seen = sum(view.replies for view in views), {what: sum(view.seen[what] for view in views) for what in wanted}
    if not replies:
        problems.append("no RPC reply in the whole capture")
    problems += [f"no {what} in the whole capture" for what, count in seen.items() if not count]
    return problems, f"{sum(len(view.calls) for view in views)} calls, {replies} replies" + "".join(
        f", {count} {what}" for what, count in seen.items())


if __name__ == "__main__":
    capture.report(check, needs_guest=True)
