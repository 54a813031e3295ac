# SPDX-License-Identifier: MIT
"""A headless Chromium for tests, by selenium and the DevTools protocol.

    with Browser(folder) as browser:
        page = browser.page()                # a tab
        page.open('http://127.0.0.1:8080/')
        page.role('button', 'Send').click()
        page.wait("document.title === 'x'", 'the title changes')
        browser.clean()                      # no console errors, no violations of the policy, no requests to others

What a page says (console, errors, violations of its Content-Security-Policy) and asks for is kept until clean() has looked at it;
page.expect(PATTERN) names what is fine. All waits end as soon as what they wait for is there, and fail after LONG seconds.

The browser can reach this machine alone. When it is left, nothing of it stays: no process, no file.
"""
import base64
import collections
import contextlib
import ctypes
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse

LONG = 120 # seconds that nothing should take
PAUSE = 0.03 # between two looks
DRIVER_TRIES = 5
# The shell without windows is the same engine, and takes a quarter less of the processor.
CHROMIUM = '/usr/lib/chromium/chromium-headless-shell', '/usr/lib/chromium/chromium', '/usr/bin/chromium'
CHROMEDRIVER = '/usr/bin/chromedriver'
FLAGS = ('--headless=new', '--in-process-gpu', '--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update',
         '--disable-sync', '--disable-dev-shm-usage', '--disable-extensions', '--disable-breakpad', '--disable-crash-reporter', '--no-first-run',
         '--no-default-browser-check', '--no-proxy-server', '--disable-features=OptimizationHints,MediaRouter,Translate,DialMediaRouteProvider',
         '--force-color-profile=srgb', '--font-render-hinting=none', '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost')
MARK = 'confab-test:'

# To find tests that look before the page has drawn: each frame that it asks for comes so many ms late.
LATE_FRAMES = os.environ.get('CONFAB_TEST_LATE_FRAMES')
LATE = '{const real = requestAnimationFrame; window.requestAnimationFrame = fn => setTimeout(() => real(fn), %d);}'

# Runs in each document before its own scripts. Entries are kept in the page; violations go to the console, which is kept when a page reloads.
RECORDER = '''
(() => {
  const kept = {longtask: [], 'long-animation-frame': [], 'layout-shift': [], event: []};
  Object.defineProperty(window, '__kept', {value: kept});
  const say = what => console.debug('%s' + btoa(unescape(encodeURIComponent(JSON.stringify(what)))));
  addEventListener('securitypolicyviolation', e => say({directive: e.effectiveDirective, blocked: e.blockedURI, sample: e.sample,
    at: `${e.sourceFile}:${e.lineNumber}`}), true);
  const scripts = entry => (entry.scripts ?? []).map(one => ({duration: one.duration, invoker: one.invoker, source: one.sourceURL,
    name: one.sourceFunctionName, at: one.sourceCharPosition, layout: one.forcedStyleAndLayoutDuration}));
  const take = {
    longtask: entry => ({start: entry.startTime, duration: entry.duration}),
    'long-animation-frame': entry => ({start: entry.startTime, duration: entry.duration, blocking: entry.blockingDuration, scripts: scripts(entry)}),
    'layout-shift': entry => ({start: entry.startTime, value: entry.value, input: entry.hadRecentInput, sources: entry.sources.map(one => ({
      node: one.node?.nodeType === 1 ? one.node.outerHTML.slice(0, 120) : String(one.node?.nodeName), from: one.previousRect.y, to: one.currentRect.y}))}),
    event: entry => ({start: entry.startTime, duration: entry.duration, name: entry.name, delay: entry.processingStart - entry.startTime}),
  };
  for (const type of Object.keys(take))
    new PerformanceObserver(list => kept[type].push(...list.getEntries().map(take[type])))
      .observe({type, buffered: true, durationThreshold: 16});
})();
''' % MARK

KEYS = {'Control': 'CONTROL', 'Shift': 'SHIFT', 'Alt': 'ALT', 'Meta': 'META', 'Enter': 'ENTER', 'Escape': 'ESCAPE', 'Tab': 'TAB', 'Space': 'SPACE',
        'Backspace': 'BACKSPACE', 'Delete': 'DELETE', 'ArrowUp': 'ARROW_UP', 'ArrowDown': 'ARROW_DOWN', 'ArrowLeft': 'ARROW_LEFT',
        'ArrowRight': 'ARROW_RIGHT', 'Home': 'HOME', 'End': 'END', 'PageUp': 'PAGE_UP', 'PageDown': 'PAGE_DOWN', 'F2': 'F2', 'F6': 'F6'}


def missing():
    """What a browser needs and is not here; None: nothing."""
    if not any(os.access(path, os.X_OK) for path in CHROMIUM):
        return 'no chromium here'
    if not os.access(CHROMEDRIVER, os.X_OK):
        return 'no chromedriver here'
    if not importlib.util.find_spec('selenium'):
        return 'no python3-selenium here'
    if not os.access('/proc/self/stat', os.R_OK):
        return 'no /proc here, which chromium needs'
    try:
        socket.getaddrinfo('localhost', None)
    except OSError: # such as in a fresh chroot without /etc/hosts
        return 'localhost has no address here, which chromedriver needs'
    return None


def need(ok, words):
    if not ok:
        raise AssertionError(words)


# ---- processes ----

def stat_of(pid):
    """(parent, time of its start) of a process, or None."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
            fields = f.read().rpartition(') ')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), fields[19]


def descendants(pid):
    """Processes below one, with the times of their starts: a number that is used again is another process."""
    children = collections.defaultdict(list)
    for name in os.listdir('/proc'):
        stat = name.isdigit() and stat_of(name)
        if stat:
            children[stat[0]].append((int(name), stat[1]))
    found, pending = [], [pid]
    while pending:
        below = children[pending.pop()]
        found += below
        pending += [one for one, _ in below]
    return found


def adopt_orphans():
    """What a driver leaves behind becomes a child of this process, which can then wait for its end."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER


def end_all(processes):
    """Ends these processes and waits until they are gone."""
    for pid, start in processes:
        stat = stat_of(pid)
        if stat and stat[1] == start:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + LONG
    for pid, start in processes:
        while True:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            stat = stat_of(pid)
            if not stat or stat[1] != start:
                break
            need(time.monotonic() < deadline, f'process {pid} does not end')
            time.sleep(PAUSE)


# ---- the browser ----

class Browser:
    """Chromedriver with its Chromium, in `folder`, and the pages that tests look at."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, 'browser')
        self.pages, self.console, self.asked, self.expected, self.origins = [], [], [], [], set()
        self.statuses = {}
        self.current, self.driver, self.process = None, None, None
        adopt_orphans()
        os.makedirs(self.folder + '/home')
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()

    def _start_driver(self, env):
        """The port of a driver; None: it ended. The port that it was given for IPv4 can be in use for IPv6, which it wants as well."""
        self.process = subprocess.Popen([CHROMEDRIVER, '--port=0', f'--log-path={self.folder}/driver.log'], env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            found = re.search(rb'started successfully on port (\d+)', line)
            if found:
                return int(found[1])
        self.process.stdout.close()
        self.process.wait()
        return None

    def _start(self):
        # urllib3, the driver and the browser talk with this machine alone.
        for name in list(os.environ):
            if name.lower().endswith('_proxy'):
                del os.environ[name]
        from selenium import webdriver # pylint: disable=import-outside-toplevel
        from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection # pylint: disable=import-outside-toplevel
        env = {name: value for name, value in os.environ.items() if not name.startswith(('XDG_', 'DBUS_', 'DISPLAY', 'WAYLAND'))}
        env.update(HOME=self.folder + '/home', TMPDIR=self.folder, LANG='C.UTF-8', LANGUAGE='en')
        port = next(filter(None, (self._start_driver(env) for _ in range(DRIVER_TRIES))), None)
        need(port, f'chromedriver does not start, {DRIVER_TRIES} times')
        options = webdriver.ChromeOptions()
        options.binary_location = next(path for path in CHROMIUM if os.access(path, os.X_OK))
        # The driver makes a profile in TMPDIR; the shell shows no page with one that it is given.
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
        options.add_experimental_option('perfLoggingPrefs', {'enableNetwork': True, 'enablePage': False})
        connection = ChromiumRemoteConnection(f'http://127.0.0.1:{port}', 'goog', 'chrome', keep_alive=True, ignore_proxy=True)
        self.driver = webdriver.Remote(command_executor=connection, options=options)
        self.driver.set_script_timeout(LONG)
        self.driver.set_page_load_timeout(LONG)
        self.first = self.driver.current_window_handle

    def close(self):
        """Ends everything that was started and removes what it wrote."""
        if not self.process:
            return
        began = descendants(self.process.pid)
        if self.driver:
            with contextlib.suppress(Exception):
                self.driver.quit()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LONG)
        end_all(began)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process = self.driver = None
        # What it forked last may still have put something there.
        for _ in range(3):
            shutil.rmtree(self.folder, ignore_errors=True)
        need(not os.path.exists(self.folder), f'{self.folder} is still there')

    # ---- pages ----

    def page(self):
        """A new tab. It shares localStorage with others of its origin, as tabs do."""
        return Page(self)

    def execute(self, command, **params):
        """A command of the DevTools protocol, to the page that is looked at."""
        return self.driver.execute('executeCdpCommand', {'cmd': command, 'params': params})['value']

    def look_at(self, handle):
        if self.current != handle:
            self.driver.switch_to.window(handle)
            self.current = handle

    def fresh(self):
        """Closes all pages, and forgets what they said and stored."""
        for page in list(self.pages):
            page.close()
        for origin in self.origins:
            self.execute('Storage.clearDataForOrigin', origin=origin, storageTypes='all')
        self.collect()
        self.console, self.asked, self.expected, self.statuses, self.origins = [], [], [], {}, set()

    # ---- what pages said ----

    def collect(self):
        for entry in self.driver.get_log('browser'):
            found = re.search(MARK + r'([\w+/=]+)', entry['message'])
            if found:
                told = json.loads(base64.b64decode(found[1]))
                self.console.append(('VIOLATION', f'{told["directive"]} blocked {told["blocked"]} at {told["at"]}: {told["sample"]}'))
            else:
                self.console.append((entry['level'], entry['message']))
        for entry in self.driver.get_log('performance'):
            message = json.loads(entry['message'])['message']
            params = message['params']
            if message['method'] == 'Network.requestWillBeSent':
                request = params['request']
                self.asked.append({'id': params['requestId'], 'method': request['method'], 'url': request['url'], 'headers': request['headers'],
                                   'body': request.get('postData'), 'page': params['documentURL']})
            elif message['method'] == 'Network.webSocketCreated':
                self.asked.append({'id': params['requestId'], 'method': 'WS', 'url': params['url'], 'headers': {}, 'body': None, 'page': ''})
            elif message['method'] == 'Network.responseReceived':
                self.statuses[params['requestId']] = params['response']['status']

    def said(self):
        """What pages wrote to the console since the last clean(), as (level, text)."""
        self.collect()
        return list(self.console)

    def requests(self, pattern='.'):
        """Requests since the last clean() whose address has the pattern: method, url, headers, body, status (None without an answer)."""
        self.collect()
        return [{**one, 'status': self.statuses.get(one['id'])} for one in self.asked if re.search(pattern, one['url'])]

    def foreign(self):
        """Addresses that were asked for and lie elsewhere than what was opened."""
        self.collect()
        return [one['url'] for one in self.asked if urllib.parse.urlsplit(one['url']).scheme in ('http', 'https', 'ws', 'wss', 'ftp') and
                '{0.scheme}://{0.netloc}'.format(urllib.parse.urlsplit(one['url'])) not in self.origins]

    def faults(self):
        """Warnings, errors and violations that nobody expected, and requests to others."""
        self.collect()
        faults = [f'{level}: {text}' for level, text in self.console if level in ('WARNING', 'SEVERE', 'VIOLATION') and
                  not any(re.search(pattern, text) for pattern in self.expected)]
        return faults + [f'request to another host: {url}' for url in self.foreign() if not any(re.search(pattern, url) for pattern in self.expected)]

    def clean(self):
        """Fails if there was anything wrong, and forgets it."""
        faults = self.faults()
        self.console, self.asked, self.statuses = [], [], {}
        need(not faults, 'the page is not clean:\n  ' + '\n  '.join(faults[:20]))


class Page:
    """A tab."""

    def __init__(self, browser):
        self.browser, self.driver = browser, browser.driver
        browser.look_at(browser.first)
        self.driver.switch_to.new_window('tab')
        self.handle = browser.current = self.driver.current_window_handle
        browser.pages.append(self)
        self.features = {}
        self.cdp('Page.addScriptToEvaluateOnNewDocument', source=RECORDER)
        if LATE_FRAMES:
            self.cdp('Page.addScriptToEvaluateOnNewDocument', source=LATE % int(LATE_FRAMES))
        self.size(1280, 800)

    def look(self):
        self.browser.look_at(self.handle)
        return self.driver

    def cdp(self, command, **params):
        """A command of the DevTools protocol."""
        self.look()
        return self.browser.execute(command, **params)

    def close(self):
        self.look().close()
        self.browser.current = None
        self.browser.pages.remove(self)
        self.browser.look_at(self.browser.first)

    # ---- where and how ----

    def open(self, url):
        """Loads an address. Requests to its origin are no others'."""
        self.browser.origins.add('{0.scheme}://{0.netloc}'.format(urllib.parse.urlsplit(url)))
        self.look().get(url)

    def reload(self):
        self.look().refresh()

    def back(self):
        self.look().back()

    def forward(self):
        self.look().forward()

    @property
    def url(self):
        return self.look().current_url

    @property
    def title(self):
        return self.look().title

    def size(self, width, height, scale=1, touch=False):
        """Of what is seen, in CSS px. `scale` of 2 with half of the size is a zoom of 200 %."""
        self.cdp('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=scale, mobile=touch)
        self.cdp('Emulation.setTouchEmulationEnabled', enabled=touch)

    def media(self, **features):
        """media(prefers_color_scheme='dark', forced_colors='active'); '' takes one back."""
        self.features.update({name.replace('_', '-'): value for name, value in features.items()})
        self.cdp('Emulation.setEmulatedMedia', features=[{'name': name, 'value': value} for name, value in self.features.items()])

    def theme(self, name):
        """What the system has: 'dark' or 'light'."""
        self.media(prefers_color_scheme=name)

    def reduced_motion(self, on=True):
        self.media(prefers_reduced_motion='reduce' if on else 'no-preference')

    def language(self, tag):
        """What the browser asks for, from the next load on: 'de-DE'. (The page's own choice is localStorage's confab.language.)"""
        agent = self.js('navigator.userAgent')
        self.cdp('Emulation.setUserAgentOverride', userAgent=agent, acceptLanguage=tag)
        self.cdp('Emulation.setLocaleOverride', locale=tag)

    def offline(self, on=True):
        self.cdp('Network.emulateNetworkConditions', offline=on, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def grant(self, *permissions):
        """grant('clipboardReadWrite', 'clipboardSanitizedWrite')."""
        self.cdp('Browser.grantPermissions', permissions=list(permissions))

    def expect(self, *patterns):
        """What clean() overlooks until the next fresh(): patterns of console lines, or of addresses elsewhere."""
        self.browser.expected += patterns

    # ---- scripts ----

    def js(self, expression, *args):
        """The value of an expression, or of its promise. The arguments are a, b, c, d."""
        return self.run(f'return {expression};', *args)

    def run(self, body, *args):
        """What an async function with this body returns. The arguments are a, b, c, d."""
        return self.look().execute_script(f'return (async (a, b, c, d) => {{ {body} }})(...arguments);', *args)

    def wait(self, what, words, limit=LONG, args=()):
        """Waits until an expression, or a function, gives something that is true, and returns it. What throws is not true."""
        deadline, pause, last = time.monotonic() + limit, PAUSE, None
        while True:
            try:
                last = what() if callable(what) else self.js(what, *args)
                if last:
                    return last
            except Exception as error: # pylint: disable=broad-except
                last = error
            need(time.monotonic() < deadline, f'it does not happen: {words} (last: {str(last)[:300]})')
            time.sleep(pause)
            pause = min(0.1, pause * 1.2)

    def frames(self, n=2):
        """Waits until so many frames were drawn."""
        self.run('for (let i = 0; i < a; i++) await new Promise(requestAnimationFrame);', n)

    # ---- what is there ----

    def all(self, css):
        """Elements now."""
        return self.look().find_elements('css selector', css)

    def one(self, css, limit=LONG):
        """The first element, as soon as it is there and seen."""
        return self.wait(lambda: next((one for one in self.all(css) if one.is_displayed()), None), f'{css} is seen', limit)

    def gone(self, css, limit=LONG):
        """Waits until no such element is seen."""
        self.wait(lambda: not any(one.is_displayed() for one in self.all(css)), f'{css} is gone', limit)

    def text(self, css):
        """Of the first element that is seen."""
        return self.one(css).text

    def texts(self, css):
        return [one.text for one in self.all(css)]

    def roles(self, role, name=None, below=None):
        """Elements now, by what assistive technology is told: role('button', 'Send'); the name may be a compiled pattern. `below`: an element."""
        self.look()
        asked = {'role': role, **({'accessibleName': name} if isinstance(name, str) else {})}
        if below:
            self.driver.execute_script('window.__below = arguments[0];', below)
        root = self.cdp('Runtime.evaluate', expression='window.__below' if below else 'document')['result']['objectId']
        found = []
        for node in self.cdp('Accessibility.queryAXTree', objectId=root, **asked)['nodes']:
            told = node.get('name', {}).get('value', '')
            if node.get('ignored') or (isinstance(name, re.Pattern) and not name.search(told)):
                continue
            found.append(self._element(node['backendDOMNodeId']))
        return found

    def _element(self, node):
        one = self.cdp('DOM.resolveNode', backendNodeId=node)['object']['objectId']
        self.cdp('Runtime.callFunctionOn', objectId=one, functionDeclaration='function() { window.__found = this; }')
        return self.driver.execute_script('return window.__found;')

    def role(self, role, name=None, below=None, limit=LONG):
        """The first such element, as soon as it is there."""
        words = f'a {role} "{name.pattern if isinstance(name, re.Pattern) else name}"'
        return self.wait(lambda: next(iter(self.roles(role, name, below)), None), words, limit)

    def focused(self):
        """(role, name) of what has the focus, or None."""
        one = self.look().switch_to.active_element
        return None if one.tag_name in ('body', 'html') else (one.aria_role, one.accessible_name)

    # ---- input ----

    def click(self, css):
        self.one(css).click()

    def type(self, text, into=None):
        """Keys, one by one, into an element (or its CSS), or where the focus is."""
        one = self.one(into) if isinstance(into, str) else into
        (one or self.look().switch_to.active_element).send_keys(text)

    def insert(self, text, into=None):
        """A text at once, as an input method or the clipboard brings it."""
        if into:
            one = self.one(into) if isinstance(into, str) else into
            self.look().execute_script('arguments[0].focus();', one)
        self.cdp('Input.insertText', text=text)

    def press(self, *keys):
        """press('Control+Enter', 'Escape', 'j'): one after the other, where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains # pylint: disable=import-outside-toplevel
        from selenium.webdriver.common.keys import Keys # pylint: disable=import-outside-toplevel
        for key in keys:
            codes = [getattr(Keys, KEYS[part]) if part in KEYS else part for part in (key.split('+') if len(key) > 1 else [key])]
            chain = ActionChains(self.look(), duration=0)
            for code in codes:
                chain.key_down(code)
            for code in reversed(codes):
                chain.key_up(code)
            chain.perform()

    def put_files(self, css, *paths):
        """Chooses files in an <input type=file>, also in one that is not seen."""
        root = self.cdp('DOM.getDocument', depth=0)['root']['nodeId']
        node = self.cdp('DOM.querySelector', nodeId=root, selector=css)['nodeId']
        self.cdp('DOM.setFileInputFiles', files=list(paths), nodeId=node)

    def drop(self, css, files, kind='drop'):
        """Drops or pastes (kind 'paste') files, a list of (name, type, text), on an element."""
        self.run('''
          const data = new DataTransfer();
          for (const [name, type, text] of c)
            data.items.add(new File([text], name, {type}));
          const init = {bubbles: true, cancelable: true};
          if (b === 'paste')
            a.dispatchEvent(new ClipboardEvent('paste', {...init, clipboardData: data}));
          else
            for (const type of ['dragenter', 'dragover', 'drop'])
              a.dispatchEvent(new DragEvent(type, {...init, dataTransfer: data}));''', self.one(css), kind, files)

    # ---- figures ----

    def kept(self, type_):
        """Entries of the page's clock since it was loaded or forget(): 'longtask', 'long-animation-frame', 'layout-shift', 'event'."""
        return self.js('window.__kept[a]', type_)

    def forget(self):
        self.run('await new Promise(requestAnimationFrame); for (const list of Object.values(window.__kept)) list.length = 0;')

    def longest_task(self):
        """In ms; 0 if nothing took 50 ms."""
        return max((one['duration'] for one in self.kept('longtask')), default=0)

    def shifts(self):
        """Sum of what moved without being asked to (layout shifts), and where."""
        found = [one for one in self.kept('layout-shift') if not one['input']]
        return sum(one['value'] for one in found), found

    def figures(self):
        """Figures of the renderer after what is not needed was collected: JSHeapUsedSize, Nodes, JSEventListeners, ..."""
        self.cdp('Performance.enable')
        self.cdp('HeapProfiler.collectGarbage')
        return {one['name']: one['value'] for one in self.cdp('Performance.getMetrics')['metrics']}

    def screenshot(self, path, full=False):
        """A PNG of what is seen, or of all of the document."""
        data = self.cdp('Page.captureScreenshot', format='png', captureBeyondViewport=full)['data']
        with open(path, 'wb') as f:
            f.write(base64.b64decode(data))

    # ---- accessibility ----

    def axe(self, source, context=None, **options):
        """Violations that axe-core finds (axe.py gives its source), readable, one a string."""
        if not self.js("typeof axe === 'object'"):
            self.cdp('Runtime.evaluate', expression=source)
        found = self.run('''
          const told = await axe.run(a ?? document, {preload: false, resultTypes: ['violations'], ...b});
          return told.violations.flatMap(one => one.nodes.map(node => `${one.id} (${one.impact}): ${node.target.join(' ')}: ` +
            node.failureSummary.replace(/\\s+/g, ' ') + ` ${node.html.slice(0, 160)}`));''', context, options)
        return found
