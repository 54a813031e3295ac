#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long a user waits for a short reply while another user's long replies run.

usage: tests/bench/fair.py --build DIR [--replies 0,1,16,64] [--times N] [--interactive]

Starts the daemon of the build folder with the bundled model. User 1001 requests the given numbers
of long replies (in the background unless --interactive). User 1002 then asks, --times times, for a
reply of four tokens, each in a new conversation. Prints the medians and worst times in ms until the
first token and until the reply is done, including the start of the client. Needs root, since the
daemon tells users apart by their uid. Nothing here passes or fails.
"""

import argparse
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
A, B = 1001, 1002


def client(args, folder, uid, *words, **kwargs):
    command = [f"{folder}/confab", "--socket", f"{folder}/socket", *words]
    return subprocess.Popen(command, user=uid, group=uid, stdin=subprocess.DEVNULL,
                            env={"LD_LIBRARY_PATH": folder}, **kwargs)


def ask(args, folder, uid, *words):
    process = client(args, folder, uid, *words, stdout=subprocess.PIPE)
    begin = time.monotonic()
    first = process.stdout.read(1) and time.monotonic()
    process.stdout.read()
    if process.wait() != 0:
        sys.exit(f"fair: confab {words[0]} failed")
    return ((first or time.monotonic()) - begin) * 1e3, (time.monotonic() - begin) * 1e3


def start(args, folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(f"{folder}/notify")
        daemon = subprocess.Popen(
            [os.path.join(args.build, "daemon/confabd"), "--model", f"{ROOT}/models/confab-small.q8_0.gguf",
             "--socket", f"{folder}/socket", "--state", f"{folder}/state", "--pool-size", "512M",
             "--socket-mode", "0666",
             "--max-user-requests", "100"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, NOTIFY_SOCKET=f"{folder}/notify"))
        pid = os.pidfd_open(daemon.pid)
        while True:
            if notify in select.select([notify, pid], [], [])[0]:
                if b"READY=1" in notify.recv(4096):
                    break
            else:
                sys.exit("fair: the daemon does not start")
        os.close(pid)
    return daemon


def measure(args, n):
    folder = tempfile.mkdtemp(prefix="confab-fair-")
    os.chmod(folder, 0o755)
    # The build folder may be out of the users' reach.
    for name in ["confab"] + [n for n in os.listdir(f"{args.build}/client") if n.startswith("libconfab.so")]:
        if os.path.isfile(f"{args.build}/client/{name}"):
            shutil.copy(f"{args.build}/client/{name}", folder)
    daemon = start(args, folder)
    long_ones = []
    try:
        for i in range(n):
            ask(args, folder, A, "open", f"long-{i}")
        for i in range(args.times):
            ask(args, folder, B, "open", f"short-{i}")
        words = ["--ignore-eos", "--max-tokens", "1900"] + ([] if args.interactive else ["--background"])
        long_ones = [client(args, folder, A, "say", *words, f"long-{i}", "Tell me a long story.",
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(n)]
        time.sleep(min(1.0, 0.2 * n))
        took = [ask(args, folder, B, "say", "--ignore-eos", "--max-tokens", "4", f"short-{i}", "Hello.")
                for i in range(args.times)]
        busy = sum(p.poll() is None for p in long_ones)
    finally:
        daemon.kill()
        daemon.wait()
        for p in long_ones:
            p.wait()
        shutil.rmtree(folder)
    first, done = zip(*took)
    print(f"| {n} | {statistics.median(first):.0f} | {max(first):.0f} | {statistics.median(done):.0f} "
          f"| {max(done):.0f} | {busy} |", flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__, add_help=True)
    p.add_argument("--build", required=True)
    p.add_argument("--replies", default="0,1,16,64")
    p.add_argument("--times", type=int, default=5)
    p.add_argument("--interactive", action="store_true")
    args = p.parse_args()
    if os.geteuid() != 0:
        sys.exit("fair: only root can be two users")
    print("| long replies | first token | worst | done | worst | still running at the end |\n|---|---|---|---|---|---|")
    for n in args.replies.split(","):
        measure(args, int(n))


if __name__ == "__main__":
    main()
