# SPDX-License-Identifier: MIT
"""tools/bench service, parts start and activation.

start       from the start of the program to READY=1 (confabd), or until /health says 200 (llama-server, asked every 5 ms),
            with the model file in the page cache, and without (posix_fadvise() drops it, and the daemon's own files).
            confabd starts with an empty state folder, where it reads the whole file for the fingerprint; again, when
            the register knows the model; and with a register of 10,000 conversations, forks of one with some tokens.
activation  a socket is held as the service manager holds it. A client connects, which starts the daemon, opens a
            conversation and asks for a reply to 16 tokens: the time from before the connection to the first token.
            Through a gateway that is started in the same way: from before the HTTP connection to the end of a reply of one token.
            llama-server has no activation: its start, and then its first text.
"""

import json
import os
import random
import selectors
import socket
import subprocess

from players import drop_from_cache
from report import fail, median, note, seconds, times
from rig import VOCABULARY, Daemon, Front, figures, into_cache, parse, say_skipped, tokens
from sides import Server, Stopwatch
from wire import request

TOKENS = 24  # of each kept conversation
PROMPT = 16
PEER = ["-np", "1", "-c", "4096", "-fa", "on"]


def models(b):
    found = [("the bundled model", "bundled", b.bundled("q4_0"))]
    if not b.o.quick:
        found.append(("shape llama-1b, q4_0", "llama-1b", b.model("llama-1b", "q4_0")))
    return found


def part_start(b):
    n = 200 if b.o.quick else 10000
    for text, key, model in models(b):
        note(f"start: {text}")
        empty = Daemon(b, "start-empty", model)
        full = Daemon(b, "start-full", model, flags=["--max-conversations", 2 * n])
        server = Server(b, model, PEER) if b.o.peer_root else None
        try:
            full.start()
            figures(b, "forks", full.socket, "-", n, 16, TOKENS)
            full.stop()
            got = {}
            for run in range(b.o.runs):
                for cold in False, True:
                    into_cache(model)
                    starts = [lambda c=cold: start_confab(empty, full, c, got), lambda c=cold: start_peer(server, c, got)]
                    for start in starts if run % 2 == 0 else reversed(starts):
                        start()
            b.values.setdefault("start", {})[key] = got
            rows(b, text, got, n)
        finally:
            for side in (empty, full, *([server] if server else [])):
                side.close()


def start_confab(empty, full, cold, got):
    empty.forget()
    for name, daemon in ("empty", empty), ("known", empty), ("full", full):
        if cold:
            daemon.drop_cache() if name != "empty" else drop_from_cache(daemon.model)
        got.setdefault(name + (" cold" if cold else ""), []).append(daemon.start())
        daemon.stop()


def start_peer(server, cold, got):
    if not server:
        return
    server.stop()
    if cold:
        drop_from_cache(server.model)
    server.start()
    got.setdefault("peer cold" if cold else "peer", []).append(server.start_seconds)
    server.stop()


def rows(b, text, got, n):
    t = b.table
    t.heading(f"start: to READY=1 ({text})")
    for cold, where in ("", ""), (" cold", ", not in the page cache"):
        peer = got.get("peer" + cold)
        for name, what in ("empty", "an empty state folder"), ("known", "the model known"), ("full", f"{n} conversations"):
            ours = got[name + cold]
            t.row(f"confabd, {what}{where}", ours, seconds, *compared(peer, ours))
        if peer:
            t.row(f"llama-server, until /health is 200{where}", peer, seconds)
    if "peer" not in got:
        say_skipped(b, "start")


def compared(peer, ours):
    return (f"llama-server: {seconds(median(peer))}", times(median(peer) / median(ours))) if peer else ("", "")


# --- activation ---

class Held:
    """Sockets that start a program when somebody connects."""

    def __init__(self):
        self.sockets, self.started = [], []

    def hold(self, program, address):
        s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        s.bind(address)
        if isinstance(address, str):
            os.chmod(address, 0o666)
        s.listen(16)
        self.sockets.append((s, program, address))

    def serve(self, process):
        """Starts what is asked for until the process, a client, has ended."""
        watch = os.pidfd_open(process.pid)
        chosen = selectors.DefaultSelector()
        chosen.register(watch, selectors.EVENT_READ)
        for s, program, _ in self.sockets:
            chosen.register(s, selectors.EVENT_READ, (s, program))
        while True:
            for key, _ in chosen.select():
                if key.data is None:
                    chosen.close()
                    os.close(watch)
                    return
                s, program = key.data
                chosen.unregister(s)
                program.spawn(s)
                self.started.append(program)

    def end(self):
        for program in self.started:
            program.stop()
        for s, _, address in self.sockets:
            s.close()
            if isinstance(address, str):
                os.unlink(address)


def part_activation(b):
    for text, key, model in models(b):
        note(f"activation: {text}")
        into_cache(model)
        daemon = Daemon(b, "activation", model)
        daemon.start()  # so that the model is known
        daemon.stop()
        gateway = Front(b, daemon, tcp=False)
        got = {}
        prompt = tokens(random.Random(1), PROMPT, VOCABULARY[key])
        for run in range(b.o.runs):
            sides = [lambda: native(b, daemon, prompt, got), lambda: through(b, daemon, gateway, got),
                     lambda: server_first(b, model, prompt, got)]
            for side in sides if run % 2 == 0 else reversed(sides):
                side()
        daemon.close()
        gateway.close()
        b.values.setdefault("activation", {})[key] = got
        t = b.table
        t.heading(f"activation: from connecting to a socket that is held to the first token of a reply ({text})")
        peer = got.get("peer")
        t.row("confabd: to the first answer (Open)", got["opened"], seconds)
        t.row(f"confabd: to the first token, behind {PROMPT}", got["first"], seconds, *compared(peer, got["first"]))
        t.row("gateway and confabd: to the first token", got["gateway"], seconds, *compared(peer, got["gateway"]))
        if peer:
            t.row("llama-server (no activation): start and first text", peer, seconds)
        else:
            say_skipped(b, "activation")


def native(b, daemon, prompt, got):
    held = Held()
    held.hold(daemon, daemon.socket)
    client = subprocess.Popen([b.program("service"), "first", daemon.socket, "-", *map(str, prompt)],
                              stdout=subprocess.PIPE, text=True)
    held.serve(client)
    for name, values in parse(client.communicate()[0]).items():
        got.setdefault(name, []).extend(values)
    if client.returncode != 0:
        fail(f"activation: the client ended with status {client.returncode}")
    held.end()


def through(b, daemon, gateway, got):
    held = Held()
    held.hold(gateway, gateway.path)
    held.hold(daemon, daemon.socket)
    # no chat: a model of random weights has no template
    data = request("POST", "/v1/completions", {"model": "bench", "prompt": "Hello! What is your name?", "max_tokens": 1,
                                               "stream": True})
    client = subprocess.Popen([b.program("http"), gateway.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client.stdin.write(b"%d\n" % len(data) + data)
    client.stdin.close()
    held.serve(client)
    out = client.stdout.read()
    line, _, answer = out.partition(b"\n")
    if client.wait() != 0 or not answer.startswith(b"HTTP/1.1 200"):
        fail(f"activation: through the gateway: {answer[:200]}")
    got.setdefault("gateway", []).append(json.loads(line)["first"])
    held.end()


def server_first(b, model, prompt, got):
    if not b.o.peer_root:
        return
    side = Server(b, model, PEER)
    client = Stopwatch(b, side)
    first, answer = client.ask(request("POST", "/completion", {"prompt": prompt, "n_predict": 1, "stream": True}))
    client.close()
    if answer.status != 200:
        fail(f"activation: llama-server answers {answer.status}")
    got.setdefault("peer", []).append(side.start_seconds + first)
    side.close()
