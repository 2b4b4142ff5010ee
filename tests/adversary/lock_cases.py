"""Hostile hosts that lock by NLM, and forged messages of NLM and NSM: others lock and read on, and keep their locks."""

import time

import namespaces
import rpc_messages as rpc
from attack import MAX_WAIT, Attacked, Case, Passed
from lock_host import (
    BLOCKED, CANCEL, CANCEL_MSG, DENIED, FREE_ALL, GRANTED, GRANTED_IT, LOCK, LOCK_MSG, NLM, NM_LOCK, NOLOCKS, NSM, SHARE, SM_NOTIFY, TCP,
    TEST, TEST_MSG, UDP, UNLOCK, UNLOCK_MSG, UNSHARE, Caller, Lock, LockHost, Results, file_handle)
from patience import SECONDS
from rpc_messages import GARBAGE_ARGS, opaque, words

GOOD, EVIL = "127.0.0.2", "127.0.0.3"
MOST_WAITING, MOST_NAMES = 4096, 64  # docs/limits.md
OPTIONS = ["--portmap", "--grace=0"]
BATCH = 32
CALL_STEP = 4  # NetworkHostCalls::Settings::limit, server/host_calls.h


def attacked(scratch, **how):
    namespaces.require()
    return Attacked(scratch, options=OPTIONS, **how)


class Witness:
    """Another host, which holds a lock and is served all the time."""

    def __init__(self, server):
        self.caller = Caller(server.mount, GOOD)
        self.held = Lock("good", file_handle(server, b"small"), offset=1000)
        self.other = Lock("good", file_handle(server, b"empty"))
        assert self.caller.lock_call(LOCK, self.held) == GRANTED_IT
        self.longest = 0

    def check(self):
        """Locks and unlocks, and its earlier lock still excludes others."""
        began = time.monotonic()
        assert self.caller.lock_call(LOCK, self.other) == GRANTED_IT
        assert self.caller.lock_call(UNLOCK, self.other) == GRANTED_IT
        self.longest = max(self.longest, time.monotonic() - began)
        assert self.longest < MAX_WAIT, f"the other host waited {self.longest:.1f} s"
        assert self.caller.lock_call(TEST, self.held._replace(host="another")) == DENIED, "its lock is gone"

    def close(self):
        self.check()
        self.caller.close()


def many(caller, calls):
    """Makes many calls, a few at a time; returns {status: count}."""
    counts, calls = {}, list(calls)
    for at in range(0, len(calls), BATCH):
        batch = calls[at:at + BATCH]
        for message in batch:
            caller.send(message)
        for _ in batch:
            status = Results(rpc.RpcReply(caller.receive()).results).status
            counts[status] = counts.get(status, 0) + 1
    return counts


def message(procedure, arguments, program=(NLM, 4)):
    return rpc.call(procedure, arguments, program)


def lock_message(lock, **how):
    return message(LOCK, lock.arguments(LOCK, **how))


# ---- malformed arguments

def malformed(server, handle):
    lock = Lock("evil", handle)
    whole = {(NLM, 4, each): lock.arguments(each) for each in
             (TEST, LOCK, CANCEL, UNLOCK, TEST_MSG, LOCK_MSG, CANCEL_MSG, UNLOCK_MSG, NM_LOCK)}
    whole |= {(NLM, 4, each): lock.share(0, 1) for each in (SHARE, UNSHARE)}
    whole |= {(NLM, 4, FREE_ALL): opaque(b"evil") + words(1), (NSM, 1, SM_NOTIFY): opaque(b"evil") + words(1)}
    for (program, version, procedure), good in whole.items():
        bad = [good[:size] for size in range(0, len(good), 4)] + [good + bytes(4), words(1025) + bytes(1028) + good[8:],
               words(0xFFFFFFFF) + good[4:]]
        if procedure not in (FREE_ALL, SM_NOTIFY):
            bad += [opaque(b"") + words(2) + good[12:] if procedure not in (UNLOCK, UNLOCK_MSG, SHARE, UNSHARE) else good[:-1]]
        for arguments in bad:
            def act(_, call=rpc.call(procedure, arguments, (program, version))):
                for protocol in (TCP, UDP):
                    caller = Caller(server.mount, EVIL, protocol)
                    reply = caller.reply(call)
                    caller.close()
                    assert reply.status == ("accepted", GARBAGE_ARGS), reply.status
            yield Case(f"{len(arguments)} octets for procedure {procedure} of {program}", "RFC 4506", act, Passed())


# ---- forged messages

def forged(server, witness):
    """Nobody but the host itself ends its locks: not another host by its name, and no unprivileged program."""
    small = witness.held.handle
    for protocol in (TCP, UDP):
        evil = Caller(server.mount, EVIL, protocol)
        for name in (b"good", b"evil", GOOD.encode(), b""):
            evil.call(FREE_ALL, opaque(name) + words(9))
            evil.call(SM_NOTIFY, opaque(name) + words(9), NSM, 1)
        for procedure in (UNLOCK, CANCEL):
            evil.lock_call(procedure, Lock("good", small, offset=0, length=0))
            evil.lock_call(procedure, witness.held)
        witness.check()
        evil.close()
        # A user of the same host has no port below 1024.
        user = Caller(server.mount, GOOD, protocol, port=0)
        for name in (b"good", b"wrong"):
            user.call(SM_NOTIFY, opaque(name) + words(9), NSM, 1)
            user.call(FREE_ALL, opaque(name) + words(9))
        witness.check()
        user.close()
    # CANCEL of another host does not end its waiting.
    with LockHost(GOOD) as good:
        evil = Caller(server.mount, EVIL)
        taken = Lock("evil", small)
        assert evil.lock_call(LOCK, taken) == GRANTED_IT
        assert witness.caller.lock_call(LOCK, taken._replace(host="good"), block=True) == BLOCKED
        assert evil.lock_call(CANCEL, taken._replace(host="good"), block=True) == DENIED
        assert evil.lock_call(UNLOCK, taken) == GRANTED_IT
        good.expect(GRANTED)
        assert witness.caller.lock_call(UNLOCK, taken._replace(host="good")) == GRANTED_IT
        evil.close()


# ---- hosts that do not take what they wait for

def dead_hosts(server, witness):
    """Hosts wait for locks, and cannot be told that they are free; others get their locks meanwhile."""
    garbage = (b"", words(1), words(1, 0, 0, 0, 0), words(1, 0, 0, 0, 0) + words(1 << 31), words(1, 0, 0, 0, 0) + opaque(b"") + words(77),
               words(1, 1, 1, 1), words(1, 0, 0, 0, 2, 9, 9), bytes(9000))
    big = file_handle(server, b"big")
    hosts = [LockHost("127.0.1.1", port_mapper=False), LockHost("127.0.1.2", ports=lambda *_: None), LockHost("127.0.1.3", ports=lambda *_: 9),
             LockHost("127.0.1.4", grant=lambda _: None), LockHost("127.0.1.5", ports=lambda *_: 70000)]
    hosts += [LockHost(f"127.0.2.{index + 1}", grant=lambda _, answer=answer: answer) for index, answer in enumerate(garbage)]
    good = LockHost(GOOD)
    try:
        for restart, protocol in enumerate((TCP, UDP)):
            evil = Caller(server.mount, EVIL, protocol)
            assert evil.lock_call(LOCK, Lock("evil", big, length=0)) == GRANTED_IT
            for number, host in enumerate(hosts):
                caller = Caller(server.mount, host.address, protocol)
                for process in range(6):
                    lock = Lock(f"dead {number}\n\x1b[31m", big, process=process, offset=100 * number + 10 * process)
                    assert caller.lock_call(LOCK, lock, block=True) == BLOCKED
                caller.close()  # what the closed connection has asked for stays
            before = len(good.calls(GRANTED))
            lock = Lock("good", big, offset=100000 + protocol)
            assert witness.caller.lock_call(LOCK, lock, block=True) == BLOCKED
            assert evil.lock_call(UNLOCK, Lock("evil", big, length=0)) == GRANTED_IT
            good.expect(GRANTED, count=before + 1)
            witness.check()
            # The hosts start again, and their requests end with them.
            for number, host in enumerate(hosts):
                monitor = Caller(server.mount, host.address, UDP)
                monitor.call(SM_NOTIFY, opaque(f"dead {number}\n\x1b[31m".encode()) + words(3 + 2 * restart), NSM, 1)
                monitor.close()
            assert witness.caller.lock_call(LOCK, Lock("good", big, offset=0, length=0)) == GRANTED_IT
            assert witness.caller.lock_call(UNLOCK, Lock("good", big, offset=0, length=0)) == GRANTED_IT
            evil.close()
    finally:
        for host in (*hosts, good):
            host.close()
    assert not [line for line in server.server.lines if "\x1b" in line], "a name of a host reaches the terminal"


def names(server, witness):
    """One address has many names."""
    evil = Caller(server.mount, EVIL)
    handle = file_handle(server, b"big")
    counts = many(evil, (lock_message(Lock(f"name {number}", handle, offset=20 * number)) for number in range(2 * MOST_NAMES)))
    print(f"{2 * MOST_NAMES} names: {counts}", flush=True)
    assert set(counts) == {GRANTED_IT, NOLOCKS} and counts[GRANTED_IT] <= MOST_NAMES, counts
    witness.check()
    for number in range(2 * MOST_NAMES):
        evil.call(FREE_ALL, opaque(f"name {number}".encode()) + words(3))
    assert evil.lock_call(LOCK, Lock("new", handle, length=0)) == GRANTED_IT
    evil.call(FREE_ALL, opaque(b"new") + words(3))
    evil.close()


def hostile(scratch):
    with attacked(scratch) as server:
        server.run(malformed(server, file_handle(server, b"small")), lambda _: _Nothing())
        witness = Witness(server)
        forged(server, witness)
        names(server, witness)
        dead_hosts(server, witness)
        witness.close()


class _Nothing:
    """The connection of a case that makes its own."""

    def close(self):
        pass


# ---- many requests

def storms(scratch):
    """One host makes as many requests as it can: locks, and requests that wait. Another host is served."""
    with attacked(scratch) as server:
        witness = Witness(server)
        handle = file_handle(server, b"big")
        evil, holder = Caller(server.mount, EVIL), Caller(server.mount, "127.0.0.4")
        assert holder.lock_call(LOCK, Lock("holder", handle, length=0)) == GRANTED_IT
        counts = {}
        for at in range(0, MOST_WAITING + 1000, 250):
            for status, count in many(evil, (lock_message(Lock("evil", handle, process=number, offset=number * 20, owner=bytes(1024)), block=True)
                                             for number in range(at, at + 250))).items():
                counts[status] = counts.get(status, 0) + count
            witness.check()
            server.watch_memory()
        print(f"{sum(counts.values())} requests that wait: {counts}", flush=True)
        assert set(counts) == {BLOCKED, NOLOCKS} and counts[BLOCKED] <= MOST_WAITING, counts
        # All become free at once, and nobody takes them. Then their host ends.
        assert holder.lock_call(UNLOCK, Lock("holder", handle, length=0)) == GRANTED_IT
        for _ in range(20):
            witness.check()
            time.sleep(0.1)
        evil.call(FREE_ALL, opaque(b"evil") + words(3))
        assert holder.lock_call(LOCK, Lock("holder", handle, length=0)) == GRANTED_IT
        assert holder.lock_call(UNLOCK, Lock("holder", handle, length=0)) == GRANTED_IT
        counts = {}
        for at in range(0, 10000, 250):
            for status, count in many(evil, (lock_message(Lock("evil", handle, process=number % 50, offset=number * 20))
                                             for number in range(at, at + 250))).items():
                counts[status] = counts.get(status, 0) + count
            witness.check()
            server.watch_memory()
        print(f"{sum(counts.values())} locks: {counts}", flush=True)
        assert set(counts) <= {GRANTED_IT, NOLOCKS}, counts
        evil.call(FREE_ALL, opaque(b"evil") + words(5))
        evil.close(), holder.close()
        witness.close()


# ---- the end of the server

def stopped(scratch):
    """The server stops while a call to a host hangs: at its port mapper, or at its lock manager."""
    for index, (how, protocol) in enumerate(((how, protocol) for how in ("port mapper", "lock manager") for protocol in (TCP, UDP))):
        with attacked(f"{scratch}/{index}") as server, \
                LockHost(EVIL, grant=lambda _: None, ports=(lambda *_: None) if how == "port mapper" else (lambda mine, _: mine)) as host:
            holder, evil = Caller(server.mount, GOOD), Caller(server.mount, EVIL, protocol)
            lock = Lock("evil", file_handle(server, b"big"))
            assert holder.lock_call(LOCK, lock._replace(host="good")) == GRANTED_IT
            assert evil.lock_call(LOCK, lock, block=True) == BLOCKED
            assert holder.lock_call(UNLOCK, lock._replace(host="good")) == GRANTED_IT
            if how == "lock manager":
                host.expect(GRANTED)
            else:
                time.sleep(0.5)
            server.bystander.finish()
            began = time.monotonic()
            assert server.server.stop() == 0
            took = time.monotonic() - began
            print(f"{how}: stopped within {took:.1f} s", flush=True)
            assert took < CALL_STEP, "the stop has waited for the host"
            server.stopped = True
            holder.close(), evil.close()
