# SPDX-License-Identifier: MIT
"""What the parts of tools/bench service compute from what they measure."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, *(os.path.join(os.path.dirname(HERE), name) for name in ("memory", "frontends"))]

# pylint: disable=wrong-import-position
from fairness import Asked, jain, overlap
from rig import cell, parse, percentile

PLAN = {"prompt": 100, "reply": 10}


class Fairness(unittest.TestCase):
    def test_jain(self):
        self.assertAlmostEqual(jain([0.3] * 5), 1)
        self.assertAlmostEqual(jain([1, 0, 0, 0, 0]), 0.2)
        self.assertAlmostEqual(jain([0.8, 0.2]), 1 / 1.36)

    def test_overlap(self):
        self.assertEqual(overlap(2, 4, 0, 10), 1)
        self.assertEqual(overlap(0, 4, 3, 10), 0.25)
        self.assertEqual(overlap(0, 8, 2, 4), 0.25)
        self.assertEqual(overlap(0, 4, 5, 6), 0)
        self.assertEqual(overlap(3, 3, 0, 4), 1)  # no time at all: where it is
        self.assertEqual(overlap(3, 3, 4, 8), 0)

    def test_work(self):
        asked = Asked(0, 4, 6, PLAN)
        self.assertEqual(asked.work(0, 10), (110, 10))
        self.assertEqual(asked.work(3, 10), (35, 10))
        self.assertEqual(asked.work(0, 5), (105, 5))
        self.assertEqual(asked.work(7, 8), (0, 0))


class Figures(unittest.TestCase):
    def test_percentile(self):
        values = list(range(1, 101))
        self.assertEqual(percentile(values, 0.5), 51)
        self.assertEqual(percentile(values, 0.99), 100)
        self.assertEqual(percentile([7], 0.999), 7)

    def test_parse(self):
        self.assertEqual(parse('{"name":"a","values":[1,2]}\n{"name":"b","values":[3]}\n'), {"a": [1, 2], "b": [3]})

    def test_cell(self):
        self.assertEqual(cell([3, 1, 2], str), "2 (1 .. 3)")
        self.assertEqual(cell([3], str), "3")
        self.assertEqual(cell([], str), "-")


unittest.main()
