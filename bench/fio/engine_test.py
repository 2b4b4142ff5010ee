#!/usr/bin/python3
"""Penstock's engine for fio, in Debian's fio, against `penstock serve`.

    engine_test.py ENGINE [CASE...]      ENGINE: penstock-fio.so, which bench/fio/build makes"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "harness"))
from cases import Skip, main  # noqa: E402
from patience import BUSY, wait_until  # noqa: E402
from penstock import Server  # noqa: E402

ENGINE = os.path.abspath(sys.argv.pop(1))
WAYS = [("3", "tcp"), ("4.2", "tcp"), ("3", "rdma"), ("4.2", "rdma")]
MIB = 1 << 20


class Fio:
    """Runs fio. Options may have @URL in them; job files have the variables of bench/fio/*.fio."""

    def __init__(self, scratch, url, *options, wait=True):
        self.results = tempfile.mktemp(suffix=".json", dir=scratch)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            ["fio", "--output-format=json", f"--output={self.results}", *(option.replace("@URL", url) for option in options)], cwd=scratch, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=dict(os.environ, ENGINE=f"external:{ENGINE}", NFS_URL=url, SECONDS_EACH="1"))
        if wait:
            self.wait()

    def wait(self):
        self.said, _ = self.process.communicate(timeout=300 * BUSY)
        print("fio|", *self.said.splitlines(), sep="\n  ")
        self.code, self.seconds = self.process.returncode, time.monotonic() - self.began
        with open(self.results) as file:
            text = file.read()
        self.jobs = json.loads(text[text.index("{\n"):])["jobs"] if "{\n" in text else []
        self.said += text[:text.find("{\n")]

    def check(self):
        """Requires success of fio and of each job; returns the jobs."""
        assert self.code == 0 and self.jobs and not self.said.strip(), (self.code, self.said)
        for job in self.jobs:
            assert job["error"] == 0, job
        return self.jobs

    def check_failure(self, *mentions):
        assert self.code != 0, "fio succeeded"
        for text in mentions:
            assert text in self.said, f"{text!r} is not in {self.said!r}"


def job(*options, name="job"):
    """Returns the options of fio for one job."""
    return (f"--name={name}", f"--ioengine=external:{ENGINE}", "--nfs_url=@URL", *options)


def serving(scratch, *options):
    if not shutil.which("fio"):
        raise Skip("fio is not installed: scripts/install-deps fio")
    os.makedirs(f"{scratch}/export/folder", exist_ok=True)
    return Server({"/export": f"{scratch}/export:no_root_squash"}, options)


def url_of(server, version="4.2", transport="tcp", path="/export/folder"):
    return server.url(path, transport).replace("vers=3", f"vers={version}")


def size_of(scratch, name):
    return os.path.getsize(f"{scratch}/export/folder/{name}")


def verifies_every_octet(scratch):
    with serving(scratch) as server:
        for version, transport in WAYS:
            jobs = Fio(scratch, url_of(server, version, transport), f"{HERE}/verify.fio").check()
            assert [each["jobname"] for each in jobs] == ["small", "large", "sizes", "stable", "backlog", "backlog", "mixed"], jobs
            for each, size in zip(jobs, (16, 64, 32, 8, 8, 8, 16)):
                read, written = (each[side]["io_bytes"] for side in ("read", "write"))
                if each["jobname"] == "mixed":
                    assert read >= size * MIB and 0 < written < size * MIB, (read, written)
                else:  # What was written has been read again. Blocks of different sizes leave a gap.
                    gap = 64 << 10 if each["jobname"] == "sizes" else 0
                    assert size * MIB - gap <= written <= size * MIB and read == written, (each["jobname"], read, written)
            stable = next(each for each in jobs if each["jobname"] == "stable")
            assert stable["sync"]["total_ios"] >= 8 * MIB // (16 << 10) // 4, stable["sync"]
            assert size_of(scratch, "verify/large") == 64 * MIB
            shutil.rmtree(f"{scratch}/export/folder/verify")


def notices_a_wrong_octet(scratch):
    """A later run verifies what an earlier one has written."""
    with serving(scratch) as server:
        options = job("--filename=file", "--rw=randwrite", "--bs=4k", "--size=1m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1",
                      "--verify_state_save=0")
        Fio(scratch, url_of(server), *options).check()
        Fio(scratch, url_of(server), *options, "--verify_only=1").check()
        with open(f"{scratch}/export/folder/file", "r+b") as file:
            file.seek(300_000)
            octet = file.read(1)
            file.seek(300_000)
            file.write(bytes([octet[0] ^ 1]))
        Fio(scratch, url_of(server), *options, "--verify_only=1").check_failure("verify")


def runs_the_jobs_of_the_comparison(scratch):
    with serving(scratch) as server:
        for version, transport in WAYS:
            jobs = Fio(scratch, url_of(server, version, transport), f"{HERE}/small-and-large.fio").check()
            assert len(jobs) == 9, len(jobs)
            for each in jobs:
                name, done = each["jobname"], {side: each[side]["io_bytes"] for side in ("read", "write")}
                assert all(done[side] > 0 for side in done if side in name or "mixed" in name), (name, done)
                depth = name.rpartition("-")[2]
                assert depth == "1" or float(each["iodepth_level"][depth]) > 50, (name, each["iodepth_level"])
            assert size_of(scratch, "small-and-large") == 64 * MIB


def lays_out_files(scratch):
    with serving(scratch) as server:
        os.mkdir(f"{scratch}/export/folder/there")
        with open(f"{scratch}/export/folder/there/short", "wb") as file:
            file.write(b"x" * 5000)
        read = ("--rw=read", "--bs=64k", "--size=9m")
        (done,) = Fio(scratch, url_of(server), *job("--filename=new/er/file:there/short", *read)).check()
        assert done["read"]["io_bytes"] == 9 * MIB, done["read"]
        assert [size_of(scratch, name) for name in ("new/er/file", "there/short")] == [9 * MIB // 2] * 2
        with open(f"{scratch}/export/folder/there/short", "rb") as file:
            data = file.read()
        # The octets that a file had stay, and the new ones are no hole.
        assert data[:5000] == b"x" * 5000 and any(data[-4096:]), data[:10]
        # Without a size fio reads what is there.
        (done,) = Fio(scratch, url_of(server), *job("--filename=there/short", "--rw=read", "--bs=64k")).check()
        assert done["read"]["io_bytes"] == 9 * MIB // 2, done["read"]
        # A job that only writes writes nothing before.
        (done,) = Fio(scratch, url_of(server), *job("--filename=written", "--rw=randwrite", "--bs=4k", "--size=1m", "--number_ios=1")).check()
        assert done["write"]["io_bytes"] == 4096 and os.stat(f"{scratch}/export/folder/written").st_blocks <= 16
        Fio(scratch, url_of(server), *job("--rw=readwrite", "--bs=4k", "--size=1m", "--nrfiles=3", "--unlink=1")).check()
        assert sorted(os.listdir(f"{scratch}/export/folder")) == ["new", "there", "written"]


def runs_many_jobs_in_processes_and_threads(scratch):
    with serving(scratch) as server:
        for thread in ("0", "1"):
            jobs = Fio(scratch, url_of(server, transport="rdma"), *job(
                "--rw=randrw", "--bs=8k", "--size=2m", "--iodepth=8", "--numjobs=4", f"--thread={thread}", "--group_reporting=0",
                "--fdatasync=16", "--create_serialize=" + thread)).check()
            assert len(jobs) == 4 and all(each["read"]["io_bytes"] + each["write"]["io_bytes"] == 2 * MIB for each in jobs)


def has_the_depth_and_the_rate_that_fio_asks_for(scratch):
    with serving(scratch) as server:
        read = ("--filename=file", "--rw=randread", "--bs=4k", "--size=1m", "--iodepth=32")
        for more in ((), ("--iodepth_batch=8", "--iodepth_batch_complete_min=8", "--iodepth_batch_complete_max=16"),
                     ("--iodepth_batch_complete_min=0", "--iodepth_batch_complete_max=0")):
            (done,) = Fio(scratch, url_of(server), *job(*read, "--time_based=1", "--runtime=1", *more)).check()
            assert done["read"]["total_ios"] > 256, done["read"]
        for slow in ("--rate_iops=200", "--thinktime=5000"):
            (done,) = Fio(scratch, url_of(server), *job(*read, "--time_based=1", "--runtime=2", slow)).check()
            assert 0 < done["read"]["total_ios"] <= 600, done["read"]


def tells_wrong_urls_and_options(scratch):
    with serving(scratch) as server:
        read = ("--filename=file", "--rw=read", "--size=1m")
        good = url_of(server)
        Fio(scratch, url_of(server, path="/nowhere"), *job(*read)).check_failure("penstock: cannot mount nfs://", "nowhere")
        Fio(scratch, good.replace("vers=4.2", "vers=5"), *job(*read)).check_failure("penstock: cannot mount", "vers")
        Fio(scratch, "http://server/", *job(*read)).check_failure("penstock: cannot mount http://server/: ", "nfs://")
        Fio(scratch, good, "--name=job", f"--ioengine=external:{ENGINE}", *read).check_failure("penstock: nfs_url= is missing")
        Fio(scratch, good, *job(*read, "--rdma=wrong")).check_failure("penstock: cannot start", "rdma: must be auto, verbs or iwarp")
        Fio(scratch, good, *job("--filename=file", "--rw=trim", "--size=1m")).check_failure("penstock: NFS files cannot be trimmed")
        Fio(scratch, good, *job("--filename=.", "--rw=read", "--size=1m")).check_failure("penstock: cannot use .: it is not a regular file")
        for option, why in (("--fill_device=1", "penstock: fill_device= is not supported"), ("--pre_read=1", "penstock: pre_read= is not supported"),
                            ("--io_submit_mode=offload", "penstock: can't be used with offloaded submit")):
            Fio(scratch, good, *job(*read, option)).check_failure(why)
        os.mkdir(f"{scratch}/export/folder/file", 0o755)
        Fio(scratch, good, *job("--filename=file/none", "--rw=write", "--size=1m", "--allow_file_create=0")).check_failure(
            "penstock: cannot open file/none")
        port = server.tcp
    Fio(scratch, good, *job(*read)).check_failure("penstock: cannot mount", str(port))


def a_short_file_is_an_error(scratch):
    with serving(scratch) as server:
        path = f"{scratch}/export/folder/file"
        with open(path, "wb") as file:
            file.write(bytes(64 << 10))
        read = ("--filename=file", "--rw=read", "--bs=4k", "--iodepth=4")
        Fio(scratch, url_of(server), "--readonly", *job(*read, "--size=1m")).check_failure("penstock: cannot lay out file: it has 65536 octets")
        assert os.path.getsize(path) == 64 << 10
        # Someone cuts the file while fio reads it: within a block, and between two.
        for version, transport in WAYS:
            for size in (30_000, 32768):
                os.truncate(path, 64 << 10)
                fio = Fio(scratch, url_of(server, version, transport), *job(*read, "--time_based=1", "--runtime=600"), wait=False)
                wait_for_reads(server, fio)
                os.truncate(path, size)
                fio.wait()
                fio.check_failure("penstock: file: a read of 4096 octets at ", "the file has become shorter", "Input/output error")
                assert fio.seconds < 300, fio.seconds


def wait_for_reads(server, fio):
    """Waits until the server has a client whose job is under way."""
    def runs():
        assert fio.process.poll() is None, "fio has ended"
        return any(f"{server.tcp:04X}" in line or f"{server.rdma:04X}" in line for line in connections())
    wait_until(runs, "fio does not connect")
    time.sleep(1)  # fio starts its job a moment after it has connected


def connections():
    """Returns the established connections of this host over IPv4."""
    with open("/proc/net/tcp") as file:
        return [line for line in file.read().splitlines()[1:] if line.split()[3] == "01"]


def a_server_that_dies_is_an_error(scratch):
    for version, transport in WAYS:
        server = serving(scratch)
        server.__enter__()
        try:
            fio = Fio(scratch, url_of(server, version, transport) + "&timeout=3", *job(
                "--filename=file", "--rw=randrw", "--bs=4k", "--size=1m", "--iodepth=16", "--time_based=1", "--runtime=600"), wait=False)
            wait_for_reads(server, fio)
            server.kill()
            fio.wait()
            fio.check_failure("penstock: ")
            assert fio.seconds < 120 * BUSY, fio.seconds
        finally:
            server.kill()
            server.state.cleanup()


def goes_on_after_a_restart_of_the_server(scratch):
    for transport in ("tcp", "rdma"):
        with serving(scratch, "--grace=1") as server:
            fio = Fio(scratch, url_of(server, "4.2", transport), *job(
                "--filename=file", "--rw=randread", "--bs=4k", "--size=1m", "--iodepth=16", "--time_based=1", "--runtime=10"), wait=False)
            wait_for_reads(server, fio)
            server.kill()
            server.start()
            fio.wait()
            assert fio.code == 0, fio.said
            (done,) = fio.jobs
            assert done["error"] == 0 and done["read"]["io_bytes"] > 0, done


main({case.__name__: case for case in (
    verifies_every_octet, notices_a_wrong_octet, runs_the_jobs_of_the_comparison, lays_out_files, runs_many_jobs_in_processes_and_threads,
    has_the_depth_and_the_rate_that_fio_asks_for, tells_wrong_urls_and_options, a_short_file_is_an_error, a_server_that_dies_is_an_error,
    goes_on_after_a_restart_of_the_server)})
