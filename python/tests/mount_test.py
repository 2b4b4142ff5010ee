#!/usr/bin/python3
"""Every method of mounts and files, over each transport and version of NFS, against the real server."""

import errno
import io
import logging
import os
import stat
import threading
import unittest

from served import WAYS, ExportTest, main, penstock

LARGE = os.urandom(3_000_001)


class Mounted(ExportTest):
    """The tests of one transport and version; subclasses say which."""

    WAY = None

    def setUp(self):
        super().setUp()
        if self.WAY is None:
            self.skipTest("subclasses have the transport and the version")
        self.mount = penstock.connect(self.export.url("/export", *self.WAY), timeout=120)
        self.addCleanup(self.mount.close)

    def assertFails(self, error, name, function, *arguments, **how):
        """Requires an error of this class that mentions the file and says something."""
        with self.assertRaises(error) as caught:
            function(*arguments, **how)
        self.assertIs(type(caught.exception), error)
        self.assertEqual(caught.exception.filename, name)
        self.assertTrue(caught.exception.strerror)
        return caught.exception

    # ---- the mount ----

    def test_info(self):
        info = self.mount.info()
        self.assertEqual((info.transport, info.version), self.WAY)
        self.assertGreater(info.read_size, 4096)
        self.assertGreater(info.write_size, 4096)
        self.assertEqual(info.reconnections, 0)
        self.assertIsNone(self.mount.ping())

    def test_statvfs(self):
        space, local = self.mount.statvfs(), os.statvfs(self.export.folder)
        self.assertEqual(space.total, local.f_blocks * local.f_frsize)
        self.assertGreaterEqual(space.total, space.free)
        self.assertGreaterEqual(space.free, space.available)
        self.assertFails(FileNotFoundError, "absent", self.mount.statvfs, "absent")

    def test_closed(self):
        self.mount.close()
        self.assertTrue(self.mount.closed)
        self.mount.close()
        with self.assertRaisesRegex(ValueError, "closed mount"):
            self.mount.stat("")
        with self.assertRaisesRegex(ValueError, "closed mount"):
            with self.mount:
                pass

    def test_a_file_in_the_url_is_no_directory_to_mount_in(self):
        self.export.write("file", b"contents")
        with penstock.connect(self.export.url("/export/file", *self.WAY)) as mount:
            self.assertTrue(mount.stat("").is_file())
            self.assertEqual(mount.read_bytes(""), b"contents")
        with self.assertRaises(FileNotFoundError):
            with penstock.connect(self.export.url("/nowhere", *self.WAY)) as mount:
                mount.stat("")  # version 4 mounts the root, from which the path leads

    # ---- attributes ----

    def test_stat(self):
        self.export.write("file", b"12345")
        os.chmod(self.export.path("file"), 0o640)
        os.utime(self.export.path("file"), ns=(10**18 + 123456789, 10**18 + 987654321))
        mine, real = self.mount.stat("file"), os.stat(self.export.path("file"))
        for name in ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_atime_ns", "st_mtime_ns", "st_ctime_ns"):
            self.assertEqual(getattr(mine, name), getattr(real, name), name)
        self.assertEqual((mine.st_mtime, mine.st_atime), (real.st_mtime, real.st_atime))
        self.assertTrue(mine.is_file())
        self.assertEqual(mine, self.mount.stat(b"/file"))
        self.assertIn("st_size=5", repr(mine))
        self.assertTrue(self.mount.stat("").is_dir())
        self.assertTrue(self.mount.stat("/").is_dir())
        self.assertFails(FileNotFoundError, "absent", self.mount.stat, "absent")
        self.assertFails(NotADirectoryError, "file/x", self.mount.stat, "file/x")
        with self.assertRaises(ValueError):
            self.mount.stat("nul\0")
        with self.assertRaises(TypeError):
            self.mount.stat(7)

    def test_change(self):
        self.mount.write_bytes("file", b"1")
        before = self.mount.stat("file").change
        self.mount.write_bytes("file", b"2")
        after = self.mount.stat("file").change
        self.assertTrue(after != before or self.WAY[1] == "3")

    def test_is(self):
        self.export.write("file", b"")
        os.symlink("file", self.export.path("link"))
        os.symlink("nowhere", self.export.path("dangling"))
        found = {name: (self.mount.exists(name), self.mount.is_file(name), self.mount.is_dir(name), self.mount.is_symlink(name))
                 for name in ("", "file", "link", "dangling", "absent", "file/below")}
        self.assertEqual(found, {"": (True, False, True, False), "file": (True, True, False, False), "link": (True, True, False, True),
                                 "dangling": (False, False, False, True), "absent": (False,) * 4, "file/below": (False,) * 4})
        self.assertTrue(self.mount.exists("dangling", follow_symlinks=False))

    def test_set_attributes(self):
        self.export.write("file", b"1234567")
        path = self.export.path("file")
        self.mount.chmod("file", stat.S_IFREG | 0o4751)
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o4751)
        self.mount.chown("file", 1234, 4321)
        self.mount.chown("file", gid=17)
        self.mount.chown("file")
        self.assertEqual((os.stat(path).st_uid, os.stat(path).st_gid), (1234, 17))
        self.mount.truncate("file", 3)
        self.assertEqual(self.export.read("file"), b"123")
        self.mount.truncate("file", 5)
        self.assertEqual(self.export.read("file"), b"123\0\0")
        self.mount.utime("file", ns=(1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        self.assertEqual((os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns), (1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        self.mount.utime("file", (1.5, 2.25))
        self.assertEqual((os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns), (1_500_000_000, 2_250_000_000))
        self.mount.utime("file")
        self.assertGreater(os.stat(path).st_mtime, 1_700_000_000)
        with self.assertRaises(ValueError):
            self.mount.utime("file", (1, 2), ns=(1, 2))
        os.symlink("file", self.export.path("link"))
        self.mount.chown("link", 77, follow_symlinks=False)
        self.assertEqual((os.lstat(self.export.path("link")).st_uid, os.stat(path).st_uid), (77, 1234))
        for function, arguments in ((self.mount.chmod, (0o644,)), (self.mount.chown, (1, 1)), (self.mount.truncate, (1,)),
                                    (self.mount.utime, ())):
            self.assertFails(FileNotFoundError, "absent", function, "absent", *arguments)

    # ---- names ----

    def test_directories(self):
        self.mount.mkdir("one", 0o711)
        self.assertEqual(os.stat(self.export.path("one")).st_mode & 0o7777, 0o711)
        self.assertFails(FileExistsError, "one", self.mount.mkdir, "one")
        self.assertFails(FileNotFoundError, "absent/two", self.mount.mkdir, "absent/two")
        self.mount.makedirs("one/two/three")
        self.mount.makedirs("one/two/three", exist_ok=True)
        self.mount.makedirs(b"one/two/four/five/")
        self.mount.makedirs("/", exist_ok=True)
        self.assertFails(FileExistsError, "one/two/three", self.mount.makedirs, "one/two/three")
        self.export.write("one/file", b"")
        self.assertFails(FileExistsError, "one/file", self.mount.makedirs, "one/file", exist_ok=True)
        error = self.assertFails(OSError, "one", self.mount.rmdir, "one")
        self.assertEqual(error.errno, errno.ENOTEMPTY)
        self.assertFails(NotADirectoryError, "one/file", self.mount.rmdir, "one/file")
        self.assertEqual(sorted(self.mount.listdir("one")), ["file", "two"])
        self.assertEqual(sorted(self.mount.listdir(b"one")), [b"file", b"two"])
        self.assertFails(NotADirectoryError, "one/file", self.mount.listdir, "one/file")
        self.assertFails(FileNotFoundError, "absent", self.mount.scandir, "absent")
        self.mount.rmdir("one/two/three")
        os.symlink("/", self.export.path("one/outside"))
        self.mount.rmtree("one")
        self.assertEqual(os.listdir(self.export.folder), [])

    def test_scandir(self):
        os.mkdir(self.export.path("folder"))
        self.export.write("folder/file", b"123")
        os.symlink("file", self.export.path("folder/link"))
        os.symlink("nowhere", self.export.path("folder/dangling"))
        os.mkdir(self.export.path("folder/below"))
        with self.mount.scandir("folder") as entries:
            found = {entry.name: entry for entry in entries}
        self.assertEqual({name: (entry.is_file(), entry.is_dir(), entry.is_symlink(), entry.path) for name, entry in found.items()},
                         {"file": (True, False, False, "folder/file"), "link": (True, False, True, "folder/link"),
                          "dangling": (False, False, True, "folder/dangling"), "below": (False, True, False, "folder/below")})
        self.assertEqual(found["link"].stat().st_size, 3)
        self.assertTrue(found["link"].stat(follow_symlinks=False).is_symlink())
        self.assertFalse(found["link"].is_file(follow_symlinks=False))
        self.assertEqual(found["file"].inode(), os.stat(self.export.path("folder/file")).st_ino)
        self.assertEqual(self.mount.read_bytes(found["file"]), b"123")
        self.assertEqual(list(entries), [])

    def test_many_entries(self):
        names = {f"{number:04}-{'n' * 60}" for number in range(3000)}
        for name in names:
            self.export.write(name, b"")
        self.assertEqual(set(self.mount.listdir()), names)
        self.assertEqual({entry.name for entry in self.mount.scandir("/")}, names)

    def test_walk(self):
        self.mount.makedirs("a/b/c")
        self.mount.write_bytes("a/1", b"")
        self.mount.write_bytes("a/b/2", b"")
        self.mount.symlink("b", "a/link")
        self.assertEqual([(path, sorted(folders), files) for path, folders, files in self.mount.walk("a")],
                         [("a", ["b", "link"], ["1"]), ("a/b", ["c"], ["2"]), ("a/b/c", [], [])])
        self.assertEqual([path for path, _, _ in self.mount.walk("a", topdown=False)], ["a/b/c", "a/b", "a"])
        followed = {path for path, _, _ in self.mount.walk("a", followlinks=True)}
        self.assertEqual(followed, {"a", "a/b", "a/b/c", "a/link", "a/link/c"})
        pruned = []
        for path, folders, _ in self.mount.walk("a"):
            pruned.append(path)
            folders.clear()
        self.assertEqual(pruned, ["a"])
        errors = []
        self.assertEqual(list(self.mount.walk("absent", onerror=errors.append)), [])
        self.assertIsInstance(errors[0], FileNotFoundError)

    def test_links_and_renames(self):
        self.mount.write_bytes("one", b"1")
        self.mount.link("one", "again")
        self.assertEqual(self.mount.stat("one").st_nlink, 2)
        self.assertFails(FileExistsError, "one", self.mount.link, "one", "again")
        self.mount.symlink("one", "soft")
        self.assertEqual((self.mount.readlink("soft"), self.mount.readlink(b"soft")), ("one", b"one"))
        self.mount.symlink("x" * 1000, "long")
        self.assertEqual(self.mount.readlink("long"), "x" * 1000)
        error = self.assertFails(OSError, "one", self.mount.readlink, "one")
        self.assertEqual(error.errno, errno.EINVAL)
        self.mount.rename("one", "two")
        self.assertFalse(self.mount.exists("one"))
        self.mount.write_bytes("three", b"3")
        self.mount.replace("two", "three")
        self.assertEqual(self.mount.read_bytes("three"), b"1")
        error = self.assertFails(FileNotFoundError, "absent", self.mount.rename, "absent", "elsewhere")
        self.assertEqual(error.filename2, "elsewhere")
        self.mount.unlink("three")
        self.mount.remove("again")
        self.assertFails(FileNotFoundError, "again", self.mount.unlink, "again")
        self.mount.unlink("again", missing_ok=True)
        self.mount.mkdir("folder")
        self.assertFails(IsADirectoryError, "folder", self.mount.unlink, "folder")

    def test_names_are_octets(self):
        for name in ("grün", "a b?c#d%20", "\N{SNOWMAN}"):
            self.mount.write_bytes(name, name.encode())
            self.assertEqual(self.export.read(name), name.encode())
        self.assertEqual(set(self.mount.listdir()), {"grün", "a b?c#d%20", "\N{SNOWMAN}"})
        if self.WAY[1] == "3":  # version 4 wants UTF-8
            self.mount.write_bytes(b"\xff", b"octet")
            self.assertIn("\udcff", self.mount.listdir())
            self.assertEqual(self.mount.read_bytes("\udcff"), b"octet")

    # ---- contents ----

    def test_whole_files(self):
        for data in (b"", b"x", LARGE):
            self.assertIsNone(self.mount.write_bytes("file", data, mode=0o600))
            self.assertEqual(self.export.read("file"), data)
            self.assertEqual(self.mount.read_bytes("file"), data)
        self.assertEqual(os.stat(self.export.path("file")).st_mode & 0o7777, 0o600)
        self.mount.write_bytes("file", memoryview(bytearray(b"0123456789"))[2:5])
        self.assertEqual(self.export.read("file"), b"234")
        self.mount.write_text("file", "grün\n")
        self.assertEqual(self.mount.read_text("file"), "grün\n")
        self.assertFails(FileNotFoundError, "absent", self.mount.read_bytes, "absent")
        self.assertFails(IsADirectoryError, "", self.mount.read_bytes, "")
        self.assertFails(FileNotFoundError, "absent/x", self.mount.write_bytes, "absent/x", b"")
        with self.assertRaises(TypeError):
            self.mount.write_bytes("file", "text")

    def test_download_and_upload(self):
        local = os.path.join(self.export.scratch, "local")
        self.export.write("large", LARGE)
        told = []
        self.assertEqual(self.mount.download("large", local, progress=lambda *how_far: told.append(how_far)), len(LARGE))
        with open(local, "rb") as file:
            self.assertEqual(file.read(), LARGE)
            self.assertEqual(self.mount.upload(file, "by-object"), len(LARGE))
            self.assertEqual(self.mount.upload(file.fileno(), "by-descriptor", mode=0o600), len(LARGE))
        self.assertEqual(told[-1], (len(LARGE), len(LARGE)))
        self.assertEqual(told, sorted(told))
        told.clear()
        self.assertEqual(self.mount.upload(local, "by-path", progress=lambda *how_far: told.append(how_far)), len(LARGE))
        self.assertEqual(told[-1], (len(LARGE), len(LARGE)))
        for name in ("by-object", "by-descriptor", "by-path"):
            self.assertEqual(self.export.read(name), LARGE)
        self.assertEqual(os.stat(self.export.path("by-descriptor")).st_mode & 0o7777, 0o600)
        self.assertFails(FileNotFoundError, "absent", self.mount.download, "absent", local + ".new")
        self.assertFalse(os.path.exists(local + ".new"))
        self.assertFails(FileNotFoundError, local + ".absent", self.mount.upload, local + ".absent", "never")
        self.assertFalse(self.mount.exists("never"))
        with open(local, "wb") as file:
            file.write(b"before")
            self.mount.download("large", file)
        self.assertEqual(os.path.getsize(local), len(LARGE))

        def interrupt(*_):
            raise RuntimeError("enough")
        with self.assertRaisesRegex(RuntimeError, "enough"):
            self.mount.download("large", local, progress=interrupt)
        self.assertIsNone(self.mount.ping())
        os.unlink(local)

    def test_copy(self):
        self.export.write("large", LARGE)
        told = []
        self.assertEqual(self.mount.copy("large", "copied", progress=lambda *how_far: told.append(how_far)), len(LARGE))
        self.assertEqual(self.export.read("copied"), LARGE)
        self.assertEqual(told[-1], (len(LARGE), len(LARGE)))

    # ---- open files ----

    def test_open_for_text(self):
        with self.mount.open("text", "w") as file:
            self.assertIsInstance(file, io.TextIOWrapper)
            self.assertEqual((file.name, file.mode), ("text", "w"))
            file.write("one\ntwo\nthree")
        with self.mount.open("text") as file:
            self.assertEqual(list(file), ["one\n", "two\n", "three"])
        with self.mount.open("text", "a", encoding="utf-16-le") as file:
            self.assertEqual(file.tell(), 13)
            file.write("!")
        self.assertEqual(self.export.read("text"), b"one\ntwo\nthree!\0")
        with self.mount.open("text", "w", 1) as file:
            file.write("line\n")
            self.assertEqual(self.export.read("text"), b"line\n")

    def test_open_for_octets(self):
        with self.mount.open("file", "xb", permissions=0o640) as file:
            self.assertIsInstance(file, io.BufferedWriter)
            file.write(LARGE)
        self.assertEqual(self.export.read("file"), LARGE)
        self.assertEqual(os.stat(self.export.path("file")).st_mode & 0o7777, 0o640)
        self.assertFails(FileExistsError, "file", self.mount.open, "file", "xb")
        with self.mount.open("file", "rb", 5000) as file:
            self.assertIsInstance(file, io.BufferedReader)
            self.assertEqual(file.read(10), LARGE[:10])
            self.assertEqual(file.seek(-7, os.SEEK_END), len(LARGE) - 7)
            self.assertEqual(file.read(), LARGE[-7:])
            self.assertEqual(file.seek(100), 100)
            self.assertEqual(file.read(20000), LARGE[100:20100])
            with self.assertRaises(io.UnsupportedOperation):
                file.write(b"")
            with self.assertRaises(io.UnsupportedOperation):
                file.fileno()
        with self.mount.open("file", "r+b") as file:
            self.assertIsInstance(file, io.BufferedRandom)
            file.seek(2)
            file.write(b"HERE")
            file.seek(0)
            self.assertEqual(file.read(8), LARGE[:2] + b"HERE" + LARGE[6:8])
            file.truncate(6)
        self.assertEqual(self.export.read("file"), LARGE[:2] + b"HERE")
        with self.mount.open("file", "ab") as file:
            file.write(b"more")
        self.assertEqual(self.export.read("file"), LARGE[:2] + b"HEREmore")
        with self.mount.open("file", "w+b") as file:
            file.write(b"new")
            file.seek(0)
            self.assertEqual(file.read(), b"new")

    def test_open_refuses(self):
        self.assertFails(FileNotFoundError, "absent", self.mount.open, "absent")
        self.assertFails(FileNotFoundError, "absent/x", self.mount.open, "absent/x", "w")
        self.assertFails(IsADirectoryError, "", self.mount.open, "", "rb")
        for mode, how in (("rw", {}), ("rb", {"encoding": "utf-8"}), ("r", {"buffering": 0})):
            with self.assertRaises(ValueError):
                self.mount.open("absent", mode, **how)

    def test_raw(self):
        with self.mount.open("file", "w+b", 0) as file:
            self.assertIsInstance(file, penstock.File)
            self.assertEqual((file.readable(), file.writable(), file.seekable(), file.isatty()), (True, True, True, False))
            self.assertEqual(file.write(b"0123456789"), 10)
            self.assertEqual(file.tell(), 10)
            file.seek(3)
            room = bytearray(4)
            self.assertEqual(file.readinto(room), 4)
            self.assertEqual(room, b"3456")
            self.assertEqual(file.readall(), b"789")
            self.assertEqual(file.readall(), b"")
            self.assertEqual(file.read(5), b"")
            self.assertEqual(file.pread(3, 2), b"234")
            self.assertEqual(file.pread(100, 8), b"89")
            self.assertEqual(file.pread(10, 1000), b"")
            self.assertEqual(file.pread(0, 0), b"")
            self.assertEqual(file.preadinto(memoryview(room)[1:3], 0), 2)
            self.assertEqual(room, b"3016")
            self.assertEqual(file.pwrite(memoryview(b"abc")[1:], 12), 2)
            self.assertEqual(file.stat().st_size, 14)
            self.assertEqual(file.truncate(5), 5)
            file.seek(2)
            self.assertEqual(file.truncate(), 2)
            self.assertIsNone(file.fsync())
            self.assertEqual(file.stat().st_size, 2)
            with self.assertRaises(ValueError):
                file.pread(-1, 0)
            with self.assertRaises(OSError):
                file.seek(-1)
            with self.assertRaises(ValueError):
                file.seek(0, 9)
            with self.assertRaises((TypeError, BufferError)):
                file.readinto(b"read-only")
            self.assertIn("name='file'", repr(file))
        self.assertTrue(file.closed)
        file.close()
        for function in (file.tell, file.readall, file.stat, file.fsync, lambda: file.write(b"x"), lambda: file.pread(1, 0)):
            with self.assertRaises(ValueError):
                function()
        with self.mount.open("file", "rb", 0) as file:
            for function in (lambda: file.write(b"x"), lambda: file.truncate(0), lambda: file.pwrite(b"x", 0)):
                with self.assertRaises(io.UnsupportedOperation):
                    function()
        with self.mount.open("file", "ab", 0, sync=True) as file:
            with self.assertRaises(io.UnsupportedOperation):
                file.pread(1, 0)
            self.assertEqual(file.write(b"Z"), 1)
            self.assertEqual(self.export.read("file"), b"01Z")

    def test_a_buffer_is_not_resized_while_it_is_read_into(self):
        self.export.write("file", b"x" * 100)
        room = bytearray(100)
        with self.mount.open_raw("file") as file:
            file.preadinto(room, 0)
        room.extend(b"y")  # nothing holds it any more
        self.assertEqual(room, b"x" * 100 + b"y")

    def test_locks(self):
        with self.mount.open("file", "w+b", 0) as one, self.mount.open("file", "r+b", 0) as two:
            one.lock(10, 20)
            with self.assertRaises(BlockingIOError):
                two.lock(15, 1)
            self.assertEqual(two.test_lock(0, 0, exclusive=False), penstock.Lock(10, 20, True))
            self.assertIsNone(two.test_lock(0, 10))
            with self.assertRaises(BlockingIOError):
                one.lock(10, 20, owner="another")
            two.lock(30, 0, exclusive=False)
            one.lock(30, 0, exclusive=False)
            one.unlock(10, 20)
            two.lock(10, 20, wait=5)

    def test_files_that_are_open_are_closed_with_the_mount(self):
        text, raw = self.mount.open("text", "w"), self.mount.open("raw", "wb", 0)
        text.write("not yet written")
        raw.write(b"octets")
        self.assertEqual(self.export.read("text"), b"")
        self.mount.close()
        self.assertTrue(text.closed and raw.closed)
        self.assertEqual((self.export.read("text"), self.export.read("raw")), (b"not yet written", b"octets"))

    def test_threads(self):
        contents = {f"file-{number}": os.urandom(200_000 + number) for number in range(8)}
        failed = []

        def work(name, data):
            try:
                for _ in range(5):
                    self.mount.write_bytes(name, data)
                    with self.mount.open(name, "rb") as file:
                        assert file.read() == data
                    assert self.mount.stat(name).st_size == len(data)
            except BaseException as why:
                failed.append(why)
        threads = [threading.Thread(target=work, args=each) for each in contents.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_one_file_and_many_threads(self):
        self.export.write("large", LARGE)
        failed = []
        with self.mount.open_raw("large") as file:
            def work(start):
                try:
                    for offset in range(start, len(LARGE), 400_000):
                        assert file.pread(50_000, offset) == LARGE[offset:offset + 50_000]
                except BaseException as why:
                    failed.append(why)
            threads = [threading.Thread(target=work, args=(50_000 * number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])


class Log(ExportTest):
    def test_messages_become_records(self):
        logger, records = logging.getLogger("penstock-test"), []
        handler = logging.Handler()
        handler.emit = records.append
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        with penstock.Runtime(log=logger) as runtime, penstock.connect(self.export.url(), runtime=runtime) as mount:
            mount.ping()
            self.export.server.kill()
            self.export.server.start()
            mount.stat("")
            self.assertEqual(mount.info().reconnections, 1)
        self.assertTrue(records)
        for record in records:
            self.assertTrue(record.name.startswith("penstock-test."), record.name)
            self.assertNotIn("\n", record.getMessage())
        print(*(f"{record.levelname} {record.name}: {record.getMessage()}" for record in records), sep="\n")


def load_tests(loader, _, __):
    """Makes a class of tests for each transport and version."""
    suite = unittest.TestSuite()
    for transport, version in WAYS:
        kind = type(f"Mounted_{transport}_{version.replace('.', '')}", (Mounted,), {"WAY": (transport, version)})
        suite.addTests(loader.loadTestsFromTestCase(kind))
    suite.addTests(loader.loadTestsFromTestCase(Log))
    return suite


if __name__ == "__main__":
    main()
