# SPDX-License-Identifier: MIT
"""The sides of tools/bench frontends: confabd behind a confab-gateway, and llama-server. Both are spoken to by HTTP."""

import json
import resource
import socket
import subprocess
import time

from players import Confab, Peer
from report import fail
from wire import LONG, Answer, ask, chat, request


def memory(pid):
    """Bytes of RAM that the program has for itself."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))


class Gateway(Confab):
    """A confabd and a confab-gateway on a Unix socket before it."""

    name = "confab"

    def __init__(self, b, folder, model, pool, flags=(), gateway=()):
        self.gateway, self.gateway_flags = None, gateway
        super().__init__(b, folder, model, pool, flags)

    def start(self):
        super().start()
        self.path = self.state + ".http"
        t0 = time.monotonic()
        self.gateway = subprocess.Popen(
            [self.b.program("confab-gateway"), "--listen", self.path, "--daemon", self.state + ".sock",
             "--log-level", "error", *self.gateway_flags])
        while not self.connects(self.path):
            if self.gateway.poll() is not None:
                fail("confab-gateway did not start")
            time.sleep(0.01)
        health(self)
        self.start_seconds += time.monotonic() - t0

    def stop(self):
        if self.gateway:
            self.gateway.terminate()
            if self.gateway.wait() != 0:
                fail(f"confab-gateway ended with status {self.gateway.returncode}")
        self.gateway = None
        super().stop()

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LONG)
        s.connect(self.path)
        return s

    def pids(self):
        return {"confab-gateway": self.gateway.pid, "confabd": self.daemon.pid}

    def alive(self):
        return self.gateway.poll() is None and self.daemon.poll() is None


class Server(Peer):
    """llama-server on TCP. It closes its connection after a stream."""

    def __init__(self, b, model, flags):
        super().__init__(b, model, flags, [], log_level=1)

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=LONG)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def pids(self):
        return {"llama-server": self.server.pid}

    def alive(self):
        return self.server.poll() is None


def health(side):
    """Ask whether it is well; seconds."""
    with side.connect() as s:
        answer, sent = ask(s, request("GET", "/health"))
        if answer.status != 200:
            fail(f"{side.name}: /health is {answer.status}: {bytes(answer.body[:200])}")
        return time.monotonic() - sent


class Client:
    """A program that chats: over one connection, where the server keeps it."""

    def __init__(self, side):
        self.side, self.s = side, None

    def say(self, messages, max_tokens, **more):
        """One turn: (seconds to its first text, the answer). What is no proper answer ends the program."""
        data = chat(messages, max_tokens, **more)
        begin = time.monotonic()
        if not self.s:
            self.s = self.side.connect()
        answer, _ = ask(self.s, data)
        check(self.side, answer)
        if isinstance(self.side, Server):
            self.close()
        return (answer.first or time.monotonic()) - begin, answer

    def close(self):
        if self.s:
            self.s.close()
        self.s = None


class Stopwatch:
    """A client in C that measures (bench-http); what it measures is the server's time, and hardly its own."""

    def __init__(self, b, side):
        where = [str(side.port), "close"] if isinstance(side, Server) else [side.path]
        self.program = subprocess.Popen([b.program("http"), *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, data):
        """Send a request: (seconds to the first text, the answer)."""
        self.program.stdin.write(b"%d\n" % len(data) + data)
        self.program.stdin.flush()
        line = self.program.stdout.readline()
        if not line:
            fail(f"bench-http ended with status {self.program.wait()}")
        got, answer = json.loads(line), Answer()
        answer.feed(self.program.stdout.read(got["size"]), 0.0)
        answer.end()
        return got["first"], answer

    def close(self):
        self.program.communicate()


def check(side, answer):
    """That it is a whole reply."""
    if answer.status != 200:
        fail(f"{side.name}: status {answer.status}: {bytes(answer.body[:300])}")
    if answer.error or not (answer.complete and answer.done and answer.reason and answer.usage):
        fail(f"{side.name}: the stream is not whole: {answer.error or vars(answer)}")


def computed(answer):
    """Tokens of the prompt that were computed for it."""
    details = answer.usage.get("prompt_tokens_details") or {}
    return answer.usage["prompt_tokens"] - details.get("cached_tokens", 0)


def open_files(n):
    """Let this program, and those that it starts, have so many files open; returns how many they may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < n:
        soft = min(n, hard) if hard != resource.RLIM_INFINITY else n
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft

