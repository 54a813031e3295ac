# SPDX-License-Identifier: MIT
"""tools/bench service, part round-trips: how long requests take that are answered at once, one after another on one
connection; on an idle machine, and while another user's prompts of 3,000 tokens are computed without a pause.

The clients are the same program in C (bench-service). A round has one request of each kind; all sides have some hundred
rounds in turn. Percentiles are of one run of rounds; printed are their median and their spread over the runs. Beside
prompts rounds take long, so these are of one run, limited by time, and the longest is printed with the median.
"""

import random
import threading

from report import Grid, fail, note, seconds
from rig import VOCABULARY, Daemon, Front, Load, cell, figures, percentile, say_skipped, tokens
from sides import Server
from wire import request, statuses

SHARES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
NAMES = {"get": "Get", "list": "List of one", "tokenize": "Tokenize of a word", "model_info": "ModelInfo", "open": "Open",
         "close": "Close"}


class Client:
    """One side: its name, and how bench-service is called for so many rounds or seconds."""

    def __init__(self, b, name, native=None, where=None, requests=()):
        self.b, self.name, self.native, self.where, self.requests = b, name, native, where, dict(requests)
        self.failed = 0  # answers of the last run that were not 200

    def run(self, rounds, limit):
        if self.native:
            return figures(self.b, "trips", self.native.socket, "-", rounds, limit)
        data = b"".join(b"%d\n" % len(r) + r for r in self.requests.values())
        got = figures(self.b, "http", self.where, rounds, limit, *self.requests, data=data)
        self.failed = got.pop("failed")[0]
        return got


def confab_requests(*fields):
    body = {"text": "word"}
    return {"GET /health": request("GET", "/health", None, fields),
            "GET /v1/models": request("GET", "/v1/models", None, fields),
            "POST /confab/v1/tokenize": request("POST", "/confab/v1/tokenize", body, fields)}


def llama_requests():
    return {"GET /health": request("GET", "/health"), "GET /v1/models": request("GET", "/v1/models"),
            "POST /tokenize": request("POST", "/tokenize", {"content": "word"})}


def clients(b, daemon, gateway, server):
    found = [Client(b, "libconfab", native=daemon),
             Client(b, "gateway, Unix socket", where=gateway.path, requests=confab_requests()),
             Client(b, "gateway, TCP", where=gateway.port,
                    requests=confab_requests(f"Authorization: Bearer {gateway.TOKEN}"))]
    if server:
        found.append(Client(b, "llama-server, TCP", where=server.port, requests=llama_requests()))
    return found


def idle(sides, rounds, runs):
    """[percentiles of each run] by side and kind."""
    got = {}
    for run in range(runs):
        for side in sides if run % 2 == 0 else reversed(sides):
            for kind, values in side.run(rounds, 60).items():
                got.setdefault((side.name, kind), []).append({name: percentile(values, share) for name, share in SHARES})
            if side.failed:
                fail(f"round-trips: {side.failed:.0f} answers of {side.name} on an idle machine are not 200")
    return got


def beside(sides, load, rounds, limit):
    """All times by side and kind."""
    got = {}
    with load:
        for side in sides:
            for kind, values in side.run(rounds, limit).items():
                got[side.name, kind] = values
    return got


class PeerLoad:
    """Long prompts for llama-server, one behind the other."""

    def __init__(self, server, prompt, vocabulary):
        self.server, self.prompt, self.vocabulary, self.stop = server, prompt, vocabulary, threading.Event()
        self.thread, self.begun, self.answers = None, threading.Event(), []

    def run(self):
        rng = random.Random(2)
        while not self.stop.is_set():
            with self.server.connect() as s:
                s.sendall(request("POST", "/completion", {"prompt": tokens(rng, self.prompt, self.vocabulary),
                                                          "n_predict": 1, "stream": True}))
                self.begun.set()
                s.settimeout(0.2)
                got = b""
                while not self.stop.is_set():
                    try:
                        piece = s.recv(65536)
                        if not piece:
                            break
                        got += piece
                    except TimeoutError:
                        pass
                self.answers += statuses(got)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.begun.wait()

    def __exit__(self, *_why):
        self.stop.set()
        self.thread.join()
        if any(status != 200 for status in self.answers):
            fail(f"round-trips: llama-server's prompts are answered {self.answers}")


def part_trips(b):
    quick = b.o.quick
    shape, prompt = ("bundled", 1500) if quick else ("llama-1b", 3000)
    model = b.bundled("q4_0") if quick else b.model(shape, "q4_0")
    rounds, runs, limit = (20, 2, 1) if quick else (500, b.o.runs, 15)
    note(f"round-trips: {shape}")
    daemon = Daemon(b, "trips", model)
    daemon.start()
    gateway = Front(b, daemon)
    gateway.start()
    server = Server(b, model, ["-np", "2", "-c", "8192", "-fa", "on"]) if b.o.peer_root else None
    sides = clients(b, daemon, gateway, server)
    b.table.heading(f"round-trips: medians and spreads of {runs} runs of {rounds} rounds each; beside another user's prompts of {prompt}"
                    f" tokens ({'the bundled model' if quick else 'shape llama-1b, q4_0'}), {limit} s at most")
    quiet = idle(sides, rounds, runs)
    # as long as it takes to be beside much of a prompt: most end by the limit, those of llama-server by their number
    busy = beside(sides[:3], Load(b, daemon, prompt), 20 * rounds, limit)
    if server:
        busy |= beside(sides[3:], PeerLoad(server, prompt, VOCABULARY[shape]), 20 * rounds, limit)
    b.values["round-trips"] = {"idle": {" ".join(key): values for key, values in quiet.items()},
                               "beside": {" ".join(key): values for key, values in busy.items()}}
    grid = Grid("", "p50", "p99", "p99.9", "beside a prompt: p50", "longest", "of")
    for side in sides:
        grid.row(f"{side.name}:", *[""] * 5, f"{side.failed:.0f} not answered with 200" if side.failed else "")
        for (name, kind), values in quiet.items():
            if name == side.name:
                loaded = busy[name, kind]
                grid.row(f"  {NAMES.get(kind, kind)}", *(cell([v[share] for v in values]) for share, _ in SHARES),
                         seconds(percentile(loaded, 0.5)), seconds(max(loaded)), str(len(loaded)))
    b.table.grid(grid)
    if not server:
        say_skipped(b, "round-trips")
    for side in (gateway, daemon, *([server] if server else [])):
        side.close()
