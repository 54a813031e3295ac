# SPDX-License-Identifier: MIT
"""llama.cpp as a root file system has it installed (see sid.py): its programs, with the instruction set that is asked for.

Every program runs in a mount namespace of its own, so no mount stays behind. The scratch folder is /mnt inside. The peer
loads the best of its CPU backends at run time. With a capped instruction set it sees a folder with one of them, and its
"load_backend" line must name that one.
"""

import glob
import http.client
import json
import os
import re
import socket
import subprocess
import time

import sid
from report import fail, note

# The peer's backend for an instruction set of confab. The best that the machine has needs no entry.
BACKENDS = {"avx2": "haswell", "avx-vnni": "alderlake", "avx512": "skylakex"}
ENTER = r'''
root=$1 scratch=$2 folder=$3 backend=$4; shift 4
mount --bind /proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --bind "$scratch" "$root/mnt" || exit 1
if [ -n "$backend" ]; then
    mount -t tmpfs tmpfs "$root/srv" && cp "$folder/libggml-cpu-$backend.so" "$root/srv" &&
        mount --bind "$root/srv" "$folder" || exit 1
fi
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
'''


class PeerRoot:
    def __init__(self, root, scratch, isa):
        self.root, self.scratch = os.path.abspath(root), os.path.abspath(scratch)
        self.backend = BACKENDS.get(isa, "")
        self.loaded = None
        if isa == "generic":
            fail("llama.cpp has no counterpart of --isa generic")
        found = glob.glob(os.path.join(self.root, sid.BACKENDS))
        self.folder = os.path.dirname(found[0]) if found else ""
        if self.backend and not any(f.endswith(f"-{self.backend}.so") for f in found):
            fail(f"{root} has no libggml-cpu-{self.backend}.so, which --isa {isa} needs")

    def inside(self, path):
        return "/mnt/" + os.path.relpath(os.path.abspath(path), self.scratch)

    def command(self, *args):
        return ["unshare", "-m", "sh", "-c", ENTER, "sh", self.root, self.scratch, self.folder, self.backend,
                *map(str, args)]

    def run(self, *args):
        """Its stdout."""
        p = subprocess.run(self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           stdin=subprocess.DEVNULL, check=False)
        if p.returncode != 0:
            fail(f"{args[0]} ended with status {p.returncode}: {p.stderr.strip()[-400:]}")
        self.check_backend(p.stderr)
        return p.stdout

    def check_backend(self, log):
        found = re.findall(r"loaded CPU backend from \S*libggml-cpu-(\w+)\.so", log)
        if not found:
            return
        self.loaded = found[-1]
        if self.backend and self.loaded != self.backend:
            fail(f"llama.cpp loaded its backend {self.loaded}, not {self.backend}")

    def version(self):
        """Also sees which backend is loaded: not all programs tell."""
        p = subprocess.run(self.command("llama-bench", "--version"), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
        self.check_backend(p.stdout)
        found = re.search(r"version: (\S+)", p.stdout)
        return found[1] if found else "?"

    # --- one run of a measuring program: seconds ---

    def bench(self, model, threads, setting, *test):
        """llama-bench: one test (-p N or -n N, and more flags), after its own warm-up unless they say otherwise."""
        out = self.run("llama-bench", "-m", self.inside(model), "-t", threads, "-r", 1, "-o", "jsonl", "-p", 0, "-n", 0,
                       *flags(setting, "-fa", "-ub"), *test)
        return json.loads(out.splitlines()[-1])["samples_ns"][0] / 1e9

    def batched(self, model, threads, setting, streams, depth, steps):
        """llama-batched-bench: the decoding of so many streams. Now and then it ends before its line is written."""
        context = -(-(depth + steps) // 256) * 256
        for _ in range(5):
            out = self.run("llama-batched-bench", "-m", self.inside(model), "-t", threads, "-npp", depth, "-ntg", steps,
                           "-npl", streams, "-c", streams * context, "--output-format", "jsonl",
                           *flags(setting, "-fa"))
            for line in out.splitlines():
                if line.startswith("{"):
                    return json.loads(line)["t_tg"]
        return fail("llama-batched-bench says nothing")

    def quantize(self, source, target, kind):
        note(f"making {target}")
        self.run("llama-quantize", self.inside(source), self.inside(target) + ".part", kind)
        os.rename(target + ".part", target)


def flags(setting, *names):
    return [word for name in names if name in setting for word in (name, setting[name])]


class Server:
    """llama-server with one slot, whose memory of a history is computed once and kept as a file in the scratch folder."""

    def __init__(self, b, root, model, setting, context, more=()):
        self.b, self.root, self.model, self.setting = b, root, model, setting
        self.slots = os.path.join(b.o.scratch, "peer-slots")
        os.makedirs(self.slots, exist_ok=True)
        self.log = os.path.join(b.o.scratch, "peer-server.log")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                root.command("llama-server", "-m", root.inside(model), "-t", b.threads, "-c", context, "-np", 1,
                             "--cache-ram", 0, "--slot-save-path", root.inside(self.slots), "--host", "127.0.0.1",
                             "--port", self.port, *flags(setting, "-fa", "-ub"), *more),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        b.players.append(self)
        while not self.healthy():
            if self.process.poll() is not None:
                fail(f"llama-server did not start, see {self.log}")
            time.sleep(0.005)
        with open(self.log, encoding="utf-8", errors="replace") as f:
            root.check_backend(f.read())

    def request(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        try:
            c.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            response = c.getresponse()
            return response.status, json.loads(response.read())
        finally:
            c.close()

    def healthy(self):
        try:
            return self.request("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def complete(self, tokens, n):
        """The server's own times of a prompt and the greedy reply of n tokens to it."""
        status, got = self.request("POST", "/completion", {
            "prompt": tokens, "n_predict": n, "temperature": 0, "samplers": [], "cache_prompt": True, "ignore_eos": True})
        if status != 200:
            fail(f"llama-server: {got}")
        return got["timings"]

    def remember(self, history):
        """Bring the memory of the history into the slot."""
        stat = os.stat(self.model)
        key = f"{os.path.basename(self.model)}.{stat.st_size}.{int(stat.st_mtime)}"
        name = f"{key}.{len(history)}.fa-{self.setting.get('-fa', 'auto')}.slot"
        if os.path.exists(os.path.join(self.slots, name)):
            if self.request("POST", "/slots/0?action=restore", {"filename": name})[0] == 200:
                return
        note(f"llama-server computes {len(history)} tokens once: {name}")
        self.complete(history, 1)
        status, got = self.request("POST", "/slots/0?action=save", {"filename": name})
        if status != 200:
            fail(f"llama-server: {got}")

    def peak(self):
        return peak_memory(self.process.pid)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.b.players.remove(self)


def peak_memory(pid):
    """Bytes: the most that was resident, mapped files included."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1]) * 1024
