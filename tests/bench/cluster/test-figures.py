# SPDX-License-Identifier: MIT
"""What the parts of tools/bench cluster make of what they measure."""

import os
import sys
import unittest
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, *(os.path.join(os.path.dirname(HERE), name) for name in ("memory", "frontends", "service"))]
sys.path.append(os.path.join(ROOT, "tests", "util"))

# pylint: disable=wrong-import-position
from mixed import summary
from move import rows
from report import Table


def came(first, blocks, size=0):
    return {"first": first, "queued": 0.01, "blocks": blocks, "bytes": size, "n_computed": 3}


def cells(table, begin):
    return next(row for row in table.rows if row[0].startswith(begin))


class Mixed(unittest.TestCase):
    def test_summary(self):
        asked = [(100, 0.5, 1, 41, False),  # ends in the first quarter
                 (101, 0.5, 2, 316, False), (103, 0.7, 1, 41, True),
                 (107, 0.5, 2, 41, False)]  # ends behind the end
        got = summary(asked, 100, 8)
        self.assertEqual(got, {"tokens": 357 / 6, "requests": 2 / 6, "first": [0.5], "moved": [0.7]})
        got = summary(asked[3:], 100, 8)  # nothing else: until its end
        self.assertEqual(got, {"tokens": 41 / 9, "requests": 1 / 9, "first": [0.5], "moved": []})


class Move(unittest.TestCase):
    def table(self, remote, plain):
        b = SimpleNamespace(table=Table())
        got = {"computed": [came(60, 0), came(50, 0), came(70, 0)], "disk": [came(0.1, 0)], "turn": [came(1, 9)], "unsent": [came(2, 9)], "10gbit": remote}
        rows(b, got, {"10gbit": plain}, 8192, 32768)
        return b.table

    def test_read(self):
        t = self.table([came(0.5, 256, 250000000), came(0.4, 256, 250000000), came(0.6, 256, 250000000)], [8e-10])
        self.assertEqual(cells(t, "  from the remote store")[1::3], ("500 ms", "120 x"))
        self.assertEqual(cells(t, "  from the remote store")[5], ">= 50 x")
        self.assertEqual(cells(t, "  from its own disk")[4], "600 x")
        stored = cells(t, "    stored bits")
        self.assertEqual((stored[1], stored[3], stored[4]), ("4.00 Gbit/s", "plain transfer: 10.00 Gbit/s", "40 %"))
        self.assertEqual(cells(t, "  bytes of a token")[1:5:3], ("30.5 kB", "1.07 x"))

    def test_computed_instead(self):
        t = self.table([came(50, 0), came(60, 0)], [])
        self.assertEqual(cells(t, "    computed instead")[0], "    computed instead, in 2 of 2 runs")
        self.assertFalse([row for row in t.rows if row[0].startswith(("    stored bits", "  bytes of"))])


unittest.main()
