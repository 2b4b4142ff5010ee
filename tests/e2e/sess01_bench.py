#!/usr/bin/python3
"""The measurements of the sessions of 2004, briefly: they measure what they say, refuse clearly, and leave nothing behind. The client's
commands say which model a connection became."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import ADDRESS, PENSTOCK, Server, check_refusal  # noqa: E402
from penstock import penstock_misused as misused, penstock_ok as ok, penstock_refused as refused  # noqa: E402

BUILD = os.path.abspath(os.path.join(os.path.dirname(PENSTOCK), "..", ".."))
SESS01_BENCH = f"{BUILD}/bench/sess01_bench"
SESSIONS = os.path.join(HERE, "..", "..", "bench", "sessions")
MODELS = ("tcp", "stepup", "rdma")


class Serving(Server):
    """A server with an export in which everybody may write. The export is empty at the end."""

    def __init__(self, scratch, *options):
        self.folder = f"{scratch}/export"
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o777)
        super().__init__({"/": f"{self.folder}:no_root_squash"}, options)

    def __exit__(self, failure, *rest):
        super().__exit__(failure, *rest)
        if failure is None:
            assert os.listdir(self.folder) == [], "a measurement has left files"

    def model_url(self, model, options="", version="4.1-sess01"):
        port = self.rdma if model == "rdma" else self.tcp
        return f"nfs://{ADDRESS}:{port}/?vers={version}&proto={model}{options}"


def measure(*arguments):
    return subprocess.run([SESS01_BENCH, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300 * BUSY)


def measure_ok(*arguments):
    """Returns the rows of the table behind its head, as lists of words that are separated by at least two blanks."""
    done = measure(*arguments)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()[1:]]


def measure_refused(*arguments, mentions):
    done = measure(*arguments)
    check_refusal(done.returncode, done.stderr, mentions)


def ping(scratch):
    """ping says which model the connection became."""
    with Serving(scratch, "--sess01=rdma") as server:
        for model, said in (("tcp", b"over TCP:"), ("stepup", b"over RDMA (stepped up from TCP):"), ("rdma", b"over RDMA:")):
            out = ok("ping", "-c", 1, server.model_url(model))
            assert b"NFS version 4.1-sess01 " + said in out, out
    with Serving(scratch, "--sess01=tcp") as server:
        out = ok("ping", "-c", 1, server.model_url("stepup"))
        assert b"NFS version 4.1-sess01 over TCP (the server does not step up):" in out, out
        assert b"over TCP:" in ok("ping", "-c", 1, server.model_url("tcp"))


def operations(scratch):
    """bench measures each operation in each model, and the JSON names the transport that the connection has in the end."""
    names = ["setattr", "mkdir", "write8k", "read64k", "write64k"]
    with Serving(scratch, "--sess01=rdma", "--sess01-pad=4096") as server:
        for model in MODELS:
            for options in ("", "&persist=off", *(() if model == "tcp" else ("&pad=512", "&pad=4096", "&inline=65536"))):
                file = f"{scratch}/{model}.json"
                ok("bench", server.model_url(model, options), "--ops", ",".join(names), "--depth", "1,3", "--seconds", 0.02, "--size", "1MiB",
                   "--json", file)
                with open(file) as written:
                    record = json.load(written)
                assert record["transport"] == ("tcp" if model == "tcp" else "rdma"), record
                assert [(m["operation"], m["depth"]) for m in record["measurements"]] == [(n, d) for n in names for d in (1, 3)], record
                assert all(m["executed"] >= m["count"] > 0 for m in record["measurements"]), record
        for version in ("3", "4.0", "4.1"):
            ok("bench", server.model_url("tcp", f"&mountport={server.mount}", version), "--ops", "setattr,mkdir", "--depth", 2, "--seconds",
               0.02, "--size", "1MiB")
        ok("bench", server.model_url("tcp", "&persist=off", "4.1"), "--ops", "mkdir", "--depth", 1, "--seconds", 0.02, "--size", "1MiB")


# How a WRITE of this many KiB travels in a model with these options of the URL. Calls have 16 KiB, headers and pads included, unless
# `inline` asks for longer ones.
FORMS = [("stepup", "", 4, "Read chunk"), ("stepup", "", 16, "Read chunk"), ("stepup", "&inline=65536", 4, "inline"),
         ("stepup", "&inline=65536", 8, "inline"), ("stepup", "&pad=512", 4, "padded"), ("stepup", "&pad=512", 8, "padded"),
         ("stepup", "&pad=4096", 4, "padded"), ("stepup", "&pad=4096", 8, "padded"), ("stepup", "&pad=4096", 12, "padded"),
         ("stepup", "&pad=512", 16, "Read chunk"), ("stepup", "&pad=4096", 16, "Read chunk"), ("rdma", "&pad=4096", 4, "padded"),
         ("rdma", "&inline=65536", 4, "inline"), ("rdma", "&pad=512", 8, "padded"), ("rdma", "&pad=512", 16, "Read chunk"),
         *((model, f"&inline=32769{pad}", 32, form) for model in ("stepup", "rdma") for pad, form in (("", "inline"), ("&pad=512", "padded")))]


def form_of(trace):
    """Returns how the only WRITE of a trace with less than 64 KiB of data travels."""
    words = ["tshark", "-n", "-r", trace, "-Y", "rpcordma", "-T", "fields", "-e", "rpcordma.msg_type", "-e", "rpcordma.reads_count"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    headers = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(headers) > 5, headers
    if any(kind == "2" for kind, _ in headers):  # RDMA_MSGP
        return "padded"
    return "Read chunk" if any(reads not in ("", "0") for _, reads in headers) else "inline"


def forms(scratch):
    """The forms of a WRITE that bench/sessions compares are what they are called."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    with Serving(scratch, "--sess01=rdma", "--sess01-pad=4096") as server:
        for model, options, size, form in FORMS:
            make(f"{scratch}/file", size << 10)
            url = server.model_url(model, options + "&noresvport").replace("/?", "/copy?")  # Wireshark uses some ports below 1024 otherwise
            ok("cp", f"{scratch}/file", url, f"--trace={scratch}/trace.pcapng")
            found = form_of(f"{scratch}/trace.pcapng")
            assert found == form, f"{model}{options}, {size} KiB: {found}, not {form}"
            assert filecmp.cmp(f"{scratch}/file", f"{server.folder}/copy", shallow=False)
            os.remove(f"{server.folder}/copy")


def chains(scratch):
    """Each form of the walk at each delay. The program itself checks that every walk reaches the sixteenth directory."""
    with Serving(scratch, "--sess01=rdma") as server:
        for model in MODELS:
            rows = measure_ok("chains", server.model_url(model), "--rounds", 2, "--seconds", 0.01, "--delay", "0,1")
            assert [row[:2] for row in rows] == [[delay, form] for delay in ("0", "1")
                                                 for form in ("one COMPOUND", "16 chained", "16, each waiting")], rows
            assert all(float(row[2]) > 0 and float(row[3]) > 0 for row in rows), rows
            # A path with a delay of 1 ms in each direction delays a walk with one round trip by 2 ms, and with sixteen by 32 ms.
            assert float(rows[3][2]) > 2000 and float(rows[4][2]) > 2000 and float(rows[5][2]) > 32000, rows


def recalls(scratch):
    """Each place of the back channel, with an idle and with a busy operations channel."""
    with Serving(scratch, "--sess01=rdma") as server:
        for model in MODELS:
            rows = measure_ok("recalls", server.model_url(model), "--rounds", 2, "--depth", 4)
            assert [row[:2] for row in rows] == [[back, load] for back in ("own", "shared") for load in ("idle", "busy")], rows
            assert all(0 < float(row[2]) <= float(row[3]) <= float(row[4]) for row in rows), rows


def refusals(scratch):
    """A server that does not offer what a measurement needs, and mistakes of the command line."""
    with Serving(scratch, "--sess01=off") as server:
        for command in ("chains", "recalls"):
            measure_refused(command, server.model_url("tcp"), "--rounds", 1, mentions=["does not offer the sessions of 2004"])
        refused("bench", server.model_url("tcp"), mentions=["does not offer the sessions of 2004"])
    with Serving(scratch, "--sess01=tcp") as server:
        measure_refused("chains", server.model_url("stepup"), "--rounds", 1, mentions=["does not grant RDMA mode"])
        measure_refused("chains", server.model_url("tcp", version="4.1"), mentions=["needs vers=4.1-sess01"])
        measure_refused("recalls", "nfs:/path", mentions=["not an nfs:// URL"])
        misused("bench", server.model_url("tcp"), "--ops", "write2m", mentions=["write2m"])
    with Serving(scratch, "--sess01=rdma", "--no-delegations") as server:
        measure_refused("recalls", server.model_url("tcp"), "--rounds", 1, mentions=["grants no read delegation"])


def script(measurement, rows):
    """bench/sessions prints a table with this number of rows."""

    def case(scratch):
        done = subprocess.run([sys.executable, "-B", SESSIONS, measurement, "--rounds", "1", "--seconds", "0.02", "--build", BUILD, "--out",
                               f"{scratch}/out"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600 * BUSY)
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        lines = done.stdout.splitlines()
        assert len(lines) == 2 + rows and all(line.count("|") == lines[0].count("|") for line in lines), done.stdout
        kept = sorted(name.partition("-2")[0] + os.path.splitext(name)[1] for name in os.listdir(f"{scratch}/out")
                      if name.endswith((".json", ".txt")))
        assert kept == [f"sessions-{measurement}.json", f"sessions-{measurement}.txt"], kept

    case.__name__ = f"script_{measurement}"
    return case


if __name__ == "__main__":
    main({case.__name__: case for case in (ping, operations, forms, chains, recalls, refusals, script("cache", 18), script("writes", 20),
                                           script("chains", 18), script("recalls", 12), script("others", 12))})
