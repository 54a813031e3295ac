#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speed.py: how long it takes to open and to scroll what is long, and that nothing jumps. Times are printed, and what makes them is tested: how much
is asked for and drawn. Beside each time of a long conversation is that of an empty one, in the same page."""
import statistics
import sys

sys.dont_write_bytecode = True
import rig
from rig import need

FAST = ('tiny:mamba', '65536') # it reads 40,000 tokens in a second
TURNS = 2000
ROUNDS = 5
MOST_TASK = 10_000 # ms: a page that blocks for so long is broken on any machine

# Runs in each document: when what is asked for by __wanted (kept in sessionStorage) was painted, since the navigation began.
CLOCK = '''
(() => {
  const there = () => document.querySelector('.talk-scroll')?.getAttribute('aria-busy') === 'false' &&
    document.querySelector(sessionStorage.getItem('test.wanted'))?.getClientRects().length > 0;
  window.__painted = new Promise(resolve => {
    const look = () => there() ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now()))) : requestAnimationFrame(look);
    requestAnimationFrame(look);
  });
})();
'''
LAST, EMPTY = f'.turn[data-turn="{TURNS - 1}"]', '.talk-empty'


def median(values):
    return f'{statistics.median(values):.0f} ms ({", ".join(f"{one:.0f}" for one in values)})'


def loads(r, page, conversation, wanted):
    """Loads the page at a conversation and tells when it was there."""
    page.run('sessionStorage.setItem("test.wanted", b); location.hash = `#/c/${a}`;', conversation['id'], wanted)
    page.reload()
    return page.run('return window.__painted;')


def opens(page, conversation, wanted):
    """Opens a conversation in a page that is there, likewise."""
    return page.run('''
      const from = performance.now();
      location.hash = `#/c/${a}`;
      while (!(document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false' && document.querySelector(b)))
        await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - from;''', conversation['id'], wanted)


def busy(page):
    """The longest task, printed by whoever asks."""
    longest = page.longest_task()
    need(longest < MOST_TASK, f'a task of {longest} ms')
    return f'longest task {longest:.0f} ms' if longest else 'no task of 50 ms'


def test_large_opens(r, page):
    long, empty = r.long(TURNS, about={'title': 'Long'}), r.opened(about={'title': 'Empty'})
    page.cdp('Page.addScriptToEvaluateOnNewDocument', source=CLOCK)
    r.show(page, empty)
    loaded = {EMPTY: [], LAST: []}
    opened = {EMPTY: [], LAST: []}
    for _ in range(ROUNDS):
        for conversation, wanted in (empty, EMPTY), (long, LAST):
            loaded[wanted].append(loads(r, page, conversation, wanted))
    print(f'the page loaded at a conversation of {TURNS:,} turns: {median(loaded[LAST])}; {busy(page)}', flush=True)
    print(f'the page loaded at an empty conversation: {median(loaded[EMPTY])}', flush=True)
    for _ in range(ROUNDS):
        for conversation, wanted in (empty, EMPTY), (long, LAST):
            opened[wanted].append(opens(page, conversation, wanted))
    print(f'{TURNS:,} turns opened: {median(opened[LAST])}; an empty one: {median(opened[EMPTY])}; {busy(page)}', flush=True)
    # what is behind these figures: one request of little, few turns
    r.go(page, empty)
    r.browser.requests()
    r.browser.asked.clear()
    r.go(page, long)
    page.wait(f"document.querySelector('{LAST}')", 'the end')
    page.frames(4)
    asked = r.browser.requests(f'/conversations/{long["id"]}')
    there = page.js("document.querySelectorAll('.turn').length")
    need(0 < len(asked) <= 3, [one['url'] for one in asked])
    need(there <= 120, f'{there} turns are there')
    # the end is in view, and stays there
    gap = page.js("(one => one.scrollHeight - one.scrollTop - one.clientHeight)(document.querySelector('.talk-scroll'))")
    need(abs(gap) < 2, gap)
    page.press('n')
    page.wait("location.hash === '#/'", 'a new one')


# Goes up as fast as turns come. What is at the top of the view may only go where it is scrolled to.
UP = '''
  const scroller = document.querySelector('.talk-scroll');
  const frame = () => new Promise(requestAnimationFrame);
  const first = () => Number(document.querySelector('.turn')?.dataset.turn ?? -1);
  let jump = 0, pages = 0, most = 0, worst = '';
  const from = performance.now();
  while (first() > 0) {
    const before = first();
    scroller.scrollTop = Math.min(scroller.scrollTop, 600);
    const top = scroller.getBoundingClientRect().top;
    const seen = [...document.querySelectorAll('.turn')].find(one => one.getBoundingClientRect().bottom > top + 1);
    const at = seen.getBoundingClientRect().top;
    while (first() === before)
      await frame();
    await frame();
    await frame();
    const moved = Math.abs(seen.getBoundingClientRect().top - at);
    if (moved > jump)
      [jump, worst] = [moved, `turn ${seen.dataset.turn} at ${before}`];
    pages++;
    most = Math.max(most, document.querySelectorAll('.turn').length);
  }
  return {jump, worst, pages, most, took: performance.now() - from};'''


def test_large_scrolls(r, page):
    long = r.long(TURNS, reply='{}:\n\n- one\n- two', about={'title': 'Up'})
    r.show(page, long)
    page.wait(f"document.querySelector('{LAST}')", 'the end')
    page.forget()
    r.browser.asked.clear()
    told = page.run(UP)
    asked = r.browser.requests(f'/conversations/{long["id"]}')
    print(f'scrolled up through {TURNS:,} turns: {told["took"]:.0f} ms, {len(asked)} requests, {told["most"]} turns there at the end, '
          f'largest jump {told["jump"]:.1f} px; {busy(page)}', flush=True)
    need(told['jump'] < 3, f'what is in view jumped by {told["jump"]} px: {told["worst"]}')
    need(len(asked) <= TURNS / 20, len(asked))
    numbers = page.js("[...document.querySelectorAll('.turn')].map(one => Number(one.dataset.turn))")
    need(numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[0] == 0, 'each turn is there once, in order')
    page.forget()
    page.run("document.querySelector('.talk-scroll').focus();")
    page.press('Home')
    page.wait("document.querySelector('.talk-scroll').scrollTop === 0", 'the beginning')

    def end():
        page.press('End')
        return page.js("(one => one.scrollHeight - one.scrollTop - one.clientHeight < 2)(document.querySelector('.talk-scroll'))")
    page.wait(end, 'the end')
    print(f'Home and End in all of them: {busy(page)}', flush=True)
    # an address leads into the middle
    took = page.run('''
      const from = performance.now();
      location.hash = `#/c/${a}/1000`;
      while (document.activeElement?.dataset?.turn !== '1000')
        await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - from;''', long['id'])
    box = page.js("document.activeElement.getBoundingClientRect().toJSON()")
    need(0 <= box['top'] < 800, box)
    print(f'to turn 1,000 of them: {took:.0f} ms', flush=True)


def test_large_leaves(r, page):
    """Who has been in a long conversation and goes elsewhere takes nothing of it along."""
    long, empty = r.long(TURNS, about={'title': 'Long'}), r.opened(about={'title': 'Empty'})
    r.show(page, empty)
    before = page.figures()
    for _ in range(3):
        r.go(page, long)
        page.wait(f"document.querySelector('{LAST}')", 'the end')
        page.run("document.querySelector('.talk-scroll').scrollTop = 0;")
        page.wait(f"Number(document.querySelector('.turn').dataset.turn) < {TURNS - 60}", 'older turns')
        r.go(page, empty)
    page.wait(lambda: page.figures()['Nodes'] < before['Nodes'] + 2000, 'what was there is gone')


# ---- many conversations ----

# From the reload to the first rows, and to all of them; then the list from its beginning to its end in 60 frames.
ROWS = '''
(() => {
  window.__rows = new Promise(resolve => {
    const look = () => document.querySelector('#list li .row-title')?.textContent
      ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now()))) : requestAnimationFrame(look);
    requestAnimationFrame(look);
  });
})();
'''
DOWN = '''
  const scroller = document.querySelector('.list-scroll');
  const frame = () => new Promise(requestAnimationFrame);
  const from = performance.now();
  let holes = 0;
  for (let i = 1; i <= 60; i++) {
    scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) * i / 60;
    await frame();
    await frame();
    const box = scroller.getBoundingClientRect();
    for (const y of [box.top + 30, (box.top + box.bottom) / 2, box.bottom - 30])
      holes += document.elementFromPoint(box.left + 60, y)?.closest('li') ? 0 : 1;
  }
  return {took: performance.now() - from, holes, rows: document.querySelectorAll('#list li').length,
    last: [...document.querySelectorAll('#list li')].at(-1).querySelector('a').getAttribute('href')};'''


def many(r, page, n, oldest):
    page.cdp('Page.addScriptToEvaluateOnNewDocument', source=ROWS)
    r.show(page)
    times = []
    for _ in range(ROUNDS):
        page.reload()
        times.append(page.run('return window.__rows;'))
    whole = page.run('''
      while (!(await import(new URL('page/js/store.js', document.baseURI))).store.complete)
        await new Promise(requestAnimationFrame);
      return performance.now();''')
    print(f'{n:,} conversations: first rows {median(times)}, all known after {whole:.0f} ms; {busy(page)}', flush=True)
    need(page.js("document.querySelectorAll('#list li').length") < 60, 'only the rows in view are elements')
    height = page.js("document.querySelector('.list-rows').getBoundingClientRect().height / a", n)
    need(40 < height < 80, f'each has its place: {height}')
    page.forget()
    told = page.run(DOWN)
    print(f'{n:,} conversations from top to bottom in 60 steps: {told["took"]:.0f} ms; {busy(page)}', flush=True)
    need(told['holes'] == 0 and told['rows'] < 60, told)
    need(told['last'] == f'#/c/{oldest}', (told, oldest))


def test_many_1000(r, page):
    r.clear()
    ids = r.many(1000)
    many(r, page, 1000, min(ids))


def test_many_10000(r, page):
    rig.only_full()
    n = len(r.all())
    ids = r.many(10000 - n)
    need(len(ids) == 10000 - n, len(ids))
    many(r, page, 10000, min(one['id'] for one in r.all()))


# ---- memory that comes back ----

def asks(page):
    """From Enter to the first words of the reply."""
    return page.run('''
      const n = document.querySelectorAll('.turn').length, from = performance.now();
      document.querySelector('#send').click();
      while (!document.querySelectorAll('.turn')[n + 1]?.querySelector('.turn-body').textContent)
        await new Promise(requestAnimationFrame);
      return performance.now() - from;''')


def test_back_from_disk(r, page):
    """A conversation that was put out of RAM is opened and goes on: what was on disk is not computed again."""
    made = r.opened(about={'title': 'Back'})
    r.say(made, 'The quick brown fox jumps over the lazy dog. ' * 80, max_tokens=8)
    r.show(page, made)
    told = {}
    for where, field in ('RAM', 'n_ram'), ('disk', 'n_disk'):
        if where == 'disk':
            need(r.verb(made, 'evict')['residency'] == 'spilled', 'it is on disk')
        n = page.js("document.querySelectorAll('.turn').length")
        page.insert('Go on.', '#message')
        took = asks(page)
        page.wait(f"document.querySelectorAll('.turn-memory').length === {n // 2 + 1} && !document.querySelector('[aria-busy=\"true\"].turn')", 'it is over')
        r.idle(made)
        run = r.conversation(made, turns=1)['turns'][-1]['run']
        told[where] = run
        print(f'{run[field]:,} tokens from {where}: first words after {took:.0f} ms, of which {run["restore_usec"] / 1000:.1f} ms to bring them back '
              f'and {run["prefill_usec"] / 1000:.1f} ms to compute {run["n_computed"]}', flush=True)
        need(run[field] > 700 and run['n_computed'] < 64, run)
    need(told['disk']['n_ram'] < told['RAM']['n_ram'], told)


ALL = {name: test for name, test in globals().items() if name.startswith('test_')}
chosen = sys.argv[6:]
for back, how in (False, {'model': FAST, 'daemon': ('--max-conversations', '20000')}), (True, {}):
    tests = {name: test for name, test in ALL.items() if name.startswith('test_back') == back and name in (chosen or ALL)}
    if tests:
        rig.run(tests, **how)
