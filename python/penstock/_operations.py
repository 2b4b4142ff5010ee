"""Runs operations of libpenstock and waits for them (native/operation.h says how)."""

import contextlib
import errno
import os
import threading
import warnings

from penstock._native import ffi, lib


class _Default:
    """The default value of `timeout=` parameters."""

    def __repr__(self):
        return "DEFAULT"


DEFAULT = _Default()
PROGRESS = ffi.addressof(lib, "penstock_py_progress")


def milliseconds(timeout):
    """Returns the limit that the library gets for a number of seconds, or for None, which is no limit."""
    if timeout is None:
        return -1
    if timeout < 0:
        raise ValueError(f"timeout={timeout}: it must not be negative")
    return min(int(timeout * 1000), 2**62)


def text(value):
    """Returns a text of the library as a str."""
    return ffi.string(value).decode("utf-8", "surrogateescape")


def octets(path):
    """Returns a path, or another text for the server, as the library gets it."""
    path = os.fspath(path)
    if isinstance(path, str):
        path = path.encode("utf-8", "surrogateescape")
    if b"\0" in path:
        raise ValueError("embedded null byte")
    return path


def shown(path):
    """Returns a path as the str that error messages and file names use."""
    path = os.fspath(path)
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def failure(code, why, names=()):
    """Returns the OSError, of the subclass for its errno, of a negative result."""
    why = why or os.strerror(-code)
    if len(names) == 2:
        return OSError(-code, why, names[0], None, names[1])
    return OSError(-code, why, *names)


def last_failure(code):
    """Returns the error of a function that has just failed on this thread, without an operation."""
    return failure(code, text(lib.penstock_error_text()))


class Call:
    """An operation that has not begun: a function of the library and its arguments."""

    __slots__ = ("function", "handle", "arguments", "names", "finish", "release", "tells_progress", "kept")

    def __init__(self, function, handle, *arguments, names=(), finish=None, release=None, tells_progress=False):
        """`names` are the paths that an error mentions. `finish` turns the result into what the caller gets. `release`
        frees what a successful operation has made that its caller does not want any more. The call keeps its arguments
        until the operation has ended: the library uses their memory. `kept` may refer to more. `tells_progress`: the last
        two parameters of the function are a penstock_progress and its context, which start() adds."""
        self.function, self.handle, self.arguments = function, handle, arguments
        self.names, self.finish, self.release, self.tells_progress = names, finish, release, tells_progress

    def start(self, limit, operation):
        """Starts the operation. Returns what penstock_py_wait() would return."""
        arguments = (*self.arguments, PROGRESS, operation) if self.tells_progress else self.arguments
        return self.function(self.handle, *arguments, limit, operation)

    def value(self, result, why):
        """Returns what the caller gets, or raises the error, for the result of the operation."""
        if result < 0:
            raise failure(result, why, self.names)
        return result if self.finish is None else self.finish(result)

    def abandon(self, result):
        """Frees what the operation has made, because nobody wants it."""
        if result >= 0 and self.release is not None:
            self.release()


def new_operation(queue=ffi.NULL):
    operation = lib.penstock_py_operation_new(queue)
    if operation == ffi.NULL:
        raise MemoryError("no memory for an operation")
    return ffi.gc(operation, lib.penstock_py_operation_free)


class _Spare(threading.local):
    """Operations of this thread that wait to be used again."""

    def __init__(self):
        self.operations = []


_spare = _Spare()


def _forget():
    """Forgets the operations of the parent, in the child of a fork()."""
    global _spare
    _spare = _Spare()


os.register_at_fork(after_in_child=_forget)


def tell_progress(operation, function):
    """Calls the function if the operation has got on."""
    done, total = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    if lib.penstock_py_take_progress(operation, done, total):
        function(done[0], total[0])


def run(call, timeout=None, progress=None):
    """Runs an operation to its end and returns its value, or raises its error.

    An exception of a signal handler, such as KeyboardInterrupt, or of `progress`, cancels the operation."""
    limit = milliseconds(timeout)
    spare = _spare.operations
    operation = spare.pop() if spare else new_operation()
    try:
        state = call.start(limit, operation)
        while state != lib.PENSTOCK_PY_ENDED:
            if progress is not None:
                tell_progress(operation, progress)
            state = lib.penstock_py_wait(operation)
        if progress is not None:
            tell_progress(operation, progress)
    except BaseException:
        # One call of C: a second signal cannot interrupt it. From its return on, the library uses no memory of the call.
        lib.penstock_py_abandon(operation)
        call.abandon(operation.result)
        raise
    result = operation.result
    try:
        why = text(operation.error) if result < 0 else ""
        if len(spare) < 4:
            spare.append(operation)
        return call.value(result, why)
    except KeyboardInterrupt:
        call.abandon(result)
        raise


class Handle:
    """An object of the library. It is closed when nothing refers to it any more, and after the objects that belong to it: a
    file keeps its mount, and a mount its runtime. Where the garbage collector finds them together, in a cycle, it may begin
    with any of them. A mount that it finds before its files stays `forgotten` then; the last file closes it."""

    __slots__ = ("native", "owner", "name", "forgotten", "__weakref__")
    kind = "object"

    def __init__(self, owner, name):
        """The handle has no object before take()."""
        self.owner, self.name, self.forgotten = owner, name, False
        self.native = ffi.new("penstock_py_handle *")
        lib.penstock_py_handle_begin(self.native)

    def take(self, place):
        """Takes the object from the place where an operation has put it, if there is one. No exception of a signal handler
        can separate the object from both."""
        lib.penstock_py_handle_take(self.native, ffi.cast("void **", place))
        return self

    @property
    def is_open(self):
        return bool(lib.penstock_py_handle_is_open(self.native))

    @property
    def is_of_this_process(self):
        return bool(lib.penstock_py_handle_is_of_this_process(self.native))

    def close(self, timeout):
        """Closes the object. It is closed also if that fails, unless the errno is EBUSY."""
        try:
            self.free(timeout)
        finally:
            if self.owner is not None and self.owner.forgotten and not self.is_open:
                self.owner.forget()

    def free(self, timeout):
        raise NotImplementedError

    def forget(self):
        """Closes the object, now or when nothing belongs to it any more."""
        self.forgotten = True
        with contextlib.suppress(OSError):
            self.close(10)

    def warn(self):
        """Warns of an object that nobody has closed. The warning does not refer to the object: who keeps warnings would keep
        the objects that it belongs to. Nobody is warned of an object without a name, which nobody has got."""
        if self.name is not None:
            with contextlib.suppress(Exception):
                warnings.warn(f"unclosed {self.kind} {self.name}", ResourceWarning, stacklevel=3)

    def __del__(self):
        if hasattr(self, "native") and self.is_open:
            self.warn()
            self.forget()

    def __reduce__(self):
        raise TypeError(f"cannot pickle a {self.kind}: it is a connection to a server")


class MountHandle(Handle):
    __slots__ = ()
    kind = "mount"

    def free(self, timeout):
        run(Call(lib.penstock_py_mount_close, self.native, names=(self.name or "",)), timeout)


class FileHandle(Handle):
    __slots__ = ()
    kind = "file"

    def free(self, timeout):
        run(Call(lib.penstock_py_close, self.native, names=(self.name or "",)), timeout)


def opening(function, handle, *arguments, place, made, names):
    """Returns the Call that makes an object: at `place`, from where the handle `made` takes it, which is the Call's value."""
    def release():
        made.name = None
        made.take(place)
    return Call(function, handle, *arguments, place, names=names, finish=lambda _: made.take(place), release=release)


def check_open(handle):
    """Raises the error for an object that is closed, or that belongs to the parent process."""
    if not handle.is_of_this_process:
        raise OSError(errno.EPERM, f"the {handle.kind} belongs to the parent process, which made it before fork()")
    if not handle.is_open:
        raise ValueError(f"I/O operation on closed {handle.kind}")
