#!/usr/bin/python3
"""What ends an operation that blocks, and what becomes of objects: time limits, signals, other threads, fork(), pickle, the
garbage collector, the end of the interpreter."""

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref

from served import ExportTest, main, penstock

SHORT, LONG = 0.5, 300  # seconds


class Waiting(ExportTest):
    def setUp(self):
        super().setUp()
        self.mount = penstock.connect(self.export.url())
        self.addCleanup(self.mount.close)

    # ---- time limits ----

    def test_a_time_limit_ends_each_kind_of_operation(self):
        self.mount.write_bytes("file", b"contents")
        file = self.mount.open("file", "r+b", 0)
        file.pwrite(b"c", 0)  # for fsync
        local = os.path.join(self.export.scratch, "local")
        with open(local, "wb") as made:
            made.write(b"local")
        with self.export.silent():
            for function, arguments in (
                    (self.mount.ping, ()), (self.mount.stat, ("x",)), (self.mount.listdir, ()), (self.mount.scandir, ()),
                    (self.mount.mkdir, ("d",)), (self.mount.makedirs, ("d/e",)), (self.mount.rmdir, ("d",)), (self.mount.unlink, ("x",)),
                    (self.mount.rename, ("a", "b")), (self.mount.link, ("a", "b")), (self.mount.symlink, ("a", "b")),
                    (self.mount.readlink, ("a",)), (self.mount.chmod, ("a", 0o600)), (self.mount.chown, ("a", 1)),
                    (self.mount.truncate, ("a", 1)), (self.mount.utime, ("a",)), (self.mount.statvfs, ()), (self.mount.exists, ("a",)),
                    (self.mount.read_bytes, ("file",)), (self.mount.write_bytes, ("new", b"1")), (self.mount.open, ("new2", "wb")),
                    (self.mount.download, ("file", local)), (self.mount.upload, (local, "new3")), (file.pread, (1, 0)),
                    (file.pwrite, (b"1", 0)), (file.fsync, ()), (file.stat, ()), (file.lock, ())):
                began = time.monotonic()
                with self.assertRaises(TimeoutError, msg=function) as caught:
                    function(*arguments, timeout=0.05)
                self.assertTrue(caught.exception.strerror)
                self.assertLess(time.monotonic() - began, 60)
        file.close()
        self.assertEqual(self.mount.read_bytes("file")[1:], b"ontents")

    def test_mounts_and_files_have_time_limits_of_their_own(self):
        self.mount.timeout = 0.05
        self.mount.write_bytes("file", b"contents", timeout=None)
        file = self.mount.open("file", "rb", 0, timeout=LONG)
        with self.export.silent():
            self.assertRaises(TimeoutError, self.mount.ping)
            file.timeout = 0.05
            self.assertRaises(TimeoutError, file.readall)
            self.assertRaises(TimeoutError, file.read, 1)
        self.mount.timeout = file.timeout = None
        self.assertEqual(file.readall(), b"contents")
        file.close()
        for wrong in (-1, "soon"):
            with self.assertRaises((ValueError, TypeError)):
                self.mount.ping(timeout=wrong)

    def test_connecting_has_a_time_limit(self):
        with self.export.silent(), self.assertRaises(TimeoutError):
            penstock.connect(self.export.url(), timeout=0.1)

    # ---- signals ----

    def interrupted(self, function, *arguments):
        """Requires that a SIGINT ends a function that would block; returns how long that took."""
        main_thread, sent = threading.main_thread().ident, []

        def send():
            sent.append(time.monotonic())
            signal.pthread_kill(main_thread, signal.SIGINT)
        timer = threading.Timer(SHORT, send)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            function(*arguments)
        timer.join()
        return time.monotonic() - sent[0]

    def test_ctrl_c_cancels_an_operation(self):
        self.mount.write_bytes("file", b"contents")
        file = self.mount.open("file", "rb", 0)
        room = bytearray(100)
        with self.export.silent():
            for function, arguments in ((self.mount.ping, ()), (self.mount.stat, ("",)), (file.preadinto, (room, 0)),
                                        (self.mount.open, ("new", "wb")), (penstock.connect, (self.export.url(),))):
                self.assertLess(self.interrupted(function, *arguments), 60, function)
            room.extend(b"!")  # the library has let go of it
        self.assertEqual(file.readall(), b"contents")
        file.close()
        self.mount.close()  # nothing that was interrupted is left over

    def test_ctrl_c_arrives_also_if_another_thread_gets_the_signal(self):
        with self.export.silent():
            timer = threading.Timer(SHORT, lambda: signal.raise_signal(signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                self.mount.ping()
            timer.join()

    def test_a_signal_whose_handler_returns_cancels_nothing(self):
        seen, before = [], signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        while len(seen) < 20:
            self.mount.write_bytes("file", b"x" * 1_000_000)
            self.assertEqual(self.mount.stat("file").st_size, 1_000_000)

    def test_a_handler_may_use_the_mount(self):
        seen = []
        before = signal.signal(signal.SIGALRM, lambda *_: seen.append(self.mount.stat("").is_dir()))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        while len(seen) < 5:
            self.mount.ping()
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertTrue(all(seen))

    def test_interrupts_at_any_time_leave_nothing_behind(self):
        """Interrupts operations at many moments. An object that was lost would keep the mount from closing."""
        self.mount.write_bytes("file", b"contents")
        interrupted = 0
        for number in range(300):
            try:
                before = signal.signal(signal.SIGALRM, signal.default_int_handler)
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 + number % 50 * 0.00004)
                    for _ in range(1000):  # Python drops an exception that a handler raises within a __del__()
                        with self.mount.open("file", "rb", 0) as file:
                            file.readall()
                        if not any(signal.getitimer(signal.ITIMER_REAL)):
                            break
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before)
            except KeyboardInterrupt:
                interrupted += 1
        self.assertGreater(interrupted, 250)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        self.mount.close()

    # ---- threads ----

    def test_other_threads_go_on_while_one_waits(self):
        with self.export.silent():
            waiting = threading.Thread(target=lambda: self.assertRaises(TimeoutError, self.mount.ping, timeout=2))
            waiting.start()
            steps = 0
            while waiting.is_alive():
                steps += 1
                time.sleep(0.001)
            self.assertGreater(steps, 50)

    def test_an_object_in_use_is_not_closed(self):
        self.mount.write_bytes("file", b"contents")
        file, began = self.mount.open("file", "rb", 0), threading.Event()

        def read():
            began.set()
            with self.assertRaises(TimeoutError):
                file.pread(8, 0, timeout=3)
        with self.export.silent():
            reader = threading.Thread(target=read)
            reader.start()
            began.wait()
            time.sleep(0.2)
            with self.assertRaises(OSError) as caught:
                file.close()
            self.assertEqual(caught.exception.errno, 16)
            self.assertFalse(file.closed)
            reader.join()
        self.assertEqual(file.readall(), b"contents")
        file.close()

    # ---- the garbage collector ----

    def test_forgotten_objects_are_closed_in_any_order(self):
        def things():
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        self.mount.ping()
        before = things()
        for order in range(8):
            runtime = penstock.Runtime()
            mount = penstock.connect(self.export.url(), runtime=runtime)
            file = mount.open(f"file-{order}", "wb")
            file.write(b"written when it is forgotten")
            gone = weakref.ref(mount)
            objects = [runtime, mount, file]
            if order >= 3:  # a cycle, in which the collector may begin with any of them, also with the file below the buffer
                file.flush()
                objects = objects[order % 3:] + objects[:order % 3]
                file.raw.all = list(objects) + [objects]
                runtime.file = file
            del runtime, mount, file
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                for index in {0: (0, 0, 0), 1: (2, 1, 0), 2: (1, 1, 0)}.get(order, ()):
                    del objects[index]
                    gc.collect()
                del objects
                gc.collect()
            self.assertIsNone(gone())
            self.assertTrue(any(issubclass(warning.category, ResourceWarning) for warning in warned), order)
            self.assertEqual(self.export.read(f"file-{order}"), b"written when it is forgotten")
            self.assertEqual(things(), before, order)

    def test_nothing_is_lost_by_many_mounts(self):
        def descriptors():
            return len(os.listdir("/proc/self/fd"))
        with penstock.connect(self.export.url()) as mount:
            mount.ping()
        before = descriptors()
        for _ in range(20):
            with penstock.connect(self.export.url()) as mount:
                mount.ping()
        self.assertLessEqual(descriptors(), before + 2)

    def test_a_runtime_with_mounts_stays(self):
        runtime = penstock.Runtime()
        with penstock.connect(self.export.url(), runtime=runtime) as mount:
            with self.assertRaises(OSError) as caught:
                runtime.close()
            self.assertEqual(caught.exception.errno, 16)
            mount.ping()
        runtime.close()
        runtime.close()

    # ---- processes ----

    def in_child(self, function):
        """Runs a function in a child of fork(); requires that it returns."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                function()
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_child_must_not_use_what_its_parent_has_made(self):
        self.mount.write_bytes("file", b"contents")
        file = self.mount.open("file", "r+b", 0)
        runtime = penstock.Runtime()

        def child():
            for function in (self.mount.ping, lambda: self.mount.stat(""), self.mount.listdir, file.readall, lambda: file.write(b"x"),
                             lambda: penstock.connect(self.export.url(), runtime=runtime), runtime.close):
                with self.assertRaises(PermissionError) as caught:
                    function()
                self.assertIn("parent process", caught.exception.strerror)
            with self.assertRaises(PermissionError):
                with self.mount:
                    pass
            file.close()  # nothing happens at the server
            self.mount.close()
            with penstock.connect(self.export.url()) as own:  # in a runtime of its own
                self.assertEqual(own.read_bytes("file"), b"contents")
        self.in_child(child)
        self.assertEqual(file.readall(), b"contents")
        file.close()
        runtime.close()

    def test_a_child_of_a_process_that_is_busy(self):
        end = threading.Event()

        def work():
            while not end.is_set():
                self.mount.write_bytes("busy", b"x" * 100_000)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()

        def child():
            with penstock.connect(self.export.url()) as own:
                own.write_bytes("child", b"1")
            gc.collect()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads and fork()
                for _ in range(5):
                    self.in_child(child)
        finally:
            end.set()
            for thread in threads:
                thread.join()

    def test_workers_of_multiprocessing(self):
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(3) as pool:
                names = [f"{method}-{number}" for number in range(12)]
                self.assertEqual(pool.starmap(write_by_worker, [(self.export.url(), name) for name in names]), names)
            for name in names:
                self.assertEqual(self.export.read(name), name.encode())

    def test_connections_are_not_pickled(self):
        with self.mount.open("file", "wb", 0) as file:
            for each in (self.mount, file, self.mount._handle):
                with self.assertRaisesRegex(TypeError, "cannot pickle"):
                    pickle.dumps(each)

    # ---- the end of the interpreter ----

    def run_script(self, script):
        return subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(script), self.export.url()], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LONG)

    def test_the_end_of_the_interpreter_writes_what_is_open(self):
        done = self.run_script("""
            import penstock, sys
            mount = penstock.connect(sys.argv[1])
            file = mount.open("at-exit", "w")
            file.write("text in a buffer")
            """)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(self.export.read("at-exit"), b"text in a buffer")

    def test_the_end_of_the_interpreter_while_daemon_threads_work(self):
        for _ in range(5):
            done = self.run_script("""
                import logging, penstock, sys, threading, time
                logging.basicConfig(level=logging.DEBUG, stream=open("/dev/null", "w"))
                runtime = penstock.Runtime(threads=2, log=True)
                mount = penstock.connect(sys.argv[1], runtime=runtime)
                def work(name):
                    while True:
                        mount.write_bytes(name, b"x" * 100000)
                for number in range(4):
                    threading.Thread(target=work, args=(f"daemon-{number}",), daemon=True).start()
                time.sleep(0.3)
                """)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_an_unhandled_ctrl_c_ends_the_program(self):
        with self.export.silent():
            with subprocess.Popen([sys.executable, "-B", "-c", "import penstock, sys; print(flush=True); penstock.connect(sys.argv[1])",
                                   self.export.url()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                process.stdout.readline()
                time.sleep(SHORT)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=LONG)
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(process.returncode, -signal.SIGINT)


def write_by_worker(url, name):
    with penstock.connect(url) as mount:
        mount.write_bytes(name, name.encode())
    return name


if __name__ == "__main__":
    main()
