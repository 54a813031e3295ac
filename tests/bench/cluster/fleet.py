# SPDX-License-Identifier: MIT
"""What the parts of tools/bench cluster start: a register on PostgreSQL, a server of memory (Redis or Valkey), and several confabd that
share them, each with a client that measures (bench-say).

The servers have keepers of their own (tests/util), which end them however this program ends.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import postgres
import redis
from report import fail
from rig import Daemon


def need_servers():
    """Ends the program, as a test that can't run does, where they are not installed."""
    for found, name in (postgres.find(), "PostgreSQL 15 or later"), (redis.find(), "Redis or Valkey"):
        if not found:
            print(f"SKIP: {name} is not installed")
            sys.exit(77)


@contextlib.contextmanager
def pinned(cores):
    """What is started meanwhile runs on these processors alone; None: on all that this program may use."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Client:
    """bench-say: one connection, one request at a time."""

    def __init__(self, b, path, user=None):
        self.process = subprocess.Popen([b.program("say"), path, *([user] if user else [])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.tell("stat pool_blocks")  # who says nothing is disconnected

    def tell(self, line, passes=()):
        """The answer; an error ends the program, if it is none of those."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        got = json.loads(self.process.stdout.readline() or '{"error": "the client has ended"}')
        if got.get("error", None) not in (None, *passes):
            fail(f"cluster: {line[:40]}: {got['error']}")
        return got

    def say(self, name, turns, tokens, n, passes=()):
        """Go on behind so many turns with these tokens; a reply of n."""
        return self.tell(f"say-at {name} {turns} {n} {' '.join(map(str, tokens))}", passes)

    def close(self):
        """Also in the middle of a request."""
        self.process.kill()
        self.process.communicate()


class Machine(Daemon):
    """A daemon with a state folder of its own. `shared`: flags of what it shares with others, which a start may leave out."""

    def __init__(self, b, name, model, shared=(), cores=None, space=None, threads=None, **how):
        super().__init__(b, name, model, **how)
        self.shared, self.cores, self.space, self.threads = list(shared), cores, space, threads
        self.without, self.client = (), None

    def arguments(self):
        flags = [flag for flag in self.shared if not flag.startswith(self.without)]
        return [*super().arguments(), *flags, *(["--threads", self.threads] if self.threads else [])]

    def start(self, listener=None, without=()):
        """`without`: flags of what is shared that it has not this time."""
        self.without = tuple(without)
        with pinned(self.cores), self.space.entered() if self.space else contextlib.nullcontext():
            took = super().start(listener)
        self.client = Client(self.b, self.socket)
        return took

    def spawn(self, listener=None, notify=None):
        """However this program ends, the daemon ends with it."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("LISTEN_")} | {"NOTIFY_SOCKET": notify}
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", self.b.program(self.name), *map(str, self.arguments())],
                                        env=env, stdin=subprocess.DEVNULL)

    def stop(self):
        if self.client and self.process:
            self.client.close()
        self.client = None
        super().stop()

    def close(self):
        try:
            super().close()
        finally:  # also of one that ended as it should not
            shutil.rmtree(self.folder, ignore_errors=True)

    def lose_disk(self):
        """Stopped, it forgets all memory, but not who it is."""
        shutil.rmtree(f"{self.state}/spill", ignore_errors=True)

    def evict(self, name):
        """All of the conversation's memory is on the disk, and in the remote store."""
        self.client.tell(f"evict {name}")
        self.wait_until("memory that is sent", lambda stats: stats.get("remote_pending", 0) == 0)


class Fleet:
    """The servers. Machines that are made here are ended before them."""

    def __init__(self, b, network=None, space=None, tcp=False):
        """network: the server of memory is at its other end. space: both servers are in there, at its 127.0.0.1."""
        self.b, self.network, self.space = b, network, space
        self.stack = contextlib.ExitStack()
        b.players.append(self)
        inside = space or (network.space if network else None)
        if network:
            self.stack.callback(network.close)
        elif space:
            self.stack.callback(space.close)
        with space.entered() if space else contextlib.nullcontext():
            self.postgres = self.stack.enter_context(postgres.Postgres(durable=True, tcp=tcp))
        with inside.entered() if inside else contextlib.nullcontext():
            settings = {"bind": network.there} if network else {}
            self.redis = self.stack.enter_context(redis.Redis(settings=settings))
        self.store = self.postgres.uri(self.postgres.schema(), tcp=tcp)
        if network:
            self.remote = f"redis://{network.there}:{self.redis.port}"
        else:
            self.remote = self.redis.uri(tcp=tcp)

    def machine(self, name, model, **how):
        machine = Machine(self.b, f"cluster-{name}", model, [f"--store={self.store}", f"--remote={self.remote}"], **how)
        self.b.players.remove(self)  # to be closed behind it
        self.b.players.append(self)
        return machine

    def forget(self):
        """The server of memory loses all."""
        self.redis.command("FLUSHALL")

    def close(self):
        self.stack.close()
        self.b.players.remove(self)

