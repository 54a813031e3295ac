#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memory.py: what the page tells of memory: the line below each reply, the strip with its table, what can be done with it, and what a user who
may not administer sees of it."""
import os
import re
import sys

sys.dont_write_bytecode = True
import rig
from rig import need

OTHER = 'token-of-another-user'
OTHER_UID = 1000
SOURCES = {'ram': 'n_ram', 'disk': 'n_disk', 'shared': 'n_shared', 'computed': 'n_computed'}
LONG_TEXT = 'The quick brown fox jumps over the lazy dog, and the dog sleeps on. ' * 6
DAEMON = '--trusted-users', str(os.getuid())
SLOW = (*rig.SLOW, '--max-active', '1')

# The line below a turn: the figures of each source, the bar's parts with their shares.
LINE = '''(turn => {
  const line = turn.querySelector('.turn-memory');
  return line && {text: line.innerText, height: line.getBoundingClientRect().height,
    told: Object.fromEntries([...line.querySelectorAll('span[data-source]')].map(one => [one.dataset.source, one.textContent])),
    bar: Object.fromEntries([...line.querySelectorAll('i')].map(one => [one.dataset.source, one.getBoundingClientRect().width]))};
})(document.querySelector(`.turn[data-turn="${a}"]`))'''
FIGURES = "Object.fromEntries([...document.querySelectorAll('.strip-figure')].map(one => [one.dataset.kind, one.textContent]))"
SEGMENTS = '''[...document.querySelectorAll('.strip-segment:not([hidden])')].map(one => ({kind: one.dataset.kind, title: one.title,
  width: one.getBoundingClientRect().width}))'''
TABLE = '''[...document.querySelectorAll('.strip-table tbody tr')].map(row => ({title: row.querySelector('.strip-title').textContent,
  residency: row.querySelector('.residency').dataset.residency, note: row.querySelector('.strip-name > .hint').textContent,
  ram: row.children[1].textContent, disk: row.children[2].textContent,
  shares: [1, 2].map(i => row.children[i].querySelector('.strip-share').getBoundingClientRect().width)}))'''


def size(page, n):
    """As the page writes bytes."""
    return page.run("return (await import(new URL('page/js/format.js', document.baseURI))).bytes(a);", n)


def line(page, turn):
    return page.js(LINE, turn)


def say(page, text):
    """A message as it is typed, and its reply, which is stored then."""
    n = page.js("document.querySelectorAll('.turn').length")
    page.insert(text, '#message')
    page.press('Enter')
    page.wait(f"document.querySelectorAll('.turn').length === {n + 2} && document.querySelectorAll('.turn')[{n + 1}].querySelector('.turn-memory')"
              f" && document.querySelectorAll('.turn')[{n + 1}].dataset.turn", 'the reply is over')


def notes(page, text):
    page.wait("[...document.querySelectorAll('#notes .note')].some(one => one.innerText.includes(a))", f'a note says "{text}"', args=[text])


# ---- the line below a reply ----

def told_rightly(r, page, conversation):
    """Below each reply is a line whose figures are those of its run; below nothing else."""
    for i, turn in enumerate(r.conversation(conversation, turns=1)['turns']):
        shown, run = line(page, i), turn.get('run')
        if not run:
            need(shown is None, (i, shown))
            continue
        wanted = {name: run[field] for name, field in SOURCES.items() if run[field] > 0}
        got = {name: int(re.sub(r'\D', '', text)) for name, text in shown['told'].items()}
        need(got == wanted, (i, got, wanted))
        need(sum(wanted.values()) == run['n_prompt'], run)
        need(f'{run["n_generated"]:,} token' in shown['text'], (shown, run))
        # the bar has the same parts, the largest one the widest
        need(set(shown['bar']) == set(wanted), (shown['bar'], wanted))
        need(max(shown['bar'], key=shown['bar'].get) == max(wanted, key=wanted.get), (shown['bar'], wanted))
        need(shown['height'] < 24, f'it is one quiet line: {shown["height"]}')


def source(r, conversation, name):
    return r.conversation(conversation, turns=1)['turns'][-1]['run'][SOURCES[name]]


def test_line(r, page):
    made = r.opened(about={'title': 'From everywhere'})
    r.show(page, made)
    say(page, LONG_TEXT)
    told_rightly(r, page, made)
    need(source(r, made, 'ram') == 0 and source(r, made, 'computed') > 0, 'the first prompt is computed')
    say(page, 'And what does the fox do?')
    told_rightly(r, page, made)
    need(source(r, made, 'ram') > 0 and 'from RAM' in line(page, 3)['text'], 'the second one has its beginning in RAM')
    r.verb(made, 'evict')
    say(page, 'And then?')
    told_rightly(r, page, made)
    need(source(r, made, 'disk') > 0 and 'from disk' in line(page, 5)['text'], 'the third one has it on disk')
    # another conversation that begins alike finds the memory of this one
    other = r.opened(about={'title': 'A relative'})
    r.go(page, other)
    say(page, LONG_TEXT)
    told_rightly(r, page, other)
    need(source(r, other, 'shared') > 0 and 'from a relative' in line(page, 1)['text'], 'that of a relative')
    # what a reload shows is the same
    seen = line(page, 1)
    page.reload()
    page.wait("document.querySelector('.turn[data-turn=\"1\"] .turn-memory')", 'the conversation is back')
    need(line(page, 1)['told'] == seen['told'] and line(page, 1)['text'] == seen['text'], (seen, line(page, 1)))
    r.go(page, made)
    told_rightly(r, page, made)


def test_line_of_others(r, page):
    """Replies that were asked for elsewhere have their line as well, those that were given and not written have none."""
    made = r.opened(about={'title': 'By the command'})
    page.expect('/attach.* 400') # it may be over before the page comes to it
    r.show(page, made)
    r.say(made, 'Hello!', max_tokens=8)
    page.wait("document.querySelector('.turn[data-turn=\"1\"] .turn-memory')", 'the reply of the command')
    told_rightly(r, page, made)
    # the page may come to a reply that is given before, while and after it is taken in
    for i in range(3, 17, 2):
        r.tell(made, 'Who wrote this?', f'Somebody else, {i}.')
        page.wait(f"document.querySelector('.turn[data-turn=\"{i}\"]')?.innerText.includes('Somebody else, {i}.')", 'what was given')
    told_rightly(r, page, made)
    need('run' not in r.conversation(made, turns=1)['turns'][3], 'nothing was written for it')


def test_said_meanwhile(r, page):
    """What others say while the page asks for what was stored of its own reply is not missed."""
    page.expect('/attach.* 400') # what others said may be over before the page comes to it
    front = r.front()
    made = r.opened(about={'title': 'Two at once'})
    r.show(page, made, url=front.url)
    front.reply('Mine.')
    page.insert('Many words. ' * 200, '#message')
    front.rate = 2000
    page.press('Enter')
    page.wait("document.querySelector('.turn[aria-busy=\"false\"]')?.innerText.includes('Mine.') && "
              "!document.querySelector('.turn[data-turn=\"1\"]')", 'the reply is over, and asked for')
    r.tell(made, 'In between?', 'Yes.')
    page.wait("document.querySelector('.turn[data-turn=\"1\"]')", 'it is stored')
    front.rate = None
    page.wait("document.querySelector('.turn[data-turn=\"3\"]')?.innerText.includes('Yes.')", 'what others said')


# ---- the strip ----

def agrees(r, page, tell, words):
    """Waits until what the page tells is what `tell(stats, conversations)` makes of the daemon's figures now."""
    last = [None, None]

    def same():
        last[:] = tell(r.ok(r.get('/confab/v1/stats')), r.all())
        return last[0] == last[1]
    try:
        page.wait(same, words)
    except AssertionError as error:
        raise AssertionError(f'{error}: {last[0]} is not {last[1]}') from None


def three(r):
    """Three conversations, each larger than the one before."""
    made = []
    for i, title in enumerate(('Small', 'Middle', 'Large')):
        made.append(r.opened(about={'title': title}))
        r.say(made[-1], f'{i} ' + LONG_TEXT * (3 * i + 1), max_tokens=2)
    return made


def test_strip(r, page):
    r.clear()
    three(r)
    r.show(page)

    def figures(stats, conversations):
        used = max(stats['ledger_used'], stats['pool_live_bytes'])
        wanted = {'used': f'{size(page, used)} of {size(page, stats["budget"])}', 'disk': f'{size(page, stats["spill_disk_bytes"])} on disk'}
        return page.js(FIGURES), wanted

    agrees(r, page, figures, 'the figures of the strip')

    def segments(stats, conversations):
        largest = sorted((one for one in conversations if one['ram_bytes'] > 0), key=lambda one: -one['ram_bytes'])
        wanted = [f'{one["about"]["title"]}: {size(page, one["ram_bytes"])}' for one in largest]
        return [one['title'] for one in page.js(SEGMENTS) if one['kind'] == 'conversation'], wanted

    agrees(r, page, segments, 'who holds how much')
    parts = page.js(SEGMENTS)
    kinds = [one['kind'] for one in parts]
    need(kinds[:3] == ['conversation'] * 3 and kinds[-1] == 'free', kinds)
    widths = [one['width'] for one in parts[:3]]
    need(widths == sorted(widths, reverse=True) and widths[0] > widths[2], widths)
    stats = r.ok(r.get('/confab/v1/stats'))
    whole = page.js("document.querySelector('.strip-pool').getBoundingClientRect().width")
    free = 1 - stats['ledger_used'] / stats['budget']
    need(abs(parts[-1]['width'] / whole - free) < 0.05, (parts, whole, free))
    label = page.one('.strip-bar').get_attribute('aria-label')
    need('Memory: ' in label and 'on disk' in label, label)
    r.verb(r.all()[0], 'evict')
    agrees(r, page, figures, 'the figures after one was put out')
    agrees(r, page, segments, 'who holds how much after one was put out')


def test_table(r, page):
    r.clear()
    made = three(r)
    r.verb(made[1], 'evict')
    r.show(page)
    page.wait("document.querySelectorAll('.strip-segment').length > 0 && document.querySelectorAll('#list li').length === 3", 'there are figures')
    page.click('.strip-bar')
    page.one('.strip-table')
    need(page.js("document.querySelector('.strip-bar').ariaExpanded") == 'true', 'the bar tells it')

    def table(stats, conversations):
        wanted = [(one['about']['title'], one['residency'], size(page, one['ram_bytes']), size(page, one['disk_bytes']))
                  for one in sorted(conversations, key=lambda one: (-one['ram_bytes'], -one['disk_bytes']))]
        return [(row['title'], row['residency'], row['ram'], row['disk']) for row in page.js(TABLE)], wanted

    # what is idle is written to disk, without a notice: the table comes to know it
    page.wait(lambda: all(one['disk_bytes'] > 0 for one in r.all()), 'all is on disk')
    agrees(r, page, table, 'the table')
    rows = page.js(TABLE)
    need([row['title'] for row in rows] == ['Large', 'Small', 'Middle'], rows)
    need(rows[0]['shares'][0] > rows[1]['shares'][0] > 0 and rows[2]['shares'][0] == 0, f'shares of RAM: {rows}')
    # a title leads there; Escape closes it, and the focus is where it was
    page.role('button', 'Small', page.one('.strip-table')).click()
    page.wait(f"location.hash === '#/c/{made[0]['id']}'", 'the conversation is open')
    if not page.roles('table'):
        page.click('.strip-bar')
    page.press('Escape')
    page.gone('.strip-panel')
    need(page.js("document.activeElement.classList.contains('strip-bar')"), page.focused())
    page.press('Enter')
    page.one('.strip-table')
    page.click('.talk-title')
    page.gone('.strip-panel')


def test_slow_speed(r, page):
    """Tokens a second while a reply runs, and nothing of it when it is over."""
    made = r.opened(about={'title': 'Counts'})
    r.show(page, made)
    page.wait(f"!('speed' in ({FIGURES}))", 'nothing runs')
    r.begin_endless(made)
    told = page.wait(f"'active' in ({FIGURES}) && ({FIGURES}).speed", 'the speed')
    speed = float(re.fullmatch(r'([\d,.]+) tokens/s', told)[1].replace(',', ''))
    need(0 < speed < 5000, told)
    need(page.js(FIGURES)['active'] == '1 at work', page.js(FIGURES))
    r.verb(made, 'cancel')
    page.wait(f"!('active' in ({FIGURES})) && !('speed' in ({FIGURES}))", 'it is over')
    r.idle(made)


def test_slow_queue(r, page):
    """One request at a time: the second one waits, and both the strip and the conversation say so."""
    first, second = r.opened(about={'title': 'First'}), r.opened(about={'title': 'Second'})
    r.begin_endless(first)
    r.show(page, second)
    page.insert('And I?', '#message')
    page.press('Enter')
    page.wait(f"({FIGURES}).queued === '1 waiting' && ({FIGURES}).active === '1 at work'", 'one waits')
    need('Waiting' in page.text('.talk-state'), page.text('.talk-state'))
    r.verb(first, 'cancel')
    page.wait(f"!('queued' in ({FIGURES})) && document.querySelector('.turn[data-turn=\"1\"] .turn-memory')", 'it is answered')
    need(int(r.conversation(second, turns=1)['turns'][1]['run']['queued_usec']) > 0, 'it waited')
    r.idle(first)


def test_pressure_of_figures(r, page):
    """Which figures say that memory is short."""
    front = r.front()
    stats = r.ok(r.get('/confab/v1/stats'))
    r.show(page, url=front.url)
    page.wait(f"({FIGURES}).used", 'there are figures')
    need('pressure' not in page.js(FIGURES), page.js(FIGURES))
    for changed in {'budget': stats['budget_max'] // 2}, {'budget_asked': stats['budget_max'] // 2}:
        front.answer('GET /confab/v1/stats$', 200, {**stats, **changed})
        page.wait(f"({FIGURES}).pressure === 'Memory is short'", f'memory is short: {changed}')
        need('Memory is short' in page.one('.strip-bar').get_attribute('aria-label'), 'it is read')
        front.forget()
        page.wait(f"!('pressure' in ({FIGURES}))", 'it is over')


def test_pressure(r, page):
    """The real thing: the service manager says that memory is short, as systemd does."""
    page.expect('503', '502', 'ERR_')
    path = f'{r.folder}/pressure'
    os.mkfifo(path, 0o600)
    r.stop_daemon()
    os.environ['MEMORY_PRESSURE_WATCH'] = path
    try:
        r.start_daemon(*DAEMON)
    finally:
        del os.environ['MEMORY_PRESSURE_WATCH']
    r.clear()
    made = three(r)
    before = r.ok(r.get('/confab/v1/stats'))
    r.show(page)
    page.wait(f"({FIGURES}).used && !('pressure' in ({FIGURES}))", 'there are figures')
    with open(path, 'wb', buffering=0) as fifo:
        def short():
            fifo.write(b'x')
            return 'pressure' in page.js(FIGURES)
        page.wait(short, 'memory is short')
        need(r.ok(r.get('/confab/v1/stats'))['pressure_episodes'] > before['pressure_episodes'], 'the daemon says it')
        # what was idle went to disk, and comes back when it is wanted
        page.wait(lambda: fifo.write(b'x') and any(one['residency'] != 'resident' for one in r.all()), 'idle memory goes')
        gone = next(one for one in r.all() if one['residency'] != 'resident')
        page.wait("[...document.querySelectorAll('#list li')].some(li => li.dataset.id === a && "
                  "li.querySelector('.residency').dataset.residency !== 'resident')", 'the list says it', args=[str(gone['id'])])
    r.go(page, gone)
    say(page, 'Are you there?')
    told_rightly(r, page, gone)
    need(source(r, gone, 'disk') > 0 and len(made) == 3, 'from disk')
    r.stop_daemon()
    r.start_daemon(*DAEMON)


# ---- what is done with memory ----

def acts(page, opens, verb):
    """Opens a menu by a function and takes one of its items."""
    opens()
    page.role('menuitem', verb).click()


def waits(r, page, conversation, residency):
    page.wait(lambda: r.conversation(conversation)['residency'] == residency, f'it is {residency}')


def actions(r, page, made, opens):
    """Evict, Warm, Publish and Stop publishing, by a menu: they are done, shown and told."""
    title = made['about']['title']
    acts(page, opens, 'Evict')
    notes(page, f'“{title}” is on disk.')
    waits(r, page, made, 'spilled')
    page.wait("document.querySelector('.talk-figures .residency').dataset.residency === 'spilled'", 'the head says it')
    acts(page, opens, 'Warm up')
    notes(page, f'“{title}” is in RAM.')
    waits(r, page, made, 'resident')
    page.wait("document.querySelector('.talk-figures .residency').dataset.residency === 'resident'", 'the head says it')
    acts(page, opens, 'Publish its memory')
    notes(page, f'The memory of “{title}” is shared by all users.')
    page.wait(lambda: r.conversation(made)['n_published'] > 0, 'it is published')
    acts(page, opens, 'Stop publishing')
    notes(page, f'The memory of “{title}” is its own again.')
    page.wait(lambda: r.conversation(made)['n_published'] == 0, 'it is not published')


def of_head(page):
    return lambda: page.role('button', 'Actions for this conversation').click()


def test_actions(r, page):
    made = r.opened(about={'title': 'To and fro'})
    r.say(made, LONG_TEXT, max_tokens=2)
    r.show(page, made)
    actions(r, page, made, of_head(page))
    page.wait("document.querySelectorAll('#list li').length > 0", 'the list')
    acts(page, lambda: page.role('button', 'Actions for To and fro', page.one('#list')).click(), 'Evict')
    waits(r, page, made, 'spilled')


def test_actions_of_the_table(r, page):
    r.clear()
    made = r.opened(about={'title': 'From the table'})
    r.say(made, LONG_TEXT, max_tokens=2)
    r.show(page, made)
    page.wait("document.querySelectorAll('.strip-segment').length > 0", 'there are figures')
    page.click('.strip-bar')
    actions(r, page, made, lambda: page.role('button', 'Actions for From the table', page.one('.strip-table')).click())
    page.wait(f"({TABLE}).length === 1 && ({TABLE})[0].note === ''", 'the row has no note')
    acts(page, lambda: page.role('button', 'Actions for From the table', page.one('.strip-table')).click(), 'Publish its memory')
    page.wait(f"({TABLE})[0].note === 'published'", 'the row says it')


def test_what_could_not_be_kept(r, page):
    """An eviction that loses something says how much and why."""
    front = r.front()
    made = r.opened(about={'title': 'Lost'})
    r.say(made, LONG_TEXT, max_tokens=2)
    r.show(page, made, url=front.url)
    front.answer('POST .*/evict$', 200, {**r.conversation(made), 'residency': 'cold', 'n_not_kept': 96, 'why_not_kept': 'the disk is full'}, times=1)
    acts(page, of_head(page), 'Evict')
    notes(page, '96 tokens could not be kept: the disk is full')
    # what is refused is told, and nothing is changed
    front.refuse('POST .*/warm$', 503, 'no_memory', retry=True, times=1)
    page.expect('503')
    acts(page, of_head(page), 'Warm up')
    notes(page, 'There is no memory for this now.')


def test_pin(r, page):
    r.clear()
    made = r.opened(about={'title': 'Stays in RAM'})
    r.say(made, LONG_TEXT, max_tokens=2)
    status, _, told = r.request('PATCH', r.path(made), {'pinned': True})
    if status != 200 or not told.get('pinned'):
        rig.skip('this daemon does not pin')
    r.patch(made, pinned=False)
    r.show(page, made)
    acts(page, of_head(page), 'Pin in RAM')
    notes(page, '“Stays in RAM” is pinned.')
    page.wait(lambda: r.conversation(made)['pinned'], 'it is pinned')
    page.wait("document.querySelector('#list .row-more').innerText.includes('pinned')", 'the list says it')
    page.click('.strip-bar')
    page.wait(f"({TABLE})[0]?.note === 'pinned'", 'the table says it')
    acts(page, lambda: page.role('button', 'Actions for Stays in RAM', page.one('.strip-table')).click(), 'Unpin')
    notes(page, '“Stays in RAM” is no longer pinned.')
    page.wait(lambda: not r.conversation(made).get('pinned'), 'it is not pinned')
    page.wait(f"({TABLE})[0].note === '' && !document.querySelector('#list .row-more').innerText.includes('pinned')", 'both say it')


# ---- who may not administer ----

def test_another_user(r, page):
    """Another user's token: only own figures, and nothing to do that is not allowed."""
    mine = r.opened(about={'title': 'Of the administrator'})
    r.say(mine, LONG_TEXT * 3, max_tokens=2)
    path = f'{r.folder}/more-tokens'
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'{rig.TOKEN} {os.getuid()}\n{OTHER} {OTHER_UID}\n')
    os.chmod(path, 0o600)
    r.stop_gateway()
    r.start_gateway('--token-file', path)
    r.show(page, url=r.url(OTHER))
    page.wait("document.querySelector('.strip-figure')", 'there are figures')
    need(page.js("document.querySelectorAll('#list li').length") == 0, 'there are no conversations of others')
    page.insert(LONG_TEXT, '#message')
    page.press('Enter')
    page.wait("document.querySelector('.turn[data-turn=\"1\"] .turn-memory')", 'a reply')
    page.wait(f"/^Yours: [1-9][\\d.]* .iB in RAM$/.test(({FIGURES}).used)", 'the own figures')
    told = page.js(FIGURES)
    need('queued' not in told and 'pressure' not in told and 'budget' not in page.text('.strip'), told)
    need(page.js("document.querySelector('.strip-pool').hidden"), 'what others hold is not drawn')
    own = page.run("const {store} = await import(new URL('page/js/store.js', document.baseURI)); return [...store.conversations.values()];")
    need(len(own) == 1 and own[0]['uid'] == OTHER_UID, own)
    need(told['used'] == f'Yours: {size(page, own[0]["ram_bytes"])} in RAM', (told, own))
    title = own[0]['about']['title']

    def of_table():
        page.role('button', f'Actions for {title}', page.one('.strip-table')).click()

    def nothing_more(opens):
        opens()
        page.role('menuitem', 'Evict')
        items = [one.text for one in page.roles('menuitem')]
        need(not [one for one in items if 'ublish' in one or one.startswith('Pin')], items)
        page.press('Escape')
        page.gone('.menu')

    nothing_more(of_head(page))
    page.click('.strip-bar')
    need([row['title'] for row in page.js(TABLE)] == [title], page.js(TABLE))
    nothing_more(of_table)
    acts(page, of_table, 'Evict')
    notes(page, 'is on disk.')
    page.wait(f"({TABLE})[0].residency === 'spilled'", 'own memory may be put out')
    need(r.conversation(mine)['residency'] == 'resident', 'that of others stays')


ALL = {name: test for name, test in globals().items() if name.startswith('test_')}
chosen = sys.argv[6:]
for slow, daemon in (False, DAEMON), (True, SLOW):
    tests = {name: test for name, test in ALL.items() if name.startswith('test_slow_') == slow and name in (chosen or ALL)}
    if tests:
        rig.run(tests, daemon=daemon)
