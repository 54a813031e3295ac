# SPDX-License-Identifier: MIT
"""tools/bench peer: confab and llama.cpp do the same work in turn, with the same number of threads.

Rules:
 1. Both sides of a row work in one run of the tool, one after another; who begins alternates from run to run. A ratio is
    that of the two times of one turn; medians, the least and the greatest of these are shown.
 2. The peer works with the setting that is best for the row (rows.settings()), which is tried out first, once each, and
    remembered in the scratch folder with everything that it depends on. Repacking of weights is on, its default.
 3. Prefill and decoding of the peer are timed by llama-bench, streams by llama-batched-bench, each with its warm-up, and
    what follows a long history by llama-server's own timings: there a history is computed once and kept as a file.
 4. What the machine can do at most is measured in each run, with confab's threads: of decoding the bandwidth of memory, of
    prefill loops of the same instructions in registers (tests/bench/roof): products with weights as fast as their loop,
    those of attention, with keys and values that were seen, as fast as a loop of multiplications.
"""

import functools
import json
import os
import random
import subprocess

from load import part_load
from report import Grid, fail, median, note, speed
from root import PeerRoot, Server
from rows import OF_BANDWIDTH, OF_LOOP, UNITS, VNNI, depth_of, rows, settings, tokens_of

READ_SIZE = 1 << 29  # bytes, to measure the bandwidth with: no cache holds them


class ConfabSide:
    """bench-peer with a model loaded: one line asked, one answered."""

    def __init__(self, b, model, most_tokens):
        self.b = b
        self.process = subprocess.Popen(
            [b.program("peer"), model, str(b.threads), b.o.isa or "best", str(most_tokens)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        b.players.append(self)
        self.facts = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            fail("bench-peer ended")
        return json.loads(line)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.answer()["values"][0]

    def measure(self, test):
        kind, *n = test
        return self.ask("decode", *n) if kind == "depth" else self.ask(kind, *([0] if kind == "decode" else []), *n)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.b.players.remove(self)


class PeerSide:
    """The peer with a model: seconds of a test with a setting."""

    def __init__(self, b, root, model, n_vocab, most_tokens):
        self.b, self.root, self.model = b, root, model
        self.n_vocab, self.most_tokens = n_vocab, most_tokens
        self.server = self.server_setting = None
        self.random = random.Random(3)

    def measure(self, test, setting, rough=False):
        """@rough: without the warm-up of a prefill, which is another prefill."""
        kind, *n = test
        if kind == "prefill":
            return self.root.bench(self.model, self.b.threads, setting, "-p", n[0], *(["--no-warmup"] if rough else []))
        if kind == "decode":
            return self.root.bench(self.model, self.b.threads, setting, "-n", n[0])
        if kind == "streams":
            return self.root.batched(self.model, self.b.threads, setting, *n)
        return self.after(setting, *n, decode=kind == "depth")

    def after(self, setting, depth, n, decode):
        """What follows a history: of a reply the steps after its first token, or the new tokens of a prompt."""
        self.serve(setting)
        history = [random.Random(5).randrange(300, self.n_vocab) for _ in range(depth)]
        if self.remembered != depth:
            self.server.remember(history)
            self.remembered = depth
        new = [self.random.randrange(300, self.n_vocab) for _ in range(1 if decode else n)]
        got = self.server.complete(history + new, n + 1 if decode else 1)
        if got["prompt_n"] != len(new):
            fail(f"llama-server computed {got['prompt_n']} tokens of a prompt, not {len(new)}")
        return got["predicted_ms" if decode else "prompt_ms"] / 1e3

    def serve(self, setting):
        if self.server and self.server_setting == setting:
            return
        self.close()
        context = -(-(self.most_tokens + 64) // 256) * 256
        self.server, self.server_setting = Server(self.b, self.root, self.model, setting, context), setting
        self.remembered = None

    def close(self):
        if self.server:
            self.server.close()
        self.server = None


# --- the peer's best setting ---

class Best:
    """What was found, in a file: a choice holds while everything is the same that its key names."""

    def __init__(self, b, root):
        self.path = os.path.join(b.o.scratch, "peer-best.json")
        self.version = root.version()
        self.where = f"{self.version} {root.backend or 'best'} {b.threads} threads {cpu_name()}"
        try:
            with open(self.path, encoding="utf-8") as f:
                self.found = json.load(f)
        except (OSError, ValueError):
            self.found = {}

    def of(self, peer, row):
        kind, *n = row.test
        # One choice for all depths: another one would have to be computed at each of them.
        what = kind if kind in ("depth", "onto") else " ".join(map(str, row.test))
        key = f"{self.where} {os.path.basename(peer.model)} {what}"
        if key not in self.found:
            tried = {}
            for setting in settings(row.test):
                tried[json.dumps(setting)] = peer.measure(row.test, setting, rough=True)
                note(f"{row.part}: tried {row.what}: {words(setting)}: {tried[json.dumps(setting)]:.3g} s")
            self.found[key] = json.loads(min(tried, key=tried.get))
            with open(self.path + ".part", "w", encoding="utf-8") as f:
                json.dump(self.found, f, indent=1)
            os.rename(self.path + ".part", self.path)
        return self.found[key]


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "?")


def words(setting):
    return " ".join(f"{key} {value}" for key, value in setting.items())


# --- turns ---

def take_turns(b, confab, peer, group, chosen):
    """Values by row: seconds of both sides, and the roof of each run."""
    got = {row: {"confab": [], "peer": []} for row in group}
    roofs = []
    confab.measure(group[0].test)  # the weights are in memory afterwards
    for run in range(b.o.runs):
        roofs.append(roof(b, confab, group[0]))
        for row in group:
            note(f"{row.part}: {row.what}, run {run + 1} of {b.o.runs}")
            sides = [("confab", lambda: confab.measure(row.test))]
            if peer:
                sides.append(("peer", lambda: peer.measure(row.test, chosen[row])))
            for name, measure in sides if run % 2 == 0 else reversed(sides):
                got[row][name].append(measure())
    return got, roofs


def roof(b, confab, row):
    """Of decoding the bandwidth, of prefill products a second in registers: with weights, and of attention; None: no such
    loop."""
    if row.part == "decode":
        return confab.ask("bandwidth", (1 << 24) if b.o.quick else READ_SIZE)
    if row.part == "prefill":
        weights = next((rate for unit in UNITS[row.model[1]] if (rate := confab.ask("loop", unit))), 0)
        return (weights, confab.ask("loop", "multiply")) if weights else None
    return None


def in_registers(n, facts, roof):
    """Tokens a second if all that n of them took were their products, at the speed of the loops. Logits are left out."""
    weights, attention = roof
    return n / (n * facts["products"] / weights + n * (n + 1) / 2 * facts["attended"] / attention)


def measure_model(b, root, best, model, group):
    """All rows of one model."""
    path = model_file(b, root, model)
    if path is None:
        return None
    most = max(depth_of(row.test) for row in group) + 64
    confab = ConfabSide(b, path, most)
    peer = PeerSide(b, root, path, confab.facts["n_vocab"], most) if root else None
    chosen = {row: best.of(peer, row) for row in group} if root else {}
    got, roofs = take_turns(b, confab, peer, group, chosen)
    facts = confab.facts
    if peer:
        peer.close()
    confab.close()
    return got, roofs, chosen, facts


def model_file(b, root, model):
    shape, quant, *more = model
    if quant != "q4_k_m":
        return b.model(shape, quant, *more)
    path = os.path.join(b.o.scratch, f"{shape}.{quant}.gguf")
    if not os.path.exists(path):
        if not root:
            note("q4_k_m: SKIPPED, the peer's llama-quantize makes the model (--peer-root)")
            return None
        root.quantize(b.model(shape, "f16"), path, "Q4_K_M")
    return path


def put(b, grid, row, got, roofs, setting, facts):
    n = tokens_of(row.test)
    ours, theirs = got["confab"], got["peer"]
    aim = row.aims.vnni if facts["isa"] == VNNI else row.aims.others
    rate = [n / s for s in ours]
    cells = [row.what, f"{median(rate):.1f} t/s"]
    b.values.setdefault(row.part, {})[row.what] = {"tokens": n, "confab": ours, "peer": theirs, "setting": setting,
                                                   "roof": roofs, "isa": facts["isa"], "aim": aim}
    if theirs:
        ratios = [t / o for o, t in zip(ours, theirs)]
        cells += [f"{n / median(theirs):.1f} t/s", f"{median(ratios):.2f}", f"{min(ratios):.2f} .. {max(ratios):.2f}"]
    else:
        cells += ["-", "-", ""]
    grid.row(*cells, f">= {aim}" if aim else "", words(setting) if setting else "")
    if row.part == "decode":
        put_share(grid, "  bytes a second, of the bandwidth", [facts["weights_size"] * r for r in rate], roofs, speed,
                  f">= {OF_BANDWIDTH}")
    elif row.part == "prefill" and None not in roofs:
        put_share(grid, "  of what loops in registers take for the same products", rate,
                  [in_registers(n, facts, r) for r in roofs], lambda v: f"{v:.0f} t/s",
                  f">= {OF_LOOP}" if facts["isa"] == VNNI else "")


def put_share(grid, what, ours, roofs, form, aim):
    share = [v / r for v, r in zip(ours, roofs)]
    grid.row(what, form(median(ours)), form(median(roofs)), f"{median(share):.2f}",
             f"{min(share):.2f} .. {max(share):.2f}", aim, "")


def setup(b):
    """The peer, and what was found out about it; once."""
    if b.peer is None:
        if not b.o.peer_root:
            note("SKIPPED the side of llama.cpp: no --peer-root")
        root = PeerRoot(b.o.peer_root, b.o.scratch, b.o.isa) if b.o.peer_root else None
        b.peer = root, Best(b, root) if root else None
    return b.peer


def run_part(b, part):
    root, best = setup(b)
    grid = Grid("", "confab", "llama.cpp", "ratio", "least .. greatest", "aim", "the peer's best setting")
    isa = b.o.isa or "best"
    wanted = [row for row in rows(b.o) if row.part == part]
    for model in dict.fromkeys(row.model for row in wanted):
        group = [row for row in wanted if row.model == model]
        measured = measure_model(b, root, best, model, group)
        if measured:
            got, roofs, chosen, facts = measured
            isa = facts["isa"]
            for row in group:
                put(b, grid, row, got[row], roofs, chosen.get(row), facts)
    if part == "load":
        part_load(b, root, grid)
    against = f"llama.cpp {best.version} (backend {root.loaded})" if root else "nothing"
    b.table.heading(f"{part}: confab ({isa}) against {against}, {b.threads} threads each, {b.o.runs} alternating runs;"
                    " ratio = the peer's figure : confab's, of times or bytes")
    b.table.grid(grid)


PEER_PARTS = {part: functools.partial(run_part, part=part)
              for part in ("prefill", "decode", "depth", "streams", "warm", "shapes", "load")}
