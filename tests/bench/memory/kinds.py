# SPDX-License-Identifier: MIT
"""tools/bench memory, part kinds: conversations on models with states of recurrent layers and with windows.

For each shape one conversation is played on confab and on llama-server, step by step in turn, so that
both see the same machine. It grows to the first length, goes through all steps, and grows on to the next:

  exchange     25 new tokens and a reply of 8, on a conversation in RAM
  restart      the same after the server was stopped and started (and the page cache of the memory
               dropped); llama-server with a slot saved and restored, and without
  return       the same after the memory was put away: confab evicts it to disk (and the page cache is
               dropped), llama-server has another conversation in its only slot, and in a third row
               saves the slot to a file and restores it
  again        the last reply is generated once more, in RAM and after the memory was put away
  back         the last five exchanges are dropped, and another message is said
  fork         a copy that goes on, then the original, then the copy again. llama-server has no forks: it is
               told the same beginning with two ends

Times are those from the request (with restoring the slot, where that is a request of its own) to the
first token. "History" is what a side computes beyond the new tokens; the last token of a reply belongs
to it on both sides. What llama-server holds for a conversation is told by its log, when the conversation
moves to its prompt cache: the state of the sequence, and its context checkpoints.
"""

import random
from collections import namedtuple

from players import Confab, Peer
from report import median, note, seconds, size, times

# what it has; the tokens of its vocabulary, and of its window
SHAPES = {
    "granite-4.0-h-1b": ("36 layers of mamba 2, 4 of attention", 100352, 0),
    "lfm2-1.2b": ("10 layers of short convolutions, 6 of attention", 65536, 0),
    "gemma-3-1b": ("22 layers of attention within 512 tokens, 4 without a window", 262144, 512),
}
# --quick: small models of the same architectures (tests/util/arch-rows.c)
SMALL = {
    "granite-4.0-h-1b": ("granitehybrid", 320, 0),
    "lfm2-1.2b": ("lfm2", 320, 0),
    "gemma-3-1b": ("gemma3", 320, 16),
}
Plan = namedtuple("Plan", "lengths new reply exchanges repeat vocab window pool")
# first: seconds; history: tokens
Answer = namedtuple("Answer", "first history")
BACK = 5  # exchanges
PEER = ["-np", "1", "-c", "10240", "-fa", "on"]
SAVED = "llama-server, slot saved"
MOST_HISTORY = 64
FASTER = 100


class Side:
    """Conversations as lists of exchanges (new tokens, reply), and who answers."""

    def __init__(self, player, plan):
        self.player, self.plan = player, plan
        self.name = player.name
        self.said = {}

    def history(self, name):
        return [token for exchange in self.said[name] for part in exchange for token in part]

    def close(self):
        self.player.close()


class ConfabSide(Side):
    def __init__(self, b, model, plan):
        super().__init__(Confab(b, "kinds", model, plan.pool), plan)

    def open(self, name):
        self.player.open(name)
        self.said[name] = []

    def say(self, name, new):
        first, reply, got = self.player.say(name, None, new, self.plan.reply)
        self.said[name].append((new, reply))
        return Answer(first, got["n_computed"] - len(new))

    def again(self, name):
        turns = 2 * len(self.said[name]) - 1
        first, reply, got = self.player.say_at(name, turns, [], self.plan.reply)
        self.said[name][-1] = (self.said[name][-1][0], reply)
        return Answer(first, got["n_computed"])

    def back(self, name, new):
        keep = len(self.said[name]) - BACK
        first, reply, got = self.player.say_at(name, 2 * keep, new, self.plan.reply)
        self.said[name][keep:] = [(new, reply)]
        return Answer(first, got["n_computed"] - len(new))

    def fork(self, name, copy):
        self.said[copy] = list(self.said[name])
        return self.player.ask(f"fork {name} {copy}")["total"]

    def forget(self, name):
        self.player.ask(f"close {name}")

    def put_away(self, name):
        self.player.ask(f"evict {name}")
        self.player.drop_cache()

    def restart(self):
        self.player.stop()
        self.player.drop_cache()
        self.player.start()

    def stat(self, *names):
        return {name: self.player.stat(name) for name in names}

    def held(self):
        """What all conversations hold in RAM: bytes by class, and of the checkpoints."""
        s = self.stat("pool_live_bytes", "pool_blocks", "pool_window_blocks", "pool_states", "block_bytes",
                      "window_block_bytes", "state_bytes", "block_tokens", "ledger_meta_used")
        # Blocks that a window can reach into, from the end.
        reach = (self.plan.window + s["block_tokens"] - 2) // s["block_tokens"] + 1
        kept_blocks = max(0, s["pool_window_blocks"] - reach)
        kept_states = max(0, s["pool_states"] - 1)
        return s | {"checkpoints": kept_blocks * s["window_block_bytes"] + kept_states * s["state_bytes"],
                    "states": kept_states}


class PeerSide(Side):
    def __init__(self, b, model, plan):
        super().__init__(Peer(b, model, PEER, []), plan)

    def open(self, name):
        self.said[name] = []

    def prompt(self, history, new):
        first, reply, timings = self.player.say(None, history, new, self.plan.reply)
        return Answer(first, timings["prompt_n"] - len(new)), reply

    def say(self, name, new):
        answer, reply = self.prompt(self.history(name), new)
        self.said[name].append((new, reply))
        return answer

    def again(self, name):
        new, _ = self.said[name].pop()
        answer, reply = self.prompt(self.history(name), new)
        self.said[name].append((new, reply))
        return Answer(answer.first, answer.history + len(new))

    def back(self, name, new):
        del self.said[name][-BACK:]
        return self.say(name, new)

    def fork(self, name, copy):
        self.said[copy] = list(self.said[name])

    def forget(self, name):
        del self.said[name]

    def put_away(self, name):
        """Another conversation, the same each time, takes the slot."""
        self.prompt([], [300 + i % 20 for i in range(64)])

    def saved(self, act, restart=False):
        """What @act takes on a slot that was saved and restored."""
        self.player.slot("save")
        self.player.slot("erase")
        self.player.drop_cache()
        if restart:
            self.restart()
        took, _ = self.player.slot("restore")
        answer = act()
        return Answer(answer.first + took, answer.history)

    def restart(self):
        self.player.stop()
        self.player.start()

    def held(self, name):
        """Of a conversation that was in the slot until now."""
        length = len(self.history(name)) - 1  # the last token is not computed
        self.put_away(name)
        states = self.player.logged(r"saving prompt with length +(\d+), total state size = +([\d.]+) MiB")
        prompts = self.player.logged(r"prompt 0x\w+: +(\d+) tokens, checkpoints: +(\d+), +([\d.]+) MiB")
        state = [float(v) for n, v in states if int(n) >= length]
        prompt = [(int(n), float(v)) for tokens, n, v in prompts if int(tokens) >= length]
        if not state or not prompt:
            return None
        return {"total": prompt[-1][1] * 2**20, "state": state[-1] * 2**20, "checkpoints": prompt[-1][0]}


class Play:
    """One conversation on all sides, and what was measured: values[length][step][side]."""

    NAME, COPY = "c", "copy"

    def __init__(self, b, shape, plan, confab, peer):
        self.b, self.plan, self.confab, self.peer = b, plan, confab, peer
        self.sides = [confab] + ([peer] if peer else [])
        self.shape = shape
        self.random = random.Random(1)
        self.values = {}
        self.length = 0
        for side in self.sides:
            side.open(self.NAME)

    def draw(self, n):
        return [self.random.randrange(300, self.plan.vocab) for _ in range(n)]

    def put(self, step, side, value):
        self.values.setdefault(self.length, {}).setdefault(step, {}).setdefault(side, []).append(value)

    def exchange(self):
        new = self.draw(self.plan.new)
        for side in self.sides:
            self.put("exchange", side.name, side.say(self.NAME, new))

    def keep_up(self):
        """An exchange that llama-server had more than confab."""
        self.put("exchange", self.confab.name, self.confab.say(self.NAME, self.draw(self.plan.new)))

    def repeat(self):
        return range(self.plan.repeat)

    def grow(self):
        p = self.plan
        new = self.draw(self.length - p.exchanges * (p.new + p.reply) - p.reply -
                        len(self.confab.history(self.NAME)))
        self.put("fill, tokens", "all", len(new))
        for side in self.sides:
            self.put("fill", side.name, side.say(self.NAME, new))
            note(f"kinds: {self.shape}: {side.name}: {len(new)} tokens"
                 f" in {seconds(self.values[self.length]['fill'][side.name][-1].first)}")
        for _ in range(p.exchanges):
            self.exchange()

    def memory(self):
        self.put("held", self.confab.name, self.confab.held())
        self.confab.put_away(self.NAME)
        self.put("disk", self.confab.name, self.confab.stat("spill_disk_bytes", "pool_live_bytes"))
        if self.peer:
            _, got = self.peer.player.slot("save")
            self.put("disk", SAVED, got["n_written"])
            self.put("held", self.peer.name, self.peer.held(self.NAME))

    def returns(self):
        for _ in self.repeat():
            new = self.draw(self.plan.new)
            for side in self.sides:
                side.put_away(self.NAME)
                self.put("return", side.name, side.say(self.NAME, new))
            if self.peer:
                self.put("return", SAVED,
                         self.peer.saved(lambda new=new: self.peer.say(self.NAME, new)))
                self.keep_up()
        self.put("held after return", self.confab.name, self.confab.held())

    def again(self):
        for _ in self.repeat():
            for side in self.sides:
                self.put("again", side.name, side.again(self.NAME))
            for side in self.sides:
                side.put_away(self.NAME)
                self.put("again, returned", side.name, side.again(self.NAME))
            if self.peer:
                self.put("again, returned", SAVED, self.peer.saved(lambda: self.peer.again(self.NAME)))

    def back(self):
        for _ in self.repeat():
            new = self.draw(self.plan.new)
            for side in self.sides:
                self.put("back", side.name, side.back(self.NAME, new))
            for _ in range(BACK - 1):
                self.exchange()

    def fork(self):
        for _ in self.repeat():
            one, other, third = (self.draw(self.plan.new) for _ in range(3))
            before = self.confab.stat("ledger_used", "ledger_meta_used", "pool_live_bytes")
            self.put("fork", self.confab.name, self.confab.fork(self.NAME, self.COPY))
            after = self.confab.stat("ledger_used", "ledger_meta_used", "pool_live_bytes")
            self.put("fork, bytes", self.confab.name, sum(after[k] - before[k] for k in ("ledger_used",
                                                                                         "ledger_meta_used")))
            if self.peer:
                self.peer.fork(self.NAME, self.COPY)
            for step, name, new in ("fork, copy", self.COPY, one), ("fork, original", self.NAME, other), \
                    ("fork, copy again", self.COPY, third):
                for side in self.sides:
                    self.put(step, side.name, side.say(name, new))
            for side in self.sides:
                side.forget(self.COPY)

    def restart(self):
        for _ in self.repeat():
            new = self.draw(self.plan.new)
            self.confab.restart()
            self.put("restart", self.confab.name, self.confab.say(self.NAME, new))
            self.put("start", self.confab.name, self.confab.player.start_seconds)
            if self.peer:
                self.put("restart", SAVED,
                         self.peer.saved(lambda new=new: self.peer.say(self.NAME, new), restart=True))
        if self.peer:
            self.peer.restart()
            self.put("start", self.peer.name, self.peer.player.start_seconds)
            self.put("restart", self.peer.name, self.peer.say(self.NAME, self.draw(self.plan.new)))
            self.keep_up()

    def run(self):
        for self.length in self.plan.lengths:
            for step in (self.grow, self.memory, self.restart, self.returns, self.again, self.back,
                         self.fork):
                step()
                note(f"kinds: {self.shape}, {self.length} tokens: {step.__name__}")
        return self.values


# --- the table ---

def answer_rows(t, what, sides, aim=""):
    """A row of times, with the peer's, and a row of the history computed."""
    mine = sides["confab"]
    others = {name: v for name, v in sides.items() if name != "confab"} or {"": None}
    for i, (name, theirs) in enumerate(others.items()):
        against = ratio = ""
        if theirs:
            against = f"{name}: {seconds(median([a.first for a in theirs]))}"
            ratio = times(median([a.first for a in theirs]) / median([a.first for a in mine]))
        if i == 0:
            t.row(what, [a.first for a in mine], seconds, against, ratio)
        else:
            t.text("", against=against, ratio=ratio)
    most = max(a.history for a in mine)
    theirs = ", ".join(f"{name}: {median([a.history for a in v]):.0f}" for name, v in others.items() if v)
    t.row("  tokens of history computed", [a.history for a in mine], lambda v: f"{v:.0f}", theirs, "",
          f"<= {MOST_HISTORY}: {'yes' if most <= MOST_HISTORY else 'NO'}" if aim else "")


def memory_rows(t, got):
    held, disk = got["held"]["confab"][0], got["disk"]["confab"][0]
    peer = (got["held"].get("llama-server") or [None])[0]
    t.row("RAM, with checkpoints", held["pool_live_bytes"], size,
          f"llama-server: {size(peer['total'])}" if peer else "",
          times(peer["total"] / max(held["pool_live_bytes"], 1)) if peer else "")
    memory = max(held["pool_live_bytes"] - held["checkpoints"], 1)
    t.row("  memory of the tokens, and of the end", memory, size,
          f"llama-server: {size(peer['state'])}" if peer else "",
          times(peer["state"] / memory) if peer else "")
    share = held["checkpoints"] / memory
    t.row(f"  checkpoints ({held['states']} states, {held['pool_window_blocks']} window blocks in all)",
          held["checkpoints"], size,
          f"llama-server: {size(peer['total'] - peer['state'])} in {peer['checkpoints']}" if peer else "", "",
          f"<= 1/4 of that: {'yes' if share <= 0.25 else 'NO'} ({share:.2f})")
    t.row("  bookkeeping", held["ledger_meta_used"], size)
    saved = (got["disk"].get(SAVED) or [None])[0]
    t.row("disk, evicted", disk["spill_disk_bytes"], size, f"{SAVED}: {size(saved)}" if saved else "",
          times(saved / disk["spill_disk_bytes"]) if saved else "")
    t.row("RAM after a return from disk", got["held after return"]["confab"][0]["pool_live_bytes"], size)


def length_rows(t, got):
    answer_rows(t, f"a message of {got['fill, tokens']['all'][0]} tokens", got["fill"])
    memory_rows(t, got)
    answer_rows(t, "an exchange, in RAM", got["exchange"], "aim")
    answer_rows(t, "return after eviction", got["return"], "aim")
    answer_rows(t, "return after a restart", got["restart"], "aim")
    answer_rows(t, "the last reply again, in RAM", got["again"], "aim")
    answer_rows(t, "the last reply again, after eviction", got["again, returned"], "aim")
    answer_rows(t, f"back by {BACK} exchanges, another message", got["back"])
    t.row("Fork, the verb", got["fork"]["confab"], seconds)
    t.row("  bytes of RAM it adds", got["fork, bytes"]["confab"], size)
    answer_rows(t, "first message in the fork", got["fork, copy"])
    answer_rows(t, "then in the original", got["fork, original"])
    answer_rows(t, "then in the fork again", got["fork, copy again"])
    theirs = got["start"].get("llama-server")
    t.row("start of the server", got["start"]["confab"], seconds,
          f"llama-server: {seconds(theirs[0])}" if theirs else "",
          times(theirs[0] / median(got["start"]["confab"])) if theirs else "")


def aim_rows(t, values, plan):
    """What holds over all lengths."""
    last = values[plan.lengths[-1]]
    answers = [a for got in values.values() for step in ("exchange", "return", "restart", "again",
                                                         "again, returned") for a in got[step]["confab"]]
    most = max(a.history for a in answers)
    t.row("greatest number of tokens of history computed by exchanges, returns and replies again", most,
          lambda v: f"{v:.0f}", aim=f"<= {MOST_HISTORY}: {'yes' if most <= MOST_HISTORY else 'NO'}")
    if "llama-server" in last["restart"]:
        mine, theirs = (median([a.first for a in last["restart"][who]]) for who in ("confab", "llama-server"))
        t.row(f"return after a restart at {plan.lengths[-1]} tokens", mine, seconds,
              f"llama-server: {seconds(theirs)}", times(theirs / mine),
              f">= {FASTER} x: {'yes' if theirs >= FASTER * mine else 'NO'}")
    if plan.window:
        held = last["held after return"]["confab"][0]
        blocks = held["pool_window_blocks"]
        bound = (plan.window + plan.new + plan.reply) // held["block_tokens"] + 2
        t.row(f"local layers' blocks in RAM after a return at {plan.lengths[-1]} tokens", blocks,
              lambda v: f"{v:.0f}", f"window: {plan.window} tokens, {bound} blocks at most", "",
              f"bounded: {'yes' if blocks <= bound else 'NO'}")


def part_kinds(b):
    quick = b.o.quick
    for shape in b.o.shapes:
        name, vocab, window = SMALL[shape] if quick else (shape, *SHAPES[shape][1:])
        plan = (Plan((300, 450), 5, 3, 6, 1, vocab, window, 64 << 20) if quick else
                Plan(b.o.lengths, 25, 8, 6, 3, vocab, window, 4 << 30))
        model = b.model(f"arch:{name}", "q4_0")
        confab = ConfabSide(b, model, plan)
        peer = PeerSide(b, model, plan) if b.o.peer_root else None
        values = Play(b, shape, plan, confab, peer).run()
        b.values[f"kinds.{name}"] = {
            n: {step: {who: [v._asdict() if isinstance(v, Answer) else v for v in list_]
                       for who, list_ in sides.items()} for step, sides in got.items()}
            for n, got in values.items()}
        for side in [confab] + ([peer] if peer else []):
            side.close()
        for n, got in values.items():
            what = "" if quick else f" ({SHAPES[shape][0]})"
            b.table.heading(f"kinds: {name}, q4_0 random weights{what}, f16 memory, {n} tokens,"
                            f" {b.threads} threads; seconds to the first token with {plan.new} new tokens")
            length_rows(b.table, got)
        b.table.heading(f"kinds: {name}: aims")
        aim_rows(b.table, values, plan)
    if not b.o.peer_root:
        b.table.heading("  (llama-server: SKIPPED, no --peer-root)")
        note("kinds: SKIPPED the side of llama-server: no --peer-root")
