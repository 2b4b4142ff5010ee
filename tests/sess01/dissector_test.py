#!/usr/bin/python3
"""Tests tools/wireshark/sess01.lua: tshark reads captures of our Python client and server."""

import os
import shutil
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
import captures  # noqa: E402
import cases  # noqa: E402
import client as ends  # noqa: E402
import nfs4_messages as nfs4  # noqa: E402
import wire  # noqa: E402
from check import Place, expect  # noqa: E402
from client import GETFH, MODELS, RDMA, STEP_UP, TCP, Results  # noqa: E402
from pcap import Writer  # noqa: E402
from server import Server  # noqa: E402

NFS_PORT, RDMA_PORT, OTHER_PORT = 2049, 20049, 12049
PCAP_HEADER = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1)
CB_RECALL = 4


class Recorder:
    """Writes what a client sends and receives to a capture, as traffic of a server on `port`."""

    def __init__(self, path, port):
        self.port, self.lock, self.packets = port, threading.Lock(), 0
        with open(path + ".header", "wb") as header:
            header.write(PCAP_HEADER)
        self.writer = Writer(path, path + ".header")

    def stamp(self):
        self.packets += 1
        return self.packets // 1000, self.packets % 1000

    def tap(self, sock):
        client = sock.getsockname()[1]
        with self.lock:
            self.writer.open_connection(self.stamp(), client, self.port)

        def tell(direction, data):
            with self.lock:
                ports = (client, self.port) if direction == "out" else (self.port, client)
                if data:
                    self.writer.say(self.stamp(), ports, data)
        return tell


def records_of(path):
    """Rewrites a capture of our ports as records; returns the path of the new one."""
    target = path + ".records"
    problems, frames, _ = captures.records(path, target, NFS_PORT, RDMA_PORT)
    assert not problems and not [*frames.problems(False)], f"{problems} {[*frames.problems(False)]}"
    return target


def need_tshark():
    if shutil.which("tshark") is None:
        raise cases.Skip("tshark is not installed")


class Recorded:
    """A context manager: a client and a server of a model whose traffic is recorded to `path`."""

    def __init__(self, scratch, model, port=None):
        self.path, self.model = f"{scratch}/capture.pcap", model
        self.recorder = Recorder(self.path, port or (RDMA_PORT if model == RDMA else NFS_PORT))

    def __enter__(self):
        self.server = Server()
        self.place = Place("127.0.0.1", self.server.tcp, self.server.rdma, self.model, tap=self.recorder.tap)
        return self.server, self.place

    def __exit__(self, *_):
        self.place.tidy()
        self.server.stop()
        self.recorder.writer.close()


def talk(server, place):
    """Uses each operation once, and some of minor version 0. Returns the client and its channel."""
    client = place.client()
    channel = client.start(back=True, transportattrs=wire.attributes((77, b"odd")), headerpadsize=512)
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, ends.open_file(b"o", name, create=ends.unchecked()), GETFH], 0), wire.OK, "OPEN")
    handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
    at = nfs4.putfh(handle)
    lock = nfs4.lock_op(0, b"l", stateid, 0, 5)
    locked = expect(channel.run([at, nfs4.write_op(stateid, 0, b"hello"), lock], 1), wire.OK, "LOCK").value(nfs4.LOCK)
    for size in (600, 9000 if channel.caller.link.is_rdma else 6000):  # with a pad and by a chunk, if the link has them
        expect(channel.run([at, nfs4.write_op(stateid, 0, os.urandom(size))], data=size), wire.OK, "WRITE")
    expect(channel.run([at, nfs4.locku_op(locked, 0, 5), nfs4.close_op(stateid)], 2), wire.OK, "CLOSE")
    readdir = nfs4.op(nfs4.READDIR, wire.u64(0), bytes(8), wire.u32(100), wire.u32(2000), nfs4.bitmap(1, 4))
    expect(channel.run([*place.root, readdir]), wire.OK, "READDIR")
    for each in channel.chain(place.root, [ends.lookup(name)], [nfs4.op(nfs4.SETATTR, bytes(16), nfs4.fattr(size=9))]):
        expect(each, wire.OK, "chain")
    expect(channel.run([*place.root, ends.lookup(b"nothing")], 3), 2, "LOOKUP")
    expect(channel.run([*place.root, ends.open_file(b"r", name, nfs4.READ_ACCESS)], 3), wire.OK, "OPEN")
    other = place.client()
    expect(other.start().run([*place.root, ends.open_file(b"w", name, nfs4.WRITE_ACCESS)]), 10008, "OPEN beside a delegation")
    client.wait_for_recall()
    assert server.recall_credits(client.sessionid, 4) == wire.OK
    channel.caller.null()
    return client, channel


def statuses_of(rows, operation):
    """Returns the statuses of an operation in the replies."""
    found = []
    for row in rows:
        if set(row["sess01.msgtyp"]) == {"1"}:
            found += [status for number, status in zip(row["sess01.operation"], row["sess01.status"]) if number == str(operation)]
    return found


def calls(rows, callback="0"):
    return [row for row in rows if set(row["sess01.msgtyp"]) == {"0"} and set(row["sess01.callback"]) == {callback}]


def dissects(model, port=None):
    def run(scratch):
        need_tshark()
        with Recorded(scratch, model, port) as recorded:
            client, channel = talk(*recorded)
            destroyed = channel.run([wire.u32(wire.SESSION_DESTROY)], 0)
            expect(destroyed, wire.OK, "SESSION_DESTROY")
        path = f"{scratch}/capture.pcap"
        rows = captures.dissect(path, NFS_PORT) if port else captures.dissect(records_of(path), NFS_PORT)
        check(rows, client, channel, model)
    return run


def check(rows, client, channel, model):
    bad = [row for row in rows if row["sess01.malformed"] or row["_ws.malformed"]]
    assert not bad, f"good messages look malformed: {bad}"
    seen = [number for row in calls(rows) for number in row["sess01.operation"]]
    back = [number for row in calls(rows, "1") for number in row["sess01.operation"]]
    for number in (wire.OPERATION_CONTROL, wire.SESSION_CREATE, wire.SESSION_BIND, wire.SESSION_DESTROY):
        assert str(number) in seen, f"no call of {number}"
        assert set(statuses_of(rows, number)) == {"0"}, f"{number}: {statuses_of(rows, number)}"
    assert back == [str(each) for each in (wire.OPERATION_CONTROL, CB_RECALL, wire.OPERATION_CONTROL, wire.CB_CREDITRECALL)], back
    values = {field: [value for row in rows for value in row[f"sess01.{field}"]] for field in
              ("sessionid", "channelid", "streamid", "chainflags", "channel", "target", "mode_granted", "instance")}
    assert f"0x{client.sessionid:016x}" in values["sessionid"] and str(channel.number) in values["channelid"]
    assert {"0", "1", "2", "3"} <= set(values["streamid"]) and {"0", "1", "2", "3"} == set(values["chainflags"])
    assert set(values["channel"]) == {"0", "1"} and values["target"] == ["4"]
    assert set(values["mode_granted"]) == {str(int(model != TCP))} and client.instance.hex() in values["instance"]
    asked, answered = captures.calls_and_replies(rows)
    assert asked == answered and asked, "calls and replies do not match"
    assert statuses_of(rows, nfs4.LOOKUP).count("2") == 1 and "10008" in statuses_of(rows, nfs4.OPEN)
    assert any(row["rpc.xid"] for row in rows), "NULL was not left to Wireshark"


def plant(channel, place):
    """Yields the arguments of malformed COMPOUNDs, and what the dissector must say about them."""
    number = {"channelid": channel.number, "streamid": 0, "chainflags": 0}
    control = wire.arguments(wire.OPERATION_CONTROL, **number)
    bind = wire.u32(wire.SESSION_BIND) + wire.u64(1)
    yield [control[:-4] + wire.u32(4), *place.root], "value 4 of an enumeration"
    yield [bind + wire.u32(2) + bytes(28)], "value 2 of an enumeration"
    yield [bind + bytes(28) + wire.opaque(wire.u32(1))], "octets are missing"
    yield [control, control], "OPERATION_CONTROL is not the first operation"
    yield place.root, "OPERATION_CONTROL is missing"
    yield [control, wire.u32(wire.SESSION_DESTROY), *place.root], "SESSION_DESTROY is not the last operation"
    yield [control, *place.root, wire.u32(200406)], "does not exist"
    yield [control, ends.lookup(b"abc")[:-1] + b"x"], "padding that is not zero"
    yield [control[:-8]], "octets are missing"
    yield [control, *place.root, bytes(4)], "does not exist"


def finds_malformed(scratch):
    """Each planted message is found in its own packet, and no other one is."""
    need_tshark()
    wanted = []
    with Recorded(scratch, TCP) as (_, place):
        client = place.client()
        channel = client.start()
        for operations, what in plant(channel, place):
            message = client.compound(operations)
            channel.caller.call(message)
            wanted.append((f"0x{int.from_bytes(message[:4], 'big'):08x}", what))
            expect(Results(channel.caller.call(channel.message(place.root))), wire.OK, "a good request")
    for display in ("sess01.malformed", "_ws.malformed"):
        rows = captures.dissect(f"{scratch}/capture.pcap", NFS_PORT, "-Y", display)
        assert [row["sess01.xid"][0] for row in rows] == [xid for xid, _ in wanted], f"{display}: {rows}"
        for row, (_, what) in zip(rows, wanted):
            assert what in row["sess01.malformed"][0] and row["sess01.malformed"][0] in row["_ws.expert.message"], f"{what}: {row}"


def steps_up_in_place(scratch):
    """Without the help of as_records, the octets behind the bind show as those of RDMA mode, and nothing looks malformed."""
    need_tshark()
    with Recorded(scratch, STEP_UP) as (_, place):
        channel = place.client().start()
        expect(channel.run(place.root), wire.OK, "a request over RDMA")
    rows = captures.dissect(f"{scratch}/capture.pcap", NFS_PORT)
    assert not any(row["sess01.malformed"] or row["_ws.malformed"] for row in rows)
    first = next(row for row in rows if row["sess01.rdma"])
    assert first["sess01.rdma"][0].startswith(b"MPA ID Req Frame".hex()), "RDMA mode does not begin with an MPA Request"


def checks_captures(scratch):
    """captures.check accepts a good capture, and finds what is wrong in others."""
    need_tshark()
    ports, path = {"tcp": NFS_PORT, "rdma": RDMA_PORT}, f"{scratch}/capture.pcap"
    with Recorded(scratch, STEP_UP) as (server, place):
        talk(server, place)
    wanted = ["create", "bind", "control", "credit-recall", "callback", "chain", "back", "rdma-mode", "step-up", "msgp"]
    problems, summary = captures.check(path, ports, wanted)
    assert not problems, f"{problems}: {summary}"
    assert captures.check(path, ports, ["destroy"])[0] == ["no destroy in the whole capture"]
    with Recorded(scratch, TCP) as (_, place):
        client = place.client()
        channel = client.start()
        channel.caller.send(client.compound([next(plant(channel, place))[0][0]]))
        channel.caller.call(channel.message(place.root))
    problems, _ = captures.check(path, ports, [])
    assert len(problems) == 1 and "value 4 of an enumeration" in problems[0], problems
    with Recorded(scratch, TCP) as (_, place):
        place.client().start().caller.send(b"an octet of no call")
    assert captures.check(path, ports, ["control"])[0], "a capture without an OPERATION_CONTROL passes"


CASES = {**{f"dissects_{model.replace('-', '_')}": dissects(model) for model in MODELS},
         "dissects_other_port": dissects(TCP, OTHER_PORT), "finds_malformed": finds_malformed, "steps_up_in_place": steps_up_in_place,
         "checks_captures": checks_captures}

if __name__ == "__main__":
    cases.main(CASES)
