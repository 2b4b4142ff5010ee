#!/usr/bin/python3
"""Delegations of files of CephFS."""

from scene import Scene

import nfs4_messages as nfs4
from cases import main
from nfs4_callbacks import CalledClient
from nfs4_messages import op

BACK_CHANNEL = 2  # CREATE_SESSION4_FLAG_CONN_BACK_CHAN


def none(_):
    """A client that can be called gets no delegation: clients of other gateways could change the file unnoticed."""
    with Scene() as scene, scene.gateway() as server:
        scene.native.write("/export/file", b"text")
        connection = CalledClient(server.tcp)
        session = nfs4.Session(connection, b"client", flags=BACK_CHANNEL)
        root = session.run(connection, [op(nfs4.PUTROOTFH), op(nfs4.GETFH)]).value(nfs4.GETFH)
        for access in (nfs4.READ_ACCESS | nfs4.READ_DELEGATION, nfs4.BOTH, nfs4.BOTH | nfs4.WRITE_DELEGATION):
            opened = session.run(connection, [nfs4.putfh(root), nfs4.open_op(session.client, b"owner", b"file", access)])
            assert opened.value(nfs4.OPEN)["delegation"] is None, access


if __name__ == "__main__":
    main({"none": none})
