# SPDX-License-Identifier: MIT
"""confab-model fsck: a sound state passes, every kind of damage is found, nothing is changed.

usage: fsck.py CONFAB_MODEL MAKE_STATE
"""

import fcntl
import glob
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

TOOL, MAKE = sys.argv[1:3]
N_RECORDS = 5 + 3  # of 150 and 70 tokens


class Fsck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for kind in "f16", "f32", "q8_0":
            cls.make(kind, kind)
        cls.make("crash", "f16", "crash")
        cls.make("forge", "f16", "forge")
        cls.make("foreign", "f16", "foreign")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def make(cls, name, *args):
        base = os.path.join(cls.folder.name, name)
        subprocess.run([MAKE, base, base + ".gguf", *args], check=True)

    def setUp(self):
        self.state = os.path.join(self.folder.name, "state")
        self.model = os.path.join(self.folder.name, "f16.gguf")

    def tearDown(self):
        shutil.rmtree(self.state, ignore_errors=True)

    def use(self, name):
        """A fresh copy of a state."""
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(os.path.join(self.folder.name, name), self.state)
        self.model = os.path.join(self.folder.name, name + ".gguf")

    def digest(self):
        ret = {}
        for path in glob.glob(self.state + "/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    ret[path] = hashlib.sha256(f.read()).hexdigest(), os.stat(path).st_mtime_ns
        return ret

    def fsck(self, *args):
        before = self.digest()
        p = subprocess.run([TOOL, "fsck", self.state, *args], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False)
        self.assertEqual(self.digest(), before)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def clean(self, *args):
        status, out, err = self.fsck(*args)
        self.assertEqual((status, err), (0, ""), out)
        self.assertTrue(out.endswith("clean\n"), out)
        return out

    def found(self, kind, part, *args):
        status, out, err = self.fsck(*args)
        self.assertEqual((status, err), (1, ""), out)
        lines = [line for line in out.splitlines() if line.startswith(kind + ":")]
        self.assertTrue(any(part in line for line in lines), out)
        self.assertRegex(out.splitlines()[-1], r"^\d+ findings?$")
        return out

    def unknown(self, part, *args):
        status, out, err = self.fsck(*args)
        self.assertEqual(status, 3, out)
        self.assertTrue(err.startswith("confab-model: "), err)
        self.assertIn(part, err)

    def sql(self, text):
        db = sqlite3.connect(self.state + "/register.db")
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.executescript(text)
        db.commit()
        db.close()

    def record(self, which):
        """Path, offset and size of a record."""
        db = sqlite3.connect("file:%s/register.db?immutable=1" % self.state, uri=True)
        key, start, size = db.execute("SELECT file_key, start, stored_size FROM record "
                                      "WHERE id = ?", (which,)).fetchone()
        db.close()
        return "%s/spill/%016x.kv" % (self.state, key), start, size

    def flip(self, path, at):
        with open(path, "r+b") as f:
            f.seek(at)
            byte = f.read(1)
            f.seek(at)
            f.write(bytes([byte[0] ^ 4]))

    def test_clean(self):
        for kind in "f16", "f32", "q8_0", "crash":
            self.use(kind)
            out = self.clean()
            self.assertIn("register: 4 conversations, 6 turns, 320 tokens, 12 links, 8 records", out)
            self.assertIn("spill: 8 records checked, 0 of a former version, 0 decoded, 0 blocks", out)
            self.assertIn("besides: 0 files that nothing refers to, 0 bytes", out)
            out = self.clean("--model", self.model)
            self.assertIn("8 decoded, 0 blocks", out)
            out = self.clean("--model", self.model, "--audit", "1000", "-t", "2")
            self.assertIn("8 decoded, 8 blocks computed again", out)
            out = self.clean("--model", self.model, "--audit", "3", "--seed", "18446744073709551615",
                             "--isa", "generic")
            self.assertIn("3 blocks computed again", out)

    def test_json(self):
        self.use("f16")
        status, out, _ = self.fsck("--json", "--model", self.model, "--audit", "2")
        v = json.loads(out)
        self.assertEqual((status, v["findings"], v["n_findings"]), (0, [], 0))
        self.assertEqual(v["register"]["conversations"], 4)
        self.assertEqual(v["spill"]["blocks computed again"], 2)
        self.sql("UPDATE turn SET tokens = zeroblob(300) WHERE conversation = 1 AND n = 0")
        status, out, _ = self.fsck("--json")
        v = json.loads(out)
        self.assertEqual((status, v["n_findings"]), (1, len(v["findings"])))
        first, second = v["findings"][:2]
        self.assertEqual((first["kind"], first["conversation"]), ("turn", 1))
        self.assertEqual((second["kind"], second["conversation"], second["record"]), ("hash", 1, 1))

    def test_flipped_bits(self):
        self.use("f16")
        for which in 1, N_RECORDS:
            path, start, _ = self.record(which)
            # Magic, version, fingerprint, position, hash, sizes, a section, payload.
            for at in 0, 4, 9, 28, 41, 49, 57, 64, 80, 128, 200, 1500:
                self.flip(path, start + at)
                out = self.found("spill", "record %d: block " % which)
                self.assertIn("1 finding\n", out)
                # What is damaged is not computed with, and not found twice.
                self.found("spill", "record %d: " % which, "--model", self.model, "--audit", "9")
                self.flip(path, start + at)
        self.clean()

    def test_cut_and_missing_files(self):
        self.use("f16")
        path, start, size = self.record(5)
        os.truncate(path, start + size - 4096)
        self.found("spill", "record 5: block 4")
        os.truncate(path, 0)
        self.assertIn("5 findings", self.found("spill", "record 1: block 0"))
        os.unlink(path)
        self.assertIn("5 findings", self.found("spill", "record 1: block 0"))
        os.mkdir(path)
        self.found("spill", "record 1: block 0")
        shutil.rmtree(self.state + "/spill")
        self.assertIn("8 findings", self.found("spill", "there is no folder"))

    def test_lost_bytes(self):
        """What a power loss can leave: the file has its length, and holes."""
        self.use("f16")
        path, start, size = self.record(2)
        with open(path, "r+b") as f:
            f.seek(start)
            f.write(bytes(size))
        self.assertIn("record 2: block 1", self.found("spill", "no record here"))

    def test_swapped_records(self):
        """Two whole records, each at the other's place."""
        self.use("f16")
        path, one, size = self.record(1)
        _, two, other = self.record(2)
        if size != other:
            self.skipTest("records of different sizes")
        with open(path, "r+b") as f:
            data = f.read()
            f.seek(one)
            f.write(data[two:two + size])
            f.seek(two)
            f.write(data[one:one + size])
        self.assertIn("record 1: block 0", self.found("spill", "holds block 1"))

    def test_edited_register(self):
        for kind, part, text in (
                ("turn", "turn 1", "UPDATE turn SET first = 1 WHERE n = 1 AND conversation = 1"),
                ("conversation", "of 2 turns and 149", "UPDATE conversation SET n_tokens = 149 "
                 "WHERE id = 1"),
                ("hash", "record 1: ", "UPDATE turn SET tokens = zeroblob(300) "
                 "WHERE conversation = 1 AND n = 0"),
                ("spill", "tokens with hash", "UPDATE record SET token_hash = 5 WHERE id = 2"),
                ("spill", "block 1", "UPDATE record SET start = start + 4096 WHERE id = 2"),
                ("spill", "another model", "UPDATE conversation SET model_rules = 1 WHERE id = 3"),
                ("spill", "belongs to user 9", "UPDATE record SET uid = 9 WHERE id = 2"),
                ("link", "does not exist", "PRAGMA foreign_keys = OFF; DELETE FROM record "
                 "WHERE id = 2"),
                ("record", "no conversation refers", "DELETE FROM link WHERE record = 5"),
                ("place", "overlaps", "UPDATE record SET stored_size = 999999 WHERE id = 1")):
            self.use("f16")
            self.sql(text)
            self.found(kind, part)

    def test_damaged_register(self):
        self.use("f16")
        with open(self.state + "/register.db", "r+b") as f:
            f.write(b"x" * 5000)
        self.found("register", "register.db")
        self.use("f16")
        self.flip(self.state + "/register.db", 4096 * 3 + 1)
        status, out, _ = self.fsck("--model", self.model, "--audit", "9")
        self.assertEqual(status, 1, out)

    def test_register_of_random_damage(self):
        """Whatever it says, it is read without harm."""
        self.use("f16")
        path = self.state + "/register.db"
        rng = random.Random(1)
        size, seen = os.path.getsize(path), set()
        for _ in range(120):
            at = [rng.randrange(size) for _ in range(rng.choice((1, 1, 4)))]
            for k in at:
                self.flip(path, k)
            status, out, err = self.fsck("--model", self.model, "--audit", "4", "-t", "1")
            self.assertIn(status, (0, 1, 3), "%s: %s%s" % (at, out, err))
            self.assertEqual(err == "", status != 3, err)
            seen.add(status)
            for k in at:
                self.flip(path, k)
        self.assertTrue({0, 1} <= seen)  # free pages mean nothing
        self.clean()

    def test_forged_record(self):
        """Right in every checksum, and not what the model computes."""
        self.use("forge")
        self.clean("--model", self.model)
        out = self.found("audit", "record 3: block 2 is not what the model computes", "--model",
                         self.model, "--audit", "1000")
        self.assertIn("1 finding\n", out)
        # Some draws of one block find it, the same ones each time.
        status = [self.fsck("--model", self.model, "--audit", "1", "--seed", str(s))[0]
                  for s in range(40)]
        self.assertIn(0, status)
        self.assertIn(1, status)
        s = str(status.index(1))
        self.assertEqual(self.fsck("--model", self.model, "--audit", "1", "--seed", s)[0], 1)

    def test_foreign_encoding(self):
        """Right in every checksum, and no encoding of the model's memory."""
        self.use("foreign")
        self.clean()
        self.found("spill", "does not decode", "--model", self.model)

    def test_what_nothing_refers_to(self):
        self.use("f16")
        with open(self.record(1)[0], "ab") as f:
            f.write(bytes(range(256)) * 32)
            f.flush()
            os.fsync(f.fileno())
        self.assertRegex(self.clean(), r"besides: 0 files that nothing refers to, [1-9]\d+ bytes")
        shutil.copy(self.record(1)[0], self.state + "/spill/00000000000000ff.kv")
        with open(self.state + "/spill/notes.txt", "w") as f:
            f.write("mine")
        out = self.clean()
        self.assertRegex(out, r"besides: 1 files that nothing refers to, [1-9]\d+ bytes that "
                              r"nothing refers to, 1 entries of others")

    def test_former_version(self):
        self.use("f16")
        self.sql("UPDATE link SET n_valid = 0 WHERE conversation = 3")
        self.assertIn("5 records checked, 3 of a former version", self.clean())

    def test_not_now(self):
        self.use("f16")
        with open(self.state + "/lock", "r+") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.unknown("a daemon is running on it")
        with open(self.state + "/lock") as f:
            fcntl.flock(f, fcntl.LOCK_SH)  # another fsck
            self.clean()
        fd = os.open(self.state + "/spill", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        self.unknown("is in use")
        os.close(fd)
        os.unlink(self.state + "/lock")
        self.clean()
        self.assertFalse(os.path.exists(self.state + "/lock"))

    def test_cannot_look(self):
        self.use("f16")
        self.sql("PRAGMA user_version = 1")
        self.unknown("schema version 1")
        os.unlink(self.state + "/register.db")
        self.unknown("register.db")
        shutil.rmtree(self.state)
        self.unknown("register.db")
        os.mkdir(self.state)
        self.unknown("register.db")
        self.assertEqual(os.listdir(self.state), [])

    def test_another_model(self):
        self.use("f16")
        other = os.path.join(self.folder.name, "other.gguf")
        shutil.copy(self.model, other)
        self.flip(other, os.path.getsize(other) - 1)
        self.unknown("no record is of this model", "--model", other, "--audit", "1")
        self.unknown("no record is of this model", "--model", self.model, "--kv", "f32")
        self.unknown("nowhere.gguf", "--model", self.folder.name + "/nowhere.gguf")
        self.clean("--model", self.model, "--kv", "f16", "--audit", "1")

    def test_usage(self):
        self.use("f16")
        for args in (("--audit", "1"), ("--banana",), ("--audit", "x", "--model", "y"),
                     ("--seed", "-1"), ("--kv", "f8"), ("--threads", "0"), ("--isa", "mmx"),
                     ("another",)):
            status, out, err = self.fsck(*args)
            self.assertEqual((status, out), (2, ""), args)
            self.assertIn("Usage: confab-model fsck", err)


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main(verbosity=0)
