# SPDX-License-Identifier: MIT
"""tools/bench frontends, part streams: many streams at once, each on a connection of its own.

All requests are sent before any answer is read. Each asks something else; afterwards each is asked once more, alone,
and has to be answered with the same text (for llama-server it is counted: its replies may depend on the batch).

confabd lets one user have 64 requests in flight and 256 connections (a stream is a connection of the gateway to it, which
counts for the user whom the gateway runs as, unless that one is named in trusted-users). It generates 16 at a time; the
rest queues. So the daemon runs with --max-user-requests and --max-user-connections, and first without, to see what those
beyond the limit are told.
"""

import time
from collections import Counter

from report import fail, note, seconds, size
from sides import Client, Gateway, Server, check, memory, open_files
from wire import ask_all, chat

REPLY = 48  # tokens
ACTIVE = 16  # generated at a time, by both


def messages(i):
    return [{"role": "user", "content": f"Hello! I am number {i}. What is your name?"}]


def most_memory(pid, forget=False):
    """The most RAM that the program had, since it was to be forgotten."""
    if forget:
        with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def at_once(side, n):
    """n streams: [answer], of (sent, ended, answer)."""
    sockets = [side.connect() for _ in range(n)]
    try:
        return ask_all([(s, chat(messages(i), REPLY)) for i, s in enumerate(sockets)])
    finally:
        for s in sockets:
            s.close()


def alone(side, n):
    """The same one after the other: their texts."""
    client, texts = Client(side), []
    for i in range(n):
        texts.append(client.say(messages(i), REPLY)[1].text)
    client.close()
    return texts


def measure(b, side, n):
    note(f"streams: {n} at {side.name}")
    before = {name: most_memory(pid, forget=True) for name, pid in side.pids().items()}
    begin = time.monotonic()
    answers = at_once(side, n)
    took = time.monotonic() - begin
    for answer, _, _ in answers:
        check(side, answer)
    after = {name: most_memory(pid) for name, pid in side.pids().items()}
    again = alone(side, n)
    same = sum(text == answer.text for text, (answer, _, _) in zip(again, answers))
    if same < n and isinstance(side, Gateway):
        fail(f"streams: {n - same} of {n} replies are others than when they were asked for alone")
    got = {"seconds": took, "same": same, "first": [answer.first - sent for answer, sent, _ in answers],
           "tokens": sum(answer.usage["completion_tokens"] for answer, _, _ in answers),
           "memory": {name: after[name] - before[name] for name in before},
           "left": {name: memory(pid) for name, pid in side.pids().items()}}
    b.values[f"streams.{side.name}"] = got
    rows(b.table, side.name, got, n)


def rows(t, name, got, n):
    t.row(f"{name}: until all had ended", got["seconds"], seconds)
    t.row("  tokens a second", got["tokens"] / got["seconds"], lambda v: f"{v:.0f}")
    t.row("  time to the first text", got["first"], seconds)
    for program, bytes_ in got["memory"].items():
        t.row(f"  most memory of {program} over that before", bytes_, size)
    t.text("  the same text as when asked for alone", f"{got['same']} of {n}")


def limited(b, side, n):
    """What is told to those beyond the limit."""
    answers = [answer for answer, _, _ in at_once(side, n)]
    got = Counter(answer.status for answer in answers)
    for answer in answers:
        if answer.status == 200:
            check(side, answer)
        elif not answer.complete or answer.status != 429 or "retry-after" not in answer.fields:
            fail(f"streams: beyond the limit the answer is {answer.status}: {answer.fields} {bytes(answer.body)}")
    b.values["streams.limited"] = got
    b.table.text(f"confab, at most 64 requests of a user (the default), {n} at once",
                 ", ".join(f"{count} x {status}{' with Retry-After' if status == 429 else ''}"
                           for status, count in sorted(got.items())))


def part_streams(b):
    n = 80 if b.o.quick else 500
    open_files(2 * n + 100)
    model = b.bundled("q4_0")
    b.table.heading(f"streams: {n} at once of up to {REPLY} tokens, {ACTIVE} generated at a time (the bundled model)")
    side = Gateway(b, "streams", model, 1 << 30)
    limited(b, side, n)
    side.close()
    side = Gateway(b, "streams", model, 1 << 30, ["--max-user-requests", str(n), "--max-user-connections", str(n + 8)])
    measure(b, side, n)
    side.close()
    if b.o.peer_root:
        side = Server(b, model, ["-np", str(ACTIVE), "-c", str(ACTIVE * 512), "-fa", "on", "--threads-http", str(n)])
        measure(b, side, n)
        side.close()
