# SPDX-License-Identifier: MIT
"""tools/bench service, part backup: how long commits take while a backup of a large register is made.

One connection opens conversations, one after the other, each of which is a commit: alone, then as long as another
connection takes a backup, then alone again. The register has 40,000 conversations with a turn of 4 KB each; they are
put into it while no daemon runs.
"""

import grp
import os
import sqlite3
import subprocess
import time

from report import fail, note, seconds, size
from rig import Daemon, figures, percentile


def flags():
    found = ["--max-conversations", 1000000]
    if os.geteuid() != 0:  # backups are for root and this group
        found += ["--admin-group", grp.getgrgid(os.getegid()).gr_name]
    return found


def fill(path, count):
    """Conversations like the first one, with a turn each."""
    with sqlite3.connect(path) as db:
        columns = ", ".join(row[1] for row in db.execute("PRAGMA table_info(conversation)") if row[1] not in ("id", "name"))
        db.execute("WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < ? + 99) "
                   f"INSERT INTO conversation (id, name, {columns}) SELECT i, 'c' || i, {columns} FROM n, conversation",
                   (count,))
        db.execute("UPDATE conversation SET n_turns = 1 WHERE id >= 100")
        db.execute("INSERT INTO turn (conversation, n, role, first, past, created_usec, token_hash, text, tokens, chain) "
                   "SELECT id, 0, 'user', 0, 0, 1, 0, hex(randomblob(2000)), x'', 1 FROM conversation WHERE id >= 100")
        db.execute("UPDATE sqlite_sequence SET seq = ? + 99 WHERE name = 'conversation'", (count,))


def part_backup(b):
    count, alone_seconds = (500, 1) if b.o.quick else (40000, 5)
    note(f"backup: a register of {count} conversations")
    daemon = Daemon(b, "backup", b.bundled("q8_0"), pool=64 << 20, flags=flags())
    daemon.start()
    daemon.command("open", "first")
    daemon.stop()
    register = os.path.join(daemon.state, "register.db")
    fill(register, count)
    daemon.start()
    t, got = b.table, {}
    t.heading(f"backup: commits, one after the other, beside a backup; a register of {count} conversations,"
              f" {size(os.path.getsize(register))}")
    got["alone"] = figures(b, "opens", daemon.socket, "-", alone_seconds)["open"]
    archive = f"{daemon.folder}/archive"
    begin = time.monotonic()
    with subprocess.Popen([b.program("confab"), "--socket", daemon.socket, "admin", "backup", archive],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as backup:
        got["beside"] = figures(b, "opens", daemon.socket, "-", f"pid:{backup.pid}")["open"]
        if backup.wait() != 0:
            fail(f"backup: confab admin backup ended with status {backup.returncode}")
        took = time.monotonic() - begin
    got["again"] = figures(b, "opens", daemon.socket, "-", alone_seconds)["open"]
    for name, what in ("alone", "alone"), ("beside", "beside the backup"), ("again", "alone again"):
        t.row(f"Open, {what}: median of {len(got[name])}", percentile(got[name], 0.5), seconds)
        t.row("  the longest", max(got[name]), seconds)
    t.row("the backup, beside them", took, seconds, f"{size(os.path.getsize(archive))}")
    b.values["backup"] = got | {"took": took}
    daemon.close()
