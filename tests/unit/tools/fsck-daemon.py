# SPDX-License-Identifier: MIT
"""What the real daemon leaves behind is sound, by confab-model fsck with every block computed
again: after a clean end, and after kill -9 at any moment. In a small context, where most
conversations drop old turns from their memory.

usage: fsck-daemon.py CONFABD CONFAB CONFAB_MODEL SOURCE_ROOT [SEED [ROUNDS]]
"""

import glob
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile

DAEMON, CLIENT, TOOL, ROOT = sys.argv[1:5]
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
ROUNDS = int(sys.argv[6]) if len(sys.argv) > 6 else 4
STEPS = 24
TEXTS = ("My name is Mia and I like the number 4.", "What is my name?", "What is 3 plus 4?",
         "Tell me more.", "Hello!", "My name is Mia and I like the number 4. " * 6)

models = [os.environ.get("CONFAB_TEST_MODEL")] + sorted(glob.glob(ROOT + "/models/*.gguf"))
MODEL = next((m for m in models if m and os.path.exists(m)), None)
if not MODEL:
    print("SKIP: no model")
    sys.exit(77)


class Daemon:
    def __init__(self, folder):
        self.folder = folder
        self.state = folder + "/state"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(folder + "/notify")
        self.notify.settimeout(120)
        self.process = None

    def start(self):
        env = dict(os.environ, NOTIFY_SOCKET=self.folder + "/notify")
        self.process = subprocess.Popen(
            [DAEMON, "--model=" + MODEL, "--socket=" + self.folder + "/socket",
             "--state=" + self.state, "--pool-size=6M", "--threads=1", "--context=128"],
            env=env, stderr=subprocess.DEVNULL)
        while b"READY=1" not in self.notify.recv(4096):
            pass

    def stop(self, sig):
        self.process.send_signal(sig)
        status = self.process.wait()
        assert status in (0, -signal.SIGKILL), status

    def begin(self, *args, stdin=None):
        return subprocess.Popen([CLIENT, "--socket", self.folder + "/socket", *args],
                                stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)

    def run(self, *args):
        """Output, or "" if the daemon did not want to: any step may be impossible."""
        p = self.begin(*args)
        out = p.communicate()[0]
        return out.decode(errors="replace") if p.returncode == 0 else ""


def step(d, rng, names):
    what = rng.choice(["say"] * 10 + ["rewind"] * 4 + ["evict"] * 3 +
                      ["open", "fork", "publish", "export", "close", "regenerate"])
    name = rng.choice(names) if names else None
    if what == "open" or len(names) < 3:
        new = d.run("open", "--overflow", rng.choice(["shift", "shift", "error"])).strip()
        if new:
            names.append(new)
    elif what == "say":
        d.run("say", name, rng.choice(TEXTS), "--max-tokens", str(rng.randrange(1, 24)))
    elif what == "fork":
        new = d.run("fork", name).strip()
        if new:
            names.append(new.splitlines()[0].split(":")[0])
    elif what == "rewind":
        if rng.randrange(2):
            d.run("rewind", name, "--turns", str(rng.randrange(1, 3)))
        else:
            d.run("rewind", name, "--to-position", str(rng.randrange(160)))
    elif what == "export":
        path = d.folder + "/export"
        with open(path, "wb") as f:
            p = d.begin("export", name)
            f.write(p.communicate()[0])
        with open(path, "rb") as f:
            p = d.begin("import", stdin=f)
            new = p.communicate()[0].decode(errors="replace").strip()
            if p.returncode == 0 and new:
                names.append(new.splitlines()[0].split(":")[0])
    elif what == "close":
        if len(names) > 3:
            d.run("close", name)
            names.remove(name)
    else:
        d.run(what, name)


def check(d):
    # The index of the register's log is the daemon's; without it, fsck must not leave one.
    if os.path.exists(d.state + "/register.db-shm"):
        os.unlink(d.state + "/register.db-shm")
    before = sorted(os.listdir(d.state))
    p = subprocess.run([TOOL, "fsck", d.state, "--model", MODEL, "--audit", "1000", "-t", "1",
                        "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode != 0:
        sys.exit("seed %d: fsck ended with %d\n%s%s" % (SEED, p.returncode, p.stdout.decode(),
                                                        p.stderr.decode()))
    if sorted(os.listdir(d.state)) != before:
        sys.exit("seed %d: fsck changed the folder: %s, not %s" % (
            SEED, sorted(os.listdir(d.state)), before))
    return json.loads(p.stdout)


def main():
    rng = random.Random(SEED)
    names = []
    dropped = 0
    with tempfile.TemporaryDirectory() as folder:
        d = Daemon(folder)
        for i in range(ROUNDS):
            d.start()
            # While it runs nothing can be said.
            p = subprocess.run([TOOL, "fsck", d.state], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, check=False)
            assert p.returncode == 3 and b"a daemon is running" in p.stderr, p.stderr
            for _ in range(STEPS):
                step(d, rng, names)
            dropped += d.run("ls", "--json").count('"dropped_to"')
            if i % 2:
                talk = d.begin("say", rng.choice(names or ["x"]), "Tell me more.")
                d.stop(signal.SIGKILL)
                talk.communicate()
            else:
                for name in names:
                    d.run("evict", name)
                d.stop(signal.SIGTERM)
            v = check(d)
            print("round %d: %d conversations, %d records, %d blocks computed again" % (
                i, v["register"]["conversations"], v["register"]["records"],
                v["spill"]["blocks computed again"]))
        if v["register"]["conversations"] == 0 or v["spill"]["blocks computed again"] == 0:
            sys.exit("nothing was checked")
        if dropped == 0:
            sys.exit("no memory left anything out")


main()
