# SPDX-License-Identifier: MIT
"""The sides of tools/bench: a real confabd, and Debian's llama-server."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from report import fail


def drop_from_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Confab:
    """A real confabd, and a client that measures (bench-say)."""

    name = "confab"

    def __init__(self, b, folder, model, pool, flags=()):
        self.b, self.model, self.pool, self.flags = b, model, pool, flags
        self.state = b.folder(folder)
        self.daemon = self.client = None
        b.players.append(self)
        self.start()

    def start(self):
        path = self.state + ".sock"
        t0 = time.monotonic()
        self.daemon = subprocess.Popen(
            [self.b.program("confabd"), "--model", self.model, "--socket", path, "--state", self.state,
             "--pool-size", str(self.pool), "--threads", str(self.b.threads), "--log-level", "warning", *self.flags,
             *(["--max-isa", self.b.o.isa] if self.b.o.isa else [])])
        while not self.connects(path):
            if self.daemon.poll() is not None:
                fail("confabd did not start")
            time.sleep(0.002)
        self.start_seconds = time.monotonic() - t0
        self.client = subprocess.Popen([self.b.program("say"), path], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.stat("pool_blocks")  # a client that says nothing is disconnected

    @staticmethod
    def connects(path):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(path)
                return True
            except OSError:
                return False

    def stop(self):
        if self.client:
            self.client.communicate("quit\n")
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait()
        self.client = self.daemon = None

    def ask(self, line):
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()
        got = json.loads(self.client.stdout.readline())
        if "error" in got:
            fail(f"confabd: {got['error']}")
        return got

    def stat(self, name):
        return self.ask(f"stat {name}")["value"]

    def open(self, name):
        self.ask(f"open {name}")

    def say(self, name, history, new, n):
        got = self.ask(f"say {name} {n} {' '.join(map(str, new))}")
        return got["first"], got["tokens"], got

    def say_at(self, name, turns, new, n):
        """Keep so many turns and go on from there; without new tokens, reply once more."""
        got = self.ask(f"say-at {name} {turns} {n} {' '.join(map(str, new))}".rstrip())
        return got["first"], got["tokens"], got

    def drop_cache(self):
        folder = os.path.join(self.state, "spill")
        for entry in os.scandir(folder):
            drop_from_cache(entry.path)

    def close(self):
        self.stop()
        shutil.rmtree(self.state, ignore_errors=True)
        self.b.players.remove(self)


class Peer:
    """Debian's llama-server in a root of its own, spoken to over loopback. With log level 4 its log is
    detailed enough to tell what its prompt cache holds; saved slots lie in a folder of that root."""

    def __init__(self, b, model, fixed, flags, log_level=4):
        self.log_level = log_level
        self.root, self.flags = b.o.peer_root, fixed + flags
        self.name = " ".join(["llama-server"] + flags)
        self.threads = b.threads
        self.players = b.players
        self.server = None
        self.folder = os.path.join(self.root, "tmp", f"confab-bench-{os.getpid()}")
        os.makedirs(self.folder, exist_ok=True)
        self.model = os.path.join(self.folder, "model.gguf")
        try:
            os.link(model, self.model)
        except OSError:
            shutil.copy(model, self.model)
        self.log = open(os.path.join(b.o.scratch, "llama-server.log"), "ab")
        self.players.append(self)
        self.start()

    def inside(self, path):
        """A path as the server sees it."""
        return "/" + os.path.relpath(path, self.root)

    def start(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        t0 = time.monotonic()
        # A mount namespace of its own: its mounts go with it.
        enter = ('mount --bind /proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift &&'
                 ' exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" llama-server "$@"')
        self.server = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", enter, "sh", self.root, "-m", self.inside(self.model),
             "--slot-save-path", self.inside(self.folder), "-lv", str(self.log_level), "-t", str(self.threads), "--host",
             "127.0.0.1", "--port", str(self.port), *self.flags], stdout=self.log, stderr=self.log,
            stdin=subprocess.DEVNULL)
        while not self.healthy():
            if self.server.poll() is not None:
                fail(f"llama-server did not start, see {self.log.name}")
            time.sleep(0.005)
        self.start_seconds = time.monotonic() - t0

    def healthy(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except OSError:
            return False

    def stop(self):
        if self.server:
            self.server.terminate()
            self.server.wait()
        self.server = None

    def open(self, name):
        pass

    def say(self, name, history, new, n):
        body = json.dumps({"prompt": history + new, "n_predict": n, "temperature": 0, "cache_prompt": True,
                           "stream": True, "return_tokens": True, "ignore_eos": True})
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.connect()
        first, tokens, last = None, [], {}
        t0 = time.monotonic()
        c.request("POST", "/completion", body, {"Content-Type": "application/json"})
        response = c.getresponse()
        if response.status != 200:
            fail(f"llama-server: {response.read().decode(errors='replace')[:300]}")
        for line in response:
            if not line.startswith(b"data: "):
                continue
            first = first or time.monotonic() - t0
            last = json.loads(line[6:])
            tokens += last.get("tokens", [])
        c.close()
        return first, tokens, last.get("timings", {})

    def slot(self, action):
        """Save, restore or erase slot 0; seconds, and what the server tells."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        t0 = time.monotonic()
        c.request("POST", f"/slots/0?action={action}", json.dumps({"filename": "slot.bin"}),
                  {"Content-Type": "application/json"})
        response = c.getresponse()
        got = json.loads(response.read())
        c.close()
        if response.status != 200:
            fail(f"llama-server: {action} of a slot: {got}")
        return time.monotonic() - t0, got

    def drop_cache(self):
        """Of the saved slot, which comes from the disk then."""
        drop_from_cache(os.path.join(self.folder, "slot.bin"))

    def logged(self, pattern):
        """All matches in the log so far, as groups."""
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return re.findall(pattern, f.read())

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)
        self.log.close()
        self.players.remove(self)
