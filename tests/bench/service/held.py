# SPDX-License-Identifier: MIT
"""tools/bench service, part idle: what connections and conversations cost while nobody uses them.

Memory is a program's part of all pages that it has (PSS of /proc/PID/smaps_rollup), and grows from before to
after. A connection of libconfab has said Hello and has had an answer; one of the gateway and of llama-server has asked for
/health. What the kernel has for sockets is not in it. A conversation has 24 tokens of its own, one block of memory; it is
measured in RAM, evicted (all memory in files), and after a restart, when it is in the register alone. A block's size is
the model's; what comes on top is confab's.
"""

import os
import subprocess

from idle import connect
from report import fail, note, size
from rig import Daemon, Front, figures, memory, parse, say_skipped
from sides import Server, open_files

TOKENS = 24
JOBS = 16
LLAMA_CONNECTIONS = 500  # more would take longer than it keeps the first ones


def part_held(b):
    n = 300 if b.o.quick else 10000
    may = open_files(n + 400)
    if may < n + 400:
        note(f"idle: only {may} files may be open: {may - 400} connections")
    connections(b, min(n, may - 400))
    conversations(b, n)


def connections(b, n):
    t = b.table
    t.heading(f"idle: connections, {n} of them (the bundled model)")
    note(f"idle: {n} connections")
    more = n + 300
    daemon = Daemon(b, "held", b.bundled("q4_0"),
                    flags=["--max-connections", 2 * more, "--max-user-connections", 2 * more])
    daemon.start()
    got = {}
    figures(b, "hold", daemon.socket, "-", 1)  # what the first answer takes is not a connection's
    before = memory(daemon.process.pid)
    with subprocess.Popen([b.program("service"), "hold", daemon.socket, "-", str(n)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as client:
        if parse(client.stdout.readline()) != {"held": [n]}:
            fail("idle: the connections are not there")
        held = memory(daemon.process.pid)
        if parse(client.communicate()[0]) != {"alive": [-(-n // 100)]}:
            fail("idle: a connection is not served any more")
    got["confabd"] = [(held - before) / n]
    t.row("confabd: memory for each", got["confabd"], size)
    t.row("  memory of the program before, and with them", before, size, size(held))
    gateway = Front(b, daemon)
    gateway.start()
    got["gateway"] = [each(gateway, n)]
    t.row("confab-gateway: memory for each", got["gateway"], size)
    gateway.close()
    daemon.close()
    if b.o.peer_root:
        few = min(n, LLAMA_CONNECTIONS)
        server = Server(b, b.bundled("q4_0"), ["-np", "1", "-c", "2048", "--threads-http", str(few + 16)])
        got["llama-server"] = [each(server, few)]
        t.row(f"llama-server (a thread for each, {few}): memory for each", got["llama-server"], size)
        server.close()
    else:
        say_skipped(b, "idle")
    b.values["idle.connections"] = got


def each(side, n):
    """Bytes for each kept HTTP connection."""
    connect(side)[0].close()
    pid = next(iter(side.pids().values()))
    before = memory(pid)
    sockets = [connect(side)[0] for _ in range(n)]
    held = memory(pid)
    for s in sockets:
        s.close()
    return (held - before) / n


def folder_size(folder, *names):
    total = 0
    for path, _, files in os.walk(folder):
        total += sum(os.stat(os.path.join(path, name)).st_blocks * 512 for name in files
                     if not names or name.startswith(names))
    return total


def conversations(b, n):
    note(f"idle: {n} conversations")
    block = 80 << 10  # of the bundled model
    daemon = Daemon(b, "held", b.bundled("q4_0"), pool=int(n * block * 1.25) + (512 << 20),
                    flags=["--max-conversations", 2 * n])
    daemon.start()
    t, got = b.table, {}
    before = memory(daemon.process.pid)
    took = figures(b, "fill", daemon.socket, "-", n, JOBS, TOKENS)["seconds"][0]
    stats = daemon.stats()
    if stats["block_bytes"] > block:
        fail(f"idle: a block of the bundled model has {stats['block_bytes']} bytes, not {block}")
    if stats["conversations_resident"] != n:
        fail(f"idle: of {n} conversations {stats['conversations_resident']} are in RAM")
    live = stats["pool_live_bytes"] / n
    got["resident"] = (memory(daemon.process.pid) - before) / n
    got["block"] = live
    figures(b, "evict", daemon.socket, "-")
    # blocks that were freed are kept for ten quiet seconds, an eighth of the budget at most
    daemon.wait_until("an eviction", lambda s: s["pool_blocks"] == 0 and (b.o.quick or s["pool_spare_blocks"] == 0))
    got["evicted"] = (memory(daemon.process.pid) - before) / n
    got["loaded"] = daemon.stats()["conversations_loaded"]
    daemon.stop()
    got["register"] = folder_size(daemon.state, "register") / n
    got["spill"] = folder_size(os.path.join(daemon.state, "spill")) / n
    daemon.start()
    got["restarted"] = (memory(daemon.process.pid) - before) / n
    daemon.close()
    b.values["idle.conversations"] = got | {"n": n, "seconds": took}
    t.heading(f"idle: {n} conversations of {TOKENS} tokens, {n / took:.0f} a second (the bundled model)")
    t.row("in RAM: memory for each", got["resident"], size, f"the model's block: {size(live)}")
    t.row("  on top of the block", got["resident"] - live, size)
    t.row(f"evicted: memory for each{', with spare blocks' if b.o.quick else ''}", got["evicted"], size, f"{got['loaded']:.0f} loaded")
    t.row("after a restart: memory for each", got["restarted"], size)
    t.row("disk: register for each", got["register"], size)
    t.row("disk: memory for each", got["spill"], size, f"the model's block: {size(live)}")
