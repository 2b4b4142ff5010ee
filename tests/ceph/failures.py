#!/usr/bin/python3
"""The cluster or the gateway fails under load. Calls wait or are sent again, and no acknowledged change is lost."""

import contextlib
import os
import time

from scene import Load, Scene, mount, program, rewritten, same, url
from cases import main
from cephfs import NativeClient
from patience import wait_until

OUTAGE_SECONDS = 15


@contextlib.contextmanager
def under_load(scratch, retried=False):
    """Yields the scene, its gateway, which also exports a directory of this host, and a load through two mounts of it."""
    os.mkdir(f"{scratch}/local")
    with open(f"{scratch}/local/file", "w") as file:
        file.write("local")
    with Scene() as scene, scene.gateway("/ceph", {"/local": f"{scratch}/local:no_root_squash"}) as server, \
            mount(server, "tcp", "4.1", "/ceph") as first, mount(server, "rdma", "3", "/ceph") as second:
        load = Load([first, second], retried=retried)
        with load.running():
            load.await_progress()
            yield scene, server, load


def mds_restarts(scratch):
    """The MDS is killed and started again, twice."""
    with under_load(scratch) as (scene, _, load):
        for _ in range(2):
            scene.cluster.restart_mds()
            load.await_progress()


def osd_stops(scratch):
    """The OSD is stopped for a while. Meanwhile the gateway serves its directory of this host."""
    with under_load(scratch) as (scene, server, load):
        scene.cluster.stop_osd()
        until = time.monotonic() + OUTAGE_SECONDS
        while time.monotonic() < until:
            for version in "3", "4.2":
                assert program.penstock_ok("cat", url(server, "/local/file", version=version)) == b"local"
        assert not load.failures, load.failures
        scene.cluster.start_osd()
        load.await_progress()


def evicted(scratch):
    """The MDS evicts the gateway, which mounts again. Its clients go on, and write again the data that was not stable."""
    with under_load(scratch, retried=True) as (scene, server, load):
        with mount(server, "tcp", "4.2", "/ceph") as client, client.open("unstable", "wb", buffering=0) as file:
            def write():
                file.pwrite(b"octets" * 10_000, 0)
                file.fsync()
            file.pwrite(b"octets" * 10_000, 0)
            before = scene.cluster.evict_clients(but=(scene.native.number,))
            assert len(before) == 1, before
            try:
                file.fsync()
            except OSError as why:
                print(f"not stable: {why}", flush=True)
                rewritten(write)
        load.await_progress()
        wait_until(lambda: any(each["id"] not in (*before, scene.native.number) for each in scene.cluster.clients()), "no new mount")
        with NativeClient(scene.cluster) as other:
            same(other.read("/export/unstable"), b"octets" * 10_000, "what was not stable")
        load.await_progress()


def gateway_killed(scratch):
    """The gateway is killed and started again, twice. The MDS keeps the session of a killed gateway for a minute."""
    with under_load(scratch, retried=True) as (_, server, load):
        for _ in range(2):
            server.kill()
            server.start()
            load.await_progress()


if __name__ == "__main__":
    main({"mds_restarts": mds_restarts, "osd_stops": osd_stops, "evicted": evicted, "gateway_killed": gateway_killed})
