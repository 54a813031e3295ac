# SPDX-License-Identifier: MIT
"""What tools/bench makes of --peer-root DIR: what is there already, what is filled, and what a failure leaves behind.

usage: test-sid.py SOURCE_ROOT

Programs of the same names, in a folder of their own, stand for debootstrap and for all that needs root or a network.
"""

import contextlib
import fcntl
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path[:0] = [str(SOURCE / "tests/bench" / name) for name in ("memory", "peer")]

import sid  # noqa: E402

PROGRAMS = {
    "unshare": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
    "mount": 'echo "mount $*" >>"@LOG@"\n',
    # debootstrap --variant=minbase sid DIR MIRROR
    "debootstrap": 'echo "debootstrap $*" >>"@LOG@"\nmkdir -p "$3/usr/bin" "$3/debootstrap"\n'
                   'echo "no route" >"$3/debootstrap/debootstrap.log"\n@FAULT@\n',
    # chroot DIR apt-get WORDS
    "chroot": 'echo "chroot $*" >>"@LOG@"\n[ "$3" = install ] || exit 0\n@FAULT@\n'
              'backends=$1/usr/lib/x/ggml/backends0\nmkdir -p "$backends"\necho >"$backends/libggml-cpu-x64.so"\n'
              f'cd "$1/usr/bin"\nfor name in {" ".join(sid.PROGRAMS)}; do echo >$name; chmod 755 $name; done\n',
}


class Sid(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="confab-test-sid-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name).resolve()
        self.root, self.new, self.log = (self.folder / name for name in ("sid", "sid.new", "log"))
        (self.folder / "bin").mkdir()
        self.programs()
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        for patch in mock.patch.dict(os.environ, PATH=path), mock.patch.object(os, "geteuid", lambda: 0):
            patch.start()
            self.addCleanup(patch.stop)

    def programs(self, **faults):
        for name, text in PROGRAMS.items():
            path = self.folder / "bin" / name
            text = text.replace("@LOG@", str(self.log)).replace("@FAULT@", faults.get(name, ""))
            path.write_text("#!/bin/sh\n" + text)
            path.chmod(0o755)

    def make(self):
        """What it says; the text of a failure behind it."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            try:
                sid.check_root(str(self.root), sid.PROGRAMS)
                sid.make_root(str(self.root))
                failed = ""
            except SystemExit as e:
                failed = str(e.code)
        return said.getvalue(), failed

    def ran(self):
        return [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def names(self):
        return sorted(p.name for p in self.folder.iterdir() if p.name not in ("bin", "log"))

    def assert_whole(self):
        self.assertEqual(self.names(), ["sid"])
        self.assertEqual(sid.lacking(str(self.root), sid.PROGRAMS), [])
        self.assertFalse((self.root / sid.MARK).exists())
        self.assertEqual(self.root.stat().st_mode & 0o777, 0o755)

    def test_new(self):
        said, failed = self.make()
        self.assertEqual(failed, "")
        self.assertIn(f"making {self.root}", said)
        self.assert_whole()
        self.assertEqual(self.ran(), ["debootstrap", "mount", "mount", "chroot", "chroot", "chroot"])
        self.assertIn(f"debootstrap --variant=minbase sid {self.new} http", self.log.read_text())
        self.assertEqual(self.make(), ("", ""))  # whole now: nothing is done
        self.assertEqual(len(self.ran()), 6)

    def test_empty(self):
        self.root.mkdir(mode=0o700)
        self.assertEqual(self.make()[1], "")
        self.assert_whole()

    def test_in_folders_that_are_not_there(self):
        self.root = self.folder / "a/b/sid"
        self.assertEqual(self.make()[1], "")
        self.assertTrue((self.root / "usr/bin/llama-server").exists())

    def test_other_content(self):
        self.root.mkdir()
        (self.root / "mine").write_text("mine")
        said, failed = self.make()
        self.assertIn("there is no llama-bench, no llama-batched-bench, no llama-server", failed)
        self.assertIn("a new or empty folder is filled", failed)
        self.assertEqual((said, self.ran(), os.listdir(self.root)), ("", [], ["mine"]))

    def test_a_part_of_the_programs(self):
        server = self.root / "usr/bin/llama-server"
        server.parent.mkdir(parents=True)
        server.write_text("")
        server.chmod(0o755)
        sid.check_root(str(self.root), ["llama-server"])
        self.assertIn("there is no llama-bench, no llama-batched-bench, no llama-quantize in", self.make()[1])

    def test_a_file(self):
        self.root.write_text("mine")
        self.assertIn("there is no llama-bench", self.make()[1])
        self.assertEqual(self.root.read_text(), "mine")

    def test_failures_leave_the_folder_as_it_was(self):
        for name, fault, words in (("debootstrap", "echo E: no network; exit 7", "E: no network\nno route"),
                                   ("chroot", "echo E: no package; exit 7", "E: no package"),
                                   ("chroot", "exit 0", "without llama-bench")):
            for there in False, True:
                with self.subTest(name=name, fault=fault, there=there):
                    shutil.rmtree(self.root, ignore_errors=True)
                    if there:
                        self.root.mkdir(mode=0o700)
                    self.programs(**{name: fault})
                    self.assertIn(words, self.make()[1])
                    self.assertEqual(self.names(), ["sid"] if there else [])
                    self.assertEqual(list(self.root.glob("*")), [])
        self.programs()
        self.assertEqual(self.make()[1], "")
        self.assert_whole()

    def test_a_folder_that_is_filled_meanwhile(self):
        self.programs(chroot=f"mkdir -p {self.root}/mine")
        self.assertIn(f"cannot make {self.root}", self.make()[1])
        self.assertEqual(self.names(), ["sid"])
        self.assertEqual(os.listdir(self.root), ["mine"])

    def test_what_a_killed_run_left(self):
        self.new.mkdir()
        (self.new / sid.MARK).write_text("")
        (self.new / "half").write_text("")
        self.assertEqual(self.make()[1], "")
        self.assert_whole()
        self.assertFalse((self.root / "half").exists())

    def test_what_is_not_of_the_bench_stays(self):
        self.new.mkdir()
        (self.new / "mine").write_text("mine")
        self.assertIn("not of tools/bench", self.make()[1])
        self.assertEqual((self.names(), os.listdir(self.new), self.ran()), (["sid.new"], ["mine"], []))

    def test_another_run(self):
        self.new.mkdir()
        with open(self.new / sid.MARK, "w", encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            self.assertIn("another run is at work", self.make()[1])
        self.assertTrue(self.new.exists())

    def test_what_is_mounted(self):
        self.new.mkdir()
        (self.new / sid.MARK).write_text("")
        with mock.patch.object(sid, "mounts", lambda path: [path + "/dev"]):
            self.assertIn(f"{self.new}/dev is mounted", self.make()[1])
        self.assertTrue((self.new / sid.MARK).exists())
        self.assertEqual(sid.mounts("/proc")[0], "/proc")
        self.assertEqual(sid.mounts(str(self.new)), [])

    def test_without_debootstrap(self):
        with mock.patch.object(shutil, "which", lambda *_, **__: None):
            self.assertIn("apt-get install debootstrap", self.make()[1])
        self.assertEqual(self.names(), [])

    def test_a_mount_point(self):
        self.root.mkdir()
        with mock.patch.object(os.path, "ismount", lambda path: path == str(self.root)):
            self.assertIn("is a mount point", self.make()[1])

    def test_without_root(self):
        with mock.patch.object(os, "geteuid", lambda: 1000):
            self.assertIn("needs root", self.make()[1])

    def test_the_tool(self):
        """That its parts ask; without root they say so first."""
        self.root.mkdir()
        (self.root / "mine").write_text("mine")
        for part, missing in ("memory", "llama-server"), ("frontends", "llama-server"), ("peer", "llama-bench"):
            p = subprocess.run([sys.executable, SOURCE / "tools/bench", part, "--peer-root", self.root],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((p.returncode, p.stdout), (1, ""), p.stderr)
            self.assertRegex(p.stderr, f"^bench: (there is no {missing}|--peer-root needs root)")


def can_run_programs():
    with tempfile.TemporaryDirectory(prefix="confab-test-sid-") as folder:
        path = pathlib.Path(folder, "program")
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return os.access(path, os.X_OK)


if not can_run_programs():
    print("SKIP: no programs may run in", tempfile.gettempdir())
    sys.exit(77)
unittest.main()
