# SPDX-License-Identifier: MIT
"""The root file system of the peer, made where there is none yet: Debian sid with llama.cpp and its CPU backends.

A folder that has something in it is taken as it is. A new or empty one is filled: in DIR.new, which gets its name when
it is whole, so DIR is as it was or whole, however a run ends. DIR.new is removed only if it is of tools/bench (MARK
lies in it), if nobody is at work in it (whoever is has the mark locked, so have all programs that it started), and if
nothing is mounted there. debootstrap and apt-get run in namespaces of their own: neither a mount nor a process outlives
them.
"""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import tempfile
import time

from report import fail, note

PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-server", "llama-quantize")
BACKENDS = "usr/lib/*/ggml/backends*/libggml-cpu-*.so"  # of libggml0, on which the packages depend
MIRROR = "http://deb.debian.org/debian"
MARK = ".half-made-by-confab-bench"
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
DEBOOTSTRAP = r'''
debootstrap --variant=minbase sid "$1" "$2" && exit
status=$?
tail -n 3 "$1/debootstrap/debootstrap.log"
exit $status
'''
APT = r'''
set -e
umask 022
mount --bind /proc "$1/proc"
mount --rbind /dev "$1/dev"
chroot "$1" apt-get -o Acquire::Check-Valid-Until=false update
chroot "$1" apt-get install -y --no-install-recommends llama.cpp-tools llama.cpp-tools-extra
chroot "$1" apt-get clean
'''


def environment():
    """Of root, however it became root; what the user has said of proxies holds."""
    proxies = {k: v for k, v in os.environ.items() if k.lower() in ("http_proxy", "https_proxy", "no_proxy")}
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    return proxies | {"PATH": path.lstrip(":"), "HOME": "/root", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def vacant(path):
    """There is nothing, or an empty folder."""
    return not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path))


def lacking(root, programs):
    return [p for p in programs if not os.access(os.path.join(root, "usr/bin", p), os.X_OK)]


def check_root(root, programs):
    """Ends the program if the root file system is neither there with these programs nor can be made."""
    if os.geteuid() != 0:
        fail("--peer-root needs root, for mounts and chroot")
    root = os.path.realpath(root)
    if not vacant(root):
        if lacking(root, programs):
            fail(f"there is no {', no '.join(lacking(root, programs))} in {root}\n"
                 "(of Debian's packages llama.cpp-tools and llama.cpp-tools-extra; a new or empty folder is filled with"
                 " Debian sid and these)")
    elif os.path.ismount(root):
        fail(f"{root} is a mount point, so no new folder can take its name: name one in it")
    elif not shutil.which("debootstrap", path=environment()["PATH"]):
        fail(f"there is no debootstrap, which is to fill {root}:\n"
             "  apt-get install debootstrap debian-archive-keyring")


def make_root(root):
    """Fills a new or empty folder."""
    root = os.path.realpath(root)
    if not vacant(root):
        return
    note(f"making {root}, Debian sid with llama.cpp: minutes, a network and 300 MB of disk")
    new = root + ".new"
    why = remove(new)
    if why:
        fail(why)
    try:
        os.makedirs(new)
    except OSError as e:
        fail(f"cannot make {new}: {e.strerror}")
    whole = False
    try:
        os.chmod(new, 0o755)  # for all users inside
        with open(os.path.join(new, MARK), "x", encoding="utf-8") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            fill(new, mark)
            os.rename(new, root)
            whole = True
    except OSError as e:
        fail(f"cannot make {root}: {e}")
    finally:
        why = None if whole else remove(new, patience=10)
        if why:
            note(why)
    os.remove(os.path.join(root, MARK))
    note(f"made {root}")


def fill(new, mark):
    step("its base, by debootstrap", DEBOOTSTRAP, new, mark)
    step("llama.cpp, by apt-get", APT, new, mark)
    missing = lacking(new, PROGRAMS) or ([] if glob.glob(os.path.join(new, BACKENDS)) else ["libggml-cpu-*.so"])
    if missing:
        fail(f"Debian sid has llama.cpp without {', '.join(missing)}")


def step(what, script, new, mark):
    note(f"  {what}")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        p = subprocess.run([*UNSHARE, "sh", "-c", script, "sh", new, MIRROR], stdin=subprocess.DEVNULL, stdout=log,
                           stderr=log, env=environment(), pass_fds=[mark.fileno()], check=False)
        log.seek(0)
        words = "".join(log.readlines()[-8:]).rstrip()
    if p.returncode != 0:
        fail(f"{what}: status {p.returncode}; it takes a network with {MIRROR}. Its last words:\n{words}")


# --- what another run left ---

def remove(new, patience=0):
    """Removes what is half made, or says why not."""
    if vacant(new):
        if os.path.isdir(new):
            os.rmdir(new)
        return None
    try:
        with open(os.path.join(new, MARK), encoding="utf-8") as mark:
            if not lock(mark, patience):
                return f"{new} is in the way: another run is at work in it"
            if mounts(new):
                return f"{new} is in the way, and not removed: {mounts(new)[0]} is mounted"
            subprocess.run(["rm", "-rf", "--one-file-system", "--", new], env=environment(), check=False)
    except (FileNotFoundError, NotADirectoryError):
        return f"{new} is in the way, and not removed: it is not of tools/bench"
    return f"{new} is in the way: it cannot be removed" if os.path.lexists(new) else None


def lock(mark, patience):
    """Whoever was killed may need a moment until it is gone."""
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)


def mounts(path):
    """What is mounted at the path and below."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        points = [re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), line.split()[4]) for line in f]
    return [point for point in points if point == path or point.startswith(path + "/")]
