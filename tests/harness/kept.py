"""Files that are made once and kept in a folder, by processes that may need them at the same time."""

import fcntl
import glob
import os
import shutil
import tempfile


def kept(path, make):
    """Returns the path. If it does not exist, `make(another path)` makes it first: one process does so, and others
    wait. The file gets its name when it is complete, so an unfinished file of a killed process never counts."""
    folder, name = os.path.split(path)
    if not os.path.exists(path):
        os.makedirs(f"{folder}/locks", exist_ok=True)
        with open(f"{folder}/locks/{name}", "w") as lock:
            wait_for(lock, name)
            if not os.path.exists(path):
                finish(folder, name, make)
    return path


def wait_for(lock, name):
    """Locks a file. The lock ends with its process, however that ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another process is making {name}: waiting for it", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def finish(folder, name, make):
    for left in glob.glob(f"{glob.escape(folder)}/unfinished-{glob.escape(name)}-*"):  # left by killed processes
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"unfinished-{name}-") as scratch:
        os.chmod(scratch, 0o755)  # apt-get downloads as another user
        make(f"{scratch}/{name}")
        os.rename(f"{scratch}/{name}", f"{folder}/{name}")
