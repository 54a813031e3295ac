# SPDX-License-Identifier: MIT
"""tools/bench frontends, part returns: eight chats in turn, each request with the whole history.

Both servers run all the time and are asked in turn, chat by chat, so that both see the same machine. Rounds: the
first prompts; then `rounds` times 25 new words to every chat; then both servers are stopped and started (confab's
memory is dropped from the page cache too), and every chat is said 25 words again. What is computed at a return is
what the servers themselves tell (usage, cached_tokens).

confab: RAM for all chats. llama-server at its best for this: a slot for each chat, so that nothing has to move, and
its prompt cache. It can save slots to files and read them back, but only on requests that no chat program sends.

At the end the first chat is told again by confab's own protocol, and each reply has to be the same text.
"""

import random

import bars
from first import check_replies
from report import median, note, seconds, times
from sides import Client, Gateway, Server, computed


def words(rng, n):
    """N words that are a token each (tests/util/word-vocabulary.h)."""
    return "".join(" " + "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(3)) for _ in range(n))


class Chats:
    """The chats of one side."""

    def __init__(self, side, n):
        self.side = side
        self.messages = [[] for _ in range(n)]
        self.got = {"fill": [], "return": [], "restart": []}  # of (seconds, tokens computed, tokens of the prompt)

    def tell(self, i, text, kind, reply):
        self.messages[i].append({"role": "user", "content": text})
        client = Client(self.side)
        first, answer = client.say(self.messages[i], reply)
        client.close()
        self.messages[i].append({"role": "assistant", "content": answer.text})
        self.got[kind].append((first, computed(answer), answer.usage["prompt_tokens"]))

    def column(self, kind, i):
        return [row[i] for row in self.got[kind]]


def play(both, plan):
    rng = random.Random(1)
    for kind, n_words, rounds in (("fill", plan["tokens"], 1), ("return", plan["new"], plan["rounds"]),
                                  ("restart", plan["new"], 1)):
        if kind == "restart":
            for chats in both:
                restart(chats.side)
        for _ in range(rounds):
            for i in range(plan["n"]):
                text = words(rng, n_words)
                for chats in both:
                    chats.tell(i, text, kind, plan["reply"])
        for chats in both:
            note(f"returns: {chats.side.name}: {kind} {seconds(median(chats.column(kind, 0)))},"
                 f" computed {median(chats.column(kind, 1)):.0f}")


def restart(side):
    side.stop()
    if isinstance(side, Gateway):
        side.drop_cache()
    side.start()


def rows(t, both, plan, text):
    t.heading(f"returns: {plan['n']} chats of {plan['tokens']} tokens in turn, every request with the whole history;"
              f" seconds to the first text with {plan['new']} new words ({text})")
    for kind, what in (("fill", "first prompt"), ("return", "return"), ("restart", "return after a restart")):
        mine = median(both[0].column(kind, 0))
        for chats in both:
            name = chats.side.name
            took, n = chats.column(kind, 0), chats.column(kind, 1)
            is_mine = chats is both[0]
            t.row(f"{what}: {name}", took, seconds, "" if is_mine else f"confab: {seconds(mine)}",
                  "" if is_mine else times(median(took) / mine))
            t.row("  tokens computed", n, lambda v: f"{v:.0f}", f"of {median(chats.column(kind, 2)):.0f}")
    for chats in both:
        what = "daemon and gateway" if chats is both[0] else "server"
        t.row(f"start of {chats.side.name}'s {what}", chats.side.start_seconds, seconds)


def part_returns(b):
    quick = b.o.quick
    shape = b.o.shape or ("60m" if quick else "qwen-0.5b")
    plan = {"n": 8, "tokens": 300 if quick else 2000, "new": 25, "reply": 8, "rounds": 1 if quick else 3}
    model = b.model(shape, "q4_0", "words")
    sides = [Gateway(b, "returns", model, 1 << 30)]
    if b.o.peer_root:
        sides.append(Server(b, model, ["-np", "8", "-c", str(8 * (plan["tokens"] + 500)), "-fa", "on"]))
    else:
        note("returns: SKIPPED the side of llama-server: no --peer-root")
    both = [Chats(side, plan["n"]) for side in sides]
    play(both, plan)
    check_replies(sides[0], "returns", both[0].messages[0], plan["reply"])
    b.values["returns"] = {chats.side.name: chats.got for chats in both}
    rows(b.table, both, plan, f"shape {shape}, q4_0, {b.threads} threads")
    bars.keep(b, "returns", f"{plan['n']} chats of {plan['tokens']:,} tokens over HTTP, a slot for each, {plan['new']} new words"
              f" (shape {shape}, Q4_0)",
              [bars.bar(what, chats.side.name, chats.column(kind, 0))
               for kind, what in (("return", "a return"), ("restart", "after a restart")) for chats in both])
    for side in sides:
        side.close()
