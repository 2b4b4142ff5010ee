#!/usr/bin/python3
"""penstock.NfsFileSystem: nfs:// URLs by fsspec, against the real server."""

import datetime
import multiprocessing
import os
import pickle
import sys
import unittest
import warnings

from served import SKIPPED, ExportTest, main, penstock

try:
    import fsspec
    from fsspec.callbacks import Callback
except ImportError as why:
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)
from penstock.filesystem import split_url

CONTENTS = os.urandom(1_500_001)


class Urls(unittest.TestCase):
    def test_parts(self):
        for url, parts in (("nfs://h/a/b", ("h", "/a/b", "")), ("nfs://h", ("h", "", "")), ("nfs://h:1/", ("h:1", "/", "")),
                           ("nfs://h?vers=3", ("h", "", "vers=3")), ("nfs://h/a?vers=4.2&noresvport", ("h", "/a", "vers=4.2&noresvport")),
                           ("nfs://h/a?.txt", ("h", "/a?.txt", "")), ("nfs://h/a?b?proto=rdma", ("h", "/a?b", "proto=rdma")),
                           ("nfs://h/a?", ("h", "/a", "")), ("/a?vers=3", ("", "/a?vers=3", "")),
                           ("nfs://h/a?color=red", ("h", "/a?color=red", ""))):
            self.assertEqual(split_url(url), parts, url)

    def test_paths(self):
        strip = penstock.NfsFileSystem._strip_protocol
        for url, path in (("nfs://h:1/a/b?vers=3", "/a/b"), ("nfs://h", "/"), ("nfs://h/", "/"), ("/a/b/", "/a/b"), ("a/b", "/a/b"),
                          ("/", "/"), ("", "/"), ("nfs://[::1]:2/x y", "/x y")):
            self.assertEqual(strip(url), path, url)
        self.assertEqual(strip(["nfs://h/a", "/b/"]), ["/a", "/b"])

    def test_options(self):
        options = penstock.NfsFileSystem._get_kwargs_from_urls
        self.assertEqual(options("nfs://h:20049/path?proto=rdma&vers=4.2&noresvport"),
                         {"host": "h", "port": 20049, "proto": "rdma", "vers": "4.2", "noresvport": True})
        self.assertEqual(options("nfs://[fe80::1%25eth0]/x"), {"host": "fe80::1%25eth0"})
        self.assertEqual(options("nfs://h?port=7"), {"host": "h", "port": 7})
        self.assertEqual(options("/path"), {})

    def test_urls_of_paths(self):
        fs = penstock.NfsFileSystem("h", 7, vers="4.2", proto="rdma", crc=False, noresvport=True, skip_instance_cache=True)
        url = fs.unstrip_protocol("/a/b")
        self.assertEqual(url, "nfs://h:7/a/b?proto=rdma&vers=4.2&crc=off&noresvport")
        self.assertEqual(fs.unstrip_protocol(url), url)
        self.assertEqual(penstock.NfsFileSystem("::1", skip_instance_cache=True).unstrip_protocol("x"), "nfs://[::1]/x")

    def test_the_entry_point(self):
        self.assertIs(fsspec.get_filesystem_class("nfs"), penstock.NfsFileSystem)


class FileSystem(ExportTest):
    def setUp(self):
        super().setUp()
        self.fs, path = fsspec.core.url_to_fs(self.export.url("/export"))
        self.assertEqual(path, "/export")
        self.assertIsInstance(self.fs, penstock.NfsFileSystem)
        self.addCleanup(self.fs.close)

    def test_instances_are_shared(self):
        self.assertIs(fsspec.core.url_to_fs(self.export.url("/export/x"))[0], self.fs)
        other = fsspec.core.url_to_fs(self.export.url("/export", version="4.2"))[0]
        self.assertIsNot(other, self.fs)
        self.assertNotEqual(other.fsid, self.fs.fsid)

    def test_what_is_there(self):
        fs = self.fs
        os.makedirs(self.export.path("a/b"))
        self.export.write("a/file", b"12345")
        os.symlink("file", self.export.path("a/link"))
        os.symlink("b", self.export.path("a/folder"))
        os.symlink("nowhere", self.export.path("a/dangling"))
        real = os.stat(self.export.path("a/file"))
        info = fs.info("/export/a/file")
        self.assertEqual({name: info[name] for name in ("name", "size", "type", "mode", "uid", "gid", "ino", "nlink", "mtime", "islink")},
                         {"name": "/export/a/file", "size": 5, "type": "file", "mode": real.st_mode, "uid": real.st_uid,
                          "gid": real.st_gid,
                          "ino": real.st_ino, "nlink": 1, "mtime": real.st_mtime, "islink": False})
        self.assertEqual(fs.info("/export/a")["type"], "directory")
        link = fs.info("/export/a/link")
        self.assertEqual((link["type"], link["size"], link["islink"], link["destination"]), ("file", 5, True, "file"))
        kinds = {each["name"]: each["type"] for each in fs.ls("/export/a", detail=True)}
        self.assertEqual(kinds, {"/export/a/b": "directory", "/export/a/file": "file", "/export/a/link": "file",
                                 "/export/a/folder": "link", "/export/a/dangling": "link"})
        self.assertEqual(sorted(fs.ls("/export/a", detail=False)), sorted(kinds))
        self.assertEqual(fs.ls("/export/a/file", detail=False), ["/export/a/file"])
        self.assertEqual([each["size"] for each in fs.ls("/export/a/file")], [5])
        for function in (fs.info, fs.ls, fs.created, fs.ukey):
            self.assertRaises(FileNotFoundError, function, "/export/absent")
        self.assertEqual([(fs.exists(name), fs.lexists(name), fs.isfile(name), fs.isdir(name)) for name in
                          ("/export/a", "/export/a/file", "/export/a/dangling", "/export/absent", "/export/a/file/x")],
                         [(True, True, False, True), (True, True, True, False), (False, True, False, False), (False,) * 4, (False,) * 4])
        self.assertEqual(fs.size("/export/a/file"), 5)
        self.assertAlmostEqual(fs.modified("/export/a/file").timestamp(), real.st_mtime, 5)
        self.assertEqual(fs.created("/export/a/file").tzinfo, datetime.timezone.utc)
        self.assertEqual(fs.du("/export/a/b"), 0)
        self.assertEqual(set(fs.find("/export/a")), set(kinds) - {"/export/a/b"})
        self.assertEqual(sorted(fs.glob("/export/a/f*")), ["/export/a/file", "/export/a/folder"])
        self.assertEqual([step[0] for step in fs.walk("/export/a")], ["/export/a", "/export/a/b"])
        self.assertIn("/export", fs.ls("/", detail=False))

    def test_ukey_and_checksum_change_with_the_file(self):
        seen = set()
        for contents in (b"1", b"2", b"22"):
            self.fs.pipe_file("/export/file", contents)
            self.assertEqual(self.fs.ukey("/export/file"), self.fs.ukey("/export/file"))
            seen.add((self.fs.ukey("/export/file"), self.fs.checksum("/export/file")))
        os.chmod(self.export.path("file"), 0o600)
        seen.add((self.fs.ukey("/export/file"), self.fs.checksum("/export/file")))
        self.assertEqual(len(seen), 4)

    def test_directories(self):
        fs = self.fs
        fs.mkdir("/export/a")
        self.assertRaises(FileExistsError, fs.mkdir, "/export/a")
        fs.mkdir("/export/b/c/d")
        self.assertRaises(FileNotFoundError, fs.mkdir, "/export/x/y", create_parents=False)
        fs.makedirs("/export/b/c/d", exist_ok=True)
        self.assertRaises(FileExistsError, fs.makedirs, "/export/b/c/d")
        self.assertRaises(OSError, fs.rmdir, "/export/b")
        fs.rmdir("/export/a")
        self.assertEqual(os.listdir(self.export.folder), ["b"])

    def test_removal(self):
        fs = self.fs
        fs.makedirs("/export/a/b/c")
        fs.makedirs("/export/kept")
        fs.pipe({"/export/a/1": b"1", "/export/a/b/2": b"2", "/export/x1": b"", "/export/x2": b"", "/export/kept/file": b""})
        os.symlink("../kept", self.export.path("a/link"))
        self.assertRaises(IsADirectoryError, fs.rm, "/export/a")
        with self.assertRaises(OSError):
            fs.rm("/export/a", recursive=True, maxdepth=1)
        self.assertEqual(sorted(os.listdir(self.export.path("a/b"))), ["2", "c"])
        fs.rm("/export/a", recursive=True)
        fs.rm("/export/x*")
        self.assertEqual(os.listdir(self.export.path("kept")), ["file"])
        fs.rm(["/export/kept/file"])
        self.assertRaises(FileNotFoundError, fs.rm, "/export/kept/file")
        self.assertRaises(FileNotFoundError, fs.rm_file, "/export/kept/file")
        self.assertRaises(FileNotFoundError, fs.rm, "/export/y*")
        self.assertEqual(os.listdir(self.export.folder), ["kept"])

    def test_moves_and_copies(self):
        fs = self.fs
        fs.pipe_file("/export/one", CONTENTS)
        fs.mv("/export/one", "/export/two")
        self.assertFalse(fs.exists("/export/one"))
        fs.makedirs("/export/folder/below")
        fs.mv("/export/two", "/export/folder")
        self.assertEqual(self.export.read("folder/two"), CONTENTS)
        fs.mv("/export/folder", "/export/renamed", recursive=True)
        self.assertEqual(self.export.read("renamed/two"), CONTENTS)
        fs.cp_file("/export/renamed/two", "/export/copied")
        self.assertEqual(self.export.read("copied"), CONTENTS)
        fs.copy("/export/renamed", "/export/tree", recursive=True)
        self.assertEqual(sorted(fs.find("/export/tree", withdirs=True))[-2:], ["/export/tree/below", "/export/tree/two"])
        self.assertRaises(FileNotFoundError, fs.mv, "/export/absent", "/export/x")
        self.assertRaises(FileNotFoundError, fs.cp_file, "/export/absent", "/export/x")
        self.assertFalse(fs.exists("/export/x"))

    def test_touch(self):
        self.fs.touch("/export/new")
        self.assertEqual(self.export.read("new"), b"")
        self.export.write("old", b"kept")
        os.utime(self.export.path("old"), (1, 1))
        self.fs.touch("/export/old", truncate=False)
        self.assertEqual(self.export.read("old"), b"kept")
        self.assertGreater(os.stat(self.export.path("old")).st_mtime, 1)
        self.fs.touch("/export/old")
        self.assertEqual(self.export.read("old"), b"")

    def test_contents(self):
        fs = self.fs
        fs.pipe_file("/export/file", CONTENTS)
        size = len(CONTENTS)
        for start, end in ((None, None), (0, 10), (5, None), (None, 7), (-9, None), (-9, -2), (10, 5), (size, None), (size - 1, size + 9),
                           (-2 * size, 3)):
            self.assertEqual(fs.cat_file("/export/file", start, end), CONTENTS[start:end], (start, end))
        self.assertEqual(fs.cat(["/export/file"]), {"/export/file": CONTENTS})
        self.assertEqual(fs.cat_ranges(["/export/file"] * 2, [0, 100], [3, 103]), [CONTENTS[:3], CONTENTS[100:103]])
        self.assertEqual((fs.head("/export/file", 4), fs.tail("/export/file", 4)), (CONTENTS[:4], CONTENTS[-4:]))
        with self.assertRaises(FileExistsError):
            fs.pipe_file("/export/file", b"", mode="create")
        fs.pipe_file("/export/created", b"1", mode="create")
        self.assertEqual(self.export.read("created"), b"1")
        self.assertRaises(FileNotFoundError, fs.cat_file, "/export/absent")
        self.assertRaises(IsADirectoryError, fs.cat_file, "/export")

    def test_get_and_put(self):
        class Told(Callback):
            steps = []

            def absolute_update(self, value):
                super().absolute_update(value)
                self.steps.append(value)
        self.export.write("file", CONTENTS)
        local, told = os.path.join(self.export.scratch, "got", "local"), Told()
        self.fs.get_file("/export/file", local, callback=told)
        with open(local, "rb") as file:
            self.assertEqual(file.read(), CONTENTS)
        self.assertEqual((told.size, told.value), (len(CONTENTS), len(CONTENTS)))
        self.assertEqual(Told.steps, sorted(Told.steps))
        told = Told()
        self.fs.put_file(local, "/export/made/by/put", callback=told)
        self.assertEqual(self.export.read("made/by/put"), CONTENTS)
        self.assertEqual((told.size, told.value), (len(CONTENTS), len(CONTENTS)))
        with self.assertRaises(FileExistsError):
            self.fs.put_file(local, "/export/made/by/put", mode="create")
        with open(local, "wb") as file:
            self.fs.get_file("/export/file", file)
        self.assertEqual(os.path.getsize(local), len(CONTENTS))
        self.fs.get("/export/made", os.path.join(self.export.scratch, "tree"), recursive=True)
        self.assertTrue(os.path.exists(os.path.join(self.export.scratch, "tree", "by", "put")))
        self.fs.put(os.path.join(self.export.scratch, "tree"), "/export/again", recursive=True)
        self.assertEqual(self.export.read("again/by/put"), CONTENTS)
        self.assertRaises(FileNotFoundError, self.fs.get_file, "/export/absent", local + ".new")
        self.assertFalse(os.path.exists(local + ".new"))

    # ---- open files ----

    def test_reading(self):
        self.export.write("file", CONTENTS)
        for options in ({}, {"cache_type": "none"}, {"cache_type": "bytes", "block_size": 1000},
                        {"cache_type": "readahead", "block_size": 4096}):
            with self.fs.open("/export/file", "rb", **options) as file:
                self.assertEqual(file.read(10), CONTENTS[:10])
                file.seek(1_000_000)
                self.assertEqual(file.read(100_000), CONTENTS[1_000_000:1_100_000])
                file.seek(-5, 2)
                self.assertEqual((file.read(), file.read()), (CONTENTS[-5:], b""))
                self.assertEqual((file.size, file.tell()), (len(CONTENTS), len(CONTENTS)))
        self.export.write("text", b"one\ntwo\n")
        with self.fs.open("/export/text", "r") as file:
            self.assertEqual(list(file), ["one\n", "two\n"])
        with self.fs.open("/export/text", "rb") as file:
            self.assertEqual(file.readlines(), [b"one\n", b"two\n"])
            self.assertEqual(file.info()["size"], 8)
        self.assertRaises(FileNotFoundError, self.fs.open, "/export/absent", "rb")
        self.assertRaises(IsADirectoryError, self.fs.open, "/export", "rb")

    def test_writing(self):
        with self.fs.open("/export/file", "wb", block_size=1000) as file:
            for start in range(0, 100_000, 777):
                file.write(CONTENTS[start:min(start + 777, 100_000)])
            self.assertGreaterEqual(os.path.getsize(self.export.path("file")), 99_000)
            self.assertEqual(file.tell(), 100_000)
        self.assertEqual(self.export.read("file"), CONTENTS[:100_000])
        with self.fs.open("/export/file", "wb"):
            pass
        self.assertEqual(self.export.read("file"), b"")
        with self.fs.open("/export/file", "w") as file:
            file.write("text\n")
        with self.fs.open("/export/file", "ab") as file:
            self.assertEqual(file.tell(), 5)
            file.write(b"more")
        with self.fs.open("/export/new", "ab") as file:
            file.write(b"appended")
        self.assertEqual((self.export.read("file"), self.export.read("new")), (b"text\nmore", b"appended"))
        with self.fs.open("/export/file", "r+b") as file:
            file.seek(1)
            file.write(b"EX")
        self.assertEqual(self.export.read("file"), b"tEXt\nmore")
        self.assertRaises(FileExistsError, self.fs.open, "/export/file", "xb")
        with self.fs.open("/export/exclusive", "xb") as file:
            file.write(b"1")
        self.assertEqual(self.export.read("exclusive"), b"1")
        self.assertRaises(FileNotFoundError, self.fs.open, "/export/absent/file", "wb")
        self.assertRaises(IsADirectoryError, self.fs.open, "/export", "wb")
        self.assertRaises((NotImplementedError, ValueError), self.fs.open, "/export/file", "qb")
        made = fsspec.core.url_to_fs(self.export.url("/export"), auto_mkdir=True)[0]
        with made.open("/export/x/y/z", "wb") as file:
            file.write(b"deep")
        self.assertEqual(self.export.read("x/y/z"), b"deep")
        made.close()

    def test_compression(self):
        with fsspec.open(self.export.url("/export/file.gz"), "wt", compression="infer") as file:
            file.write("text" * 1000)
        self.assertEqual(self.export.read("file.gz")[:2], b"\x1f\x8b")
        with fsspec.open(self.export.url("/export/file.gz"), "rt", compression="gzip") as file:
            self.assertEqual(file.read(), "text" * 1000)

    def test_transactions(self):
        fs = self.fs
        self.export.write("old", b"before")
        os.chmod(self.export.path("old"), 0o640)
        self.export.write("log", b"line 1\n")
        with fs.transaction:
            with fs.open("/export/old", "wb") as file:
                file.write(b"after")
            with fs.open("/export/new", "wb") as file:
                file.write(b"new")
            with fs.open("/export/log", "ab") as file:
                file.write(b"line 2\n")
            self.assertEqual((self.export.read("old"), self.export.read("log")), (b"before", b"line 1\n"))
            self.assertFalse(fs.exists("/export/new"))
        self.assertEqual([self.export.read(name) for name in ("old", "new", "log")], [b"after", b"new", b"line 1\nline 2\n"])
        self.assertEqual(os.stat(self.export.path("old")).st_mode & 0o7777, 0o640)
        with self.assertRaisesRegex(RuntimeError, "no"):
            with fs.transaction:
                with fs.open("/export/old", "wb") as file:
                    file.write(b"never")
                fs.open("/export/never", "wb").write(b"never")
                raise RuntimeError("no")
        self.assertEqual(self.export.read("old"), b"after")
        self.assertEqual(sorted(os.listdir(self.export.folder)), ["log", "new", "old"])
        file = fs.open("/export/committed", "xb", autocommit=False)
        file.write(b"1")
        file.commit()
        self.assertEqual(self.export.read("committed"), b"1")
        late = fs.open("/export/taken", "xb", autocommit=False)
        late.write(b"mine")
        self.export.write("taken", b"another's")
        self.assertRaises(FileExistsError, late.commit)
        late.discard()
        self.assertEqual(self.export.read("taken"), b"another's")
        self.assertEqual(sorted(os.listdir(self.export.folder)), ["committed", "log", "new", "old", "taken"])

    def test_urls(self):
        url = self.export.url("/export/grün & co.txt")
        with fsspec.open(url, "w") as file:
            file.write("1")
        self.assertEqual(self.export.read("grün & co.txt"), b"1")
        self.assertEqual(fsspec.open(url).full_name, self.fs.unstrip_protocol("/export/grün & co.txt"))
        for number in range(3):
            self.export.write(f"part-{number}", str(number).encode())
        files = fsspec.open_files(self.export.url("/export/part-*"))
        self.assertEqual([opened.open().read() for opened in files], [b"0", b"1", b"2"])
        mapper = fsspec.get_mapper(self.export.url("/export/store"), create=True)
        mapper["a/b"] = b"value"
        self.assertEqual((dict(mapper), self.export.read("store/a/b")), ({"a/b": b"value"}, b"value"))

    def test_version_3_finds_the_export_of_a_path(self):
        for transport in ("tcp", "rdma"):
            url = self.export.url("/export/file", transport, "3")
            with fsspec.open(url, "wb") as file:
                file.write(transport.encode())
            fs, path = fsspec.core.url_to_fs(url)
            self.assertEqual(fs.cat_file(path), transport.encode())
            self.assertRaises(FileNotFoundError, fs.info, "/elsewhere/file")
            fs.close()
            self.assertEqual(fs.cat_file(path), transport.encode())
            fs.close()

    def test_one_export(self):
        fs = fsspec.core.url_to_fs(self.export.url("/export"), export="/export", operation_timeout=60)[0]
        fs.pipe_file("/export/file", b"1")
        self.assertEqual(fs.ls("/export", detail=False), ["/export/file"])
        self.assertRaises(FileNotFoundError, fs.ls, "/")
        fs.close()

    def test_a_time_limit(self):
        fs = fsspec.core.url_to_fs(self.export.url("/export"), operation_timeout=0.3)[0]
        fs.ls("/export")
        with self.export.silent():
            self.assertRaises(TimeoutError, fs.exists, "/export/file")
        fs.close()

    # ---- processes ----

    def test_pickle(self):
        self.export.write("file", b"contents")
        copy = pickle.loads(pickle.dumps(self.fs))
        self.assertEqual((copy, copy.cat_file("/export/file")), (self.fs, b"contents"))
        opened = pickle.loads(pickle.dumps(fsspec.open(self.export.url("/export/file"))))
        with opened as file:
            self.assertEqual(file.read(), b"contents")

    def test_workers(self):
        self.fs.pipe_file("/export/file", CONTENTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    starts = list(range(0, 100_000, 10_000))
                    parts = pool.starmap(read_by_worker, [(self.fs, start) for start in starts])
                    self.assertEqual(b"".join(parts), CONTENTS[:100_000])
                    parts = pool.starmap(read_url_by_worker, [(self.export.url("/export/file"), start) for start in starts])
                    self.assertEqual(b"".join(parts), CONTENTS[:100_000])
        self.assertEqual(self.fs.cat_file("/export/file", 0, 4), CONTENTS[:4])

    def test_a_file_system_in_a_child(self):
        self.fs.pipe_file("/export/file", b"contents")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if self.fs.cat_file("/export/file") == b"contents" else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.fs.cat_file("/export/file"), b"contents")


def read_by_worker(fs, start):
    return fs.cat_file("/export/file", start, start + 10_000)


def read_url_by_worker(url, start):
    with fsspec.open(url) as file:
        file.seek(start)
        return file.read(10_000)


if __name__ == "__main__":
    main()
