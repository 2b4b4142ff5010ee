#!/usr/bin/python3
"""Refuses an include against the arrows between the layers (docs/architecture.md).

    include_direction.py SOURCE_FOLDER     checks the repository's src/ against ALLOWED
    include_direction.py --self-test       checks that it finds a forbidden include, and accepts an allowed one
"""

import os
import re
import sys
import tempfile

# A layer is a folder; the deepest listed folder decides. A layer may always include itself. "protocol" is the output of
# xdrgen for protocol/*.x, included as "protocol/x.h". Folders within a layer (fs/memory, nfs/v3, ...) belong to it.
ALLOWED = {
    "base": [],
    "metrics": ["base"],
    "watch": ["metrics", "base"],
    "control": ["base"],
    "xdr": ["base"],
    "protocol": ["xdr", "base"],
    "rpc": ["rpc/tls", "xdr", "protocol", "metrics", "base"],
    "rpc/tls": ["base"],
    "rpcbind": ["rpc", "xdr", "protocol", "metrics", "base"],
    "rpc/gss": ["rpc", "xdr", "protocol", "base"],
    "rdma": ["base"],
    "rdma/sim": ["rdma", "base"],
    "rdma/iwarp": ["rdma", "base"],
    "rdma/verbs": ["rdma", "base"],
    "rdma/choice": ["rdma", "rdma/iwarp", "rdma/verbs", "base"],
    "rdma/trace": ["rdma", "rdma/iwarp", "base"],
    "rpcrdma": ["rpc", "rdma", "xdr", "protocol", "metrics", "base"],
    "idmap": ["base"],
    "objects": ["base"],
    "fs": ["base"],
    "fs/audited": ["fs", "base"],
    "fs/ceph": ["fs", "objects", "base"],
    "fs/faulty": ["fs", "base"],
    "fs/posix": ["fs", "base"],
    "nfs_protocol": ["rpc", "fs", "xdr", "protocol", "base"],
    "nfs": ["nfs_protocol", "rpc", "rpc/tls", "fs", "xdr", "protocol", "metrics", "base"],
    "nfs/acl": ["nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "metrics", "base"],
    "nfs/v4/dialect": ["xdr", "protocol", "base"],
    "nfs/v4/state": ["nfs/v4/dialect", "nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "base"],
    "nfs/v4/attributes": ["nfs/v4/state", "nfs/v4/dialect", "nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "idmap", "base"],
    "nfs/v4/callback": ["nfs/v4/attributes", "nfs/v4/state", "nfs/v4/dialect", "nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "idmap", "metrics", "base"],
    "nfs/v4/engine": ["nfs/v4/attributes", "nfs/v4/state", "nfs/v4/dialect", "nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "idmap", "metrics", "base"],
    "nfs/v4/operations": ["nfs/v4/engine", "nfs/v4/callback", "nfs/v4/attributes", "nfs/v4/state", "nfs/v4/dialect", "nfs", "nfs_protocol", "rpc", "fs", "xdr", "protocol", "idmap", "metrics", "base"],
    "nfs/nlm": ["nfs/v4/operations", "nfs/v4/engine", "nfs/v4/state", "nfs", "rpc", "fs", "xdr", "protocol", "idmap", "base"],
    "cluster": ["nfs/v4/state", "nfs/v4/dialect", "rpc", "fs", "objects", "base"],
    "client": ["rpc", "rpc/gss", "rpc/tls", "rpcbind", "rpcrdma", "rdma", "nfs_protocol", "xdr", "protocol", "idmap", "base"],
    "copying": ["client", "nfs_protocol", "fs", "protocol", "idmap", "base"],
    "server": ["client", "cluster", "objects", "nfs", "nfs/acl", "nfs/nlm", "nfs/v4/operations", "nfs/v4/engine", "nfs/v4/callback", "nfs/v4/attributes", "nfs/v4/state", "nfs/v4/dialect", "fs", "fs/audited", "rpc", "rpc/gss", "rpc/tls", "rpcbind", "rpcrdma", "rdma", "rdma/sim", "rdma/iwarp", "rdma/verbs", "rdma/choice", "rdma/trace", "xdr", "protocol", "idmap", "watch", "metrics", "base"],
    "penstock": [],  # the public headers, in include/
    "library/provider": ["penstock", "rdma", "base"],
    "library": ["library/provider", "penstock", "client", "rpc/tls", "rdma", "rdma/verbs", "rdma/choice", "base"],
    "library/server": ["library", "library/provider", "penstock", "server", "nfs", "fs/posix", "fs", "rdma/choice", "base"],
    "fuse": ["client", "xdr", "protocol", "idmap", "base"],
    "cli": ["fuse", "server", "cluster", "objects", "watch", "control", "copying", "client", "nfs", "rpc/tls", "fs/audited", "fs/ceph", "fs/faulty", "fs/posix", "fs", "rdma", "rdma/iwarp", "rdma/verbs", "rdma/choice", "rdma/trace", "protocol", "idmap", "base"],
}
ANYTHING = re.compile(r"^test_\w+\.h$|(_test|_suite|_test_support|_bench)\.(cc|h)$")  # tests may include anything
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def layer_of(path):
    parts = path.split("/")[:-1]
    for depth in range(len(parts), 0, -1):
        if "/".join(parts[:depth]) in ALLOWED:
            return "/".join(parts[:depth])
    return None


def violations(source):
    """Returns (count of includes read, one line for each forbidden one)."""
    read, wrong = 0, []
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), source)
            if not name.endswith((".h", ".cc")) or ANYTHING.search(name):
                continue
            layer = layer_of(path)
            if layer is None:
                wrong.append(f"{path}: its folder is no layer")
                continue
            with open(os.path.join(folder, name)) as file:
                for included in INCLUDE.findall(file.read()):
                    read += 1
                    target = layer_of(included)
                    if target is None:
                        wrong.append(f'{path}: "{included}" is in no layer (paths are relative to src/)')
                    elif target != layer and target not in ALLOWED[layer]:
                        wrong.append(f'{path}: "{included}": {layer} may not include {target}')
    return read, wrong


def self_test():
    with tempfile.TemporaryDirectory() as source:
        for path, included in (("base/a.h", "rpc/b.h"), ("rdma/iwarp/c.cc", "rdma/sim/d.h"), ("fs/posix/e.cc", "nfs/f.h"),
                               ("cli/g.cc", "rpc/h.h"), ("nfs/v3/i.cc", "fs/j.h"),
                               ("client/nfs3/q.h", "nfs/v3/r.h"), ("client/s.cc", "nfs_protocol/t.h"), ("fs/posix/k.cc", "fs/l.h"),
                               ("rpc/m.cc", "protocol/rpc.h"), ("base/n_test.cc", "server/o.h"), ("base/p.cc", "q.h"),
                               ("server/r.cc", "fs/posix/s.h"), ("server/t.cc", "fs/memory/u.h")):
            os.makedirs(f"{source}/{os.path.dirname(path)}", exist_ok=True)
            with open(f"{source}/{path}", "w") as file:
                file.write(f'#pragma once\n#include <vector>\n#include "{included}"\n')
        read, wrong = violations(source)
    found = sorted(line.split(":")[0] for line in wrong)
    assert found == ["base/a.h", "base/p.cc", "cli/g.cc", "client/nfs3/q.h", "fs/posix/e.cc", "rdma/iwarp/c.cc",
                     "server/r.cc"], wrong
    assert read == 12, read


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    read, wrong = violations(sys.argv[1])
    print(f"{read} includes read", *wrong, sep="\n")
    if wrong or not read:
        sys.exit(1)


main()
