#!/usr/bin/python3
"""Reads a capture of the sessions of 2004 with tshark and tools/wireshark/sess01.lua: no message is malformed, and each call of the draft
has its reply.

    captures.py NAME [WHAT...]     the capture NAME that a test left (harness/capture.py); each WHAT must occur in it: see OCCURRENCES
                                   and BELOW
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
import capture  # noqa: E402
import wire  # noqa: E402
from frames import BadFraming, Frames, mpa_frame_length  # noqa: E402
from links import PaddedReader  # noqa: E402
from operations import TABLE  # noqa: E402
from pcap import BadCapture, Writer  # noqa: E402
from rdma_messages import MessagesView, StepUpView  # noqa: E402

SCRIPT = os.path.join(HERE, "..", "..", "tools", "wireshark", "sess01.lua")
FIELDS = ("frame.number", "sess01.msgtyp", "sess01.callback", "sess01.operation", "sess01.status", "sess01.malformed", "_ws.malformed",
          "_ws.expert.message", "sess01.channelid", "sess01.streamid", "sess01.chainflags", "sess01.sessionid", "sess01.channel",
          "sess01.mode_granted", "sess01.instance", "sess01.target", "sess01.call_in", "sess01.xid", "rpc.xid", "sess01.rdma")
# What a capture may have: the field that shows it, and its value.
OCCURRENCES = {
    "create": ("sess01.operation", str(wire.SESSION_CREATE)), "bind": ("sess01.operation", str(wire.SESSION_BIND)),
    "destroy": ("sess01.operation", str(wire.SESSION_DESTROY)), "control": ("sess01.operation", str(wire.OPERATION_CONTROL)),
    "credit-recall": ("sess01.operation", str(wire.CB_CREDITRECALL)), "callback": ("sess01.callback", "1"),
    "chain": ("sess01.chainflags", str(wire.CHAINBEGIN)), "back": ("sess01.channel", str(wire.BACK)),
    "rdma-mode": ("sess01.mode_granted", str(wire.RDMA)), "stream-mode": ("sess01.mode_granted", str(wire.STREAM)),
}
# What is below the COMPOUNDs: an MPA Request on a connection that carried records before, and padded calls (RDMA_MSGP).
BELOW = ("step-up", "msgp")


class Stepping(StepUpView):
    """Counts the connections that step up."""

    count = 0

    def frame(self, stamp, ports, frame):
        self.count += frame.startswith(b"MPA ID Req Frame")
        super().frame(stamp, ports, frame)


def unpad(header):
    """Returns the COMPOUND of a message of RDMA_MSGP without its pads, as far as it can be read."""
    octets = header.body
    reader = PaddedReader(octets, header.size - len(octets), header.align, header.threshold)
    try:
        for _ in range(6):
            reader.u32()
        for _ in ("credential", "verifier"):
            reader.u32(), reader.opaque()
        reader.opaque(), reader.u32()
        for _ in range(reader.u32()):
            number = reader.u32()
            if number == wire.OPERATION_CONTROL:
                wire.read_arguments(number, reader)
            elif number in TABLE:
                for read in TABLE[number][2:]:
                    read(reader)
            else:
                break
    except wire.BadXdr:
        pass  # tshark will say so
    for at, size in reversed(reader.pads):
        octets = octets[:at] + octets[at + size:]
    return octets


def records(path, target, tcp, rdma):
    """Writes a capture of a server's two ports so that each RPC message is a record on the TCP port. Returns (problems, Frames, {name
    of BELOW: how often it occurred})."""
    padded = []

    def unpad_and_count(header):
        padded.append(header)
        return unpad(header)
    writer = Writer(target, path)
    stepping, automatic = Stepping(writer, tcp, unpad_and_count), MessagesView(writer, rdma, tcp, unpad_and_count)
    frames = Frames(path, {tcp: (stepping.length_of, "frame", stepping), rdma: (mpa_frame_length, "MPA frame", automatic)})
    try:
        frames.read()
    finally:
        writer.close()
    return [*stepping.messages.problems, *automatic.problems], frames, {"step-up": stepping.count, "msgp": len(padded)}


def dissect(path, port, *options):
    """Returns [{field: [values]}] of the packets, as tshark sees them. NFS is on `port`."""
    wanted = [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(["tshark", "-n", "-2", "-r", path, "-X", f"lua_script:{SCRIPT}", "-d", f"tcp.port=={port},sess01", *options,
                           "-T", "fields", "-E", "aggregator=|", *wanted], capture_output=True, text=True)
    assert done.returncode == 0 and "lua" not in done.stderr.lower(), f"tshark failed: {done.stderr}"
    rows = [dict(zip(FIELDS, (column.split("|") if column else [] for column in line.split("\t")))) for line in done.stdout.splitlines()]
    assert not any("Lua" in message for row in rows for message in row["_ws.expert.message"]), "the script failed"
    return rows


def calls_and_replies(rows):
    """Returns the calls and the answered calls of the draft: sets of (packet of the call, XID)."""
    asked = {(row["frame.number"][0], xid) for row in rows if set(row["sess01.msgtyp"]) == {"0"} for xid in row["sess01.xid"]}
    answered = {pair for row in rows if set(row["sess01.msgtyp"]) == {"1"} for pair in zip(row["sess01.call_in"], row["sess01.xid"])}
    return asked, answered


def check(path, ports, wanted, may_break_off=False):
    """Returns (problems, summary) of a capture. `may_break_off` permits calls without a reply, and connections that end in a message."""
    target = path + ".records"
    try:
        problems, frames, below = records(path, target, ports["tcp"], ports["rdma"])
        problems += frames.problems(may_break_off)
        rows = dissect(target, ports["tcp"])
    except (BadFraming, BadCapture) as why:
        return [str(why)], "not read"
    finally:
        if os.path.exists(target):
            os.unlink(target)
    problems += [f"packet {row['frame.number'][0]}: {message}" for row in rows for message in row["sess01.malformed"]]
    asked, answered = calls_and_replies(rows)
    if not may_break_off:
        problems += [f"packet {packet}: a call without a reply, XID {xid}" for packet, xid in sorted(asked - answered)]
    if not answered:
        problems.append("no reply of the draft in the whole capture")
    seen = {what: below[what] if what in below else sum(row[OCCURRENCES[what][0]].count(OCCURRENCES[what][1]) for row in rows)
            for what in wanted}
    problems += [f"no {what} in the whole capture" for what, count in seen.items() if not count]
    return problems, f"{len(asked)} calls, {len(answered)} replies" + "".join(f", {count} {what}" for what, count in seen.items())


if __name__ == "__main__":
    capture.report(check, needs_guest=False)
