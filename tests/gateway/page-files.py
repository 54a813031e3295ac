#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page-files.py: the page's files over the real gateway: what is sent, what browsers keep, what is not reached, and what it costs to
serve clients that do not read."""
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time

import rig

HTML = {'Accept': 'text/html,application/xhtml+xml,*/*;q=0.8'}
TOKEN = 'token-number-one-x'
PAGE = os.path.join(rig.source, 'client/gateway/page')
BIG = 40 << 20


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(data)
    return path


def make_page(r):
    """A folder with files that can be fetched, and with some that can't."""
    page = r.folder + '/page'
    shutil.rmtree(page, ignore_errors=True)
    write(page + '/index.html', b'<!doctype html>')
    write(page + '/js/main.js', b'let a;')
    write(page + '/a b/\u00fc.txt', b'text')
    for name in 'empty.txt', 'a.css', 'a.svg', 'a.png', 'a.ico', 'a.woff2', 'a.webmanifest', 'a.mjs':
        write(f'{page}/{name}', b'' if name == 'empty.txt' else name.encode())
    for size in 32767, 32768, 32769, 65536, 300001:
        write(f'{page}/{size}.txt', os.urandom(size))
    write(page + '/.hidden/a.js', b'secret')
    write(page + '/js/.hidden.js', b'secret')
    write(page + '/notes.md', b'secret')
    write(page + '/js/main.js.bak', b'secret')
    write(page + '/noextension', b'secret')
    os.makedirs(page + '/folder.js')
    write(r.folder + '/outside.txt', b'secret')
    os.symlink('../outside.txt', page + '/link.txt')
    os.symlink('..', page + '/up')
    os.symlink('main.js', page + '/js/inside.js')
    os.mkfifo(page + '/pipe.txt')
    return page


def make_libs(r):
    libs = r.folder + '/share'
    shutil.rmtree(libs, ignore_errors=True)
    write(libs + '/javascript/markdown-it/markdown-it.js', b'second')
    write(libs + '/nodejs/markdown-it/dist/markdown-it.min.js', b'third')
    write(libs + '/nodejs/dompurify/dist/purify.es.mjs', b'purify')
    write(libs + '/javascript/katex/katex.min.css', b'katex')
    write(libs + '/fonts/truetype/katex/K.woff2', b'font')
    write(libs + '/fonts/truetype/katex/K.map', b'secret')
    os.symlink('../../fonts/truetype/katex', libs + '/javascript/katex/fonts')
    return libs


def start(r, *flags):
    r.start_gateway('--page', make_page(r), '--page-libs', make_libs(r), *flags)


def get(r, path, method='GET', **fields):
    """http.client sends the path as it is."""
    return r.request(method, path, **fields)


def test_the_tree(r):
    """The files of this source can be fetched, all of them."""
    r.start_gateway()
    n = 0
    for folder, _, names in os.walk(PAGE):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), PAGE)
            with open(os.path.join(PAGE, path), 'rb') as f:
                want = f.read()
            status, fields, body = get(r, '/page/' + path)
            rig.need(status == 200 and (body == want or json.loads(want) == body), (path, status, dict(fields)))
            n += 1
    rig.need(n > 3, n)
    r.stop_gateway()


def test_types(r):
    start(r)
    for path, kind in (('js/main.js', 'text/javascript; charset=utf-8'), ('a.mjs', 'text/javascript; charset=utf-8'),
                       ('a.css', 'text/css; charset=utf-8'), ('a.svg', 'image/svg+xml'), ('a.png', 'image/png'),
                       ('a.ico', 'image/x-icon'), ('a.woff2', 'font/woff2'), ('empty.txt', 'text/plain; charset=utf-8'),
                       ('a.webmanifest', 'application/manifest+json'), ('index.html', 'text/html; charset=utf-8')):
        status, fields, body = get(r, '/page/' + path)
        with open(f'{r.folder}/page/{path}', 'rb') as f:
            rig.need(status == 200 and fields['Content-Type'] == kind and body == f.read(), (path, status, dict(fields)))
    r.stop_gateway()


def test_root(r):
    """/ is the page for browsers, and what Ollama's clients look for."""
    start(r)
    status, fields, body = get(r, '/', **HTML)
    rig.need(status == 200 and body == b'<!doctype html>' and fields['Content-Type'].startswith('text/html'), body)
    rig.need(fields['Vary'] == 'Accept' and fields['ETag'], dict(fields))
    for other in {}, {'Accept': '*/*'}, {'Accept': 'application/json'}:
        status, fields, body = get(r, '/', **other)
        rig.need(status == 200 and body == b'Ollama is running' and fields['Vary'] == 'Accept', body)
    rig.need(get(r, '/', method='HEAD')[0] == 200 and get(r, '/', method='HEAD', **HTML)[0] == 200, 'HEAD')
    status, fields, _ = get(r, '/', method='POST', **HTML)
    rig.need(status == 405 and fields['Allow'] == 'GET, HEAD, OPTIONS', dict(fields))
    os.unlink(r.folder + '/page/index.html')
    rig.need(get(r, '/', **HTML)[0] == 404, 'it is gone')
    r.stop_gateway()


def test_fields(r):
    """What the browser is told of files, and of answers."""
    start(r)
    for path in '/', '/page/js/main.js', '/page/lib/katex.css', '/page/libs.json', '/page/none.js':
        _, fields, _ = get(r, path, **HTML)
        policy = dict(part.split(' ', 1) for part in fields['Content-Security-Policy'].split('; '))
        rig.need(policy.pop('default-src') == "'none'" and policy.pop('trusted-types') == 'dompurify', policy)
        rig.need(policy.pop('require-trusted-types-for') == "'script'", policy)
        for name in 'base-uri', 'form-action', 'frame-ancestors':
            rig.need(policy.pop(name) == "'none'", policy)
        rig.need(sorted(policy) == [f'{what}-src' for what in ('connect', 'font', 'img', 'manifest', 'script', 'style')] and
                 set(policy.values()) == {"'self'"}, policy)
        for name, value in (('Cache-Control', 'no-cache'), ('X-Content-Type-Options', 'nosniff'), ('X-Frame-Options', 'DENY'),
                            ('Referrer-Policy', 'no-referrer'), ('Cross-Origin-Opener-Policy', 'same-origin'),
                            ('Cross-Origin-Resource-Policy', 'same-origin'),
                            ('Permissions-Policy', 'camera=(), microphone=(), geolocation=()')):
            rig.need(fields.get_all(name) == [value], (path, name, fields.get_all(name)))
    for path in '/health', '/nothing', '/v1/models', '/api/version', '/confab/v1/models', '/metrics':
        _, fields, _ = get(r, path)
        for name, value in (('Cache-Control', 'no-store'), ('X-Content-Type-Options', 'nosniff'),
                            ('Cross-Origin-Resource-Policy', 'same-origin')):
            rig.need(fields.get_all(name) == [value], (path, name, fields.get_all(name)))
        rig.need('Content-Security-Policy' not in fields, path)
    r.stop_gateway()
    r.start_gateway('--allow-origin', 'https://chat.example')
    _, fields, _ = get(r, '/v1/models', Origin='https://chat.example')
    rig.need(fields['Cross-Origin-Resource-Policy'] == 'cross-origin' and fields['Vary'] == 'Origin' and
             fields['Access-Control-Allow-Origin'] == 'https://chat.example', dict(fields))
    r.stop_gateway()


def test_kept_files(r):
    start(r)
    for path in '/page/300001.txt', '/page/js/main.js':
        status, fields, body = get(r, path)
        tag = fields['ETag']
        rig.need(status == 200 and re.fullmatch(r'"[0-9a-f-]+"', tag), tag)
        for field in tag, 'W/' + tag, f'"x", {tag}', f'"a,b" ,W/"c",{tag}', '*':
            status, fields, nothing = get(r, path, If_None_Match=field)
            rig.need(status == 304 and nothing == b'' and fields['ETag'] == tag and 'Content-Length' not in fields, field)
        for field in '"x"', tag[:-1], tag[1:], '', 'x' + tag, f'"{tag[1:-1]}x"':
            rig.need(get(r, path, If_None_Match=field)[0] == 200, field)
        status, fields, nothing = get(r, path, method='HEAD')
        rig.need(status == 200 and nothing == b'' and int(fields['Content-Length']) == len(body), dict(fields))
    write(r.folder + '/page/js/main.js', b'let b;')
    status, fields, body = get(r, '/page/js/main.js', If_None_Match=tag)
    rig.need(status == 200 and body == b'let b;' and fields['ETag'] != tag, 'a file that has changed')
    r.stop_gateway()


def test_sizes(r):
    start(r)
    connection = r.connect()
    for size in 32767, 32768, 32769, 65536, 300001:
        with open(f'{r.folder}/page/{size}.txt', 'rb') as f:
            want = f.read()
        rig.need(rig.read(rig.ask(connection, 'GET', f'/page/{size}.txt')) == want, size)
        with r.raw() as s:
            s.sendall(f'GET /page/{size}.txt HTTP/1.0\r\n\r\n'.encode())
            got = s.makefile('rb').read()
        rig.need(got.startswith(b'HTTP/1.1 200') and got.partition(b'\r\n\r\n')[2] == want, size)
    connection.close()
    r.stop_gateway()


def test_not_reached(r):
    start(r)
    for path in ('/page/.hidden/a.js', '/page/js/.hidden.js', '/page/notes.md', '/page/js/main.js.bak', '/page/noextension',
                 '/page/folder.js', '/page/js', '/page/js/', '/page/', '/page', '/page/none.js', '/page/js/main.js/', '/page/js/main.js/x.js',
                 '/page//js/main.js', '/page/js//main.js', '/page//etc/hosts.txt', '/page/link.txt', '/page/up/outside.txt',
                 '/page/up/page/js/main.js', '/page/js/inside.js', '/page/pipe.txt', '/page/%2f' + r.folder[1:] + '/outside.txt',
                 '/page/' + 'a' * 300 + '.js', '/page/' + 'a/' * 300 + 'a.js', '/page/..%5coutside.txt', '/page/JS/main.js',
                 '/page/js/main.JS', '/outside.txt', '/index.html', '/page/lib/.../js/main.js'):
        status, _, body = get(r, path)
        rig.need(status == 404 and body['error']['code'] == 'not_found', (path, status, body))
    for path in ('/page/../outside.txt', '/page/%2e%2e/outside.txt', '/page/js/%2E./../outside.txt', '/page/..%2foutside.txt',
                 '/page/%2e%2e%2foutside.txt', '/page/./js/main.js', '/page/js/main.js%00.txt', '/page/%', '/page/%c3.js',
                 '/page/lib/..%2fjs%2fmain.js', '/page/lib/fonts/..%2fkatex.css'):
        rig.need(get(r, path)[0] == 400, path)
    # what a name may have in it
    rig.need(get(r, '/page/a%20b/%C3%BC.txt')[2] == b'text' and get(r, '/page/%6as/main%2Ejs?x=1')[2] == b'let a;', 'decoding')
    rig.need(get(r, '/page/js%2fmain.js')[2] == b'let a;', 'a slash is one, however it is written')
    rig.need(get(r, '/page/js/main.js', method='DELETE')[0] == 405, 'DELETE')
    r.stop_gateway()


def test_libs(r):
    start(r)
    rig.need(get(r, '/page/libs.json')[2] == {'markdown-it.js': True, 'purify.js': True, 'highlight.js': False,
                                               'katex.mjs': False, 'katex.css': True}, 'the list')
    for name, text, kind in (('markdown-it.js', b'second', 'text/javascript'), ('purify.js', b'purify', 'text/javascript'),
                             ('katex.css', b'katex', 'text/css'), ('fonts/K.woff2', b'font', 'font/woff2')):
        status, fields, body = get(r, '/page/lib/' + name)
        rig.need(status == 200 and body == text and fields['Content-Type'].startswith(kind) and fields['ETag'], (name, body))
    write(r.folder + '/share/javascript/markdown-it/markdown-it.min.js', b'first')
    rig.need(get(r, '/page/lib/markdown-it.js')[2] == b'first', 'the first place counts')
    for name in ('highlight.js', 'katex.mjs', 'jquery.js', 'fonts/K.map', 'fonts/none.woff2', 'fonts/.woff2', 'fonts/a/K.woff2', 'fonts/',
                 'fonts', '', 'fonts/' + 'a' * 250 + '.woff2', 'fonts/' + 'a' * 300 + '.woff2'):
        rig.need(get(r, '/page/lib/' + name)[0] == 404, name)
    r.stop_gateway()
    r.start_gateway('--page-libs', r.folder + '/none')
    rig.need(set(get(r, '/page/libs.json')[2].values()) == {False}, 'no folder')
    rig.need(get(r, '/page/lib/purify.js')[0] == 404, 'no folder')
    r.stop_gateway()


def test_no_page(r):
    r.start_gateway('--page', 'none')
    for path in '/page/index.html', '/page/js/main.js', '/page/libs.json', '/page/lib/katex.css', '/page/lib/fonts/K.woff2':
        rig.need(get(r, path)[0] == 404, path)
    rig.need(get(r, '/', **HTML)[2] == b'Ollama is running', 'Ollama')
    r.stop_gateway()
    for flag, words in (r.folder + '/none', 'cannot look into'), (rig.MODEL, 'is not a folder'):
        done = subprocess.run([rig.confab_gateway, '--listen', r.socket, '--page', flag], capture_output=True, text=True,
                              check=False, timeout=rig.LONG)
        rig.need(done.returncode == 3 and words in done.stderr, done)


def test_tcp(r):
    """The page takes no token, and comes from no foreign host."""
    write(r.folder + '/tokens', f'{TOKEN} {os.getuid()}\n'.encode())
    os.chmod(r.folder + '/tokens', 0o600)
    start(r, '--tcp', '127.0.0.1:0', '--token-file', r.folder + '/tokens')
    port = int(re.search(r'listening on 127\.0\.0\.1:(\d+)', r.gateway.said())[1])

    def status(path, **fields):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=rig.LONG)
        response = rig.ask(connection, 'GET', path, None, **fields)
        response.read()
        connection.close()
        return response.status

    token = {'Authorization': 'Bearer ' + TOKEN}
    for path in '/', '/page/js/main.js', '/page/lib/purify.js', '/page/libs.json', '/health':
        rig.need(status(path, **HTML) == 200, path)
        rig.need(status(path, Host='evil.example', **HTML) == 421, path)
        rig.need(status(path, Origin='http://evil.example', **HTML) == 403, path)
        for site in 'cross-site', 'same-site', 'same-origin', 'none': # a link leads here
            rig.need(status(path, Sec_Fetch_Site=site, **HTML) == 200, (path, site))
    for path in '/v1/models', '/confab/v1/models', '/metrics', '/api/version':
        rig.need(status(path) == 401 and status(path, **token) == 200, path)
        for site, want in ('cross-site', 403), ('same-site', 403), ('same-origin', 200), ('none', 200):
            rig.need(status(path, Sec_Fetch_Site=site, **token) == want, (path, site))
            rig.need(status(path, Sec_Fetch_Site=site, Origin=f'http://127.0.0.1:{port}', **token) == 200, (path, site))
    r.stop_gateway()


def test_forwarded(r):
    """A browser on the Unix socket, through ssh -L."""
    start(r, '--allow-host', 'box.lan', '--allow-origin', 'https://chat.example')
    for path in '/page/js/main.js', '/confab/v1/models':
        for host in 'localhost:8080', 'confab', 'h', '127.0.0.1:8080', '[::1]:8080', '10.0.0.1', 'box.lan:8080':
            rig.need(get(r, path, Host=host)[0] == 200, (path, host))
            rig.need(get(r, path, Host=host, Origin='http://' + host, Sec_Fetch_Site='same-origin')[0] == 200, (path, host))
        for host in 'evil.example', 'localhost.evil.example:8080', 'localhost.', 'xbox.lan':
            rig.need(get(r, path, Host=host)[0] == 421, (path, host))
            rig.need(get(r, path, Host=host, Origin='http://' + host)[0] == 421, (path, host))
    with r.raw() as s: # HTTP/1.0 has no host
        s.sendall(b'GET /confab/v1/models HTTP/1.0\r\n\r\n')
        rig.need(s.makefile('rb').readline().startswith(b'HTTP/1.1 200'), 'no host')
    for site in 'cross-site', 'same-site':
        for path in '/confab/v1/models', '/v1/models', '/nothing':
            status, _, body = get(r, path, Sec_Fetch_Site=site)
            rig.need(status == 403, (path, body))
        rig.need(r.request('POST', '/confab/v1/conversations', '{}', Sec_Fetch_Site=site)[0] == 403, site)
        rig.need(get(r, '/confab/v1/models', Sec_Fetch_Site=site, Origin='https://chat.example')[0] == 200, 'a listed origin')
        rig.need(get(r, '/', Sec_Fetch_Site=site, Sec_Fetch_Mode='navigate', **HTML)[0] == 200, 'a link')
    r.stop_gateway()


# ---- what clients that do not read cost ----

def memory(r, what):
    with open(f'/proc/{r.gateway.process.pid}/status', encoding='ascii') as f:
        return int(re.search(rf'{what}:\s+(\d+) kB', f.read())[1]) << 10


def descriptors(r):
    return len(os.listdir(f'/proc/{r.gateway.process.pid}/fd'))


def wait_for_descriptors(r, n):
    """Until the gateway has seen which connections are gone."""
    deadline = time.monotonic() + rig.LONG
    while descriptors(r) != n:
        rig.need(time.monotonic() < deadline, f'{descriptors(r)} descriptors, not {n}')
        time.sleep(0.01)


def test_slow_readers(r):
    """Each costs a piece of the file, and no descriptor but its connection's."""
    start(r)
    write(r.folder + '/page/big.txt', b'x' * BIG)
    n_before, readers = descriptors(r), []
    rig.need(len(get(r, '/page/big.txt')[2]) == BIG, 'all of it')
    before = memory(r, 'VmRSS')
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(r.socket)
        s.sendall(b'GET /page/big.txt HTTP/1.1\r\nHost: h\r\n\r\n')
        rig.need(s.recv(15) == b'HTTP/1.1 200 OK', 'its beginning')
        readers.append(s)
    rig.need(get(r, '/page/js/main.js')[2] == b'let a;', 'others are served')
    wait_for_descriptors(r, n_before + len(readers))
    grown = memory(r, 'VmRSS') - before
    # Sanitizers, which map terabytes, keep what was freed.
    rig.need(grown < len(readers) * (60 << 10) or memory(r, 'VmSize') > 1 << 40, f'{grown} bytes')
    with readers[0].makefile('rb') as f: # it goes on when it reads
        n = 0
        while n < BIG:
            n += len(f.read(1 << 20))
    for s in readers:
        s.close()
    wait_for_descriptors(r, n_before)
    r.stop_gateway()


def test_changing_file(r):
    """A file that changes while it is sent: the client notices."""
    start(r)
    for version, how in (('HTTP/1.1', 'cut'), ('HTTP/1.1', 'other'), ('HTTP/1.1', 'gone'), ('HTTP/1.0', 'cut')):
        path = write(r.folder + '/page/big.txt', b'x' * (8 << 20))
        with r.raw() as s:
            s.sendall(f'GET /page/big.txt {version}\r\nHost: h\r\n\r\n'.encode())
            rig.need(s.recv(15) == b'HTTP/1.1 200 OK', 'its beginning')
            if how == 'cut':
                os.truncate(path, 4 << 20)
            elif how == 'other':
                os.replace(write(r.folder + '/page/new.txt', b'y' * (8 << 20)), path)
            else:
                os.unlink(path)
            try:
                rest = s.makefile('rb').read()
            except ConnectionResetError:
                rest = b''
            rig.need(len(rest) < 8 << 20 and not rest.endswith(b'\r\n0\r\n\r\n') and b'y' not in rest.partition(b'\r\n\r\n')[2], how)
    rig.need(get(r, '/page/js/main.js')[2] == b'let a;', 'it lives')
    r.stop_gateway()


rig.run(globals(), gateway=None)
