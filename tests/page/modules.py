#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""modules.py: runs the modules of tests/page/modules/ in a browser, where the modules of the page are.

Each exports functions test_*, which are called with {base, load, need, near, language}: load('js/sse.js') imports a module of the page, need(ok, words)
and near(a, b, tolerance, words) throw, base is the address of the page's folder. The document has the page's style sheets, but not its
js/main.js: it is empty, and each file has one of its own. A file that exports `languages` is run in each of them.
[FILE[:TEST]...] behind the usual arguments chooses."""
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
import rig

MODULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'modules')
LIMIT = 60 # seconds for one test

PREPARE = '''
  const base = new URL('page/', document.baseURI);
  const need = (ok, words) => {
    if (!ok)
      throw new Error(typeof words === 'string' ? words : JSON.stringify(words));
  };
  const near = (a, b, tolerance, words) => need(Math.abs(a - b) <= tolerance, `${words}: ${a} is not near ${b}`);
  const load = path => import(new URL(path, base).href);
  window.__module = await load('tests/' + a);
  window.__given = {base: base.href, load, need, near, language: b};
  return {tests: Object.keys(window.__module).filter(name => name.startsWith('test_')), languages: window.__module.languages ?? null};
'''

RUN = '''
  const ends = new Promise((_, fail) => setTimeout(() => fail(new Error('it does not end')), b));
  try {
    await Promise.race([window.__module[a](window.__given), ends]);
    return null;
  } catch (error) {
    return error instanceof Error ? `${error.message}\\n${error.stack}` : String(error);
  }
'''


def copy_page(r):
    """The page's folder with the tests in it, and a document that is empty."""
    folder = r.folder + '/page'
    shutil.copytree(rig.PAGE, folder)
    shutil.copytree(MODULES, folder + '/tests')
    with open(folder + '/index.html', encoding='utf-8') as f:
        text = f.read()
    text = re.sub(r'\s*<script.*</script>', '', text)
    text = re.sub(r'<body>.*</body>', '<body></body>', text, flags=re.S)
    with open(folder + '/index.html', 'w', encoding='utf-8') as f:
        f.write(text)
    return folder


def begin(r, file, language):
    r.browser.fresh()
    page = r.page()
    page.open(r.url(token=None))
    if language:
        page.run("localStorage.setItem('confab.language', a); document.documentElement.lang = a;", language)
    return page, page.run(PREPARE, file, language or 'en')


def run_file(r, file, chosen, language=None):
    """Yields (name, what is wrong or None, what it said)."""
    page, told = begin(r, file, language)
    if language is None and told['languages']:
        for one in told['languages']:
            yield from run_file(r, file, chosen, one)
        return
    rig.need(told['tests'], f'{file} has no tests')
    for test in told['tests']:
        if chosen and test != chosen:
            continue
        name = f'{file} {test}' + (f' [{language}]' if language else '')
        try:
            wrong = page.run(RUN, test, LIMIT * 1000)
        except Exception as error: # pylint: disable=broad-except
            wrong = str(error)
        said = [text for level, text in r.browser.said() if level == 'INFO']
        faults = r.browser.faults()
        if wrong is None and faults:
            wrong = '\n  '.join(faults)
        yield name, wrong, said
        r.browser.console, r.browser.asked = [], []
        if wrong:
            page, told = begin(r, file, language)


def main():
    chosen = dict(one.partition(':')[::2] for one in sys.argv[6:])
    files = sorted(name for name in os.listdir(MODULES) if name.endswith('.js') and (not chosen or name in chosen))
    failed, n = [], 0
    with rig.Rig() as r:
        r.start_daemon()
        r.start_gateway('--page', copy_page(r))
        r.start_browser()
        for file in files:
            try:
                for name, wrong, said in run_file(r, file, chosen.get(file)):
                    n += 1
                    for line in said:
                        print('  ' + re.sub(r'^\S+ \S+ ', '', line))
                    print(f'FAILED: {name}\n  {wrong}' if wrong else f'ok: {name}', flush=True)
                    if wrong:
                        failed.append(name)
            except Exception as error: # pylint: disable=broad-except
                print(f'FAILED: {file}: {error}\nto be seen in {rig.keep_failure(r, file)}.*', flush=True)
                failed.append(file)
    if failed or not n:
        sys.exit(f'FAILED: {len(failed)} of {n}: {failed}')


rig.begin(main)
