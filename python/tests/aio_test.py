#!/usr/bin/python3
"""penstock.aio: operations in an event loop of asyncio, without threads."""

import asyncio
import gc
import os
import threading
import time
import warnings

from served import ExportTest, main, penstock

import penstock.aio

CONTENTS = os.urandom(2_000_003)


class Aio(ExportTest):
    def run_loop(self, function):
        """Runs function(mount) in an event loop, with a mount."""
        async def connected():
            async with penstock.aio.connect(self.export.url(), timeout=120) as mount:
                return await function(mount)
        return asyncio.run(connected())

    def test_operations(self):
        async def work(mount):
            self.assertEqual((await mount.info()).version, "4.1")
            await mount.ping()
            await mount.makedirs("a/b/c")
            await mount.makedirs("a/b/c", exist_ok=True)
            with self.assertRaises(FileExistsError):
                await mount.mkdir("a")
            await mount.write_bytes("a/file", CONTENTS)
            self.assertEqual(await mount.read_bytes("a/file"), CONTENTS)
            self.assertEqual(await mount.read("a/file"), CONTENTS)
            self.assertEqual(await mount.read("a/file", 10, 5), CONTENTS[5:15])
            self.assertEqual(await mount.read("a/file", offset=len(CONTENTS) - 3), CONTENTS[-3:])
            self.assertEqual((await mount.stat("a/file")).st_size, len(CONTENTS))
            await mount.chmod("a/file", 0o600)
            await mount.chown("a/file", 5, 6)
            await mount.utime("a/file", (1, 2))
            await mount.truncate("a/file", 7)
            real = os.stat(self.export.path("a/file"))
            self.assertEqual((real.st_mode & 0o7777, real.st_uid, real.st_gid, real.st_size), (0o600, 5, 6, 7))
            await mount.link("a/file", "a/again")
            await mount.symlink("file", "a/soft")
            self.assertEqual(await mount.readlink("a/soft"), "file")
            await mount.rename("a/again", "a/renamed")
            self.assertEqual(sorted(await mount.listdir("a")), ["b", "file", "renamed", "soft"])
            kinds = {entry.name: (entry.is_file(), entry.is_dir(), entry.is_symlink()) for entry in await mount.scandir("a")}
            self.assertEqual(kinds, {"b": (False, True, False), "file": (True, False, False), "renamed": (True, False, False),
                                     "soft": (False, False, True)})
            self.assertEqual([(path, folders, sorted(files)) async for path, folders, files in mount.walk("a")],
                             [("a", ["b"], ["file", "renamed", "soft"]), ("a/b", ["c"], []), ("a/b/c", [], [])])
            self.assertEqual((await mount.exists("a/file"), await mount.exists("x"), await mount.is_dir("a"), await mount.is_file("a"),
                              await mount.is_dir("x"), await mount.is_file("x")), (True, False, True, False, False, False))
            self.assertGreater((await mount.statvfs()).total, 0)
            await mount.rmtree("a/b")
            await mount.unlink("a/renamed")
            with self.assertRaises(OSError):
                await mount.rmdir("a")
            with self.assertRaises(FileNotFoundError) as caught:
                await mount.stat("absent")
            self.assertEqual(caught.exception.filename, "absent")
        self.run_loop(work)

    def test_files(self):
        async def work(mount):
            async with await mount.open("file", "w+") as file:
                self.assertEqual(await file.write(b"0123456789"), 10)
                self.assertEqual(file.tell(), 10)
                self.assertEqual(await file.seek(2), 2)
                self.assertEqual(await file.read(3), b"234")
                self.assertEqual(await file.read(), b"56789")
                self.assertEqual(await file.seek(-1, os.SEEK_END), 9)
                self.assertEqual(await file.seek(-1, os.SEEK_CUR), 8)
                room = bytearray(3)
                self.assertEqual(await file.preadinto(room, 4), 3)
                self.assertEqual(room, b"456")
                self.assertEqual(await file.pwrite(b"X", 0), 1)
                await file.truncate(4)
                await file.fsync()
                self.assertEqual((await file.stat()).st_size, 4)
            self.assertTrue(file.closed)
            with self.assertRaises(ValueError):
                await file.read()
            await file.close()
            async with await mount.open("file", "a") as file:
                await file.write(b"end")
            self.assertEqual(self.export.read("file"), b"X123end")
            with self.assertRaises(FileExistsError):
                await mount.open("file", "x")
            left = await mount.open("file")
            await mount.close()
            self.assertTrue(left.closed and mount.closed)
            with self.assertRaises(ValueError):
                await mount.ping()
        self.run_loop(work)

    def test_download_and_upload(self):
        local = os.path.join(self.export.scratch, "local")

        async def work(mount):
            self.export.write("file", CONTENTS)
            told = []
            self.assertEqual(await mount.download("file", local, progress=lambda *far: told.append(far)), len(CONTENTS))
            self.assertEqual(told[-1], (len(CONTENTS), len(CONTENTS)))
            self.assertEqual(await mount.upload(local, "again"), len(CONTENTS))
            self.assertEqual(self.export.read("again"), CONTENTS)

            def refuse(*_):
                raise RuntimeError("enough")
            with self.assertRaisesRegex(RuntimeError, "enough"):
                await mount.download("file", local, progress=refuse)
            await mount.ping()
        self.run_loop(work)
        os.unlink(local)

    def test_a_thousand_reads_at_once(self):
        threads = []

        async def work(mount):
            self.export.write("file", CONTENTS)
            async with await mount.open("file") as file:
                offsets = [number * 2000 for number in range(1000)]
                parts = asyncio.gather(*(file.pread(2000, offset) for offset in offsets))
                await asyncio.sleep(0)
                threads.append(threading.active_count())
                self.assertEqual(b"".join(await parts), CONTENTS[:2_000_000])
                whole = await asyncio.gather(*(mount.read_bytes("file") for _ in range(50)))
                self.assertTrue(all(data == CONTENTS for data in whole))
        self.run_loop(work)
        self.assertEqual(threads, [threading.active_count()])

    def test_other_tasks_go_on_meanwhile(self):
        async def work(mount):
            steps = 0

            async def count():
                nonlocal steps
                while True:
                    steps += 1
                    await asyncio.sleep(0.001)
            counting = asyncio.create_task(count())
            with self.export.silent(), self.assertRaises(TimeoutError):
                await mount.ping(timeout=1)
            counting.cancel()
            self.assertGreater(steps, 20)
        self.run_loop(work)

    def test_a_cancelled_task_cancels_its_operation(self):
        async def work(mount):
            self.export.write("file", b"contents")
            async with await mount.open("file") as file:
                room = bytearray(8)
                with self.export.silent():
                    for make in (lambda: file.preadinto(room, 0), lambda: mount.stat("file"), lambda: mount.open("file"),
                                 lambda: mount.listdir(), lambda: mount.read_bytes("file"),
                                 lambda: penstock.aio.connect(self.export.url())):
                        async def wait(make=make):
                            await make()
                        task = asyncio.create_task(wait())
                        await asyncio.sleep(0.05)
                        began = time.monotonic()
                        task.cancel()
                        with self.assertRaises(asyncio.CancelledError):
                            await task
                        self.assertLess(time.monotonic() - began, 30)
                    room.extend(b"!")  # nothing uses the buffer any more
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(mount.ping(), 0.1)
                self.assertEqual(await file.read(), b"contents")
            self.assertEqual(mount.runtime._waiting, {})
        self.run_loop(work)

    def test_several_mounts_share_a_runtime_that_ends_with_them(self):
        async def work():
            one = await penstock.aio.connect(self.export.url())
            two = await penstock.aio.connect(self.export.url(version="3"))
            self.assertIs(one.runtime, two.runtime)
            await asyncio.gather(one.write_bytes("1", b"1"), two.write_bytes("2", b"2"))
            await one.close()
            self.assertTrue(two.runtime._handle.is_open)
            await two.close()
            self.assertFalse(two.runtime._handle.is_open)
            async with penstock.aio.connect(self.export.url()) as three:
                self.assertIsNot(three.runtime, one.runtime)
                self.assertEqual(sorted(await three.listdir()), ["1", "2"])
        asyncio.run(work())

    def test_a_runtime_of_its_own(self):
        async def work():
            runtime = penstock.aio.Runtime()
            async with penstock.aio.connect(self.export.url(), runtime=runtime) as mount:
                with self.assertRaises(OSError):
                    runtime.close()
                await mount.ping()
            runtime.close()
            runtime.close()
            with self.assertRaises(ValueError):
                await penstock.aio.connect(self.export.url(), runtime=runtime)
        asyncio.run(work())

    def test_a_mount_belongs_to_its_loop(self):
        async def make():
            return await penstock.aio.connect(self.export.url())

        async def use(mount):
            with self.assertRaisesRegex(RuntimeError, "another event loop"):
                await mount.ping()
        loop = asyncio.new_event_loop()
        mount = loop.run_until_complete(make())
        asyncio.run(use(mount))
        loop.run_until_complete(mount.close())
        loop.close()

    def test_forgotten_objects_are_closed(self):
        async def work():
            mount = await penstock.aio.connect(self.export.url())
            runtime = mount.runtime
            file = await mount.open("file", "w")
            await file.write(b"1")
            del mount, file
            gc.collect()
            while runtime._handle.is_open:
                await asyncio.sleep(0.01)

        async def leave():
            mount = await penstock.aio.connect(self.export.url())
            return mount, await mount.open("file")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            asyncio.run(work())
            left = asyncio.run(leave())  # the loop is closed when they are forgotten
            runtime = left[0].runtime
            del left
            gc.collect()
        self.assertEqual((self.export.read("file"), runtime._waiting), (b"1", {}))
        runtime._handle.close()  # it has no mounts any more
        self.assertTrue(any(issubclass(warning.category, ResourceWarning) for warning in warned))

    def test_failures_of_connecting(self):
        async def work():
            for url, error in (("nfs://127.0.0.1:1/?vers=4.1", ConnectionRefusedError), (self.export.url("/absent"), FileNotFoundError)):
                with self.assertRaises(error):
                    await penstock.aio.connect(url, timeout=60)
            left = [reference() for reference in penstock.aio._runtimes.values()]
            self.assertEqual([runtime for runtime in left if runtime and runtime._handle.is_open], [])
        asyncio.run(work())


if __name__ == "__main__":
    main()
