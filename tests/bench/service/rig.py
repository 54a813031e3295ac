# SPDX-License-Identifier: MIT
"""What the parts of tools/bench service start: a confabd that tells when it is ready, gateways before it, llama-server,
and the measuring client bench-service. Sockets lie in a folder of their own, which other users may reach.
"""

import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from players import drop_from_cache
from report import fail, note, seconds

UID = 60101  # of the first user; nobody has it
FIRST_TOKEN = 300  # of a word, in all vocabularies that are used here
VOCABULARY = {"bundled": 1536, "llama-1b": 128256}  # others of make-model's shapes have more than the first


def user(i):
    """The i-th of several users, as bench-service takes it: a uid if this is root, else a tenant."""
    return f"uid:{UID + i}" if os.geteuid() == 0 else f"tenant:user-{i}"


def figures(b, *args, data=b""):
    """Run bench-service: its figures by name."""
    p = subprocess.run([b.program("service"), *map(str, args)], input=data, stdout=subprocess.PIPE, check=False)
    if p.returncode != 0:
        fail(f"bench-service {args[0]} ended with status {p.returncode}")
    return parse(p.stdout.decode())


def parse(text):
    return {f["name"]: f["values"] for f in map(json.loads, text.splitlines())}


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def tokens(rng, n, vocabulary):
    return [rng.randrange(FIRST_TOKEN, vocabulary) for _ in range(n)]


def cell(values, form=seconds):
    """The median, and what it is of."""
    if len(values) < 2:
        return form(values[0]) if values else "-"
    return f"{form(statistics.median(values))} ({form(min(values))} .. {form(max(values))})"


def memory(pid):
    """Bytes that the program takes: its part of what it shares, too."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))


def into_cache(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


class Program:
    """A program that tells by the service manager's protocol when it is ready."""

    def __init__(self, b, name):
        self.b, self.name, self.process = b, name, None
        self.folder = tempfile.mkdtemp(prefix="confab-bench-", dir="/tmp")
        os.chmod(self.folder, 0o711)
        b.players.append(self)

    def arguments(self):
        return []

    def start(self, listener=None):
        """Seconds from the start to READY=1. A listening socket is handed over as the service manager does it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            path = f"{self.folder}/notify"
            notify.bind(path)
            t0 = time.monotonic()
            self.spawn(listener, path)
            watch = os.pidfd_open(self.process.pid)
            try:
                while True:
                    ready = select.select([notify, watch], [], [])[0]
                    if notify not in ready:
                        status, self.process = self.process.wait(), None
                        fail(f"{self.name} does not start: status {status}")
                    if b"READY=1" in notify.recv(4096):
                        return time.monotonic() - t0
            finally:
                os.close(watch)
                os.unlink(path)

    def spawn(self, listener=None, notify=None):
        command = [self.b.program(self.name), *map(str, self.arguments())]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LISTEN_", "NOTIFY_"))}
        keep = ()
        if notify:
            env["NOTIFY_SOCKET"] = notify
        if listener:
            # LISTEN_PID is the program's own, which a shell knows before it becomes that program.
            env["LISTEN_FDS"] = "1"
            command = ["sh", "-c", f'LISTEN_PID=$$ exec "$@" 3<&{listener.fileno()}', "sh", *command]
            keep = (listener.fileno(),)
        self.process = subprocess.Popen(command, env=env, pass_fds=keep, stdin=subprocess.DEVNULL)

    def stop(self):
        if self.process:
            self.process.terminate()
            if self.process.wait() != 0:
                fail(f"{self.name} ended with status {self.process.returncode}")
        self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.b.players.remove(self)


class Daemon(Program):
    """A confabd; its state folder lies in the scratch folder, and stays until close()."""

    def __init__(self, b, name, model, pool=1 << 30, flags=()):
        super().__init__(b, "confabd")
        self.model, self.pool, self.flags = model, pool, list(flags)
        self.state, self.socket = b.folder(name), f"{self.folder}/confab"

    def arguments(self):
        return ["--model", self.model, "--socket", self.socket, "--socket-mode", "0666", "--state", self.state,
                "--pool-size", self.pool, "--threads", self.b.threads, "--log-level", "warning", *self.flags,
                *(["--max-isa", self.b.o.isa] if self.b.o.isa else [])]

    def stats(self):
        return json.loads(self.command("stats", "--json"))

    def command(self, *words):
        """What `confab` prints."""
        p = subprocess.run([self.b.program("confab"), "--socket", self.socket, *words], stdout=subprocess.PIPE,
                           check=False, stdin=subprocess.DEVNULL)
        if p.returncode != 0:
            fail(f"confab {words[0]} ended with status {p.returncode}")
        return p.stdout

    def wait_until(self, what, true):
        """Poll the figures until true(stats)."""
        end = time.monotonic() + 600
        while not true(self.stats()):
            if time.monotonic() > end:
                fail(f"{what}: not within ten minutes")
            time.sleep(0.05)

    def drop_cache(self):
        """Of the register's and the spill files, and of the model's."""
        drop_from_cache(self.model)
        for folder, _, names in os.walk(self.state):
            for name in names:
                drop_from_cache(os.path.join(folder, name))

    def forget(self):
        shutil.rmtree(self.state, ignore_errors=True)

    def close(self):
        super().close()
        self.forget()


class Front(Program):
    """A confab-gateway on a Unix socket and on TCP."""

    TOKEN = "bench-of-the-service"

    def __init__(self, b, daemon, tcp=True):
        super().__init__(b, "confab-gateway")
        self.daemon, self.tcp, self.path = daemon, tcp, f"{self.folder}/http"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def arguments(self):
        args = ["--listen", self.path, "--daemon", self.daemon.socket, "--log-level", "error"]
        if self.tcp:
            tokens_ = f"{self.folder}/tokens"
            with open(tokens_, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                f.write(f"{self.TOKEN} {os.geteuid()}\n")
            args += ["--tcp", f"127.0.0.1:{self.port}", "--token-file", tokens_]
        return args

    def pids(self):
        return {"confab-gateway": self.process.pid}

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        return s


class Load:
    """Another user's long prompts, one behind the other, while a block runs. Its first one is being computed when
    the block begins."""

    def __init__(self, b, daemon, prompt):
        self.b, self.daemon, self.prompt, self.process = b, daemon, prompt, None

    def __enter__(self):
        before = self.daemon.stats()["steps"]
        self.process = subprocess.Popen(
            [self.b.program("service"), "fill", self.daemon.socket, user(1), "1000", "1", str(self.prompt)],
            stdout=subprocess.DEVNULL)
        self.daemon.wait_until("another user's prompt", lambda stats: stats["steps"] > before)

    def __exit__(self, *_why):
        if self.process.poll() is not None:
            fail("the other user's prompts ended before their time")
        self.process.kill()
        self.process.wait()


def say_skipped(b, part):
    b.table.text("llama-server: SKIPPED, no --peer-root")
    note(f"{part}: SKIPPED the side of llama-server: no --peer-root")
