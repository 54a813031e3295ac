# SPDX-License-Identifier: MIT
"""tools/bench frontends, part hostile: what broken and hostile clients are told, and what they cost.

A case is what a client sends. Its row tells the answers' statuses, when the connection was closed, and whether what
looked like a body was answered as a request of its own. After each case the next client has to be served, by both
servers. Both wait as long for a client (2 seconds), and a client stays three times as long.

Then slow readers: clients that ask for a long reply with many log-probabilities and read nothing of it, while another
one chats; afterwards they read on, and have to get all of it.
"""

import selectors
import socket
import time

from report import Grid, fail, note, seconds, size
from sides import Client, Gateway, Server, check, health, memory
from streams import most_memory
from wire import Answer, chat, statuses

H = b"Host: localhost\r\n"
LONG_REPLY = 300  # tokens: more bytes than a socket and the gateway hold for one client
POST = b"POST /v1/chat/completions HTTP/1.1\r\n" + H
JSON = b"Content-Type: application/json\r\n"
EVIL = b"GET /evil HTTP/1.1\r\n" + H + b"\r\n"


def behind(fields):
    """A request that could end at its head, and another one behind it."""
    return POST + fields + b"\r\n" + EVIL


def body(text):
    return POST + JSON + b"Content-Length: %d\r\n\r\n" % len(text) + text


CALL = (b"{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"type\": \"function\","
        b" \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}")

# Each: name, what is sent, and options: "half" (the sending side is closed then), "drip" (a byte at a time)
CASES = (
    ("Content-Length and chunked", behind(b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"), "evil"),
    ("two lengths", behind(b"Content-Length: 0\r\nContent-Length: 40\r\n"), "evil"),
    ("a length with a sign", behind(b"Content-Length: +0\r\n"), "evil"),
    ("a length of letters", behind(b"Content-Length: zero\r\n"), "evil"),
    ("chunked, identity", behind(b"Transfer-Encoding: chunked, identity\r\n"), "evil"),
    ("a space before the colon", behind(b"Transfer-Encoding : chunked\r\n"), "evil"),
    ("a field on two lines", behind(b"X: y\r\n Content-Length: 40\r\n"), "evil"),
    ("a field after a bare LF", behind(b"X: a\nContent-Length: 40\r\n"), "evil"),
    ("a NUL in a field", behind(b"X: a\0b\r\n"), "evil"),
    ("no Host", b"GET /health HTTP/1.1\r\n\r\n", ""),
    ("lines that end in LF", b"GET /health HTTP/1.1\nHost: localhost\n\n", ""),
    ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), ""),
    ("an unknown method", b"BREW /health HTTP/1.1\r\n" + H + b"\r\n", ""),
    ("a path of 1 MB", b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n" + H + b"\r\n", ""),
    ("a field of 1 MB", b"GET /health HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n" + H + b"\r\n", ""),
    ("100,000 fields", b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 100000 + H + b"\r\n", ""),
    ("a length of a terabyte", POST + b"Content-Length: 1099511627776\r\n\r\n{", ""),
    ("a body of 64 MB", body(b" " * (64 << 20)), ""),
    ("a chunk of 2^64 bytes", POST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + EVIL, "evil"),
    ("a chunk without a length", POST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n" + EVIL, "evil"),
    ("a chunk longer than it says", POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n" + EVIL, "evil"),
    ("half a head, then silence", b"GET /health HTTP/1.1\r\nHo", ""),
    ("half a body, then silence", POST + JSON + b"Content-Length: 100\r\n\r\n{", ""),
    ("half a body, then half closed", POST + JSON + b"Content-Length: 100\r\n\r\n{", "half"),
    ("a head, byte by byte", b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 100, "drip"),
    ("nothing at all", b"", ""),
    ("no JSON", body(b"{\"messages\": "), ""),
    ("bytes that are no UTF-8", body(b"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\xfe\"}], \"max_tokens\": 1}"), ""),
    ("a NUL in a message", body(b"{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\"}], \"max_tokens\": 1}"), ""),
    ("100,000 brackets", body(b"{\"messages\": " + b"[" * 100000), ""),
    ("8 MB of empty objects", body(b"{\"messages\": [" + b"{}," * ((8 << 20) // 3) + b"0]}"), ""),
    ("12,000 calls in a row", body(b"{\"messages\": [" + b", ".join([CALL] * 12000) + b"]}"), ""),
    ("messages of numbers", body(b"{\"messages\": [1, 2, 3]}"), ""),
    ("max_tokens of 10^30", body(b"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 1e30}"), ""),
)


def send(s, data, options):
    """All of it, as far as the server takes it; a reset is part of the answer."""
    if "drip" not in options:
        s.sendall(data)
        if "half" in options:
            s.shutdown(socket.SHUT_WR)


def play(side, data, options, stay):
    """(what came back, seconds until the server closed, or None if it did not within `stay`)."""
    got, closed = b"", None
    begin = time.monotonic()
    with side.connect() as s:
        s.settimeout(stay)
        try:
            send(s, data, options)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        at = 0
        while closed is None and (now := time.monotonic() - begin) < stay:
            s.settimeout(0.05 if "drip" in options else max(0.01, stay - now))
            try:
                if "drip" in options:
                    s.send(data[at:at + 1])
                    at += 1
                piece = s.recv(65536)
                got += piece
                closed = None if piece else time.monotonic() - begin
            except TimeoutError:
                pass
            except OSError:
                closed = time.monotonic() - begin
    return got, closed


def tell(got, closed, options):
    """The outcome as words."""
    codes = statuses(got)
    words = ", ".join(map(str, codes)) if codes else "bytes that are no HTTP" if got else "nothing"
    end = "open" if closed is None else "closed" if closed < 0.5 else f"closed after {closed:.0f} s"
    return f"{words}; {end}" + ("; the rest too" if "evil" in options and len(codes) > 1 else "")


def case(side, name, data, options, stay):
    got, closed = play(side, data, options, stay)
    health(side)  # the next client is served
    codes = statuses(got)
    if isinstance(side, Gateway):
        if any(code >= 500 and code != 501 and code != 505 for code in codes):
            fail(f"hostile: {name}: {codes}")
        if "evil" in options and len(codes) > 1:
            fail(f"hostile: {name}: what could be a body was answered as a request: {codes}")
    return tell(got, closed, options)


# ---- slow readers ----

class Slow:
    """A client that asks for much and reads little."""

    def __init__(self, side, i):
        self.s = side.connect()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.s.sendall(chat([{"role": "user", "content": f"Tell me a story, number {i}."}], LONG_REPLY, logprobs=True,
                            top_logprobs=20))
        self.answer = Answer()

    def read(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while not self.answer.complete:
            piece = self.s.recv(65536)
            if not piece:
                self.answer.end()
                break
            self.answer.feed(piece, time.monotonic())


def slow_readers(side, n):
    before = {name: most_memory(pid, forget=True) for name, pid in side.pids().items()}
    slow = [Slow(side, i) for i in range(n)]
    chosen = selectors.DefaultSelector()
    for reader in slow:  # all of them have something to read
        chosen.register(reader.s, selectors.EVENT_READ)
    begun = set()
    while len(begun) < n and (ready := chosen.select(60)):
        for key, _ in ready:
            begun.add(key.fd)
            chosen.unregister(key.fileobj)
    client, first = Client(side), []
    for i in range(20):
        first.append(client.say([{"role": "user", "content": f"Hello, {i}!"}], 16)[0])
    client.close()
    for reader in slow:
        reader.read()
    whole = 0
    for reader in slow:
        if isinstance(side, Gateway):
            check(side, reader.answer)
        whole += reader.answer.complete and reader.answer.done
        reader.s.close()
    after = {name: most_memory(pid) for name, pid in side.pids().items()}
    return {"first": first, "whole": whole, "memory": {name: after[name] - before[name] for name in before}}


def part_hostile(b):
    model = b.bundled("q4_0")
    n_slow = 4 if b.o.quick else 8
    wait = 1 if b.o.quick else 2
    flags = [word for name in ("header", "body", "idle") for word in (f"--{name}-timeout", f"{wait}s")]
    sides = [Gateway(b, "hostile", model, 1 << 30, ["--max-user-requests", "128"], flags)]
    if b.o.peer_root:
        sides.append(Server(b, model, ["-np", "4", "-c", "8192", "-to", str(wait)]))
    grid = Grid("sent", *(list(side.pids())[0] for side in sides))
    told = {side.name: {} for side in sides}
    before = [{name: memory(pid) for name, pid in side.pids().items()} for side in sides]
    for name, data, options in CASES:
        note(f"hostile: {name}")
        for side in sides:
            told[side.name][name] = case(side, name, data, options, 3 * wait)
        grid.row(name, *(told[side.name][name] for side in sides))
    b.table.heading(f"hostile: the answers' statuses, and the connection; a client is waited for {wait} s, and stays {3 * wait}")
    b.table.grid(grid)
    b.table.heading("hostile: what it leaves, and slow readers (the bundled model)")
    for side, sizes in zip(sides, before):
        for name, pid in side.pids().items():
            b.table.row(f"memory of {name}, more than before the cases", memory(pid) - sizes[name], size)
        side.close()
    slow(b, model, n_slow, told)


def slow(b, model, n, told):
    sides = [lambda: Gateway(b, "slow", model, 1 << 30, ["--max-active", "64"])]
    if b.o.peer_root:
        sides.append(lambda: Server(b, model, ["-np", str(n + 1), "-c", str(2048 * (n + 1)), "--threads-http", str(n + 8)]))
    for make in sides:
        side = make()
        note(f"hostile: {n} slow readers at {side.name}")
        got = slow_readers(side, n)
        b.table.row(f"{side.name}: first text of a chat beside {n} readers that stopped", got["first"], seconds)
        for name, more in got["memory"].items():
            b.table.row(f"  most memory of {name} over that before", more, size)
        b.table.text("  whole replies when they read on", f"{got['whole']} of {n}")
        told[side.name]["slow"] = got
        side.close()
    b.values["hostile"] = told
