"""A client of NFSv4.1 that accepts callbacks over its own TCP connection (RFC 8881 §20)."""

import struct
import time

from nfs4_messages import OK
from patience import SECONDS
from rdma_messages import Words
from rpc_messages import take_opaque, words
from tcp_peer import TcpClient, fragment

CB_NULL, CB_COMPOUND = 0, 1
CB_RECALL, CB_RECALL_ANY, CB_SEQUENCE, CB_OFFLOAD = 4, 8, 11, 15


class CalledClient(TcpClient):
    """Answers callbacks while it waits for a reply or for a callback. `recalls` has the stateids and handles of
    recalled delegations, in order. `recalls_of_any` has the number to keep and the type mask of each CB_RECALL_ANY.
    `copies` has the stateid, status and octets of each asynchronous copy that has ended."""

    def __init__(self, port):
        super().__init__(port)
        self.recalls, self.recalls_of_any, self.copies = [], [], []

    def take_reply(self, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            message = self.record(deadline - time.monotonic())
            (kind,) = struct.unpack_from(">I", message, 4)
            if kind == 1:
                return message
            self._answer(message)

    def take_recall(self, seconds=SECONDS):
        return self._take(self.recalls, seconds)

    def take_copy(self, seconds=SECONDS):
        return self._take(self.copies, seconds)

    def _take(self, calls, seconds):
        deadline = time.monotonic() + seconds
        while not calls:
            message = self.record(deadline - time.monotonic())
            assert struct.unpack_from(">I", message, 4) == (0,), "a reply without a pending call"
            self._answer(message)
        return calls.pop(0)

    def _answer(self, message):
        reader = Words(message)
        xid, _, version, _, _, procedure = (reader.word() for _ in range(6))
        assert version == 2 and procedure in (CB_NULL, CB_COMPOUND)
        for _ in ("credential", "verifier"):
            reader.word(), take_opaque(reader)
        results = self._execute(reader) if procedure == CB_COMPOUND else b""
        self.raw(fragment(words(xid, 1, 0, 0, 0, 0) + results))

    def _execute(self, reader):
        take_opaque(reader), reader.word(), reader.word()  # tag, minor version, ident
        results = []
        for _ in range(reader.word()):
            number = reader.word()
            if number == CB_SEQUENCE:
                session = self._stateid(reader)
                sequence, slot, highest, _ = (reader.word() for _ in range(4))
                for _ in range(reader.word()):  # referring calls
                    self._stateid(reader)
                    for _ in range(reader.word()):
                        reader.word(), reader.word()
                results.append(words(number, OK) + session + words(sequence, slot, highest, highest))
            elif number == CB_OFFLOAD:
                take_opaque(reader)
                stateid, status = self._stateid(reader), reader.word()
                if status == OK:
                    for _ in range(reader.word()):
                        self._stateid(reader)
                count = reader.word() << 32 | reader.word()
                reader.at += 12 if status == OK else 0
                self.copies.append((stateid, status, count))
                results.append(words(number, OK))
            elif number == CB_RECALL_ANY:
                keep = reader.word()
                self.recalls_of_any.append((keep, [reader.word() for _ in range(reader.word())]))
                results.append(words(number, OK))
            else:
                assert number == CB_RECALL, f"the server calls {number}"
                stateid = self._stateid(reader)
                reader.word()
                self.recalls.append((stateid, take_opaque(reader)))
                results.append(words(number, OK))
        return words(OK, 0, len(results)) + b"".join(results)

    @staticmethod
    def _stateid(reader):
        """Reads 16 octets: a stateid, or a session ID, which has the same length."""
        reader.at += 16
        return reader.data[reader.at - 16:reader.at]
