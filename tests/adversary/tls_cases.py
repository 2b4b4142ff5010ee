"""Hostile peers and TLS over TCP (RFC 9289): around the probe, in the handshake, and within TLS."""

import contextlib
import os
import random
import socket
import ssl
import struct
import threading
import time

import rpc_messages as rpc
from attack import Attacked, Case, Closed, Passed, Replied
from certificates import Authority
from patience import SECONDS
from penstock import penstock
from rpc_messages import RpcReply, words
from tcp_peer import TcpClient, fragment

AUTH_TLS = words(7, 0)
BADCRED = ("denied", 1, 1)
STARTTLS = words(1, 0, 0, 8) + b"STARTTLS" + words(0)


def probe(**fields):
    return rpc.call(**{"credential": AUTH_TLS, **fields})


def begin(client):
    """Sends the probe, and takes its answer."""
    message = probe()
    client.raw(fragment(message))
    answer = client.record()
    assert answer == message[:4] + STARTTLS, answer
    return message


class TlsSocket:
    """A client's end of TLS, by Python's ssl."""

    def __init__(self, port, authority, versions=(ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3), alpn=("sunrpc",)):
        client = TcpClient(port)
        begin(client)
        context = ssl.create_default_context(cafile=authority)
        context.minimum_version, context.maximum_version = versions
        if alpn:
            context.set_alpn_protocols(list(alpn))
        plain = client.endpoint.socket
        plain.settimeout(SECONDS)
        self.tls = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def call(self, message):
        self.tls.sendall(fragment(message))
        (length,) = struct.unpack(">I", self.take(4))
        return RpcReply(self.take(length & 0x7FFFFFFF))

    def take(self, size):
        data = b""
        while len(data) < size:
            piece = self.tls.recv(size - len(data))
            assert piece, "the connection has ended"
            data += piece
        return data

    def ends(self):
        """Waits for the end of the connection; no octets may come before it."""
        try:
            assert self.tls.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            pass


def denied(message):
    """The call is denied with AUTH_BADCRED, and then the connection still serves."""
    def act(client):
        client.raw(fragment(message))
        assert RpcReply(client.record()).status == BADCRED
        client.raw(fragment(null := rpc.call()))
        client.expect_reply_to(null)
    return act


def closed_after(*pieces):
    """After the probe and its answer, these octets end the connection. `None` waits a moment."""
    def act(client):
        begin(client)
        for piece in pieces:
            if piece:
                client.raw(piece)
            else:
                time.sleep(0.1)
    return act


def hello(size, kind=22, version=0x0303):
    return struct.pack(">BHH", kind, version, size)


def plain_cases():
    """Cases without a handshake that succeeds."""
    yield Case("AUTH_TLS on another procedure", "RFC 9289 §4.1", denied(probe(procedure=rpc.GETATTR)), Passed())
    yield Case("AUTH_TLS with a credential", "RFC 9289 §4.1", denied(probe(credential=words(7, 4, 0))), Passed())
    yield Case("AUTH_TLS with a verifier", "RFC 9289 §4.1", denied(probe(verifier=words(0, 4, 0))), Passed())
    yield Case("AUTH_TLS as verifier", "RFC 9289 §4.1", denied(probe(verifier=AUTH_TLS)), Passed())
    plain = fragment(rpc.call())
    yield Case("plain call behind the probe", "RFC 9289 §5.1.1", lambda client: client.raw(fragment(probe()) + plain), Closed())
    yield Case("two probes", "RFC 9289 §5.1.1", lambda client: client.raw(fragment(probe()) * 2), Closed())
    yield Case("half a record behind the probe", "RFC 9289 §5.1.1", lambda client: client.raw(fragment(probe()) + plain[:3]), Closed())
    yield Case("plain call after STARTTLS", "RFC 9289 §5.1.1", closed_after(plain), Closed())
    yield Case("second probe after STARTTLS", "RFC 9289 §5.1.1", closed_after(fragment(probe())), Closed())
    yield Case("plain call in the middle of the handshake", "RFC 9289 §5.1.1", closed_after(hello(200), None, plain * 10),
               Closed())
    yield Case("alert instead of a ClientHello", "RFC 8446 §6", closed_after(hello(2, 21) + b"\x02\x28"), Closed())
    yield Case("oversized record", "RFC 8446 §5.1", closed_after(hello(0xFFFF) + bytes(0xFFFF)), Closed())
    yield Case("handshake message of 16 MiB", "RFC 8446 §4", closed_after(hello(16384) + b"\x01\xff\xff\xff" + bytes(16380)),
               Closed())
    yield Case("empty records", "RFC 8446 §5.1", closed_after(hello(0) * 1000), Closed())
    for seed in range(20):
        yield Case(f"noise {seed}", "RFC 8446 §4", closed_after(hello(2000) + random.Random(seed).randbytes(2000)), Closed())


def sealed_cases(server, authority):
    """Cases within an established session."""
    def act(how):
        return lambda _: how(TlsSocket(server.tcp, authority))

    def second_probe(peer):
        assert peer.call(probe()).status == BADCRED
        assert peer.call(rpc.call()).status == ("success",)

    def plain_within(peer):
        os.write(peer.tls.fileno(), fragment(rpc.call()))
        peer.ends()

    def record_too_large(peer):
        os.write(peer.tls.fileno(), hello(0x4200, 23) + bytes(0x4200))
        peer.ends()

    def rpc_record_too_large(peer):
        peer.tls.sendall(words(0x80000000 | (2 << 20) + 1))
        peer.ends()

    def truncated(peer):
        assert peer.call(rpc.call()).status == ("success",)
        peer.tls.sendall(fragment(rpc.call())[:20])
        socket.socket(fileno=os.dup(peer.tls.fileno())).shutdown(socket.SHUT_WR)
        peer.ends()

    yield Case("second STARTTLS", "RFC 9289 §4.1", act(second_probe), Passed())
    yield Case("plain call within TLS", "RFC 9289 §5.1.1", act(plain_within), Passed())
    yield Case("TLS record that is too large", "RFC 8446 §5.2", act(record_too_large), Passed())
    yield Case("RPC record that is too large", "RFC 5531 §11", act(rpc_record_too_large), Passed())
    yield Case("end without close_notify", "RFC 8446 §6.1", act(truncated), Passed())
    for name, how in (("TLS 1.2", {"versions": (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)}),
                      ("another ALPN", {"alpn": ("h2",)})):
        def refused(_, how=how):
            try:
                peer = TlsSocket(server.tcp, authority, **how)
            except (ssl.SSLError, ConnectionError):
                return
            peer.ends()
        yield Case(name, "RFC 9289 §5", refused, Passed())


def over_rdma(client):
    message = probe()
    client.send_call(message)
    return rpc.xid_of(message)


def server_options(scratch):
    authority = Authority(f"{scratch}/certificates")
    return [*authority.issue("server", "IP:127.0.0.1"), *authority.trusted], authority.certificate


def tls(scratch):
    options, authority = server_options(scratch)
    with Attacked(scratch, options=options) as server:
        for port in (server.tcp, server.mount):
            server.run(plain_cases(), lambda _, port=port: TcpClient(port))
        server.run(sealed_cases(server, authority), lambda _: TcpClient(server.tcp))
        server.run([Case("AUTH_TLS over RDMA", "RFC 9289 §5.1.3", over_rdma, Replied(*BADCRED))])


def slow(scratch):
    """Handshakes that never end: the server closes them at its stall limit, and serves others meanwhile."""
    options, authority = server_options(scratch)
    with Attacked(scratch, options=options, stall_limit=2) as server:
        sockets = []
        for i in range(100):
            client = TcpClient(server.tcp)
            begin(client)
            if i % 2:
                client.raw(hello(200))
            sockets.append(client)
        assert TlsSocket(server.tcp, authority).call(rpc.call()).status == ("success",)
        for client in sockets:
            client.endpoint.end_of_stream(SECONDS)
            client.close()


class FalseServer:
    """Answers the probe of a client as `answer(xid)` says, and keeps the octets that the client sends after it."""

    def __init__(self, answer):
        self.answer, self.listener, self.rest = answer, socket.create_server(("127.0.0.1", 0)), b""
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def stop(self):
        """Waits until the octets of clients that have ended are read."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        self.listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):  # the end of the listener
            while True:
                sock, _ = self.listener.accept()
                with contextlib.suppress(OSError), sock:
                    self._answer(sock)

    def _answer(self, sock):
        sock.settimeout(SECONDS)
        message = sock.recv(44, socket.MSG_WAITALL)
        sock.sendall(self.answer(message[4:8]))
        while piece := sock.recv(65536):
            self.rest += piece


def client(scratch):
    """Somebody between a client and its server alters the answer to the probe. The client must send no call in plain text,
    unless it is opportunistic, and must end with a clear message."""
    authority = Authority(f"{scratch}/certificates")
    answers = {
        "denied": lambda xid: fragment(xid + words(1, 1, 1, 1)),
        "no token": lambda xid: fragment(xid + words(1, 0, 0, 0, 0)),
        "altered token": lambda xid: fragment(xid + STARTTLS.replace(b"STARTTLS", b"STARTTLX")),
        "token in a denial": lambda xid: fragment(xid + words(1, 1, 1, 1) + b"STARTTLS"),
        "another verifier": lambda xid: fragment(xid + words(1, 0, 6, 8) + b"STARTTLS" + words(0)),
        "another XID": lambda xid: fragment(bytes(4) + STARTTLS),
        "plain text behind the answer": lambda xid: fragment(xid + STARTTLS) + fragment(xid + words(1, 0, 0, 0, 0)),
        "no handshake": lambda xid: fragment(xid + STARTTLS),
        "a record that is too large": lambda xid: words(0xFFFFFFFF),
        "nothing": lambda xid: b"",
    }
    for name, answer in answers.items():
        for policy in ("tls", "opportunistic"):
            server = FalseServer(answer)
            url = f"nfs://127.0.0.1:{server.port}/?vers=4.1&proto=tcp&timeout=2"
            done = penstock("ls", f"--xprtsec={policy}", *authority.trusted, url, seconds=60)
            server.stop()
            silent = b"\0\1\x86\xa3" not in server.rest  # the number of the program NFS
            # Only a clear answer without the token lets an opportunistic client go on in plain text.
            may = policy == "opportunistic" and name in ("denied", "no token", "altered token", "token in a denial", "another verifier")
            print(f"{name}, {policy}: {done.stderr.strip()}")
            assert done.returncode == 1 and "penstock: " in done.stderr, done
            assert silent or may, f"{name}, {policy}: a call in plain text"
            assert not (silent and may), f"{name}, {policy}: no call in plain text"


GROUPS = {"tls": tls, "tls_slow": slow, "tls_client": client}
