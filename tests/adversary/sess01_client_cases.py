"""A hostile server of the sessions of 2004 against our client. It is the Python server of tests/sess01 with one vice. The client must end
with a clear message and exit code 1, or succeed with the right data. It must never hang or crash."""

import concurrent.futures
import os
import subprocess
import sys
import threading
import time
from typing import Callable, NamedTuple

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sess01"))
import rpc_messages as rpc  # noqa: E402
import server as python_server  # noqa: E402
import wire  # noqa: E402
from client_cases import BOUND, SECONDS, SIDE_BY_SIDE, is_clear, wrong_exit  # noqa: E402
from iwarp_cases import MAX32  # noqa: E402
from iwarp_peer import CRC, REJECTED, REPLY_KEY, REQUEST_KEY, Ended, Silence, mpa_frame  # noqa: E402
from callbacks import Unreachable  # noqa: E402
from penstock import penstock  # noqa: E402
from server_links import RdmaServerLink  # noqa: E402
from streams import Refused  # noqa: E402
from tree import REGULAR  # noqa: E402
from wire import u32  # noqa: E402

CONTENTS = os.urandom(30000)
TCP, STEP_UP, RDMA = "tcp", "stepup", "rdma"
ALL, MAY_BE_RDMA = (TCP, STEP_UP, RDMA), (STEP_UP, RDMA)
CB_COMPOUND, CB_RECALL = 1, 4


class Case(NamedTuple):
    name: str
    section: str
    spoil: Callable  # gives the Python server its vice
    works: object = None  # True: must succeed; False: must fail; None: may do either
    models: tuple = ALL
    options: str = ""
    slow: bool = False  # the client tries again until its time is over
    noisy: bool = False  # it warns more than twice


# ---- vices ----

def wrap(core, name, make):
    setattr(core, name, make(getattr(core, name)))


def binds_with(kind=wire.OPERATION, **changes):
    """The results of SESSION_BIND differ from what the server means."""
    def spoil(server):
        def make(bind):
            def wrong(connection, call, arguments):
                result, channel = bind(connection, call, arguments)
                return (result | changes if channel.kind == kind else result), channel
            return wrong
        wrap(server.core, "_bind", make)
    return spoil


def creates_with(**changes):
    def spoil(server):
        wrap(server.core, "_create", lambda create: lambda *arguments: create(*arguments) | changes)
    return spoil


def refuses(method, status, after=0):
    """Ends an operation with this status, from the call after `after` others on."""
    def spoil(server):
        count = [after]

        def make(run):
            def wrong(*arguments):
                count[0] -= 1
                if count[0] < 0:
                    raise Refused(status)
                return run(*arguments)
            return wrong
        wrap(server.core, method, make)
    return spoil


def answers(change, first=wire.OPERATION_CONTROL, after=0):
    """Changes the octets of the results of COMPOUNDs that begin with an operation: change(octets, position of the first result)."""
    def spoil(server):
        count = [after]

        def make(compound):
            def wrong(*arguments):
                answer = compound(*arguments)
                at = 4 + len(wire.opaque(wire.Reader(answer.octets, 4).opaque())) + 4
                if answer.octets[at:at + 4] == u32(first):
                    count[0] -= 1
                    if count[0] < 0:
                        answer.octets = change(answer.octets, at)
                return answer
            return wrong
        wrap(server.core, "compound", make)
    return spoil


def word(index, value):
    """Replaces a word behind the beginning of the first result; -1 is the number of results."""
    return lambda octets, at: octets[:at + 4 * index] + u32(value) + octets[at + 4 * index + 4:]


def grants_credits(number):
    """All replies to requests over RDMA grant so many credits."""
    class Link(RdmaServerLink):
        granted = property(lambda link: number, lambda link, value: None)

    def spoil(server):
        def make(run):
            def wrong(connection, *rest):
                if connection.link.is_rdma:
                    connection.link.__class__ = Link
                return run(connection, *rest)
            return wrong
        wrap(server.core, "_controlled", make)
    return spoil


def does_at(number, act):
    """Calls act(server, connection) before a request behind an OPERATION_CONTROL is executed, the first one being 1."""
    def spoil(server):
        count = [number]

        def make(run):
            def wrong(connection, *rest):
                count[0] -= 1
                if count[0] == 0:
                    act(server, connection)
                return run(connection, *rest)
            return wrong
        wrap(server.core, "_controlled", make)
    return spoil


def calls(*operations, times=1, program=wire.CALLBACK_PROGRAM, minor=wire.MINOR_VERSION, control=True):
    """Sends callbacks over the connection of the operations channel, whether or not it has a back channel."""
    def act(server, connection):
        first = wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=0, chainflags=wire.NOCHAIN)
        arguments = wire.callback_compound([*([first] if control else []), *operations], minor=minor)
        for i in range(times):
            connection.link.send_call(rpc.call(CB_COMPOUND, arguments, program, 0xCB000000 + i, credential=rpc.AUTH_NONE))
    return does_at(2, act)


def recalls_credits(target, times=1):
    """Sends CB_CREDITRECALL over the back channel, whatever the client answers."""
    def recall(server, session):
        for _ in range(times):
            try:
                server.core.callbacks.recall_credits(session, target)
            except (Unreachable, KeyError, OSError, Ended, Silence):
                return  # the client is gone already

    def act(server, connection):
        # In a thread, because the client answers after its outstanding requests.
        threading.Thread(target=recall, args=(server, connection.session), daemon=True).start()
    return does_at(2, act)


def after_the_grant(act):
    """act(endpoint) instead of the answer to the MPA Request of a connection that steps up."""
    def spoil(server):
        server.accept_step_up = act
    return spoil


def sends(octets, then_waits=True):
    def act(endpoint):
        endpoint.fill(20, time.monotonic() + 30)
        endpoint.raw(octets)
        if then_waits:
            endpoint.end_of_stream(30)
        raise Ended("the server's vice")
    return act


def waits(endpoint):
    endpoint.end_of_stream(60)
    raise Ended("the server's vice")


def drops_connections(after):
    """Ends each connection after so many requests."""
    def spoil(server):
        counts = {}

        def make(run):
            def wrong(connection, *rest):
                counts[connection] = counts.get(connection, 0) + 1
                if counts[connection] > after:
                    connection.cut()
                return run(connection, *rest)
            return wrong
        wrap(server.core, "_controlled", make)
    return spoil


class Hostile(python_server.Server):
    """The Python server with a file "file", and a vice."""

    def __init__(self, spoil):
        super().__init__(delegates=False)
        tree = self.core.tree
        node = tree.make(REGULAR, 0o644)
        node.data[:] = CONTENTS
        tree.link(tree.root, b"file", node)
        spoil(self)


def run(case, model):
    """Returns the reason of a failure, or nothing."""
    server = Hostile(case.spoil)
    port = server.rdma if model == RDMA else server.tcp
    url = f"nfs://127.0.0.1:{port}/file?vers=4.1-sess01&proto={model}&timeout={SECONDS}{case.options}"
    try:
        done = penstock("cat", url, seconds=BOUND)
    except subprocess.TimeoutExpired:
        return "it hangs"
    finally:
        server.stop()
    worked = done.returncode == 0
    print(f"  {model:7} {case.name}: exit code {done.returncode} {done.stderr.strip()[:250]}", flush=True)
    if why := wrong_exit(done.returncode, done.stderr, case.works):
        return why
    if worked and done.stdout != CONTENTS:
        return f"{len(done.stdout)} octets of output are not the file"
    said = "\n".join(done.stderr.splitlines()[-1:]) if case.noisy else done.stderr
    return None if worked or is_clear(said) else f"the message is not clear: {done.stderr!r}"


def cases():
    yield Case("(a good server)", "sess01", lambda server: None, True)
    yield Case("(a good server, several channels)", "sess01", lambda server: None, True, options="&channels=3")
    # SESSION_CREATE
    for status in (10008, 10005, 10004, 10017, wire.BADBIND, wire.CONTROL_POS, 10044, 10021, 424242):
        yield Case(f"SESSION_CREATE ends with {status}", "sess01 §6.1", refuses("_create", status), False, (TCP,))
    yield Case("no requests in the session", "sess01 §6.1", creates_with(totalrequests=0), None, (TCP,))
    yield Case("2^32 - 1 requests in the session", "sess01 §6.1", creates_with(totalrequests=MAX32), True)
    yield Case("sessionid 0", "sess01 §6.1", creates_with(sessionid=0), False, (TCP,))
    yield Case("persist = 2", "sess01 §6.1", answers(word(4, 2), wire.SESSION_CREATE), False, (TCP,))
    yield Case("SESSION_CREATE is answered by SESSION_BIND", "sess01 §6.1", answers(word(0, wire.SESSION_BIND), wire.SESSION_CREATE),
               False, (TCP,))
    yield Case("SESSION_CREATE has no result", "sess01 §6.1", answers(lambda octets, at: octets[:at - 4] + u32(0), wire.SESSION_CREATE),
               False, (TCP,))
    yield Case("SESSION_CREATE is cut short", "sess01 §6.1", answers(lambda octets, at: octets[:-4], wire.SESSION_CREATE), False, (TCP,))
    # SESSION_BIND
    for status in (wire.BADSESSION, wire.BADBIND, wire.TOOSMALL, wire.INVAL, wire.CONTROL_POS, 10008, 424242):
        yield Case(f"SESSION_BIND ends with {status}", "sess01 §6.2", refuses("_bind", status), False, slow=True)
    yield Case("the second SESSION_BIND ends with 200416", "sess01 §6.2", refuses("_bind", wire.BADBIND, 1), False, options="&channels=3",
               slow=True)
    for name, values in {"no requests": {"maxrequests": 0}, "2^32 - 1 requests": {"maxrequests": MAX32},
                         "larger sizes than asked for": {"maxrequestsize": 1 << 30, "maxresponsesize": 1 << 30},
                         "sizes of 2^32 - 1": {"maxrequestsize": MAX32, "maxresponsesize": MAX32},
                         "sizes of one octet": {"maxrequestsize": 1, "maxresponsesize": 1},
                         "sizes of 0": {"maxrequestsize": 0, "maxresponsesize": 0},
                         "channelid 0": {"channelid": 0}, "channelid 2^32 - 1": {"channelid": MAX32},
                         "padding that was not asked for": {"headerpadsize": 512}, "a pad of 3": {"headerpadsize": 3},
                         "a pad of 2^31": {"headerpadsize": 1 << 31}, "2^32 - 1 RDMA Reads": {"maxrdmareads": MAX32},
                         "no attributes": {"transportattrs": b""},
                         "mode RDMA after all": {"transportattrs": wire.attributes((wire.MODE_GRANTED, u32(1)))},
                         "an instance of 3 octets": {"transportattrs": wire.attributes((wire.SERVER_INSTANCE, b"abc"))},
                         "64 KiB of attributes": {"transportattrs": wire.attributes((77, bytes(1 << 16)))}}.items():
        yield Case(f"SESSION_BIND grants {name}", "sess01 §6.2", binds_with(**values), slow="64 KiB" in name)
    # The Python server reads its own attributes, except over RDMA connections.
    for name, octets in {"that are no XDR": b"abc", "2^32 - 1 of them": u32(MAX32),
                         "mode 2": wire.attributes((wire.MODE_GRANTED, u32(2)))}.items():
        yield Case(f"attributes: {name}", "sess01 §6.2", binds_with(transportattrs=octets), False, (RDMA,))
    yield Case("a mode of 3 octets", "sess01 §6.2", binds_with(transportattrs=wire.attributes((wire.MODE_GRANTED, b"abc"))), None, (RDMA,))
    yield Case("the back channel has no requests", "sess01 §6.2", binds_with(wire.BACK, maxrequests=0), slow=True)
    yield Case("the back channel has sizes of one octet", "sess01 §6.2", binds_with(wire.BACK, maxrequestsize=1, maxresponsesize=1),
               slow=True)
    yield Case("padding larger than asked for", "sess01 §2.8", binds_with(headerpadsize=4096), None, MAY_BE_RDMA, "&pad=256")
    # OPERATION_CONTROL
    for status in (wire.BADSTREAM, wire.CHAIN_INVALID, wire.CHAIN_BROKEN, wire.NOT_BOUND, wire.CONTROL_POS, wire.BADCHANNEL,
                   wire.STREAM_INUSE, wire.UNKNOWN_FATE, wire.TOOSMALL, 424242):
        yield Case(f"OPERATION_CONTROL ends with {status}", "sess01 §6.4", refuses("_judge", status, 1), False)
        yield Case(f"OPERATION_CONTROL ends with {status}, from the third on", "sess01 §6.4", refuses("_judge", status, 2), False, (TCP,))
    yield Case("another streamid in the result", "sess01 §6.4", answers(word(2, 7), after=1), False)
    yield Case("streamid 2^32 - 1 in the result", "sess01 §6.4", answers(word(2, MAX32)), False)
    yield Case("no result of OPERATION_CONTROL", "sess01 §3.3", answers(word(0, 24)), False)
    yield Case("no results at all", "sess01 §3.3", answers(lambda octets, at: octets[:at - 4] + u32(0)), False)
    yield Case("2^32 - 1 results", "sess01 §3.3", answers(word(-1, MAX32)), False)
    yield Case("only the result of OPERATION_CONTROL", "sess01 §3.3",
               answers(lambda octets, at: octets[:at - 4] + u32(1) + octets[at:at + 12]), False)
    yield Case("results that are cut short", "sess01 §3.3", answers(lambda octets, at: octets[:at + 6]), False)
    # connections
    yield Case("connections end after one request", "sess01 §2.3", drops_connections(1), slow=True, noisy=True)
    yield Case("connections end at once", "sess01 §2.3", drops_connections(0), False, slow=True, noisy=True)
    yield Case("no credits", "RFC 8166 §3.3.1", grants_credits(0), True, (RDMA, STEP_UP))
    yield Case("2^32 - 1 credits", "RFC 8166 §3.3.1", grants_credits(MAX32), True, (RDMA, STEP_UP))
    for name, act in {"silence": waits, "garbage": sends(b"\xEE" * 100), "zeros": sends(bytes(100)),
                      "a rejection": sends(mpa_frame(REPLY_KEY, CRC | REJECTED)), "an MPA Request": sends(mpa_frame(REQUEST_KEY)),
                      "half a reply": sends(mpa_frame(REPLY_KEY)[:11]), "a reply of revision 9": sends(mpa_frame(REPLY_KEY, revision=9)),
                      "a record": sends(u32(1 << 31 | 28) + bytes(28)), "nothing, and the end": sends(b"", False),
                      "a reply and garbage": sends(mpa_frame(REPLY_KEY) + b"\xEE" * 5000)}.items():
        yield Case(f"{name} where the reply of MPA is due", "sess01 §2.3.2", after_the_grant(act), False, (STEP_UP,), slow=True)
    # callbacks
    recall = u32(CB_RECALL) + bytes(16) + u32(0) + wire.opaque(b"file")
    for name, how in {"of an unknown delegation": [recall], "of an unknown operation": [u32(99)], "without operations": [],
                      "of SESSION_DESTROY": [u32(wire.SESSION_DESTROY)], "that is cut short": [u32(CB_RECALL) + bytes(8)],
                      "with OPERATION_CONTROL twice": [wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=0, chainflags=0)],
                      "with chain flag 9": [u32(wire.OPERATION_CONTROL) + bytes(8) + u32(9)]}.items():
        for back in ("off", "own", "shared"):
            yield Case(f"a callback {name}, back={back}", "sess01 §2.6", calls(*how), True, (TCP, RDMA), f"&back={back}")
    yield Case("a hundred callbacks without a back channel", "sess01 §2.6", calls(recall, times=100), None, options="&back=off")
    yield Case("a callback without OPERATION_CONTROL", "sess01 §3.3", calls(recall, control=False), True, options="&back=shared")
    yield Case("a callback of minor version 7", "sess01 §3.3", calls(recall, minor=7), True, options="&back=shared")
    yield Case("a callback of another program", "sess01 §2.6", calls(recall, program=(77, 1)), True, options="&back=shared")
    for target in (0, 1, 2, MAX32):
        for back in ("own", "shared"):
            yield Case(f"CB_CREDITRECALL to {target}, back={back}", "sess01 §6.5", recalls_credits(target), True, ALL, f"&back={back}")
    yield Case("CB_CREDITRECALL again and again", "sess01 §6.5", recalls_credits(1, 50), True, options="&channels=3")


def group(wanted):
    """A group of the pairs of a case and a model for which wanted(case, model) is true."""
    def run_all(scratch):
        chosen = [(case, model) for case in cases() for model in case.models if wanted(case, model)]
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            results = list(pool.map(lambda each: run(*each), chosen))
        failed = [(f"{model}: {case.name}", why) for (case, model), why in zip(chosen, results) if why]
        for name, why in failed:
            print(f"  FAILED {name}: {why}", flush=True)
        print(f"{len(chosen)} cases, {len(failed)} of them failed", flush=True)
        assert not failed
    return run_all


client = group(lambda case, model: True)
# For each vice one model and one kind of back channel, where the client does not try again and again.
quick_client = group(lambda case, model: not case.slow and model == case.models[-1] and "back=own" not in case.options
                     and "from the third on" not in case.name)
