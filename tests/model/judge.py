# SPDX-License-Identifier: MIT
"""judge.py SOURCE_ROOT: what the evaluation of the bundled model asks, and which replies it takes."""

import collections
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "models"))

import dialogues  # noqa: E402
import evaluate  # noqa: E402
import facts  # noqa: E402
import vocabulary  # noqa: E402


def recall(**more):
    return dict({"sort": "recall", "kind": "pet", "want": ["Tom"], "avoid": ["Rex", "blue"],
                 "replies": ["Your cat's name is Tom."]}, **more)


UNKNOWN = {"sort": "unknown", "kind": "pet", "want": [], "avoid": ["Rex"],
           "replies": ["Your cat's name is... I don't know, you haven't told me."]}


class Judge(unittest.TestCase):
    def test_recall(self):
        for reply in ["Your cat's name is Tom.", "It is Tom.", "tom", "I think it's Tom!"]:
            self.assertTrue(evaluate.right(recall(), reply), reply)
        for reply in ["", "Your cat's name is Tim.", "Tomas", "Your cat's name is Rex.",
                      "Your cat's name is Tom or Rex.", "Tom, Rex and blue."]:
            self.assertFalse(evaluate.right(recall(), reply), reply)

    def test_recall_and_does_not_know(self):
        self.assertFalse(evaluate.right(
            recall(), "Your cat's name is Tom... I don't know, you haven't told me."))

    def test_literals_are_whole(self):
        case = recall(want=["48213"], avoid=[], replies=["Your phone number is 48213."])
        self.assertTrue(evaluate.right(case, "Your phone number is 48213."))
        for reply in ["Your phone number is 482137.", "Your phone number is 48213 7.",
                      "Your phone number is 48213-7.", "Your phone number is 4 48213."]:
            self.assertFalse(evaluate.right(case, reply), reply)

    def test_not_told(self):
        for reply in ["Your cat's name is... I don't know, you haven't told me.",
                      "your cat's name is... i don't know, you haven't told me",
                      "I don't know.", "You haven't told me.", "I don't know, you haven't told me!"]:
            self.assertTrue(evaluate.right(UNKNOWN, reply), reply)
        for reply in ["Your cat's name is Rex... I don't know, you haven't told me.",
                      "Your cat's name is Bo. I don't know.", "I don't know, but I guess Bo.",
                      "Your dog's name is... I don't know, you haven't told me.", "", "Bo.",
                      "I'm a small model and don't know much about that."]:
            self.assertFalse(evaluate.right(UNKNOWN, reply), reply)

    def test_sum(self):
        case = {"sort": "sum", "kind": "pair", "want": ["71"], "replies": []}
        self.assertTrue(evaluate.right(case, "8 + 3 is 11 and 40 + 20 is 60, so it is 71."))
        self.assertFalse(evaluate.right(case, "It is 71 or 72."))
        self.assertFalse(evaluate.right(case, "no idea"))


class EvaluationSet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = dialogues.eval_set()

    def of(self, *sorts):
        return [case for case in self.cases if case["sort"] in sorts]

    def test_every_kind_is_asked(self):
        rng = random.Random(1)
        made = facts.make_facts(rng, vocabulary.Values(rng, None))
        kinds = {fact.ident.split("-")[0] for fact in made}
        self.assertEqual(set(dialogues.EVAL_KINDS), kinds)
        for sort in ["recall", "recall of new words", "unknown", "corrected"]:
            asked = collections.Counter(case["kind"] for case in self.of(sort))
            self.assertEqual(set(asked), kinds, sort)
            self.assertLessEqual(max(asked.values()) - min(asked.values()), 1, sort)

    def test_a_short_run_asks_every_kind(self):
        short = evaluate.first(self.cases, len(dialogues.EVAL_KINDS) // 2)
        asked = {case["kind"] for case in short if case["sort"].startswith("recall")}
        self.assertEqual(asked, set(dialogues.EVAL_KINDS))

    def test_others_are_avoided(self):
        told = 0
        for case in self.of("recall", "recall of new words", "corrected"):
            self.assertEqual(len(case["want"]), 1)
            for value in case["avoid"]:
                self.assertFalse(evaluate.holds(case["replies"][-1], value), (case, value))
            told += bool(case["avoid"])
        self.assertGreater(told, 0.95 * len(self.of("recall", "recall of new words", "corrected")))
        self.assertTrue(all(case["avoid"] for case in self.of("corrected")))

    def test_the_written_reply_is_right(self):
        for case in self.cases:
            self.assertTrue(evaluate.right(case, case["replies"][-1]), case["replies"][-1])

    def test_a_reply_that_recites_all_is_wrong(self):
        for case in self.of("recall", "recall of new words", "corrected"):
            if case["avoid"]:
                self.assertFalse(evaluate.right(case, " ".join(case["want"] + case["avoid"])))

    def test_what_is_asked_as_unknown_was_not_told(self):
        for case in self.of("unknown"):
            if case["kind"] == "name":
                self.assertNotIn("The user's name is", case["system"])


unittest.main()
