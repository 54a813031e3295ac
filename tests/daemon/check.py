#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py CONFABD SOURCE: what confabd --check finds and prints, and that it changes nothing."""
import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

confabd, source = sys.argv[1:3]
model = os.path.join(source, 'models/confab-small.q8_0.gguf')
if not os.path.exists(model):
    print('SKIP: no model')
    sys.exit(77)


def need(ok, words):
    if not ok:
        sys.exit(f'FAILED: {words}')


def write(path, text):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def tree(folder):
    """Names, modes, owners, times and contents of everything."""
    seen = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(folders + names):
            path = os.path.join(here, name)
            st = os.lstat(path)
            content = b''
            if os.path.isfile(path):
                with open(path, 'rb') as f:
                    content = f.read()
            seen.append((path, st.st_mode, st.st_uid, st.st_mtime_ns, hashlib.sha256(content).hexdigest()))
    return seen


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.served = False
        self.state = os.path.join(folder, 'state')
        self.flags = {'model': model, 'state': self.state, 'socket': os.path.join(folder, 'socket'),
                      'pool-size': '64M'}

    def check(self, status, *words, absent=(), **flags):
        """Runs --check: its status, words that it says and does not say, and that nothing changed."""
        given = {**self.flags, **{name.replace('_', '-'): value for name, value in flags.items()}}
        # a running daemon has work of its own in the folder
        before = None if self.served else tree(self.folder)
        result = subprocess.run(
            [confabd, '--check', *(f'--{name}={value}' for name, value in given.items() if value is not None)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        need(result.returncode == status, f'{flags}: status {result.returncode}, not {status}:\n{result.stdout}')
        for word in words:
            need(word in result.stdout, f'{flags}: "{word}" is not in:\n{result.stdout}')
        for word in absent:
            need(word not in result.stdout, f'{flags}: "{word}" is in:\n{result.stdout}')
        need(self.served or tree(self.folder) == before, f'{flags}: something was changed')
        return result.stdout


def serve_once(case):
    """A daemon on the state folder, ready, which ends with the block."""
    path = os.path.join(case.folder, 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)
        daemon = subprocess.Popen(
            [confabd, *(f'--{name}={value}' for name, value in case.flags.items())],
            env={**os.environ, 'NOTIFY_SOCKET': path, 'MEMORY_PRESSURE_WATCH': '/dev/null'},
            stderr=subprocess.DEVNULL)
        try:
            while b'READY=1' not in manager.recv(4096):
                pass
            case.served = True
            yield daemon
        finally:
            case.served = False
            daemon.terminate()
            status = daemon.wait(60)
        need(status == 0, 'the daemon did not end well')
    os.unlink(path)


def check_figures(case):
    text = case.check(0, 'is not there: it would be made', 'It would start. Warnings: 0', 'none yet',
                      'confab-small, llama', 'budget: 64.0 MiB (pool-size)', 'by the context')
    need(re.search(r'fingerprint: [0-9a-f]{32}\n', text), 'no fingerprint')
    need(re.search(r'memory per token: [0-9.]+ KiB \(f16\)', text), 'no memory per token')
    need(re.search(r'spilled by codec: (kv|raw), while space is not short \(a GB is expected back in [0-9.]+ s by kv, '
                   r'[0-9.]+ s raw: disk not measured yet, decoding [0-9.]+ GB/s a thread\)\n', text), 'no codec and why')
    case.check(0, 'spilled by codec: lz4 (spill-codec)', spill_codec='lz4')
    text = case.check(0, 'longest conversation: ', 'by the budget', 'warning: a conversation as long as the context',
                      **{'pool_size': '6M'})
    need(int(re.search(r'longest conversation: (\d+)', text)[1]) < 2048, 'the budget does not bound')
    case.check(3, 'PROBLEM: a pool of 1048576 bytes is too small', 'It would not start', **{'pool_size': '1M'})


def check_layers(case):
    defaults, config = (os.path.join(case.folder, name) for name in ('defaults', 'conf'))
    write(defaults, 'threads = 1\nmax-active = 8\n')
    write(config, 'max-active = 4\n')
    os.mkdir(config + '.d')
    write(config + '.d/10.conf', '# nothing\n')
    text = case.check(0, defaults=defaults, config=config)
    want = (f'  {defaults}\n    threads = 1\n    max-active = 8\n  {config}\n    max-active = 4\n'
            f'  {config}.d/10.conf\n    (nothing that differs)\n  flags\n    model = {model}\n')
    need(want in text, f'the layers are not told:\n{text}')
    write(config, 'bogus = 3\n')
    case.check(2, f"{config}:1: unknown setting 'bogus'", defaults=defaults, config=config)


def check_remote(case):
    password = os.path.join(case.folder, 'password')
    case.check(0, "Remote store\n  warning: it can't be used now, and memory would be computed: server 127.0.0.1:1: ", remote='redis://127.0.0.1:1')
    case.check(0, absent=('Remote store',))
    for flags in ([], ['--check-settings'], ['--check']):
        for uri, word in ('redis://:hush@127.0.0.1', 'remote-password-file'), ('http://127.0.0.1', 'redis://'):
            done = subprocess.run([confabd, *flags, *(f'--{name}={value}' for name, value in case.flags.items()), '--remote', uri],
                                  capture_output=True, text=True, check=False)
            need(done.returncode == 2 and word in done.stderr and 'hush' not in done.stderr + done.stdout, f'{flags} {uri}: {done}')
    # What the engine alone knows, it says at a start as well.
    for uri, word in ('redis://127.0.0.1:123456', '127.0.0.1:123456'), ('redis://127.0.0.1/x', 'number'), ('redis://,', 'HOST'):
        case.check(3, 'PROBLEM: remote: ', word, remote=uri)
        done = subprocess.run([confabd, *(f'--{name}={value}' for name, value in {**case.flags, 'state': case.state + '-none'}.items()),
                               '--remote', uri], capture_output=True, text=True, check=False)
        need(done.returncode == 3 and 'cannot start: ' in done.stderr and word in done.stderr, f'{uri}: {done}')
    case.check(3, f'PROBLEM: remote-password-file: {password}: cannot open it', 'Register\n  none yet', remote='redis://127.0.0.1:1',
               remote_password_file=password)
    write(password, 'hush\n')
    os.chmod(password, 0o644)
    case.check(3, 'PROBLEM: remote-password-file: ', 'readable by its owner only', absent=('hush',), remote='redis://127.0.0.1:1',
               remote_password_file=password)
    os.chmod(password, 0o600)
    case.check(0, absent=('hush',), remote='redis://127.0.0.1:1', remote_password_file=password)
    os.unlink(password)


def check_problems(case):
    case.check(3, 'PROBLEM:', '/none.gguf', model=os.path.join(case.folder, 'none.gguf'))
    case.check(3, 'PROBLEM:', 'is not a folder', state=model, absent=('Warnings: 0',))
    case.check(3, 'PROBLEM: no socket can be made in', socket='/nonexistent/folder/socket')
    case.check(0, socket=os.path.join(case.folder, 'new', 'socket'))
    case.check(3, "PROBLEM: admin-group: unknown group 'no-such-group'", admin_group='no-such-group')
    case.check(3, 'PROBLEM:', 'is expected', model_fingerprint='0123456789abcdef')
    case.check(0, 'less than disk-floor', disk_floor='1000T')
    # Only what is for the service is measured by its sandbox; the case's own folder is in /tmp as well.
    copy = os.path.join(case.folder, 'copy.gguf')
    with open(model, 'rb') as f, open(copy, 'wb') as g:
        g.write(f.read())
    case.check(0, absent=('confabd.service',), model=copy)
    if case.folder.startswith('/tmp/') and not os.path.exists('/var/lib/confab'):
        case.check(0, 'confabd.service cannot see this file, because its unit has PrivateTmp=yes',
                   model=copy, state=None)


def check_template(case):
    """What is done otherwise than by the model's template is told before the first conversation."""
    changed = os.path.join(case.folder, 'changed.gguf')
    what = b"{{ '<|im_start|>assistant\\n' }}{% endif %}"

    def change(by):
        with open(model, 'rb') as f:
            data = f.read()
        need(data.count(what) == 1 and len(by) <= len(what), 'the template is another one')
        with open(changed, 'wb') as f:
            f.write(data.replace(what, by.ljust(len(what))))

    case.check(0, 'Warnings: 0', '  chat format: template\n', absent=('warning: chat template',))
    change(b"{% endif %}{# 'You are '#} {% else %}")
    case.check(0, "warning: chat template: it can't be used (line 1, column ",
               'in its place serves the family chatml\n',
               "warning: chat template: its own system text, for conversations without one, is left out\n",
               'Warnings: 2', '  chat format: chatml\n', model=changed)
    change(b"{{ message.x.y }}{% endif %}")
    case.check(0, "warning: chat template: it can't be used (line 1, column ", model=changed)


def check_chat_format(case):
    case.check(0, '  chat format: gemma\n', chat_format='gemma')
    case.check(0, '  chat format: none\n', 'Warnings: 0', chat_format='none')
    case.check(3, 'PROBLEM:', 'chat format "bogus" is none of auto, none, ', ', chatml, ', chat_format='bogus')


def check_register(case):
    for _ in serve_once(case):
        case.check(0, 'in use by a running daemon')
    case.check(0, '0 conversations', 'mode 0700', '(as the register remembers it)')
    case.check(0, absent=('as the register remembers it',), verify_model='yes')
    os.chmod(case.state, 0o755)
    case.check(0, 'warning:', 'is open to others')
    os.chmod(case.state, 0o700)


def check_as_owner(case):
    """Root sees what the owner of the state folder may see."""
    # The owner may not be able to read this tree, and so the sanitizer's list in it, which is about the command line.
    os.environ.pop('LSAN_OPTIONS', None)
    os.chmod(case.folder, 0o755)
    os.makedirs(case.state, exist_ok=True)
    for here, folders, names in os.walk(case.state):
        for name in ['.', *folders, *names]:
            os.chown(os.path.join(here, name), 1, 1)
    hidden = os.path.join(case.folder, 'hidden.gguf')
    with open(model, 'rb') as f, open(hidden, 'wb') as g:
        g.write(f.read())
    os.chmod(hidden, 0o600)
    case.check(3, 'Looking as user daemon', 'Permission denied', model=hidden, socket='/tmp/no-such-confab-socket')
    os.chmod(hidden, 0o644)
    case.check(0, 'Looking as user daemon', model=hidden, socket='/tmp/no-such-confab-socket')


with tempfile.TemporaryDirectory(prefix='confab-check-') as folder:
    for part in (check_figures, check_layers, check_remote, check_problems, check_template, check_chat_format, check_register, check_as_owner):
        if part is check_as_owner and os.geteuid() != 0:
            continue
        here = os.path.join(folder, part.__name__)
        os.mkdir(here)
        os.chmod(folder, 0o755)
        began = time.monotonic()
        part(Case(here))
        print(f'{part.__name__}: {time.monotonic() - began:.1f} s')
