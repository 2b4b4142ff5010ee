#!/usr/bin/python3
"""The sessions of 2004 execute a request once, whatever happens to its reply or its connection (draft-talpey-nfsv4-rdma-sess-01 §2.5,
§3.2). The client repeats the request over another channel, which is new or was there before, over TCP, over a TCP connection that has
stepped up to RDMA, or over RDMA; also after the server was killed; and while the original is still on its way."""

import itertools
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "harness"), os.path.join(HERE, "..", "sess01")]
import nfs4_messages as nfs4  # noqa: E402
import operations  # noqa: E402
import rpc_messages as rpc  # noqa: E402
import wire  # noqa: E402
from cases import main  # noqa: E402
from client import MODELS, RDMA, TCP, Client, Results, Where  # noqa: E402
from disk import FailingDisk  # noqa: E402
from nfs4_messages import at  # noqa: E402
from operations import Place  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import Server  # noqa: E402
from valve import Valve  # noqa: E402

HELD_STREAM = 9  # the streamid of the requests under test
PAD = 256


class Serving:
    """A server with an empty export."""

    def __init__(self, scratch, environment=None):
        self.folder = f"{scratch}/export"
        os.mkdir(self.folder)
        self.server = Server({"/": f"{self.folder}:no_root_squash"}, ["--grace=0", "--sess01=rdma", f"--sess01-pad={PAD}"],
                             environment=environment)
        self.names = itertools.count()

    def __enter__(self):
        self.server.__enter__()
        self.client = rpc.Client(self.server.rdma)  # for everything that is not under test
        return self

    def __exit__(self, failure, *rest):
        self.client.close()
        return self.server.__exit__(failure, *rest)

    def restart(self, meanwhile=lambda: None):
        self.client.close()
        self.server.kill()
        meanwhile()
        self.server.start()
        self.client = rpc.Client(self.server.rdma)

    def where(self, model, valve=None):
        tcp, rdma = (valve.port,) * 2 if valve else (self.server.tcp, self.server.rdma)
        return Where("127.0.0.1", tcp, rdma, model)

    def place(self, speaker, other):
        name = f"place{next(self.names)}"
        os.mkdir(f"{self.folder}/{name}")
        return Place(f"{self.folder}/{name}", nfs4.look_up(self.client, name.encode()), self.client, speaker, other)


class Speaker:
    """A client with a session, as the operations know it. `original` is the channel of the requests under test; all others go over
    a channel of their own."""

    minor, client = 0, 0  # the operations are those of minor version 0; the session names the client

    def __init__(self, serving):
        self.serving, self.session = serving, Client(serving.where(TCP), requests=64)
        caller = self.session.open()
        assert self.session.create(caller)["persist"], "persist is not granted"
        self.own, self.original, self.stream = self.session.bind(caller), None, HELD_STREAM

    def bind(self, model, valve=None):
        """Binds a new connection."""
        self.session.where = self.serving.where(model, valve)
        return self.session.bind(self.session.open(), headerpadsize=PAD)

    def request(self, operations_):
        return self.original.message(operations_, self.stream)

    def run(self, _, operations_):
        return self.own.run(operations_, 0)

    def close(self):
        self.session.close()


def send(channel, message, payload):
    channel.caller.send(message, **({"payload": payload} if payload else {}))


def answer(channel, message, payload):
    """Sends a request and returns the octets of its reply."""
    send(channel, message, payload)
    return channel.caller.wait(rpc.xid_of(message))


def status(reply):
    return Results(reply).status


def wait_for_effect(operation, place):
    deadline = time.monotonic() + SECONDS
    while not operation.done(place):
        assert time.monotonic() < deadline, "it was not done"


class Trial:
    """One operation whose reply or connection is lost over a channel, and that is repeated over another one."""

    def __init__(self, speaker, place, operation, first):
        self.speaker, self.place, self.operation = speaker, place, operation
        speaker.original = self.original = speaker.bind(first)
        operation.prepare(place)
        self.message, self.payload = operation.request(place)
        self.reply = None

    def lose_reply(self):
        """Returns false if the file system cannot do the operation."""
        self.reply = answer(self.original, self.message, self.payload)
        self.original.caller.lose()
        if status(self.reply) == nfs4.NOTSUPP:
            return False
        assert status(self.reply) == wire.OK, f"ended with {status(self.reply)}"
        return True

    def lose_connection(self):
        """Ends the connection as soon as the operation is done, before or after the reply is sent."""
        send(self.original, self.message, self.payload)
        wait_for_effect(self.operation, self.place)
        self.original.caller.lose()

    def repeat(self, channel):
        again = answer(channel, self.message, self.payload)
        assert status(again) == wire.OK, f"sent again, it ended with {status(again)}"
        assert self.reply in (None, again), "sent again, it had another reply"
        self.reply = again

    def check_once(self, channels):
        """Repeats the request over channels, after another client's change that a second execution would destroy."""
        self.operation.meddle(self.place)
        for channel in channels:
            self.repeat(channel)
            assert not self.operation.spoiled(self.place), "it was done again"


class Failures:
    """Counts cases, and fails at the end if one of them has failed."""

    def __init__(self):
        self.failed, self.count = [], 0

    def run(self, what, check, *arguments):
        self.count += 1
        try:
            return check(*arguments)
        except AssertionError as failure:
            self.failed.append(what)
            print(f"  FAILED {what}: {failure}", flush=True)
            return True

    def report(self):
        print(f"{self.count} cases, {len(self.failed)} of them failed", flush=True)
        assert not self.failed, self.failed


def live(scratch, firsts=MODELS):
    """Each operation, lost over each model, repeated over each model, while the server runs."""
    with Serving(scratch) as serving:
        speaker, other = Speaker(serving), Speaker(serving)
        existing = {model: speaker.bind(model) for model in MODELS}
        failures = Failures()

        def check(operation, first, then, is_new, reply_is_lost):
            trial = Trial(speaker, serving.place(speaker, other), operation, first)
            if reply_is_lost:
                if not trial.lose_reply():
                    return False
            else:
                trial.lose_connection()
            channels = [speaker.bind(then) for _ in range(2)] if is_new else [existing[then]] * 2
            if not reply_is_lost:
                trial.repeat(channels[0])
            trial.check_once(channels)
            for channel in channels if is_new else []:
                channel.caller.close()
            return True

        for operation in operations.version4(0):
            for first, then, is_new, reply_is_lost in itertools.product(firsts, MODELS, (True, False), (True, False)):
                if not reply_is_lost and operation.done is None:
                    continue
                what = f"{operation.name}: the {'reply' if reply_is_lost else 'connection'} lost over {first}, again over " \
                       f"{'a new' if is_new else 'another'} channel, {then}"
                if not failures.run(what, check, operation, first, then, is_new, reply_is_lost):
                    print(f"  {operation.name}: this file system cannot do it", flush=True)
                    break
        speaker.close()
        other.close()
        failures.report()


def restart(scratch):
    """The server is killed when the operation has been done, or a moment after its reply has left; then twice more."""
    with Serving(scratch) as serving:
        other, trials = Speaker(serving), []
        for operation, first in itertools.product(operations.version4(0), MODELS):
            speaker = Speaker(serving)
            trial = Trial(speaker, serving.place(speaker, other), operation, first)
            if trial.lose_reply():
                trials.append((f"{operation.name} over {first}", trial))
        failures = Failures()
        for life in range(2):
            serving.restart()
            for name, trial in trials:
                trial.place.client = serving.client
                failures.run(f"{name}, {life + 1} restarts", repeat_after_restart, trial, life)
        for _, trial in trials:
            trial.speaker.close()
        other.close()
        failures.report()


def repeat_after_restart(trial, life):
    # The server has lost all locks and the other client's opens, so nobody can change them. Another client's change of a file is not
    # an operation of the other session.
    is_lock = trial.operation.name in ("LOCK", "LOCKU")
    if life == 0 and not is_lock:
        trial.operation.meddle(trial.place)
    for model in MODELS:
        channel = trial.speaker.bind(model)
        trial.repeat(channel)
        assert is_lock or not trial.operation.spoiled(trial.place), "it was done again"
        new = channel.run(at(trial.place.directory, nfs4.create_op(nfs4.NF4DIR, b"new %d" % life + model.encode())), HELD_STREAM + 1)
        assert new.status == wire.OK, f"a new request in the session ended with {new.status}"
        channel.caller.close()
    return True


def killed_at_work(scratch):
    """The server is killed as soon as the operation is done: a retry gets the reply, or the answer that nobody knows. Nothing is
    executed twice."""
    with Serving(scratch) as serving:
        failures = Failures()
        names = ("CREATE of a directory", "REMOVE of a file", "RENAME", "WRITE", "SETATTR")
        for operation, first in itertools.product(operations.version4(0), MODELS):
            if operation.name in names:
                failures.run(f"{operation.name} over {first}", kill_at_work, serving, operation, first)
        failures.report()


def kill_at_work(serving, operation, first):
    speaker = Speaker(serving)
    trial = Trial(speaker, serving.place(speaker, speaker), operation, first)
    send(trial.original, trial.message, trial.payload)
    wait_for_effect(operation, trial.place)
    serving.restart()
    trial.place.client = serving.client
    operation.meddle(trial.place)
    for model in MODELS:
        got = status(answer(speaker.bind(model), trial.message, trial.payload))
        assert got in (wire.OK, wire.UNKNOWN_FATE), f"the retry ended with {got}"
        assert not operation.spoiled(trial.place), "it was done again"
    speaker.close()
    return True


def unknown(scratch):
    """The server is killed while a disk holds up the operation. It had noted the request before, so that nobody knows whether the disk
    has done it: each retry says so (200419), and nothing is executed."""
    disk = FailingDisk(scratch)
    with Serving(scratch, disk.environment) as serving:
        failures = Failures()
        for first in MODELS:
            failures.run(f"WRITE over {first}", kill_before_the_disk_answers, serving, disk, first)
        failures.report()


def kill_before_the_disk_answers(serving, disk, first):
    speaker = Speaker(serving)
    place = serving.place(speaker, speaker)
    write = next(each for each in operations.version4(0) if each.name == "WRITE")
    trial = Trial(speaker, place, write, first)
    disk.fail(f"pwrite hang {place / 'file'}")
    send(trial.original, trial.message, trial.payload)
    disk.await_hanging(place / "file")
    serving.restart(disk.mend)
    trial.place.client = serving.client
    write.meddle(place)
    for model in MODELS:
        channel = speaker.bind(model)
        got = status(answer(channel, trial.message, trial.payload))
        assert got == wire.UNKNOWN_FATE, f"the retry ended with {got}"
        assert not write.spoiled(place), "it was executed"
    assert channel.run([nfs4.putfh(place.directory)], HELD_STREAM).status == wire.OK, "a new request with the streamid"
    speaker.close()
    return True


def late(scratch):
    """A valve holds the original, and lets it go when its retry has been answered and another client has changed the result. Then it
    holds a retry until the streamid has been used again."""
    with Serving(scratch) as serving:
        failures = Failures()
        ways = list(itertools.product(MODELS, MODELS))
        for i, operation in enumerate(operations.version4(0)):
            for first, then in ways[i % 3::3] if operation.done else ():  # each way comes with a third of the operations
                failures.run(f"the original of {operation.name}, late over {first}, again over {then}", late_original, serving,
                             operation, first, then)
                failures.run(f"a retry of {operation.name}, late over {first}, again over {then}", late_retry, serving, operation,
                             first, then)
        failures.report()


def late_original(serving, operation, first, then):
    speaker, other = Speaker(serving), Speaker(serving)
    with Valve(serving.server.rdma if first == RDMA else serving.server.tcp, holds_clients=True) as valve:
        place = serving.place(speaker, other)
        trial = Trial(speaker, place, operation, first)
        held = speaker.bind(first, valve)
        assert held.run([nfs4.putfh(place.directory)], 1).status == wire.OK
        speaker.original = held
        trial.message, trial.payload = operation.request(place)
        valve.shut()
        send(held, trial.message, trial.payload)
        valve.wait()
        again = speaker.bind(then)
        trial.repeat(again)
        trial.check_once([again])
        held.caller.wait_for_end()  # the server has closed the channel of the original
        valve.open()
        trial.repeat(again)
        assert not operation.spoiled(place), "the original was executed after its retry"
        assert again.run([nfs4.putfh(place.directory)], HELD_STREAM).status == wire.OK, "a new request with the streamid"
    speaker.close()
    other.close()
    return True


def late_retry(serving, operation, first, then):
    speaker, other = Speaker(serving), Speaker(serving)
    with Valve(serving.server.rdma if first == RDMA else serving.server.tcp, holds_clients=True) as valve:
        place = serving.place(speaker, other)
        trial = Trial(speaker, place, operation, then)
        assert trial.lose_reply(), "the file system cannot do it"
        held, again = speaker.bind(first, valve), speaker.bind(then)
        assert held.run([nfs4.putfh(place.directory)], 1).status == wire.OK
        valve.shut()
        send(held, trial.message, trial.payload)
        valve.wait()
        trial.check_once([again])
        assert again.run([nfs4.putfh(place.directory)], HELD_STREAM).status == wire.OK, "a new request with the streamid"
        valve.open()
        got = status(held.caller.wait(rpc.xid_of(trial.message)))
        assert got == wire.STREAM_INUSE, f"the late retry ended with {got}"
        assert not operation.spoiled(place), "the late retry was executed"
    speaker.close()
    other.close()
    return True


def live_from(model):
    def case(scratch):
        live(scratch, [model])
    case.__name__ = "bound_" + model.replace("-", "_")
    return case


main({**{case.__name__: case for case in map(live_from, MODELS)}, "bound_restart": restart, "bound_killed": killed_at_work,
      "bound_unknown": unknown, "bound_late": late})
