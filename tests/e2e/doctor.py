#!/usr/bin/python3
"""showmount, probe and doctor: what they find at a server, and at which step doctor says that the way to a file ends."""

import json
import os
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import ADDRESS, PENSTOCK, TRANSPORTS, Server, penstock, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from ports import free_ports  # noqa: E402


def folder(scratch):
    os.makedirs(f"{scratch}/export", exist_ok=True)
    with open(f"{scratch}/export/file", "w") as file:
        file.write("text")
    return f"{scratch}/export"


def showmount(scratch):
    """The exports and who may mount them, as text and as JSON; and the error for a host without MOUNT."""
    served = folder(scratch)
    with Server({"/data": f"{served}:client={ADDRESS}", "/other": f"{served}:ro"}) as server:
        host = f"{ADDRESS}:{server.mount}"
        assert ok("showmount", "-e", host).decode().splitlines() == [f"/data  {ADDRESS}", "/other (everyone)"]
        assert [each["path"] for each in json.loads(ok("showmount", "-e", "--json", host))] == ["/data", "/other"]
        ok("ls", f"nfs://{ADDRESS}:{server.mount}/data?vers=3")
        assert isinstance(json.loads(ok("showmount", "-a", "--json", host)), list)
        ok("showmount", host)
    refused("showmount", "-e", f"{ADDRESS}:{free_ports(1)[0]}", "-o", f"mountport={free_ports(1)[0]}", mentions=["MOUNT", "refused"])


def probe(scratch):
    """Ports, versions, private data of RDMA, exports, and lines that mount; exit code 1 where nothing speaks NFS."""
    with Server({"/data": folder(scratch)}) as server:
        place = [f"{ADDRESS}:{server.tcp}", "--rdma-port", server.rdma, "-o", f"mountport={server.mount}"]
        text = ok("probe", *place).decode()
        assert "NFS 3, 4.0, 4.1, 4.2" in text and "/data (everyone; sec=sys)" in text, text
        found = json.loads(ok("probe", "--json", *place))
        ports = {(each["transport"], each["port"]): each for each in found["ports"]}
        assert ports["tcp", server.tcp]["tls"] is None, ports
        assert ports["rdma", server.rdma]["rdma"]["server_receives"] >= 1024, ports
        assert [(each["path"], each["sec"]) for each in found["exports"]] == [("/data", ["sys"])], found
        [url] = [line.split("'")[1] for line in found["mount"] if line.startswith("penstock") and "rdma" in line]
        assert ok("ls", url) == b"file\n"
    free = free_ports(3)
    done = penstock("probe", f"{ADDRESS}:{free[0]}", "--rdma-port", free[1], "-o", f"mountport={free[2]}")
    assert done.returncode == 1 and b"Nothing here can be mounted." in done.stdout, done


def silent_ports(scratch):
    """A port that accepts connections and says nothing: the right step fails, and soon. What cannot be printed is an error of
    its own."""
    folder(scratch)
    with socket.socket() as silent:
        silent.bind((ADDRESS, 0))
        silent.listen()
        port = silent.getsockname()[1]
        for options, step in (("", "RPC"), ("?vers=3", "RPC"), ("?proto=rdma", "RDMA connection")):
            began = time.monotonic()
            failed, _, advice = steps_of(f"nfs://{ADDRESS}:{port}/{options}")
            assert failed == step and "penstock probe" in advice, (options, failed, advice)
            assert time.monotonic() - began < SECONDS, options
    for command in (["doctor", f"nfs://{ADDRESS}:{port}/"], ["probe", f"{ADDRESS}:{port}", "--rdma-port", str(port), "-o", f"mountport={port}"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PENSTOCK, *command], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and "standard output" in done.stderr, (command, done)


def steps_of(url, *options):
    """Returns the name of the step that fails, or None, with its detail and advice."""
    done = penstock("doctor", "--json", url, *options)
    report = json.loads(done.stdout)
    failed = [each for each in report["steps"] if each["outcome"] == "failed"]
    assert done.returncode == (1 if failed else 0) and report["ok"] == (not failed), done
    assert len(report["steps"]) == 6 and len(failed) <= 1, report
    if not failed:
        return None, "", ""
    behind = report["steps"][report["steps"].index(failed[0]) + 1:]
    assert all(each["outcome"] == "skipped" for each in behind), report
    print(failed[0])
    return failed[0]["step"], failed[0]["detail"], failed[0]["advice"]


def doctor(scratch):
    """The step at which the way to a file ends, with the reason and advice."""
    served = folder(scratch)
    with Server({"/data": served}) as server:
        for version in ("3", "4.1"):
            for transport in TRANSPORTS:
                url = server.url("/data/file", transport).replace("vers=3", f"vers={version}")
                assert steps_of(url)[0] is None, url
        text = ok("doctor", server.url("/data", "tcp")).decode().splitlines()
        assert len(text) == 6 and all(" ok " in line and " ms " in line for line in text), text
        assert steps_of(server.url("/data/none", "tcp"))[0] == "path"
        step, detail, advice = steps_of(f"nfs://{ADDRESS}:{server.tcp}/none?vers=3&mountport={server.mount}")
        assert step == "MOUNT" and "exports /data" in detail and "showmount -e" in advice, (step, detail, advice)
        step, _, advice = steps_of(f"nfs://{ADDRESS}:{server.rdma}/data?timeout=2")
        assert step == "RPC" and "RDMA" in advice, (step, advice)
        step, _, advice = steps_of(f"nfs://{ADDRESS}:{free_ports(1)[0]}/data")
        assert step == "TCP connection" and "nothing listens" in advice, (step, advice)
        step, _, _ = steps_of(f"nfs://{ADDRESS}:{free_ports(1)[0]}/data?proto=rdma&timeout=2")
        assert step == "RDMA connection", step
        step, detail, advice = steps_of("nfs://none.invalid/data")
        assert step == "name" and "DNS" in advice, (step, detail, advice)


if __name__ == "__main__":
    main({"showmount": showmount, "probe": probe, "doctor": doctor, "silent_ports": silent_ports})
