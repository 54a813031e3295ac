#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""open.py: confab-gateway --open: what is printed, whom the token lets in, what the browser is started with, and what that is good for."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time

import rig

PAGE = os.path.join(rig.source, 'client/gateway/page')
WORD = r'[A-Za-z0-9_-]{43}'
NOBODY = 65534
# A browser: tells with what, and in which state of the process, it was started.
BROWSER = '''#!/bin/sh
signals=$(while read -r name value; do [ "$name" != SigIgn: ] || echo "$value"; done </proc/$$/status)
fds=$(for n in 0 1 2; do readlink /proc/$$/fd/$n; done)
{ echo "$#" "$1"; echo "$signals"; echo "$fds"; } >"$OPENED.new"
mv "$OPENED.new" "$OPENED"
'''
# Exchanges a code as another user.
STRANGER = '''import http.client, os, sys
c = http.client.HTTPConnection(sys.argv[1])
c.request('POST', '/confab/v1/session', sys.argv[2])
r = c.getresponse()
print(r.status, r.read().decode())
'''


def environment(r, **more):
    """Without a desktop, a daemon or a folder of the user's; XDG_RUNTIME_DIR is one of the test's."""
    env = {name: value for name, value in os.environ.items() if name not in ('DISPLAY', 'WAYLAND_DISPLAY', 'CONFAB_SOCKET')}
    env.update(XDG_RUNTIME_DIR=r.folder + '/run time', OPENED=r.folder + '/opened', **more)
    return {name: value for name, value in env.items() if value is not None}


def browser_path(r):
    folder = r.folder + '/bin'
    os.makedirs(folder, exist_ok=True)
    with open(folder + '/xdg-open', 'w', encoding='ascii') as f:
        f.write(BROWSER)
    os.chmod(folder + '/xdg-open', 0o755)
    return folder + ':' + os.environ['PATH']


class Shown:
    """A gateway with --open, and what it printed."""

    def __init__(self, r, *flags, env=None):
        with open(r.folder + '/out', 'wb') as out:
            r.gateway = rig.Program(r.folder, 'gateway', [rig.confab_gateway, '--open', '--page', PAGE, *flags],
                                    stdout=out, env=env or environment(r))
        with open(r.folder + '/out', encoding='ascii') as f:
            self.out = f.read()
        match = re.fullmatch(rf'http://(127\.0\.0\.1:\d+|\[::1\]:\d+)/#token=({WORD})\n', self.out)
        rig.need(match, self.out)
        self.address, self.token = match.groups()

    def ask(self, method, path, body=None, **fields):
        connection = http.client.HTTPConnection(self.address, timeout=rig.LONG)
        response = rig.ask(connection, method, path, body, **fields)
        answer = response.status, response.headers, rig.read(response)
        connection.close()
        return answer

    def models(self, token=None):
        return self.ask('GET', '/confab/v1/models', Authorization='Bearer ' + (token or self.token))

    def exchange(self, code):
        return self.ask('POST', '/confab/v1/session', {'code': code})


def wait_for(fn):
    deadline = time.monotonic() + rig.LONG
    while not fn():
        rig.need(time.monotonic() < deadline, 'it does not happen')
        time.sleep(0.01)


def children(pid):
    """States of the processes whose parent is @pid."""
    states = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat', encoding='utf-8', errors='replace') as f:
                state, parent = f.read().rpartition(')')[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid:
            states.append(state)
    return states


def test_link(r):
    """One line, by which the page and the user's conversations can be had, and nothing without it."""
    shown = Shown(r)
    page = shown.ask('GET', '/', Accept='text/html')
    rig.need(page[0] in (200, 404) and 'Content-Security-Policy' in page[1], page) # the tree may have no index.html yet
    rig.need(shown.ask('GET', '/page/js/i18n.js')[0] == 200, 'a file')
    status, _, body = shown.models()
    rig.need(status == 200 and body['uid'] == os.getuid() and 'tenant' not in body, body)
    for token in shown.token[:-1], shown.token + 'A', 'A' * 43, '':
        rig.need(shown.models(token or ' ')[0] == 401, token)
    for path in '/confab/v1/models', '/v1/models', '/metrics':
        rig.need(shown.ask('GET', path)[0] == 401, path)
    rig.need(shown.ask('GET', '/metrics', x_api_key=shown.token)[0] == 200, 'the user whom the gateway runs as')
    with open(f'/proc/{r.gateway.process.pid}/cmdline', 'rb') as f:
        rig.need(shown.token.encode() not in f.read(), 'the token is in the list of processes')
    with open('/proc/net/unix', encoding='utf-8', errors='replace') as f:
        rig.need(r.folder + '/g' not in f.read(), 'a Unix socket')
    r.gateway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: 'settings reloaded' in r.gateway.said())
    rig.need(shown.models()[0] == 200, 'after a reload')
    rig.need('wait for a restart' not in r.gateway.said(), r.gateway.said())
    r.stop_gateway()
    rig.need(shown.token not in r.gateway_said, 'the token is in the log')
    with open(r.folder + '/out', encoding='ascii') as f:
        rig.need(f.read() == shown.out, 'one line')
    rig.need(not os.path.exists(r.folder + '/opened'), 'a browser without a desktop')


def test_every_start_has_its_own(r):
    first = Shown(r)
    r.stop_gateway()
    second = Shown(r)
    rig.need(first.token != second.token and second.models(first.token)[0] == 401, 'tokens')
    r.stop_gateway()


def test_foreign_pages(r):
    shown = Shown(r)
    token = {'Authorization': 'Bearer ' + shown.token}
    own = 'http://' + shown.address
    for host, want in (('evil.example', 421), ('confab', 421), ('127.0.0.1.evil.example', 421), (shown.address, 200), ('localhost', 200)):
        rig.need(shown.ask('GET', '/confab/v1/models', Host=host, **token)[0] == want, host)
    for origin, want in (('http://evil.example', 403), ('null', 403), ('http://localhost:1', 403), (own, 200)):
        rig.need(shown.ask('GET', '/confab/v1/models', Origin=origin, **token)[0] == want, origin)
        rig.need(shown.ask('POST', '/confab/v1/session', {'code': 'x'}, Origin=origin)[0] == 403, origin)
    for site, want in ('cross-site', 403), ('same-site', 403), ('same-origin', 200), ('none', 200):
        rig.need(shown.ask('GET', '/confab/v1/models', Sec_Fetch_Site=site, **token)[0] == want, site)
        rig.need(shown.ask('GET', '/page/js/i18n.js', Sec_Fetch_Site=site)[0] == 200, site)
    r.stop_gateway()


def test_daemon(r):
    """It is where confab looks; one that is not there yet is awaited by the page."""
    r.start_daemon()
    shown = Shown(r, env=environment(r, CONFAB_SOCKET=r.daemon_socket))
    rig.need(shown.models()[2]['models'][0]['reachable'] is True, 'CONFAB_SOCKET')
    status, _, body = shown.ask('POST', '/confab/v1/conversations', {}, Authorization='Bearer ' + shown.token)
    rig.need(status == 201, body)
    rig.need([c['id'] for c in json.loads(r.confab('--json', 'ls'))['conversations']] == [body['id']], 'the user has it')
    r.stop_gateway()
    shown = Shown(r, '--daemon', r.daemon_socket)
    rig.need(shown.models()[2]['models'][0]['reachable'] is True, '--daemon')
    r.stop_gateway()
    if os.path.exists('/run/confab/confab.sock'):
        return # the system's comes before the user's
    shown = Shown(r)
    rig.need(shown.models()[2]['models'][0]['reachable'] is False, 'no daemon')
    os.makedirs(r.folder + '/run time/confab', exist_ok=True)
    os.symlink(r.daemon_socket, r.folder + '/run time/confab/confab.sock')
    wait_for(lambda: shown.ask('GET', '/health')[2]['status'] == 'ok')
    r.stop_gateway()


def test_given_settings(r):
    """What is given is taken."""
    tokens = r.folder + '/tokens'
    with open(tokens, 'w', encoding='ascii') as f:
        f.write(f'token-number-one-x {os.getuid()} anna\n')
    os.chmod(tokens, 0o600)
    shown = Shown(r, '--listen', r.socket, '--tcp', '[::1]:0', '--tcp', '127.0.0.1:0', '--token-file', tokens)
    rig.need(shown.address.startswith('[::1]:'), shown.out)
    rig.need(r.get('/confab/v1/models')[0] == 200, 'the Unix socket')
    rig.need(shown.models()[0] == 200 and shown.models('token-number-one-x')[2]['tenant'] == 'anna', 'both tokens')
    with open(tokens, 'w', encoding='ascii') as f:
        f.write(f'token-number-two-x {os.getuid()}\n')
    r.gateway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: shown.models('token-number-two-x')[0] == 200)
    rig.need(shown.models('token-number-one-x')[0] == 401 and shown.models()[0] == 200, 'after a reload')
    r.stop_gateway()
    shown = Shown(r, '--tcp', '0.0.0.0:0', '--allow-remote', 'yes')
    rig.need(shown.address.startswith('127.0.0.1:') and shown.models()[0] == 200, shown.out)
    r.stop_gateway()
    for flags, status, words in ((['--open=yes'], 2, 'takes no value'), (['--open', '--page', 'none'], 3, 'there is no page'),
                                 (['--open', '--page', r.folder + '/none'], 3, 'cannot look into'),
                                 (['--open', '--page', PAGE, '--tcp', '0.0.0.0:0'], 3, 'allow-remote')):
        done = subprocess.run([rig.confab_gateway, *flags], capture_output=True, text=True, check=False, timeout=rig.LONG)
        rig.need(done.returncode == status and words in done.stderr and done.stdout == '', (flags, done))
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([rig.confab_gateway, '--open', '--page', PAGE], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=rig.LONG)
    rig.need(done.returncode == 3 and 'cannot print the link' in done.stderr, done)


def opened(r):
    path = r.folder + '/opened'
    wait_for(lambda: os.path.exists(path))
    with open(path, encoding='utf-8') as f:
        return f.read().splitlines()


def start_with_browser(r, **more):
    if os.path.exists(r.folder + '/opened'):
        os.unlink(r.folder + '/opened')
    shown = Shown(r, env=environment(r, PATH=browser_path(r), **(more or {'DISPLAY': ':9'})))
    said = opened(r)
    match = re.fullmatch(rf'1 http://{re.escape(shown.address)}/#once=({WORD})', said[0])
    rig.need(match and match[1] != shown.token, said)
    return shown, match[1], said


def test_browser(r):
    for desktop in {'DISPLAY': ':9'}, {'WAYLAND_DISPLAY': 'wayland-0', 'DISPLAY': ''}:
        shown, code, said = start_with_browser(r, **desktop)
        ignored = int(said[1], 16)
        rig.need(not ignored & 1 << signal.SIGPIPE - 1 and not ignored & 1 << signal.SIGCHLD - 1, said)
        rig.need(said[2:] == ['/dev/null'] * 3, said)
        wait_for(lambda: children(r.gateway.process.pid) == [])
        rig.need(shown.exchange('A' * 43)[0] == 403 and shown.exchange(code[:-1])[0] == 403, 'another code')
        status, fields, body = shown.exchange(code)
        rig.need(status == 200 and body == {'token': shown.token} and fields['Cache-Control'] == 'no-store', body)
        for _ in range(2):
            status, _, body = shown.exchange(code)
            rig.need(status == 403 and body['error']['code'] == 'permission', 'it is good once')
        rig.need(shown.models(body.get('token', shown.token))[0] == 200 and shown.models(code)[0] == 401, 'a code is no token')
        for wrong in {}, {'code': 1}, {'code': None}, []:
            rig.need(shown.ask('POST', '/confab/v1/session', wrong)[0] == 400, wrong)
        rig.need(shown.ask('GET', '/confab/v1/session')[0] == 401, 'GET') # as for all that is not there
        r.stop_gateway()
        rig.need(code not in r.gateway_said, 'the code is in the log')


def test_other_user(r):
    """Others see the link in the list of processes, and can do nothing with it."""
    if os.getuid() != 0:
        print('SKIP: takes root')
        return
    shown, code, _ = start_with_browser(r)
    done = subprocess.run(['/usr/bin/python3', '-c', STRANGER, shown.address, json.dumps({'code': code})], capture_output=True, text=True,
                          check=False, timeout=rig.LONG, user=NOBODY, group=NOBODY, extra_groups=[], cwd='/')
    rig.need(done.stdout.startswith('403 ') and 'the user who runs' in done.stdout, done)
    rig.need(shown.exchange(code)[2] == {'token': shown.token}, 'it was not used up')
    r.stop_gateway()


def test_no_browser(r):
    """No xdg-open is a line in the log."""
    empty = r.folder + '/empty'
    os.makedirs(empty)
    shown = Shown(r, env=environment(r, PATH=empty, DISPLAY=':9'))
    rig.need('no browser is started: xdg-open: ' in r.gateway.said() and shown.models()[0] == 200, r.gateway.said())
    r.stop_gateway()


def test_without_open(r):
    r.start_gateway()
    status, _, body = r.post('/confab/v1/session', {'code': 'x'})
    rig.need(status == 403 and body['error']['code'] == 'permission', body)
    r.stop_gateway()
    shutil.rmtree(r.folder + '/run time', ignore_errors=True)


rig.run(globals(), daemon=None, gateway=None)
