#!/usr/bin/python3
"""Reads a capture with tshark, an independent reading of every byte we sent: no malformed packet and no error of any
layer (MPA, DDP, RDMAP, RPC-over-RDMA, RPC, MOUNT, NFS), every RPC reply matched to its call and every call answered.

    check_capture.py NAME [WHAT...]     the capture NAME that a test left; each WHAT must occur in it (see OCCURRENCES)
"""

import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import capture  # noqa: E402
from refragment import BadFraming, refragment  # noqa: E402

# What must have been seen, so that a check of nothing never passes: a display filter for each.
OCCURRENCES = {
    "mpa": "iwarp_mpa.rep",
    "rdma-write": "iwarp_rdma.opcode == 0",
    "rdma-read": "iwarp_rdma.opcode == 2",
    "rdma-read-call": "rpcordma and nfs and rpc.msgtyp == 0",
    "rdma-nfs": "rpcordma and nfs and rpc.msgtyp == 1",
    "tcp-nfs": "not iwarp_mpa and nfs and rpc.msgtyp == 1",
    "mount": "mount and rpc.msgtyp == 1",
}
# RFC 6581 §4 (revision 2 and the enhanced-mode flag) is younger than this dissector, which knows RFC 5044 alone.
ALLOWED = ("Res field is NOT set to zero as required by RFC 5044", "Rev field is NOT set to one as required by RFC 5044")
WARNING, SEQUENCE_GROUP = 0x00600000, 0x02000000  # TCP's own observations (window full, ...) are no errors of ours
FIELDS = ["frame.number", "rpc.msgtyp", "rpc.xid", "rpc.time", "_ws.expert.severity", "_ws.expert.group",
          "_ws.expert.message", "iwarp_mpa.crc_check", "tcp.stream", "rpc.program", "rpc.procedure"]


class Tshark:
    def __init__(self, path, ports, options=()):
        # Two passes: a READ's reply is put together from its RDMA Writes in the second only.
        self.command = ["tshark", "-n", "-2", "-r", path, "-d", f"tcp.port=={ports['tcp']},rpc", "-d",
                        f"tcp.port=={ports['mount']},rpc", "-o", "tcp.try_heuristic_first:TRUE", *options]

    def rows(self, display_filter, fields):
        wanted = [word for field in fields for word in ("-e", field)]
        done = subprocess.run([*self.command, "-Y", display_filter, "-T", "fields", "-E", "aggregator=|", *wanted],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode != 0:
            raise RuntimeError(f"tshark failed: {done.stderr}")
        for line in done.stdout.splitlines():
            yield {field: [value for value in column.split("|") if value]
                   for field, column in zip(fields, line.split("\t"))}


def number(text):
    return int(text, 0)


def expert_findings(row):
    """What tshark complains of in a packet, but for what is allowed."""
    for severity, group, message in zip(row["_ws.expert.severity"], row["_ws.expert.group"], row["_ws.expert.message"]):
        if number(severity) >= WARNING and number(group) != SEQUENCE_GROUP and message not in ALLOWED:
            yield message
    if any(check.lower() in ("bad", "0", "false") for check in row["iwarp_mpa.crc_check"]):
        yield "bad MPA CRC"


def check_layers(path, ports, options=()):
    """Complaints of every layer, and the calls and replies seen."""
    problems, calls, replies, answered = [], {}, 0, set()
    for row in Tshark(path, ports, options).rows(f"rpc or _ws.expert.severity >= {WARNING}", FIELDS):
        frame = row["frame.number"][0]
        problems += [f"packet {frame}: {finding}" for finding in expert_findings(row)]
        if len(row["rpc.time"]) < row["rpc.msgtyp"].count("1"):
            problems.append(f"packet {frame}: a reply to no call, XID {' '.join(row['rpc.xid'])}")
        for kind, xid in zip(row["rpc.msgtyp"], row["rpc.xid"]):
            if kind == "0":
                calls[row["tcp.stream"][0], xid] = f"packet {frame}: a call without a reply, XID {xid}"
            else:
                replies += 1
                answered.add((row["tcp.stream"][0], xid))
    return problems, len(calls), replies, [line for call, line in calls.items() if call not in answered]


def check(path, ports, wanted, restarted=False):
    """(problems, summary) of a capture file; `restarted` allows for a connection that broke off in the middle."""
    problems, rewritten = [], path + ".frames"
    try:
        frames = refragment(path, rewritten, ports["rdma"], may_break_off=restarted)
        # As captured, up to RDMAP; and with a packet a frame, through to NFS. See refragment.py.
        raw, _, _, _ = check_layers(path, ports, ("--disable-protocol", "rpcordma"))
        whole, calls, replies, unanswered = check_layers(rewritten, ports)
        problems += raw + whole
        if not restarted:
            problems += unanswered
        if not replies:
            problems.append("no RPC reply in the whole capture")
        shown, seen = Tshark(rewritten, ports), collections.OrderedDict()
        for what in wanted:
            seen[what] = sum(1 for _ in shown.rows(OCCURRENCES[what], ["frame.number"]))
            if not seen[what]:
                problems.append(f"no {what} in the whole capture ({OCCURRENCES[what]})")
        summary = f"{frames} MPA frames, {calls} calls, {replies} replies" + "".join(
            f", {count} {what}" for what, count in seen.items())
    except BadFraming as why:
        problems, summary = [str(why)], "not read"
    finally:
        if os.path.exists(rewritten):
            os.unlink(rewritten)
    return problems, summary


def main():
    name, *wanted = sys.argv[1:]
    path = f"{capture.CAPTURE_DIR}/{name}.pcap"
    if not os.path.exists(path + ".json"):
        sys.exit(f"no capture of {name}: the test that leaves it did not run to its end")
    with open(path + ".json") as kept:
        about = json.load(kept)
    if "reason" in about:
        print(f"SKIPPED: {about['reason']}")
        sys.exit(77)
    problems, summary = check(path, about, wanted, about["restarted"])
    print(f"{name}: {summary}")
    if problems:
        print(f"{len(problems)} problems; the capture is {path}", *problems[:30], sep="\n  ")
        sys.exit(1)
    os.unlink(path)
    os.unlink(path + ".json")


if __name__ == "__main__":
    main()
