# SPDX-License-Identifier: MIT
"""tools/bench frontends, part first: what HTTP adds to the time until the first text of a reply.

One chat is told by confab's own protocol (bench-say), another one through the gateway, turn by turn, on the same
daemon. Then a third one on llama-server: between the turns of the others its threads, and what it leaves in the caches, would be
in the way of whoever comes next. The chat over HTTP is resent as a whole with each request, over a kept
connection. Both clients are small programs in C that stop the time at the first text (bench-say, bench-http). What is
compared are turns of the same number, which have as many tokens. No chat begins as another one does, so none of them
computes what another one needs, or is a branch of it; who is first alternates. Some chats are told without a pause:
what is still to be done after a reply is then in the way of the next turn. The others are told with one, as by a person.

Then the chat of the gateway is told again by confab's own protocol: each reply must be the same text.
"""

import time

from report import fail, median, note, seconds, times
from sides import Gateway, Server, Stopwatch, check, health
from wire import chat

WORDS = ("The weather is fine today.", "I have a dog called Biscuit.", "My favourite colour is green.",
         "What is my dog called?", "I live in a small town by the sea.", "Do you like music?",
         "Tell me about the sea.", "What is my favourite colour?", "I went for a long walk.", "Good night.")
OPENINGS = {"native": "Hello! I am Nora.", "confab": "Hello! I am Emma.", "llama-server": "Hello! I am Anna."}
REPLY = 8  # tokens
PAUSES = (0, 0.05)  # seconds before each request


class Native:
    """Chats by confab's own protocol."""

    name = "native"

    def __init__(self, confab, chat, reply=REPLY):
        self.confab, self.chat, self.reply = confab, f"native-{chat}", reply
        confab.open(self.chat)

    def tell(self, text):
        got = self.confab.ask(f"tell {self.chat} {self.reply} {text}")
        return got["text_first"], got["text"], got["n_prompt"]

    def close(self):
        self.confab.ask(f"close {self.chat}")


class Http:
    """Chats over a connection, resent as a whole."""

    def __init__(self, b, side):
        self.name, self.side, self.client = side.name, side, Stopwatch(b, side)
        self.messages = []

    def tell(self, text):
        self.messages.append({"role": "user", "content": text})
        first, answer = self.client.ask(chat(self.messages, REPLY))
        check(self.side, answer)
        self.messages.append({"role": "assistant", "content": answer.text})
        return first, answer.text, answer.usage["prompt_tokens"]

    def close(self):
        self.client.close()


def turns(opening, n):
    """What the user says; the numbers keep the turns apart."""
    return [opening] + [f"{WORDS[i % len(WORDS)]} ({i})" for i in range(n - 1)]


def play(chats, openings, n, pause, got):
    """All chats, turn by turn; the first turn, which is told a new conversation, does not count."""
    told = {chat.name: turns(openings[chat.name], n) for chat in chats}
    for i in range(n):
        row = {}
        for chat in chats if i % 2 else reversed(chats):
            time.sleep(pause)
            row[chat.name] = chat.tell(told[chat.name][i])
        if i > 0:
            for name, (first, _, n_prompt) in row.items():
                got[name]["first"].append(first)
                got[name]["prompt"].append(n_prompt)


def check_replies(confab, name, messages, reply=REPLY):
    """The same chat by confab's own protocol has the same replies."""
    again = Native(confab, f"check-{name}", reply)
    for i in range(0, len(messages), 2):
        got = again.tell(messages[i]["content"])[1]
        if got != messages[i + 1]["content"]:
            fail(f"the reply to '{messages[i]['content'][:60]}' is '{messages[i + 1]['content']}' through the"
                 f" gateway, but '{got}' without it")
    again.close()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(b, key, model, plan, sides):
    names = ["native"] + [side.name for side in sides]
    for pause in PAUSES:
        got = {name: {"first": [], "prompt": []} for name in names}
        for number in range(plan["chats"]):
            chat_number = f"{number}-{pause}"
            http = [Http(b, side) for side in sides]
            chats = [Native(sides[0], chat_number), *http]
            openings = {name: f"{OPENINGS[name]} ({chat_number}){plan['more']}" for name in names}
            play(chats[:2], openings, plan["turns"], pause, got)
            play(chats[2:], openings, plan["turns"], pause, got)
            if number == 0:
                check_replies(sides[0], chat_number, http[0].messages)
            for chat_ in chats:
                chat_.close()
        b.values[f"first.{key}.{pause}"] = got
        rows(b.table, model, got, plan, pause)
    b.table.row("GET /health on a new connection", [health(sides[0]) for _ in range(200)], seconds)


def rows(t, text, got, plan, pause):
    native, through = got["native"]["first"], got["confab"]["first"]
    added = [a - b for a, b in zip(through, native)]
    prompts = got["confab"]["prompt"]
    t.heading(f"first: time to the first text of a reply in a warm chat of {min(prompts)} to {max(prompts)} tokens,"
              f" {len(native)} turns of {plan['chats']} chats, {seconds(pause) + ' after' if pause else 'right behind'}"
              f" the one before ({text})")
    t.row("confab's own protocol", native, seconds)
    t.row("  of 100 turns the second slowest", percentile(native, 0.99), seconds)
    t.row("through the gateway, history resent", through, seconds)
    t.row("  of 100 turns the second slowest", percentile(through, 0.99), seconds)
    t.row("  more than without it, turn by turn", max(0.0, median(added)), seconds, aim="<= 2 ms")
    t.row("  the fastest tenth: more than without it",
          max(0.0, percentile(through, 0.1) - percentile(native, 0.1)), seconds,
          f"{seconds(percentile(native, 0.1))} and {seconds(percentile(through, 0.1))}", aim="<= 2 ms")
    if "llama-server" in got:
        peer = got["llama-server"]["first"]
        t.row("llama-server, history resent", peer, seconds, f"confab: {seconds(median(through))}",
              times(median(peer) / median(through)))
        t.row("  of 100 turns the second slowest", percentile(peer, 0.99), seconds)


def part_first(b):
    quick = b.o.quick
    plans = [("small", "the bundled model", b.bundled("q8_0"),
              {"chats": 1 if quick else 3, "turns": 12 if quick else 66, "more": ""}),
             ("long", "a tiny model, the first message as long as an agent's", b.model("tiny:llama", "65536"),
              {"chats": 1 if quick else 2, "turns": 4 if quick else 40, "more": " x" * (4000 if quick else 20000)})]
    for key, text, model, plan in plans:
        note(f"first: {text}")
        sides = [Gateway(b, "first", model, 1 << 30)]
        if b.o.peer_root:
            sides.append(Server(b, model, ["-np", "1", "-c", "0", "-fa", "on"]))
        measure(b, key, text, plan, sides)
        for side in sides:
            side.close()
