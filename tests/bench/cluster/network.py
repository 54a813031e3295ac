# SPDX-License-Identifier: MIT
"""A network of two ends, for tools/bench cluster: this machine, and a network namespace behind a pair of virtual interfaces, with as
many bits a second as are wanted (tc, tbf, at both ends).

The namespace has no name, so it ends with this program and what runs in it, however these end; its interfaces go with it.
"""

import contextlib
import ctypes
import os
import random
import shutil
import socket
import subprocess
import time

from report import fail

CLONE_NEWNET = 0x40000000
# What may go out at once: half a millisecond's, and no less than the kernel sends as one (64 KiB).
BURST = {"10gbit": "512kb", "1gbit": "64kb"}
CHUNK = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """What is missing for a network of one's own; None: nothing."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("ip", "tc") if not shutil.which(name)]
    return f"needs {' and '.join(missing)} (iproute2)" if missing else None


def call(what, *args):
    if what(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def run(*words):
    p = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if p.returncode != 0:
        fail(f"{' '.join(words)}: {p.stdout.strip()}")
    return p.stdout


class Namespace:
    """A network namespace with its own loopback interface."""

    def __init__(self):
        self.ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        call(libc.unshare, CLONE_NEWNET)
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            run("ip", "link", "set", "lo", "up")
        finally:
            call(libc.setns, self.ours, CLONE_NEWNET)

    @contextlib.contextmanager
    def entered(self):
        """Programs that are started, and sockets that are made by this thread, are in there."""
        call(libc.setns, self.fd, CLONE_NEWNET)
        try:
            yield
        finally:
            call(libc.setns, self.ours, CLONE_NEWNET)

    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def counters(self, interface):
        """(bytes, packets) that came in so far."""
        with self.entered():
            with open("/proc/thread-self/net/dev", encoding="ascii") as f:
                for line in f:
                    name, _, rest = line.partition(":")
                    if name.strip() == interface:
                        return tuple(map(int, rest.split()[:2]))
        raise KeyError(interface)

    def close(self):
        for fd in self.fd, self.ours:
            os.close(fd)


class Network:
    """A namespace whose address is `there`; this machine is `here`."""

    def __init__(self):
        self.space = Namespace()
        # Of the addresses for benchmarks (RFC 2544), four of them.
        net = f"198.18.{random.randrange(256)}.{4 * random.randrange(64)}"
        base, last = net.rsplit(".", 1)
        self.here, self.there = f"{base}.{int(last) + 1}", f"{base}.{int(last) + 2}"
        self.outer, self.inner = f"cfb{os.getpid()}a", f"cfb{os.getpid()}b"
        try:
            run("ip", "link", "add", self.outer, "type", "veth", "peer", "name", self.inner)
            run("ip", "link", "set", self.inner, "netns", self.space.path())
            run("ip", "addr", "add", f"{self.here}/30", "dev", self.outer)
            run("ip", "link", "set", self.outer, "up")
            with self.space.entered():
                run("ip", "addr", "add", f"{self.there}/30", "dev", self.inner)
                run("ip", "link", "set", self.inner, "up")
        except BaseException:
            self.close()
            raise

    def shape(self, rate):
        """'10gbit', '1gbit', or None: as fast as it goes."""
        for place, device in (contextlib.nullcontext(), self.outer), (self.space.entered(), self.inner):
            with place:
                subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], stderr=subprocess.DEVNULL, check=False)
                if rate:
                    run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", BURST[rate], "latency", "20ms")

    def transfer(self, n):
        """Seconds in which n bytes come here from there on a new connection, from the first to the last one."""
        with self.space.entered():
            server = socket.create_server((self.there, 0))
        buffer = memoryview(bytearray(CHUNK))
        with server, socket.create_connection(server.getsockname()) as s:
            there, _ = server.accept()
            with there, subprocess.Popen(["dd", "if=/dev/zero", f"bs={CHUNK}", f"count={n}", "iflag=count_bytes", "status=none"],
                                         stdout=there.fileno()) as sender:
                left = n - s.recv_into(buffer[:1])
                t0 = time.monotonic()
                while left > 0:
                    got = s.recv_into(buffer)
                    if got == 0:
                        fail("the plain transfer ended early")
                    left -= got
                took = time.monotonic() - t0
        if sender.returncode != 0:
            fail(f"dd ended with status {sender.returncode}")
        return took

    def close(self):
        # Both ends go with one.
        subprocess.run(["ip", "link", "del", self.outer], stderr=subprocess.DEVNULL, check=False)
        self.space.close()
