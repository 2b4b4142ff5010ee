"""Runtimes: the event loops of the library and their threads."""

import atexit
import contextlib
import errno
import logging
import os
import threading
import time
import weakref

from penstock._native import ffi, lib
from penstock._operations import Handle, check_open, failure, last_failure, text

_LEVELS = {
    lib.PENSTOCK_LOG_DEBUG: logging.DEBUG,
    lib.PENSTOCK_LOG_INFO: logging.INFO,
    lib.PENSTOCK_LOG_WARNING: logging.WARNING,
    lib.PENSTOCK_LOG_ERROR: logging.ERROR,
}


class _Log:
    """Hands messages of the library to a logger. Threads of the library put them into a queue; Python takes them out:
    they never wait for Python. Their module becomes the end of the logger's name: penstock.rdma.iwarp."""

    def __init__(self, logger):
        self.logger = logger
        self.native = ffi.new("penstock_py_log *")
        lib.penstock_py_log_begin(self.native)

    @property
    def level(self):
        """Returns the level below which the library need not make messages."""
        wanted = self.logger.getEffectiveLevel()
        return min((ours for ours, level in _LEVELS.items() if level >= wanted), default=lib.PENSTOCK_LOG_ERROR)

    def hand_on(self):
        """Hands on the messages that are there."""
        message, dropped = ffi.new("penstock_py_message *"), ffi.new("uint64_t *")
        while lib.penstock_py_log_take(self.native, message, dropped):
            if dropped[0]:
                self.logger.warning("%d messages were dropped, because there were too many at once", dropped[0])
            self.logger.getChild(text(message.module)).log(_LEVELS.get(message.level, logging.ERROR), "%s", text(message.text))

    def follow(self):
        """Hands on messages until end(). On a thread of its own."""
        while lib.penstock_py_log_wait(self.native):
            with contextlib.suppress(Exception):  # what a handler of the logger raises must not end the log
                self.hand_on()
        self.hand_on()

    def end(self):
        lib.penstock_py_log_end(self.native)


_kept = []


class RuntimeHandle(Handle):
    """Frees the runtime, when the mounts, which keep it, are closed."""

    __slots__ = ("log", "follower")
    kind = "runtime"

    def __init__(self, place, log):
        super().__init__(None, "runtime")
        self.log, self.follower = log, None
        self.take(place)
        if log is not None and lib.penstock_py_runtime_fd(self.native) < 0:  # it has threads of its own
            self.follower = threading.Thread(target=log.follow, name="penstock-log", daemon=True)
            self.follower.start()

    def close(self, timeout=None):
        self.free(timeout)
        if self.follower is not None:
            self.follower.join()
        elif self.log is not None:
            self.log.hand_on()

    def free(self, timeout):
        result = lib.penstock_py_runtime_free(self.native)
        if result < 0:
            raise failure(result, "mounts or operations of the runtime have not ended" if result == -errno.EBUSY else "")
        if self.log is not None:
            self.log.end()

    def forget(self):
        # Nobody waits for the thread of the log: the garbage collector runs anywhere, also where a lock is held that a handler
        # of the logger wants.
        self.forgotten = True
        with contextlib.suppress(OSError):
            self.free(None)

    def warn(self):
        """A runtime is not a resource of a server: nobody is warned."""

    def __del__(self):
        if hasattr(self, "follower"):
            super().__del__()
            if self.is_open:  # the library writes to the log as long as the runtime is there
                _kept.append(self)


def make_handle(threads, log, blocking_threads, rdma, rdma_device):
    if log is not None and not isinstance(log, logging.Logger):
        log = logging.getLogger(log if isinstance(log, str) else "penstock")
    for name, value in (("threads", threads), ("blocking_threads", blocking_threads)):
        if not 0 <= value < 2**32:
            raise ValueError(f"{name}={value}")
    queue = None if log is None else _Log(log)
    runtime = ffi.new("penstock_runtime **")
    rdma, rdma_device = (ffi.NULL if value is None else value.encode() for value in (rdma, rdma_device))
    result = lib.penstock_py_runtime_new(threads, blocking_threads, ffi.NULL if queue is None else queue.native,
                                         0 if queue is None else queue.level, rdma, rdma_device, runtime)
    if result < 0:
        raise last_failure(result)
    return RuntimeHandle(runtime, queue)


class Runtime:
    """Event loops of the library, each on a thread of its own. Mounts are spread over them.

    Programs that need no options need no Runtime: connect() uses one that all mounts share."""

    def __init__(self, threads=1, log=None, *, blocking_threads=0, rdma=None, rdma_device=None):
        """`log`: a logging.Logger, or the name of one, or True for the logger "penstock": it receives the library's
        messages from its effective level on. `blocking_threads`: the most threads for calls of the system that block.
        `rdma`: "verbs", "iwarp" or "auto". `rdma_device`: the only RDMA adapter to use, such as "mlx5_0"."""
        if threads < 1:
            raise ValueError("threads must be at least 1; penstock.aio has runtimes without threads, for asyncio")
        self._handle = make_handle(threads, log or None, blocking_threads, rdma, rdma_device)

    @property
    def closed(self):
        return not self._handle.is_open

    def close(self):
        """Ends the threads. Raises OSError with errno EBUSY if a mount is open. A runtime that nothing refers to is
        closed as well."""
        if self._handle.is_open:
            self._handle.close()
        elif not self._handle.is_of_this_process:
            check_open(self._handle)

    def __enter__(self):
        check_open(self._handle)
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<penstock.Runtime {'closed' if self.closed else 'open'}>"


class _Shared:
    """The runtime of mounts that were given none, and all mounts, which are closed when the interpreter ends."""

    def __init__(self):
        self.lock, self.runtime, self.mounts = threading.Lock(), None, weakref.WeakSet()


_shared = _Shared()


def default_runtime():
    """Returns the runtime that mounts share."""
    with _shared.lock:
        if _shared.runtime is None or _shared.runtime.closed:
            _shared.runtime = Runtime()
        return _shared.runtime


def close_at_exit(mount):
    """Registers a mount with a method close()."""
    _shared.mounts.add(mount)


def _forget():
    global _shared
    _shared = _Shared()


def _close_all():
    """Writes what open files have not written, and gives back what servers keep, within 10 seconds for all."""
    end = time.monotonic() + 10
    for mount in list(_shared.mounts):
        left = max(end - time.monotonic(), 0)
        mount.timeout = left if mount.timeout is None else min(left, mount.timeout)
        with contextlib.suppress(OSError, ValueError):
            mount.close(timeout=mount.timeout)
    if _shared.runtime is not None:
        with contextlib.suppress(OSError):
            _shared.runtime.close()


os.register_at_fork(after_in_child=_forget)
atexit.register(_close_all)
