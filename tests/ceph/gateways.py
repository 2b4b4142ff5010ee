#!/usr/bin/python3
"""Two gateways serve one directory of CephFS. Each shows at once what clients have changed through the other."""

import contextlib
import threading

from scene import SECONDS, Load, Scene, mount, same
from cases import main

WAYS = ("tcp", "3"), ("rdma", "4.0"), ("tcp", "4.1"), ("rdma", "4.2")


@contextlib.contextmanager
def both():
    """Yields the scene and its two gateways."""
    with Scene() as scene, scene.gateway() as one, scene.gateway() as other:
        yield scene, one, other


def at_once(*works):
    """Runs functions at the same time. Returns the result of each, or its OSError."""
    results, gate = [None] * len(works), threading.Barrier(len(works))

    def run(number, work):
        gate.wait(SECONDS)
        try:
            results[number] = work()
        except OSError as why:
            results[number] = why
    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
        assert not thread.is_alive(), "an operation does not end"
    return results


def exclusive(_):
    """Of two clients that create the same name with O_EXCL at the same time, exactly one succeeds."""
    with both() as (_, one, other):
        for way in WAYS:
            with mount(one, *way) as first, mount(other, *way) as second:
                for number in range(50):
                    name = f"{'-'.join(way)}-{number}"

                    def create(client, name=name):
                        with client.open(name, "xb", buffering=0) as file:
                            file.pwrite(client.url.encode(), 0)
                        return client.url
                    results = at_once(lambda: create(first), lambda: create(second))
                    winners = [each for each in results if isinstance(each, str)]
                    assert len(winners) == 1 and any(isinstance(each, FileExistsError) for each in results), (name, results)
                    for client in first, second:
                        same(client.read_bytes(name), winners[0].encode(), name)


def appends(_):
    """Two clients append to a file by turns. Each sees the lines of the other, and no line is overwritten."""
    with both() as (_, one, other):
        for way in WAYS:
            with mount(one, *way) as first, mount(other, *way) as second:
                name, wanted = "-".join(way), b""
                for number in range(60):
                    line = b"line %d of %s\n" % (number, b"x" * (number * 37 % 3000))
                    with (first, second)[number % 2].open(name, "ab", buffering=0) as file:
                        file.write(line)
                    wanted += line
                    same((second, first)[number % 2].read_bytes(name), wanted, f"{way} {number}")


def renames(_):
    """Two clients rename at the same time. Of two renames of one file, one succeeds. Two renames onto one name both succeed,
    and the name then has one of the files."""
    # A mistake of Ceph 16 is left out: clients that move directories into each other hang the MDS.
    with both() as (_, one, other), mount(one) as first, mount(other, "rdma", "3") as second:
        source, names = "source", ["first", "second"]
        for _ in range(10):
            first.write_bytes(source, b"octets")
            results = at_once(lambda: first.rename(source, names[0]), lambda: second.rename(source, names[1]))
            assert sum(each is None for each in results) == 1, results
            assert any(isinstance(each, FileNotFoundError) for each in results), results
            won = names[results.index(None)]
            for client in first, second:
                assert client.listdir() == [won], client.listdir()
            first.unlink(won)

            first.write_bytes("one", b"of one")
            second.write_bytes("other", b"of other")
            results = at_once(lambda: first.rename("one", "target"), lambda: second.rename("other", "target"))
            assert results == [None, None], results
            left = first.read_bytes("target")
            assert left in (b"of one", b"of other") and second.read_bytes("target") == left
            assert first.listdir() == second.listdir() == ["target"], first.listdir()
            second.unlink("target")


def close_to_open(_):
    """A client sees contents, attributes and names that the other one has changed, also if it has had the file open all the
    time."""
    with both() as (_, one, other):
        for way in WAYS:
            for back in WAYS:
                with mount(one, *way) as first, mount(other, *back) as second:
                    name = "-".join((*way, *back))
                    first.write_bytes(name, b"0" * 10_000)
                    with first.open(name, "rb", buffering=0) as kept:
                        for number in range(1, 6):
                            second.write_bytes(name, octets := b"%d" % number * (10_000 + number))
                            same(first.read_bytes(name), octets, name)
                            same(kept.pread(20_000, 0), octets, f"{name}, open before")
                            assert first.stat(name).st_size == len(octets), name
                    second.chmod(name, 0o600)
                    assert first.stat(name).st_mode & 0o777 == 0o600, name
                    second.rename(name, name + "-new")
                    assert not first.exists(name) and name + "-new" in first.listdir(), name


def takes_over(_):
    """A client keeps its file open when another gateway, without the state of the first, takes over the address of the first."""
    with Scene() as scene:
        for way in WAYS:
            with scene.gateway() as one, mount(one, *way) as client:
                name = "-".join(way)
                with client.open(name, "w+b", buffering=0) as file:
                    file.write(b"before")
                    file.fsync()
                    assert one.stop() == 0
                    with scene.gateway(ports=one.ports):
                        same(file.pread(100, 0), b"before", name)
                        file.pwrite(b"after", 6)
                        file.close()
                        same(client.read_bytes(name), b"beforeafter", name)


def native(_):
    """Gateways and a native client of the cluster see what the other side has written."""
    with both() as (scene, one, other), mount(one) as first, mount(other) as second:
        for number in range(20):
            scene.native.write("/export/native", octets := b"native %d" % number)
            for client in first, second:
                same(client.read_bytes("native"), octets, client.url)
            (first, second)[number % 2].write_bytes("gateway", octets)
            same(scene.native.read("/export/gateway"), octets, "natively")


def mixed(_):
    """10,000 operations of two clients, one at each gateway, on the same files. The model has every octet."""
    with both() as (_, one, other), mount(one) as first, mount(other, "rdma", "3") as second:
        load = Load([first, second])
        with load.running():
            for _ in range(20):
                load.await_progress(500)


if __name__ == "__main__":
    main({"exclusive": exclusive, "appends": appends, "renames": renames, "close_to_open": close_to_open, "takes_over": takes_over,
          "native": native, "mixed": mixed})
