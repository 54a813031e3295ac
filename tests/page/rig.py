# SPDX-License-Identifier: MIT
"""A real confabd, a real confab-gateway that serves the page, and a browser that looks at it.

Tests are called with CONFABD CONFAB-GATEWAY MAKE-MODEL SOURCE CONFAB [TEST...]. A test file is a list of functions:

    import sys
    sys.dont_write_bytecode = True
    import rig

    def test_title(r, page):
        made = r.opened(name='first')
        r.show(page, made)
        page.wait("document.title.startsWith('first')", 'the title')

    rig.run(globals())                        # all functions test_*, each with a fresh page
    rig.run(globals(), daemon=rig.SLOW)       # about a hundred tokens a second

`r` is a Rig of tests/gateway/rig.py with what is below; `page` is a Page of browser.py. When a test ends, its pages must be clean: no errors,
no violations of the policy, no requests to others, but for those that page.expect() named. Of a test that fails there are a picture
and the console in page-failures/ of the build folder. Times that the page is given are long and end early.
"""
import asyncio
import contextlib
import importlib.util
import inspect
import os
import re
import signal
import sys
import time
import traceback
import urllib.parse

import axe
import browser as browsers
import forward


def load_gateway_rig():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../gateway/rig.py')
    spec = importlib.util.spec_from_file_location('gateway_rig', path)
    module = importlib.util.module_from_spec(spec)
    sys.modules['gateway_rig'] = module
    spec.loader.exec_module(module)
    return module


gateway_rig = load_gateway_rig()
need, LONG = gateway_rig.need, gateway_rig.LONG
source = gateway_rig.source
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(gateway_rig.confabd)))
FAILURES = os.path.join(BUILD, 'page-failures')
PAGE = os.path.join(source, 'client/gateway/page')
BASE = '/confab/v1'
ALL = BASE + '/conversations'
FULL = bool(os.environ.get('CONFAB_TEST_FULL')) # as tests/util/depth.h
GREEDY = {'temperature': 0}
TOKEN = 'token-of-the-page-tests'
LONG_MODEL = 'tiny:mamba', '65536' # reads 2,000 turns in a second; what it says is noise
SLOW = ('--max-isa', 'generic') # the bundled model then writes about 100 tokens a second, in place of 2,000
LIBS = {'markdown-it': 'markdown-it.js', 'dompurify': 'purify.js', 'highlight.js': 'highlight.js', 'katex': 'katex.mjs'}
IN_FLIGHT = 32 # requests of one connection
# True once all texts are drawn. The page draws them with the next frame, which on a busy machine is long after the reply is over.
DRAWN = "(await import(new URL('page/render/libs.js', document.baseURI))).idle().then(() => true)"


class Skip(Exception):
    """Why a test cannot run here."""


class Rig(gateway_rig.Rig):
    def __init__(self):
        super().__init__()
        self.port, self.browser, self.forwarders = 0, None, []

    def __exit__(self, *what):
        try:
            for one in self.forwarders:
                one.close()
            if self.browser:
                self.browser.close()
        finally:
            super().__exit__(*what)

    # ---- the gateway and ways to it ----

    def start_gateway(self, *flags, **how):
        """With the page, on TCP too; started again it has the same port."""
        path = f'{self.folder}/tokens'
        with open(path, 'w', encoding='utf-8') as f:
            f.write(f'{TOKEN} {os.getuid()}\n')
        os.chmod(path, 0o600)
        super().start_gateway('--tcp', f'127.0.0.1:{self.port}', '--token-file', path, *flags, **how)
        self.port = int(re.search(r'listening on 127\.0\.0\.1:(\d+)', self.gateway.said())[1])

    @property
    def origin(self):
        return f'http://127.0.0.1:{self.port}'

    def url(self, token=TOKEN):
        """The page by TCP, as confab-gateway --open tells it."""
        return f'{self.origin}/#token={token}' if token else f'{self.origin}/'

    def tunnel(self):
        """TCP to the gateway's Unix socket, as ssh -L; tunnel().url takes no token."""
        self.forwarders.append(forward.Tunnel(self.socket))
        return self.forwarders[-1]

    def front(self, prefix=''):
        """A reverse proxy that tests give orders to (forward.py); front().url takes no token."""
        self.forwarders.append(forward.Front(self.socket, prefix))
        return self.forwarders[-1]

    # ---- the page ----

    def show(self, page, conversation=None, url=None, turn=None):
        """Opens the page (by TCP, or at the address of a tunnel or a front) and waits until it knows the daemon, and shows the conversation."""
        page.open(url or self.url())
        page.wait("document.documentElement.dataset.connection === 'live'", 'the page is connected')
        if conversation is not None:
            self.go(page, conversation, turn)

    def go(self, page, conversation, turn=None):
        """In a page that is open: another conversation, by its address."""
        number = conversation if isinstance(conversation, int) else conversation['id']
        page.run('location.hash = a;', f'#/c/{number}' + ('' if turn is None else f'/{turn}'))
        page.wait(f"document.querySelector('.talk-scroll')?.getAttribute('aria-busy') === 'false' && location.hash.startsWith('#/c/{number}')",
                  f'conversation {number} is shown')

    # ---- the interface, over the Unix socket: the same user has the same conversations ----

    def ok(self, answer, status=200):
        got, _, body = answer
        need(got == status, (got, body))
        return body

    def path(self, conversation, verb='', **query):
        name = conversation if isinstance(conversation, (int, str)) else conversation['id']
        text = f'{ALL}/{urllib.parse.quote(str(name), safe="")}' + (f'/{verb}' if verb else '')
        return text + ('?' + urllib.parse.urlencode(query) if query else '')

    def opened(self, **fields):
        """A new conversation: name=, system=, about={'title': ...}."""
        return self.ok(self.post(ALL, fields), 201)

    def say(self, conversation, text, **more):
        """A message and its reply, as one object. With text=None the input is one of `more`."""
        return self.ok(self.post(self.path(conversation, 'continue'),
                                 {'message': text, 'sampling': GREEDY, 'max_tokens': 40, 'stream': False, **more}))

    def tell(self, conversation, text, reply):
        """A message, and exactly this reply (as `given`: it is read, not written)."""
        self.say(conversation, text, max_tokens=0)
        return self.say(conversation, None, given={'text': reply} if isinstance(reply, str) else reply, max_tokens=0)

    def conversation(self, conversation, **query):
        """As it is now."""
        return self.ok(self.request('GET', self.path(conversation, **query)))

    def turns(self, conversation):
        """Role and text of its turns."""
        told = self.conversation(conversation, turns=1)
        return [(turn['role'], turn.get('text')) for turn in told['turns']]

    def fork(self, conversation, at_turn=None, **fields):
        return self.ok(self.post(self.path(conversation, 'fork'), {**({} if at_turn is None else {'at_turn': at_turn}), **fields}), 201)

    def patch(self, conversation, **fields):
        return self.ok(self.request('PATCH', self.path(conversation), fields))

    def verb(self, conversation, verb, **fields):
        """warm, evict, cancel, rewind, publish, carry."""
        return self.ok(self.post(self.path(conversation, verb), fields))

    def delete(self, conversation):
        return self.ok(self.request('DELETE', self.path(conversation)))

    def all(self, **query):
        """All conversations that are there, latest change first."""
        found, query = [], {'order': 'updated', 'limit': 100, **query}
        while True:
            told = self.ok(self.get(ALL + '?' + urllib.parse.urlencode(query)))
            found += told['conversations']
            if not told['more']:
                return found
            query['cursor'] = told['cursor']

    def clear(self):
        """Closes all conversations, so that a test begins with none."""
        for one in self.all():
            self.delete(one)

    # ---- replies ----

    def begin(self, conversation, text, **more):
        """Asks for a reply that goes on without its client (detach), and leaves when it was accepted. The page attaches to it."""
        connection = self.connect()
        try:
            response = gateway_rig.ask(connection, 'POST', self.path(conversation, 'continue'),
                                       {'message': text, 'sampling': GREEDY, 'detach': True, 'max_tokens': 1500, **more})
            need(response.status == 200, (response.status, response.read() if response.status != 200 else ''))
            return next(data for name, data in gateway_rig.events(response) if name == 'accepted')
        finally:
            connection.close()

    def begin_scripted(self, conversation, text, reply):
        """begin() of exactly this reply. (For a reply that the page asks for: front().reply().)"""
        return self.begin(conversation, text, gbnf=forward.grammar(reply))

    def begin_endless(self, conversation, text='Count.', tokens=1500):
        """begin() of a reply that goes on: with daemon=SLOW about 15 seconds."""
        return self.begin(conversation, text, ignore_eos=True, max_tokens=tokens)

    def idle(self, conversation):
        """Waits until nothing is written in it, and tells it."""
        deadline = time.monotonic() + LONG
        while True:
            told = self.conversation(conversation, turns=1)
            if not told.get('busy') and not told.get('writing'):
                return told
            need(time.monotonic() < deadline, 'the reply does not end')
            time.sleep(browsers.PAUSE)

    # ---- much ----

    def many(self, n, **fields):
        """Opens n conversations, titled 'Conversation 0', ..., and returns their ids. (The daemon takes more than 10,000 with --max-conversations.)"""
        sys.path.insert(0, os.path.join(BUILD, 'client/python'))
        import confab # pylint: disable=import-outside-toplevel,import-error

        async def open_all():
            ids = [0] * n
            async with await confab.Client.connect(self.daemon_socket) as client:
                async def work(mine):
                    for i in mine:
                        made = await client.open(about={'title': f'Conversation {i}', **fields.get('about', {})},
                                                 **{name: value for name, value in fields.items() if name != 'about'})
                        ids[i] = made.id
                numbers = iter(range(n))
                await asyncio.gather(*[work(numbers) for _ in range(IN_FLIGHT)])
            return ids

        return asyncio.run(open_all())

    def long(self, n, text='Message {}', reply='Reply {}', **fields):
        """A conversation of n turns, which are read at once. It takes a model of enough context: model=rig.LONG_MODEL, with about 17 tokens for a turn.
        (For a turn of a megabyte: front().rewrite().)"""
        made = self.opened(**fields)
        messages = [{'role': 'assistant' if i % 2 else 'user', 'text': (reply if i % 2 else text).format(i)} for i in range(n)]
        self.say(made, None, messages=messages, max_tokens=0)
        return self.conversation(made)

    # ---- the browser ----

    def start_browser(self):
        self.browser = browsers.Browser(self.folder)

    def page(self):
        """One more tab; a test is given its first."""
        return self.browser.page()

    def axe(self, page, context=None, **options):
        """Fails with all that axe-core finds; skips the test where it was not fetched."""
        if not axe.source():
            raise Skip(axe.MISSING)
        found = page.axe(axe.source(), context, **options)
        need(not found, 'axe-core found:\n  ' + '\n  '.join(found))

    def libs(self):
        """Which of Debian's packages the gateway has: {'markdown-it': True, ...}."""
        told = self.ok(self.get('/page/libs.json'))
        return {name: bool(told.get(file)) for name, file in LIBS.items()}


def missing():
    """Why nothing can run here; None: it can."""
    if not os.path.exists(gateway_rig.MODEL):
        return f'no {gateway_rig.MODEL}'
    return browsers.missing()


def skip(words):
    """For tests: ends this one, which is then said at the end of the run."""
    raise Skip(words)


def only_full():
    """Ends this test but in a run that has hours."""
    if not FULL:
        skip('only with CONFAB_TEST_FULL (tools/check --full)')


def keep_failure(r, name):
    """What is to be seen of a test that failed."""
    os.makedirs(FAILURES, exist_ok=True)
    base = os.path.join(FAILURES, f'{os.path.basename(sys.argv[0]).removesuffix(".py")}.{name}')
    with contextlib.suppress(Exception):
        for i, page in enumerate(r.browser.pages):
            page.screenshot(f'{base}{f"-{i + 1}" if i else ""}.png')
    with open(base + '.txt', 'w', encoding='utf-8') as f:
        f.write(traceback.format_exc())
        with contextlib.suppress(Exception):
            f.writelines(f'{level} {text}\n' for level, text in r.browser.said())
            for page in r.browser.pages:
                f.write(f'\n{page.url}\n{page.js("document.documentElement.outerHTML")}\n')
        f.write(f'\ngateway: {r.gateway.said() if r.gateway else r.gateway_said}\n')
        f.writelines(f'\n{program.name}: {program.said()}\n' for program in r.daemons.values())
    return base


class Run:
    """The tests of a file."""

    def __init__(self, names):
        chosen = sys.argv[6:]
        self.tests = [(name, fn) for name, fn in names.items() if name.startswith('test_') and (not chosen or name in chosen)]
        self.failed, self.skipped = [], []

    def one(self, r, name, fn):
        began = time.monotonic()
        try:
            self._call(r, fn)
            print(f'ok: {name} ({time.monotonic() - began:.1f} s)', flush=True)
        except Skip as why:
            self.skipped.append(f'{name}: {why}')
            print(f'SKIP: {name}: {why}', flush=True)
        except Exception: # pylint: disable=broad-except
            self.failed.append(name)
            print(f'FAILED: {name} ({time.monotonic() - began:.1f} s)\n{traceback.format_exc()}\nto be seen in {keep_failure(r, name)}.*', flush=True)

    @staticmethod
    def _call(r, fn):
        if not r.browser:
            fn(r)
            return
        try:
            r.browser.fresh()
        except Exception: # pylint: disable=broad-except
            # It died with the test before.
            r.browser.close()
            r.start_browser()
        if len(inspect.signature(fn).parameters) == 1:
            fn(r)
        else:
            page = r.page()
            fn(r, page)
        r.browser.clean()

    def end(self):
        if self.failed or not self.tests:
            sys.exit(f'FAILED: {len(self.failed)} of {len(self.tests)}: {self.failed}')
        if len(self.skipped) == len(self.tests):
            sys.exit(77)


def begin(main):
    """Calls main() if a browser can run here."""
    why = missing()
    if why:
        print(f'SKIP: {why}')
        sys.exit(77)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # meson ends what takes too long in this way: what was started ends as well
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()


def run(names, daemon=(), gateway=(), model=None, browser=True):
    """Runs the test_ functions of `names`; `daemon`, `gateway`: flags, or None for without one. `model`: a path, or a tuple of make_model()'s
    arguments. A file all of whose tests are skipped is skipped."""
    begin(lambda: run_tests(names, daemon, gateway, model, browser))


def run_tests(names, daemon, gateway, model, browser):
    tests = Run(names)
    with Rig() as r:
        if daemon is not None:
            r.start_daemon(*daemon, model=r.make_model(*model) if isinstance(model, tuple) else model)
        if gateway is not None:
            r.start_gateway(*gateway)
        if browser:
            r.start_browser()
        for name, fn in tests.tests:
            tests.one(r, name, fn)
    tests.end()
