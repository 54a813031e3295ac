# SPDX-License-Identifier: MIT
"""tools/bench frontends, part idle: kept connections that say nothing, and a request among them.

Each connection has asked for /health and has its answer. Memory is what the program has for itself (RssAnon); what the
kernel has for sockets comes on top, and is the same for all.

llama-server has a thread for each connection that it serves, and closes connections that were idle for 5 seconds. So
it is asked how many it serves before a request waits for longer than a second: with the threads that it has by default,
and with one for each connection.
"""

import time

from report import fail, median, note, seconds, size
from sides import Client, Gateway, Server, memory, open_files
from wire import ask, request

PATIENCE = 1.0  # seconds that a request may wait among llama-server's connections
HELLO = [{"role": "user", "content": "Hello!"}]


def connect(side):
    """A connection that was used, and how long its answer took."""
    s = side.connect()
    begin = time.monotonic()
    answer, _ = ask(s, request("GET", "/health"))
    if answer.status != 200:
        fail(f"idle: {side.name} answers {answer.status}")
    return s, time.monotonic() - begin


def among(side, repeat):
    """Seconds that requests take on new connections: /health, and the first text of a chat."""
    health, first = [], []
    for _ in range(repeat):
        begin = time.monotonic()
        connect(side)[0].close()
        health.append(time.monotonic() - begin)
    for _ in range(repeat):
        client = Client(side)
        first.append(client.say(HELLO, 8)[0])
        client.close()
    return health, first


def totals(side):
    return {name: memory(pid) for name, pid in side.pids().items()}


def gateway(b, n):
    side = Gateway(b, "idle", b.bundled("q4_0"), 1 << 30)
    t, name = b.table, "confab-gateway"
    health, first = among(side, 50)
    before = totals(side)[name]
    sockets = [connect(side)[0] for _ in range(n)]
    held = totals(side)[name]
    health_among, first_among = among(side, 50)
    for s in sockets[::max(1, n // 100)]:  # they are alive
        if ask(s, request("GET", "/health"))[0].status != 200:
            fail("idle: a kept connection is not served any more")
    for s in sockets:
        s.close()
    connect(side)[0].close()
    after = totals(side)[name]
    b.values["idle.confab"] = {"before": before, "held": held, "after": after, "health": health_among, "first": first_among}
    t.row(f"{name}: memory for each of {n}", (held - before) / n, size)
    t.row("  memory of the program: without them", before, size)
    t.row("  with them", held, size)
    t.row("  when they were closed", after, size)
    t.row("  GET /health on a new connection among them", health_among, seconds, f"without: {seconds(median(health))}")
    t.row("  first text of a chat among them", first_among, seconds, f"without: {seconds(median(first))}")
    side.close()


def server(b, n, flags, what):
    """How far llama-server goes."""
    side = Server(b, b.bundled("q4_0"), ["-np", "4", "-c", "8192", *flags])
    t, name = b.table, "llama-server"
    among(side, 5)
    before, sockets, waited = totals(side)[name], [], 0.0
    begin = time.monotonic()
    while len(sockets) < n and waited < PATIENCE:
        s, waited = connect(side)
        sockets.append(s)
    took, held = time.monotonic() - begin, totals(side)[name]
    t.text(f"{name}, {what}: connections served", f"{len(sockets) - (waited >= PATIENCE)} of {n}")
    if waited >= PATIENCE:
        t.row("  the next one's GET /health waited for", waited, seconds)
    if took < 4:  # before it closes the first ones
        t.row("  memory for each", (held - before) / len(sockets), size)
    time.sleep(max(0.0, 6.0 - (time.monotonic() - begin)))
    t.text("  still open 6 seconds after the first", f"{sum(is_open(s) for s in sockets)}")
    b.values[f"idle.{what}"] = {"n": len(sockets), "before": before, "held": held, "waited": waited}
    for s in sockets:
        s.close()
    side.close()


def is_open(s):
    s.setblocking(False)
    try:
        return s.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def part_idle(b):
    n = 500 if b.o.quick else 10000
    may = open_files(n + 200)
    if may < n + 200:
        note(f"idle: only {may} files may be open: {may - 200} connections")
        n = may - 200
    b.table.heading(f"idle: {n} kept connections (the bundled model)")
    gateway(b, n)
    if b.o.peer_root:
        server(b, n, [], "default threads")
        server(b, n, ["--threads-http", str(n + 16)], "a thread for each")
