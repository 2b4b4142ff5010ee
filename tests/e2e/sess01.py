#!/usr/bin/python3
"""The sessions of 2004 against the real server: the checks of our own client in each model, restarts, and captures for tshark
(tests/sess01/captures.py)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "harness"), os.path.join(HERE, "..", "sess01")]
import check_back  # noqa: E402
import check_rdma  # noqa: E402
import scenario  # noqa: E402
import wire  # noqa: E402
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from check import Place, exists, expect, refused  # noqa: E402
from client import MODELS, RDMA, STEP_UP, TCP, Results  # noqa: E402
from penstock import Server, penstock_ok  # noqa: E402


class Serving(Server):
    """A server of the sessions of 2004 in a model, with an export in which everybody may write."""

    def __init__(self, scratch, model, *options):
        folder = f"{scratch}/export"
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o777)
        super().__init__({"/": f"{folder}:no_root_squash"}, [f"--sess01={'tcp' if model == TCP else 'rdma'}", *options])
        self.model, self.folder = model, folder

    def place(self, recalls=None):
        return Place("127.0.0.1", self.tcp, self.rdma, self.model, folder=self.folder, recalls=recalls)


# The checks that do not apply to the real server in a model.
RECALLS = {check.__name__ for check in check_back.RECALL_CHECKS}  # the server must be told to recall
NOT_HERE = {TCP: RECALLS | {"stream_mode_on_rdma_is_refused", "stepping_up_refuses_other_octets", "busy_streamid_is_refused",
                  "retry_of_a_request_that_was_not_pulled_is_executed", *(check.__name__ for check in check_rdma.CHECKS)},
            STEP_UP: RECALLS | {"stream_mode_on_rdma_is_refused"}, RDMA: RECALLS | {"stepping_up_refuses_other_octets"}}
OPTIONS = ("--grace=0", "--sess01-pad=512")


# Checks that send what tshark calls malformed, or a Send that is too long: they are not captured.
MALFORMED = ("values_outside_enumerations_are_bad_xdr", "bad_attributes_are_refused", "destroy_ends_everything",
             "stepping_up_refuses_other_octets", "unbound_connections_cannot_ask", "control_is_first_and_once",
             "operations_of_rfc8881_are_illegal", "oversized_requests_are_refused")


def use_program(server, scratch):
    """Our program as the client: with several channels, a back channel of its own or a shared one, and pads."""
    proto, port = {TCP: ("tcp", server.tcp), STEP_UP: ("stepup", server.tcp), RDMA: ("rdma", server.rdma)}[server.model]
    url = f"nfs://127.0.0.1:{port}/copied?vers=4.1-sess01&proto={proto}"
    for size, options in ((300000, ""), (300000, "&channels=3"), (300000, "&back=shared"), (300000, "&back=off&persist=off"),
                          *([(3000, "&pad=512")] if server.model != TCP else [])):
        contents = os.urandom(size)
        with open(f"{scratch}/source", "wb") as file:
            file.write(contents)
        penstock_ok("cp", "-q", f"{scratch}/source", url + options)
        assert penstock_ok("cat", url + options) == contents, f"other data with {options}"
        assert b"copied" in penstock_ok("ls", url.replace("/copied", "/") + options)


def scenario_of(model):
    """Our program as the client, and the checks. tshark reads the capture of all that is well-formed."""

    def case(scratch):
        with Serving(scratch, model, *OPTIONS) as server:
            with Capture("sess01_" + model.replace("-", "_"), server, restarted=True):
                use_program(server, scratch)
                results = [scenario.run(server.place(), [check for check in scenario.CHECKS if check.__name__ not in MALFORMED])]
            results.append(scenario.run(server.place(), [check for check in scenario.CHECKS if check.__name__ in MALFORMED]))
        failed, not_here = ([name for result in results for name in result[i]] for i in range(2))
        assert not failed, f"failed: {failed}"
        assert set(not_here) == NOT_HERE[model], f"checks that did not apply: {not_here}"

    case.__name__ = "scenario_" + model.replace("-", "_")
    return case


LEASE = 8


def recalls_credits(model):
    """A server that may keep no reply in memory recalls credits, and ends the connections of a client that does not return them."""

    def case(scratch):
        for check in check_back.RECALL_CHECKS:
            # The server halves its limit at most every ten seconds, so each check has a server of its own.
            with Serving(f"{scratch}/{check.__name__}", model, "--kept-octets=0", f"--lease={LEASE}") as server:
                failed, _ = scenario.run(server.place(recalls=LEASE / 4), [check])
            assert not failed, f"failed: {failed}"

    case.__name__ = "recalls_credits_" + model.replace("-", "_")
    return case


def survives_kill(model):
    """kill -9 in the middle: the session goes on, a kept reply is repeated, and nothing is executed twice."""

    def case(scratch):
        with Serving(scratch, model) as server:
            place = server.place()
            client = place.client()
            caller = client.open()
            assert client.create(caller)["persist"], "persist is not granted"
            channel = client.bind(caller)
            message = channel.message(place.mkdir(b"once"), 3)
            first = expect(Results(channel.caller.call(message)), wire.OK, "the request")
            expect(channel.run(place.mkdir(b"other"), 2), wire.OK, "a request on another stream")
            before = channel.number
            server.kill()
            server.start()

            again = client.bind(client.open())
            assert again.number > before, f"channelid {again.number} after {before}"
            second = expect(Results(again.caller.call(message)), wire.OK, "the retry after the restart")
            assert second.octets == first.octets, "another answer to the same request"
            expect(again.run(place.remove(b"once")), wire.OK, "a new request")
            third = expect(Results(again.caller.call(message)), wire.OK, "the second retry")
            assert third.octets == first.octets and not exists(place, again, b"once"), "the retry was executed"
            expect(again.run(place.mkdir(b"once"), 3), wire.OK, "the stream goes on")

    case.__name__ = "survives_kill_" + model.replace("-", "_")
    return case


def ends_with_its_state_directory(scratch):
    """A server that has lost its state directory does not know the session, and says so."""
    with Serving(scratch, TCP) as server:
        place = server.place()
        client = place.client()
        client.start()
        server.kill()
        for folder, _, files in os.walk(f"{server.state.name}/nfs4-streams"):
            for name in files:
                os.remove(f"{folder}/{name}")
        server.start()
        with refused(wire.BADSESSION, "a session that nobody knows"):
            client.bind(client.open())
        client.sessionid = None
        client.start()
        place.tidy()


def destroyed_sessions_stay_destroyed(scratch):
    """kill -9 behind the reply to SESSION_DESTROY, and behind a SESSION_CREATE without a binding: neither session comes back."""
    with Serving(scratch, TCP) as server:
        place = server.place()
        client, unbound = place.client(), place.client()
        channel = client.start()
        expect(channel.run([wire.u32(wire.SESSION_DESTROY)]), wire.OK, "SESSION_DESTROY")
        assert unbound.create(unbound.open())["persist"], "persist is not granted"
        server.kill()
        server.start()
        for each in (client, unbound):
            with refused(wire.BADSESSION, "a session that has ended"):
                each.bind(each.open())
        place.tidy()


if __name__ == "__main__":
    main({case.__name__: case for case in (*map(scenario_of, MODELS), *map(recalls_credits, MODELS), *map(survives_kill, MODELS),
                                           ends_with_its_state_directory, destroyed_sessions_stay_destroyed)})
