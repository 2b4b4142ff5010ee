"""Attacks on the sessions of 2004: the server, the attacker's connections, and a neighbour that must be served meanwhile."""

import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sess01"))
import rpc_messages as rpc  # noqa: E402
import wire  # noqa: E402
from attack import Attacked, Case, Passed  # noqa: E402
from check import NotHere, Place, demand, expect  # noqa: E402
from client import MODELS, RDMA, TCP, Refused, Results  # noqa: E402
from iwarp_peer import REJECTED, REPLY_KEY, mpa_frame  # noqa: E402
from patience import SECONDS  # noqa: E402
from rdma_messages import RDMA_ERROR  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

PAD = 256  # the server's --sess01-pad
ERR_CHUNK = (2,)


class Attack(Place):
    """The attacker in a connection model. When the case is over, the neighbour's session must still be served."""

    def __init__(self, server, model):
        super().__init__("127.0.0.1", server.tcp, server.port, model)
        self.server = server

    def close(self):
        self.tidy()
        self.server.check_neighbour()


class Sess01Attacked(Attacked):
    """A server of the sessions of 2004 under attack. Beside the bystander, which knows no sessions, a neighbour has one."""

    def __init__(self, scratch, options=(), **how):
        super().__init__(scratch, ["--sess01=rdma", f"--sess01-pad={PAD}", "--grace=0", *options], **how)

    def __enter__(self):
        super().__enter__()
        self.neighbourhood = Place("127.0.0.1", self.tcp, self.port, RDMA)
        self.neighbour = self.neighbourhood.client().start()
        self.check_neighbour()
        return self

    def __exit__(self, *failure):
        self.neighbourhood.tidy()
        return super().__exit__(*failure)

    def check_neighbour(self):
        """A request of the neighbour, over the channel that it has had from the beginning."""
        demand(self.server.process.poll() is None, "the server is gone")
        expect(self.neighbour.run(self.neighbourhood.look_up(b"small")), wire.OK, "a request of the neighbour")


def case_of(check, section="sess01"):
    """Makes an attack of a function of a place that checks the responses itself."""
    def act(place):
        try:
            check(place)
        except NotHere as why:
            print(f"  {place.model} {check.__name__} does not apply: {why}", flush=True)
        except Refused as why:
            raise AssertionError(f"refused with {why}") from why
    return Case(check.__name__, section, act, Passed())


def on_sessions(*checks, models=MODELS):
    """A group that runs checks in each model, all against one server."""
    def run(scratch):
        with Sess01Attacked(scratch) as server:
            for model in models:
                print(f"model {model}", flush=True)
                server.run(map(case_of, checks), lambda _, model=model: Attack(server, model))
    return run


class Plain:
    """A connection without a thread, on which the attacker decides about each octet. It begins with the SESSION_CREATE of a client and a
    SESSION_BIND. `limits` are the values of its result. A connection that steps up is left where RDMA mode is granted."""

    def __init__(self, place, client=None, **changes):
        self.client = client or place.client()
        self.peer = rpc.Client(place.where.rdma) if place.model == RDMA else TcpClient(place.where.tcp)
        self.endpoint = self.peer.endpoint
        if client is None:
            create = wire.arguments(wire.SESSION_CREATE, verifier=self.client.verifier, id=self.client.name, persist=True,
                                    totalrequests=self.client.requests)
            self.client.sessionid = expect(self.ask(create), wire.OK, "SESSION_CREATE").value(wire.SESSION_CREATE)["sessionid"]
        results = expect(self.ask(bind_operation(place, self.client, **changes)), wire.OK, "SESSION_BIND")
        self.limits = results.value(wire.SESSION_BIND)
        self.is_granted = wire.granted_mode(self.limits["transportattrs"]) == wire.RDMA

    def ask(self, *operations):
        self.peer.send_call(self.client.compound(operations))
        return Results(self.peer.take_reply())

    def enter_rdma_mode(self):
        """Sends the MPA Request of a connection that steps up."""
        if isinstance(self.peer, TcpClient):
            demand(self.is_granted, "RDMA mode is not granted")
            self.endpoint.raw(mpa_frame())
            self.take_mpa_reply()
        return self

    def take_mpa_reply(self):
        key, flags, _, _ = self.endpoint.mpa()
        demand(key == REPLY_KEY and not flags & REJECTED, "the server refused to step up")
        self.peer = rpc.Client.__new__(rpc.Client)
        self.peer.endpoint, self.peer.handles = self.endpoint, iter(range(0x1000, 1 << 31))

    def message(self, operations, stream=0, **control):
        values = dict(channelid=self.limits["channelid"], streamid=stream, chainflags=wire.NOCHAIN) | control
        return self.client.compound([wire.arguments(wire.OPERATION_CONTROL, **values), *operations])

    def check_serves(self, place):
        """A request over this connection."""
        self.peer.send_call(self.message(place.root))
        expect(Results(self.peer.take_reply()), wire.OK, "a request afterwards")

    def answer(self, octets, xid):
        """Sends octets over RDMA; returns Results, or the words of an RDMA_ERROR."""
        self.endpoint.send(octets)
        answer = self.peer.reply_to(xid)
        if answer.kind == RDMA_ERROR:
            return tuple(int.from_bytes(answer.body[at:at + 4], "big") for at in range(0, len(answer.body), 4))
        return Results(answer.body)

    def check_ends(self):
        self.endpoint.end_of_stream(SECONDS)
        self.endpoint.close()


def bind_operation(place, client, **changes):
    mode = wire.STREAM if place.model == TCP else wire.RDMA
    values = dict(sessionid=client.sessionid, channel=wire.OPERATION, mode=mode, maxrequestsize=8192, maxresponsesize=8192,
                  headerpadsize=PAD, maxrequests=4, maxrdmareads=4, transportattrs=b"") | changes
    return wire.arguments(wire.SESSION_BIND, **values)


def bind_again(place, client):
    """The session is unharmed: a new connection can be bound to it, and is served."""
    expect(client.bind(client.open()).run(place.root, 0), wire.OK, "a request over a new connection")
