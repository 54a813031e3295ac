# SPDX-License-Identifier: MIT
"""Written dialogues for the bundled model: a generator, deterministic by seed.

A dialogue is a list of (role, text, learn) triples; `learn` says whether the
trainer takes loss on that message, and may be the beginning of the text after
which the reply is decided: the token there weighs more.  People tell the
assistant facts about their life, talk of other things, and ask for the facts
much later.  Four rules make
a very small model good at it:

* the assistant says each fact back in one fixed wording ("your cat's name is
  Tom"), so recalling is finding the newest sentence of that wording;
* an answer begins with that wording whether or not the fact was told, and only then
  ends with the value or with "I don't know"; deciding first and saying it afterwards
  was not learned in the same time;
* a reply follows from what was said, with little free choice, so that the loss
  is spent on remembering and not on guessing which greeting is meant;
* values come from long lists and from generated syllables, so that a name has
  to be copied and cannot be learned by heart.

Values and pairs of numbers for which held_out() is true never occur in training;
half of the evaluation uses only those wherever a kind of fact has enough of them.
"""

import argparse
import json
import random
import re

from facts import a, british, make_facts, yours
from smalltalk import (CATEGORIES, FAREWELL, NUMBER_WORDS, OFF_TOPIC, SYSTEM, TALK, TOPICS)
from vocabulary import DAYS, MONTHS, Values, held_out


def capital(text):
    return text[0].upper() + text[1:]


def join(words):
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def add_reply(x, y):
    """The sum in steps: the ones, the tens, the result, as people do it in their head."""
    if x < 10 and y < 10:
        return "%d + %d is %d." % (x, y, x + y)
    ones = "%d + %d is %d" % (x % 10, y % 10, x % 10 + y % 10)
    tens = "%d + %d is %d" % (x - x % 10, y - y % 10, x - x % 10 + y - y % 10)
    return "%s and %s, so %d + %d is %d." % (ones, tens, x, y, x + y)


def pair_held_out(x, y):
    """Held out in both orders, so that the sum cannot be known from the mirrored pair."""
    return x >= 10 and y >= 10 and held_out("%d+%d" % (min(x, y), max(x, y)))


ADD_ASKS = ["What is {x} + {y}?", "What is {x} plus {y}?", "{x} + {y}", "{x}+{y}", "{x} + {y} = ?",
            "What's {x} plus {y}?", "Add {x} and {y}.", "How much is {x} plus {y}?",
            "What is the sum of {x} and {y}?", "Can you add {x} and {y}?", "How much is {x} + {y}?",
            "Please add {x} and {y}.", "Calculate {x} + {y}."]


QUIZ_SHARE = 0.6
NOT_TOLD = "... I don't know, you haven't told me."


class Dialogue:
    """Builds one dialogue turn by turn and keeps what was told in it."""

    def __init__(self, rng, unseen=False):
        self.rng = rng
        self.values = Values(rng, unseen)
        self.unseen = unseen
        self.messages = []
        self.known = {}
        self.told_at = {}
        self.ever_told = []
        self.style = rng.choice(["plain"] * 7 + ["lower"] * 2 + ["bare"])
        self.facts = make_facts(rng, self.values)
        self.core = [fact for fact in self.facts if "-" not in fact.ident]
        self.persona = None
        if rng.random() < 0.25:
            self.messages.append(("system", self.system(), False))

    def system(self):
        """A system text; it may name the assistant or tell something about the person."""
        rng = self.rng
        text = rng.choice(SYSTEM)
        if rng.random() < 0.3:
            self.persona = self.values.draw("person")
            text = rng.choice(["You are {p}.", "You are {p}, a helpful assistant.",
                               "Your name is {p}. You are friendly.", "You are {p}, a small robot.",
                               "Your name is {p}."]).replace("{p}", self.persona)
        if rng.random() < 0.15:
            fact = self.core[0]
            value = self.values.draw("person")
            text += " The user's name is %s." % value
            self.remember(fact, value)
        return text

    def pick(self):
        """A fact; kinds of a single fact, like the name, come up nearly as often as others."""
        return self.rng.choice(self.core if self.rng.random() < 0.4 else self.facts)

    def styled(self, text):
        """The person's way of typing; it holds for the whole dialogue, mostly."""
        style = self.style if self.rng.random() < 0.9 else "plain"
        if style == "plain":
            return text
        if text[-1] in ".?!" and self.rng.random() < 0.8:
            text = text[:-1]
        if style == "lower" and self.rng.random() < 0.3:
            text = text.replace("'", "")
        return text.lower() if style == "lower" else text

    def turn(self, user, reply, learn=True):
        self.messages.append(("user", user, False))
        self.messages.append(("assistant", reply, learn))

    def fact_text(self, fact, template, value, old=""):
        text = template.replace("{v}", value).replace("{o}", old)
        return text.replace("{a}", a(value)) if "{a}" in text else text

    def new_value(self, fact):
        while True:
            value = self.values.draw(fact.values)
            if value != self.known.get(fact.ident, ("",))[0]:
                return value

    def remember(self, fact, value):
        self.known[fact.ident] = (value, fact)
        self.told_at[fact.ident] = len(self.messages)
        self.ever_told.append(value)

    def told(self, fact, value, text):
        """Says TEXT, which tells the value; the value is kept as it was typed."""
        text = self.styled(text)
        typed = value if value in text else value.lower()
        said = self.spelled(fact, fact.say, text).replace("{v}", yours(typed))
        return text, typed, said

    def spelled(self, fact, said, text):
        """SAID with a person's name spelled as in TEXT, so that it can be copied."""
        if fact.who and fact.who not in text:
            return said.replace(fact.who, fact.who.lower())
        return said

    def tell(self, fact=None, echo=None):
        rng = self.rng
        if fact is None:
            fact = self.pick()
            for _ in range(4):
                if fact.ident in self.known:
                    fact = self.pick()
        if fact.ident in self.known:
            return self.correct(fact)
        value = self.new_value(fact)
        text, typed, said = self.told(fact, value,
                                      self.fact_text(fact, rng.choice(fact.tell), value))
        echo = rng.random() < 0.85 if echo is None else echo
        if echo:
            if fact.ident == "name":
                reply = "Nice to meet you, %s!" % typed
            else:
                reply = "Got it, %s." % said
        else:
            reply = rng.choice(["Okay.", "I will remember that.", "Thanks for telling me.",
                                "That's nice.", "Good to know."])
        self.turn(text, reply, echo)
        self.remember(fact, typed)
        return fact

    def tell_two(self):
        """Two facts in one message."""
        rng = self.rng
        one, two = self.pick(), self.pick()
        if one.ident in self.known or two.ident in self.known or one.ident == two.ident:
            return self.tell()
        v1, v2 = self.new_value(one), self.new_value(two)
        t1 = self.fact_text(one, rng.choice(one.tell), v1)
        t2 = self.fact_text(two, rng.choice(two.tell), v2)
        if t1[-1] == "." and rng.random() < 0.5:
            start = t2.split(" ")[0].strip(",.!:'s")
            if start in ("My", "The", "Our", "On", "By", "You", "Just", "Please", "In", "People"):
                t2 = t2[0].lower() + t2[1:]
            text = self.styled(t1[:-1] + " and " + t2)
        else:
            text = self.styled(t1 + " " + t2)
        w1 = v1 if v1 in text else v1.lower()
        w2 = v2 if v2 in text else v2.lower()
        s1 = self.spelled(one, one.say, text).replace("{v}", yours(w1))
        s2 = self.spelled(two, two.say, text).replace("{v}", yours(w2))
        self.turn(text, "Got it, %s and %s." % (s1, s2))
        self.remember(one, w1)
        self.remember(two, w2)
        return two

    def correct(self, fact=None):
        rng = self.rng
        if fact is None:
            if not self.known:
                return self.tell()
            fact = self.known[rng.choice(sorted(self.known))][1]
        old = self.known[fact.ident][0]
        value = self.new_value(fact)
        text = self.fact_text(fact, rng.choice(fact.fix), value, old)
        text, typed, said = self.told(fact, value, text)
        self.turn(text, "Okay, %s." % said)
        self.remember(fact, typed)
        return fact

    def answer(self, fact, asked):
        """The answer to the question ASKED, which says the fact as it was said before."""
        return capital(self.answer_plain(fact, asked))

    def answer_plain(self, fact, asked, rest="."):
        said = self.spelled(fact, fact.say, asked)
        return said.replace("{v}", yours(self.known[fact.ident][0])) + rest

    def before_value(self, fact, asked):
        """The beginning of any answer to a question for the fact, known or not."""
        return capital(self.spelled(fact, fact.say, asked).split(" {v}")[0])

    def ask(self, fact=None):
        rng = self.rng
        if not self.known:
            return self.tell()
        if fact is None:
            fact = self.known[rng.choice(sorted(self.known))][1]
        if fact.check and rng.random() < 0.07:
            right = self.known[fact.ident][0]
            value = right if rng.random() < 0.5 else self.new_value(fact)
            text = self.styled(self.fact_text(fact, rng.choice(fact.check), value))
            rest = ", so yes." if value == right else ", so no."
            reply = capital(self.answer_plain(fact, text, rest))
        else:
            text = self.styled(rng.choice(fact.ask))
            reply = self.answer(fact, text)
        self.turn(text, reply, self.before_value(fact, text))
        return fact

    def tell_and_ask(self):
        """A fact and a question in one message; the question may be for another fact."""
        rng = self.rng
        fact = self.pick()
        if fact.ident in self.known:
            return self.tell()
        value = self.new_value(fact)
        text = self.fact_text(fact, rng.choice(fact.tell), value)
        known = [f for _, f in self.known.values() if rng.random() < 0.3]
        asked = known[0] if known else fact
        text = self.styled(text + " " + rng.choice(asked.ask))
        typed = value if value in text else value.lower()
        self.remember(fact, typed)
        self.turn(text, self.answer(asked, text))
        return fact

    def correct_short(self):
        """A correction that leaves out what is meant: it is what the last turn was about."""
        rng = self.rng
        fact = self.tell() if rng.random() < 0.5 else self.ask()
        if fact is None or fact.ident not in self.known:
            return
        old, value = self.known[fact.ident][0], self.new_value(fact)
        text = rng.choice(["Sorry, I mean {v}.", "No, {v}.", "I mean {v}.", "Actually, {v}.",
                           "No, it's {v}.", "Sorry, {v}, not {o}.", "I meant to say {v}."])
        text, typed, said = self.told(fact, value, self.fact_text(fact, text, value, old))
        if fact.who and fact.who not in text and fact.who not in self.messages[-1][1]:
            said = said.replace(fact.who, fact.who.lower())
        elif fact.who:
            said = fact.say.replace("{v}", yours(typed))
        self.turn(text, "Okay, %s." % said)
        self.remember(fact, typed)

    def ask_about_me(self):
        """What is known at all: the newest fact, or nothing yet."""
        text = self.styled(self.rng.choice([
            "What do you know about me?", "What did I tell you?", "Tell me what you know about me.",
            "What do you remember about me?", "What was the last thing I told you?"]))
        if not self.known:
            self.turn(text, "I don't know anything about you yet. Please tell me something.")
            return
        fact = self.known[max(self.told_at, key=self.told_at.get)][1]
        self.turn(text, "You told me that %s" % self.answer_plain(fact, fact.who))

    def ask_unknown(self, near=True):
        """Asks for something never told; often of a sort of which another was told."""
        rng = self.rng
        kinds = {ident.split("-")[0] for ident in self.known}
        for _ in range(20):
            fact = self.pick()
            if fact.ident in self.known or british(fact.what) in self.whats():
                continue
            if near and kinds and fact.ident.split("-")[0] not in kinds and rng.random() < 0.4:
                continue
            text = self.styled(rng.choice(fact.ask))
            begin = self.before_value(fact, text)
            self.turn(text, begin + NOT_TOLD, begin)
            return fact
        return None

    def whats(self):
        """What was told, under either spelling of favourite colour and the like."""
        return {british(known[1].what) for known in self.known.values()}

    def add(self, pair=None):
        rng = self.rng
        while pair is None:
            x = rng.randrange(10, 100) if rng.random() < 0.8 else rng.randrange(0, 10)
            y = rng.randrange(10, 100) if rng.random() < 0.8 else rng.randrange(0, 10)
            if not pair_held_out(x, y):
                pair = (x, y)
        x, y = pair
        text = rng.choice(ADD_ASKS)
        if rng.random() < 0.03:
            x, y = rng.randrange(1, 1000), rng.randrange(100, 10000)
            self.turn(self.styled(text.replace("{x}", str(x)).replace("{y}", str(y))),
                      "I can only add two numbers below 100.")
            return
        self.turn(self.styled(text.replace("{x}", str(x)).replace("{y}", str(y))), add_reply(x, y))

    def count(self):
        rng = self.rng
        first = rng.randrange(0, 30)
        last = first + rng.randrange(2, 9)
        if rng.random() < 0.7:
            text = rng.choice(["Count from {x} to {y}.", "Please count from {x} to {y}.",
                               "Can you count from {x} to {y}?"])
            numbers = range(first, last + 1)
        else:
            text = rng.choice(["Count down from {y} to {x}.", "Count backwards from {y} to {x}."])
            numbers = range(last, first - 1, -1)
        if rng.random() < 0.2:
            last = rng.randrange(3, 16)
            text, numbers = "Count to {y}.", range(1, last + 1)
        self.turn(self.styled(text.replace("{x}", str(first)).replace("{y}", str(last))),
                  ", ".join(map(str, numbers)) + ".")

    def name_some(self):
        rng = self.rng
        kind = rng.choice(sorted(CATEGORIES))
        if rng.random() < 0.2:
            one = "city" if kind == "cities" else "hobby" if kind == "hobbies" else kind[:-1]
            ask = rng.choice(["Name a {k}.", "Tell me a {k}.", "Give me a {k}.", "Name one {k}."])
            ask = ask.replace("a {k}", a(one)).replace("{k}", one)
            self.turn(self.styled(ask), capital(CATEGORIES[kind][0]) + ".")
            return
        n = rng.choice([2, 3, 3, 4, 5])
        number = NUMBER_WORDS[n] if rng.random() < 0.6 else str(n)
        text = rng.choice(["Name {n} {k}.", "List {n} {k}.", "Tell me {n} {k}.", "Give me {n} {k}.",
                           "Can you name {n} {k}?", "Please name {n} {k}."])
        self.turn(self.styled(text.replace("{n}", number).replace("{k}", kind)),
                  capital(join(CATEGORIES[kind][:n])) + ".")

    def repeat(self):
        rng = self.rng
        words = []
        for _ in range(rng.randrange(2, 7)):
            words.append(self.values.draw(rng.choice(["word", "person", "place", "colour",
                                                      "number"])))
        text = " ".join(words)
        ask = rng.choice(["Repeat after me: {t}.", "Say: {t}.", "Please repeat: {t}.",
                          "Repeat this: {t}."])
        user = self.styled(ask.replace("{t}", text))
        typed = text if text in user else text.lower()
        self.turn(user, capital(typed) + ".")

    def off_topic(self):
        rng = self.rng
        topic = rng.choice(TOPICS) if rng.random() < 0.6 else self.values.draw("word")
        if rng.random() < 0.1:
            topic = "the capital of " + self.values.draw("place")
            if topic.split()[-1] in ("France", "Italy", "Germany", "Spain", "England"):
                return self.talk()
        self.turn(self.styled(rng.choice(OFF_TOPIC).replace("{t}", topic)),
                  "I'm a small model and don't know much about that.")
        return None

    def other_sums(self):
        rng = self.rng
        x, y = rng.randrange(1, 100), rng.randrange(1, 100)
        ask = rng.choice(["What is {x} - {y}?", "What is {x} times {y}?", "{x} * {y}",
                          "What is {x} minus {y}?", "Divide {x} by {y}.", "Multiply {x} by {y}.",
                          "What is {x} divided by {y}?", "{x} - {y}"])
        self.turn(self.styled(ask.replace("{x}", str(x)).replace("{y}", str(y))),
                  "I can only add numbers.")

    def next_day(self):
        rng = self.rng
        words = rng.choice([DAYS, MONTHS])
        i = rng.randrange(len(words))
        if rng.random() < 0.6:
            ask = "What comes after %s?" % words[i]
            reply = "%s comes after %s." % (words[(i + 1) % len(words)], words[i])
        else:
            ask = "What comes before %s?" % words[i]
            reply = "%s comes before %s." % (words[i - 1], words[i])
        self.turn(self.styled(ask), reply)

    def talk(self):
        asks, reply = self.rng.choice(TALK)
        if self.persona and self.rng.random() < 0.3:
            asks, reply = (["What's your name?", "What is your name?", "Who are you?",
                            "How are you called?"], "My name is %s." % self.persona)
        elif self.persona and ("Who are you?" in asks or "What is your name?" in asks):
            reply = "My name is %s." % self.persona
        self.turn(self.styled(self.rng.choice(asks)), reply)

    def filler(self):
        """A turn that tells nothing about the person."""
        draw = self.rng.random()
        if draw < 0.45:
            self.talk()
        elif draw < 0.70:
            self.add()
        elif draw < 0.78:
            self.name_some()
        elif draw < 0.84:
            self.count()
        elif draw < 0.89:
            self.off_topic()
        elif draw < 0.94:
            self.repeat()
        elif draw < 0.97:
            self.next_day()
        else:
            self.other_sums()

    def step(self):
        """One turn of a training dialogue."""
        draw = self.rng.random()
        if draw < 0.22:
            self.tell()
        elif draw < 0.25:
            self.tell_two()
        elif draw < 0.27:
            self.tell_and_ask()
        elif draw < 0.31:
            self.correct()
        elif draw < 0.325:
            self.correct_short()
        elif draw < 0.335:
            self.ask_about_me()
        elif draw < 0.555:
            self.ask()
        elif draw < 0.76:
            self.ask_unknown()
        else:
            self.filler()

    def n_turns(self):
        return sum(role == "user" for role, _, _ in self.messages)


def quiz_dialogue(rng, n_turns):
    """First much is told among other talk, then nearly all turns are questions for it.

    No other dialogue holds so many questions whose answer is far back.
    """
    dialogue = Dialogue(rng)
    while dialogue.n_turns() < n_turns * 0.55:
        draw = rng.random()
        if draw < 0.50:
            dialogue.tell()
        elif draw < 0.55:
            dialogue.tell_two()
        elif draw < 0.65:
            dialogue.correct()
        else:
            dialogue.filler()
    left = []
    while dialogue.n_turns() < n_turns:
        draw = rng.random()
        if draw < 0.62:
            if not left:
                left = sorted(dialogue.known)
                rng.shuffle(left)
            dialogue.ask(dialogue.known[left.pop()][1] if left else None)
        elif draw < 0.95:
            dialogue.ask_unknown()
        else:
            dialogue.filler()
    return dialogue.messages


def training_dialogue(rng, n_turns):
    """A dialogue of about N_TURNS exchanges; the oldest facts are asked for at the end.

    Some short ones are nothing but repeating, which teaches copying soonest, or sums.
    """
    if n_turns >= 10 and rng.random() < QUIZ_SHARE:
        return quiz_dialogue(rng, n_turns)
    dialogue = Dialogue(rng)
    drill = rng.random()
    if n_turns < 7 and drill < 0.2:
        for _ in range(n_turns):
            dialogue.repeat()
        return dialogue.messages
    if n_turns < 10 and drill > 0.6:
        for _ in range(n_turns):
            dialogue.add() if rng.random() < 0.8 else dialogue.filler()
        return dialogue.messages
    if rng.random() < 0.3:
        dialogue.turn(dialogue.styled(rng.choice(TALK[0][0])), TALK[0][1])
    early = []
    for _ in range(rng.randrange(1, 1 + max(1, min(5, n_turns // 3)))):
        early.append(dialogue.tell())
    filler = rng.random() < 0.15
    while dialogue.n_turns() < n_turns - len(early):
        if filler and rng.random() < 0.8:
            dialogue.filler()
        else:
            dialogue.step()
    rng.shuffle(early)
    for fact in early:
        if rng.random() < 0.85:
            dialogue.ask(fact)
        else:
            dialogue.ask_unknown()
    if rng.random() < 0.15:
        dialogue.turn(dialogue.styled(rng.choice(FAREWELL[0])), FAREWELL[1])
    return dialogue.messages


# The evaluation: what the user says, and what the last reply must and must not say.

# Every kind of fact that there is; of each sort of case each kind has as many as any other.
EVAL_KINDS = ("name", "job", "home", "born", "from", "like", "allergy", "phone", "postcode",
              "surname", "work", "holiday", "age", "birthday", "secret", "pass", "wifi", "list",
              "plays", "hobby", "team", "pet", "petcolour", "petage", "pair", "count", "time",
              "rel", "reljob", "relhome", "relage", "fav", "relfav", "usfav", "num", "colour",
              "spot", "plan", "thing", "likes")
# Of these, what can only be copied letter by letter.
LITERAL_KINDS = ("phone", "postcode", "pass", "wifi")


def holds(reply, phrase):
    """Whether REPLY has PHRASE as a whole; a number is not whole where digits go on beside it."""
    return re.search(r"(?<!\w)(?<!\d[ .:-])" + re.escape(phrase) + r"(?!\w)(?![ .:-]\d)", reply,
                     re.IGNORECASE) is not None


def eval_dialogue(rng, sort, distance=20, unseen=True, kind=None):
    """One unseen dialogue of SORT 'recall', 'corrected' or 'unknown', about a fact of KIND or any.

    Its names, places and words are only such as training never has (UNSEEN), or any (None).

    Returns a dict: system text or "", the user's messages, the written replies (for checks that do
    not run a daemon; the last is the right answer), the
    words the last reply has to hold and the words it must not hold: every other value that was told.
    """
    wanted = kind
    while True:
        dialogue = Dialogue(rng, unseen)
        dialogue.style = rng.choice(["plain", "plain", "plain", "lower"])
        facts = dialogue.facts
        kind = wanted or rng.choice(EVAL_KINDS)
        fact = rng.choice([f for f in facts if f.ident.split("-")[0] == kind])
        if sort == "unknown" and fact.ident in dialogue.known:
            continue  # the system text told it
        old = None
        for _ in range(rng.randrange(0, 4)):
            other = rng.choice(facts)
            if british(other.what) != british(fact.what) and other.ident not in dialogue.known:
                dialogue.tell(other, echo=True)
        if sort != "unknown":
            dialogue.tell(fact, echo=True)
            if sort == "corrected":
                old = dialogue.known[fact.ident][0]
                for _ in range(rng.randrange(0, 4)):
                    dialogue.filler()
                dialogue.correct(fact)
        told = dialogue.n_turns()
        while dialogue.n_turns() < told + distance:
            draw = rng.random()
            if draw < 0.3:
                other = rng.choice(facts)
                if british(other.what) != british(fact.what) and other.ident not in dialogue.known:
                    dialogue.tell(other, echo=True)
            elif draw < 0.42:
                others = [i for i in sorted(dialogue.known) if i != fact.ident]
                if others:
                    dialogue.ask(dialogue.known[rng.choice(others)][1])
            else:
                dialogue.filler()
        text = dialogue.styled(rng.choice(fact.ask))
        reply = dialogue.before_value(fact, text) + NOT_TOLD
        if sort != "unknown":
            reply = dialogue.answer(fact, text)
        dialogue.turn(text, reply)
        texts = [m for m in dialogue.messages if m[0] == "user"]
        system = [m[1] for m in dialogue.messages if m[0] == "system"]
        values = sorted({yours(value) for value in dialogue.ever_told})
        result = {"sort": sort, "kind": kind, "system": system[0] if system else "",
                  "user": [m[1] for m in texts],
                  "replies": [m[1] for m in dialogue.messages if m[0] == "assistant"],
                  "want": [], "avoid": [value for value in values if not holds(reply, value)]}
        if sort == "unknown":
            return result
        result["want"] = [yours(dialogue.known[fact.ident][0])]
        if old and yours(old) not in result["avoid"]:
            continue
        return result


def eval_sum(rng, unseen):
    """One sum of two two-digit numbers; UNSEEN: a pair that is not in the training data."""
    while True:
        x, y = rng.randrange(10, 100), rng.randrange(10, 100)
        if pair_held_out(x, y) == unseen:
            break
    text = rng.choice(ADD_ASKS[:8]).replace("{x}", str(x)).replace("{y}", str(y))
    return {"sort": "sum", "kind": "unseen pair" if unseen else "pair", "system": "",
            "user": [text],
            "replies": [add_reply(x, y)], "want": [str(x + y)]}


def case_messages(case):
    """A case of the evaluation as messages with the written replies, the last one to be learned."""
    messages = [("system", case["system"], False)] if case["system"] else []
    for user, reply in zip(case["user"], case["replies"]):
        messages += [("user", user, False), ("assistant", reply, False)]
    messages[-1] = messages[-1][:2] + (True,)
    return messages


def eval_set(seed=20261121, n_recall=200, n_unknown=120, n_sums=200, n_corrected=80, n_new=200):
    """The evaluation set; the same one for the same numbers and seed.

    'recall' draws names, places and words from everything, as people do; 'recall of new words'
    only from what training never has, which is harder. The kinds take turns, and the sorts begin
    half a round apart, so that the first 20 of both sorts of recall have every kind.
    """
    rng = random.Random("eval-%d" % seed)
    kinds = list(EVAL_KINDS)
    rng.shuffle(kinds)

    def some(sort, n, start, unseen=True):
        return [eval_dialogue(rng, sort, unseen=unseen, kind=kinds[(start + i) % len(kinds)])
                for i in range(n)]

    half = len(kinds) // 2
    new = some("recall", n_new, half)
    for case in new:
        case["sort"] = "recall of new words"
    rest = some("unknown", n_unknown, 0)
    rest += [eval_sum(rng, i % 2 == 0) for i in range(n_sums)]
    rest += some("corrected", n_corrected, half)
    rng = random.Random("eval-any-%d" % seed)
    return some("recall", n_recall, 0, unseen=None) + new + rest


def main():
    parser = argparse.ArgumentParser(description="Print dialogues, one JSON object a line.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=3, help="how many training dialogues")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--eval", action="store_true", help="the evaluation set instead")
    parser.add_argument("--text", action="store_true", help="as plain text, to read")
    args = parser.parse_args()
    if args.eval:
        for case in eval_set():
            print(json.dumps(case))
        return
    rng = random.Random("train-%d" % args.seed)
    for _ in range(args.n):
        messages = training_dialogue(rng, args.turns)
        if args.text:
            print("\n".join("%s: %s" % (role, text) for role, text, _ in messages) + "\n")
        else:
            print(json.dumps([{"role": role, "content": text} for role, text, _ in messages]))


if __name__ == "__main__":
    main()
