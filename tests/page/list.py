#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""list.py: the list of conversations. What it shows is what the daemon has, whoever changes it; search, tags, families, closing with undo; and
10,000 conversations scroll, are reached by keys and found as ten are."""
import contextlib
import os
import re
import sys
import time

sys.dont_write_bytecode = True
import rig

MOST = 10000
FLAGS = '--max-conversations', str(2 * MOST)
GONE = '404' # of what is closed just when the page asks for it

# Its rows that are elements, in order.
ROWS = '''[...document.querySelectorAll('#list li')].map(li => ({
  id: Number(li.dataset.id), title: li.querySelector('.row-title').innerText, more: li.querySelector('.row-more').innerText,
  when: li.querySelector('.row-when').innerText, exact: li.querySelector('.row-when').title,
  residency: li.querySelector('.residency').dataset.residency, word: li.querySelector('.residency').getAttribute('aria-label'), open: li.querySelector('a').getAttribute('aria-current') === 'page',
  place: Number(li.getAttribute('aria-posinset')), of: Number(li.getAttribute('aria-setsize'))}))'''


def rows(page):
    """What the list shows; it is drawn with the next frame, when the address and the focus are elsewhere already."""
    page.frames(1)
    return page.js(ROWS)


def titles(page):
    return [row['title'] for row in rows(page)]


def wait_titles(page, wanted, words):
    page.wait(lambda: titles(page) == wanted, f'{words}: {wanted}')


def row(page, made, condition='true', words='is in the list'):
    """The row of a conversation, as soon as the condition on `row` holds."""
    number = made if isinstance(made, int) else made['id']
    return page.wait(f'{ROWS}.find(row => row.id === a && ({condition}))', f'conversation {number} {words}', args=[number])


def no_row(page, made):
    page.wait(f'!{ROWS}.some(row => row.id === a)', 'the row is gone', args=[made['id']])


def link(page, made):
    return page.one(f'#list li[data-id="{made["id"]}"] a')


def choose(page, made, label):
    """An item of a row's menu."""
    page.one(f'#list li[data-id="{made["id"]}"] .row-menu').click()
    page.role('menuitem', label).click()


def field(page, name, text):
    """Another text in a field of the dialog."""
    one = page.role('textbox', name)
    one.clear()
    page.insert(text, one)


def size(n):
    """As format.js tells it."""
    unit = 0
    while n >= 1024:
        n, unit = n / 1024, unit + 1
    return f'{n:.1f}'.removesuffix('.0') + ' KiB' if unit == 1 and n < 10 else f'{int(n + 0.5)} {("B", "KiB", "MiB")[unit]}'


def wait_open(page, made, n_turns):
    page.wait("location.hash === `#/c/${a}` && document.querySelectorAll('.turn').length === b && "
              "document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false'", f'{made["id"]} is open', args=[made['id'], n_turns])


def is_closed(r, made):
    return r.request('GET', r.path(made))[0] == 404


# ---- what rows tell ----

def test_rows(r, page):
    """Titles, or names where there are none; numbers of turns, sizes; the latest change first."""
    r.clear()
    named = r.opened(name='by-its-name')
    said = r.opened(about={'title': 'What was said', 'tags': ['red', 'blue']}, system='You are brief.')
    r.say(said, 'Hello there.')
    r.show(page)
    wait_titles(page, ['What was said', 'by-its-name'], 'the latest change is first')
    told = r.conversation(said)
    row(page, said, f'row.more === "3 turns · {size(told["ram_bytes"])} · #red · #blue"', 'has turns, its size in RAM and tags')
    row(page, named, "row.more === '0 turns · 0 tokens'", 'has nothing yet')
    r.verb(said, 'evict')
    row(page, said, f'row.more.startsWith("3 turns · {size(r.conversation(said)["disk_bytes"])} ·")', 'has its size on disk')
    r.patch(named, about={'title': 'Named now'})
    wait_titles(page, ['Named now', 'What was said'], 'a change brings it to the front')


def test_times(r, page):
    """Relative up to a day, then a date; the exact time is the title."""
    r.clear()
    made = r.opened(about={'title': 'Old'})
    page.cdp('Page.addScriptToEvaluateOnNewDocument',
             source="{const now = Date.now; Date.now = () => now() + Number(localStorage.getItem('test.later') ?? 0);}")
    r.show(page)
    exact = page.js("new Intl.DateTimeFormat('en', {dateStyle: 'medium', timeStyle: 'short'}).format(a / 1000)", made['updated_usec'])
    day = page.js("new Intl.DateTimeFormat('en', {day: 'numeric', month: 'short'}).format(a / 1000)", made['updated_usec'])
    year = time.localtime(made['updated_usec'] / 1e6).tm_year
    for seconds, words in ((0, 'just now'), (330, '5 min. ago|6 min. ago'), (3 * 3600 + 60, '3 hr. ago'), (86500, f'{day}(, {year})?')):
        page.run("localStorage.setItem('test.later', a);", seconds * 1000)
        page.reload()
        told = row(page, made)
        rig.need(re.fullmatch(words, told['when']) and told['exact'] == exact, (told, words, exact))


def test_residency(r, page):
    """What another client does to the memory is seen at once; so is a reply that another client asks for."""
    r.clear()
    made = r.opened(about={'title': 'Here and there'})
    other = r.opened(about={'title': 'Never said'})
    r.say(made, 'Hello.')
    r.show(page)
    row(page, other, "row.residency === 'cold' && row.word === 'Only its text: computed again when needed'", 'is cold')
    row(page, made, "row.residency === 'resident' && row.word === 'In RAM'", 'is in RAM')
    for _ in range(2):
        r.verb(made, 'evict')
        row(page, made, "row.residency === 'spilled' && row.word === 'On disk'", 'is on disk')
        r.verb(made, 'warm')
        row(page, made, "row.residency === 'resident'", 'is in RAM again')
    r.verb(made, 'evict')
    row(page, made, "row.residency === 'spilled'", 'is on disk')
    r.say(made, 'And now?')
    row(page, made, "row.residency === 'resident' && row.more.startsWith('4 turns')", 'went on')
    # by the page's own menu, and the head of the talk tells the same
    r.go(page, made)
    choose(page, made, 'Evict')
    row(page, made, "row.residency === 'spilled'", 'was evicted here')
    rig.need(r.conversation(made)['residency'] == 'spilled', 'the daemon knows')
    page.wait("document.querySelector('.talk-head .residency').dataset.residency === 'spilled'", 'the head tells it')
    choose(page, made, 'Warm up')
    row(page, made, "row.residency === 'resident'", 'was warmed here')


@contextlib.contextmanager
def full_disk(r):
    """A daemon that writes no memory."""
    r.stop_daemon()
    r.start_daemon(*FLAGS, '--disk-floor', '1024T')
    try:
        yield
    finally:
        r.stop_daemon()
        r.start_daemon(*FLAGS)


def test_cold(r, page):
    """Memory that cannot be kept is gone, which shows, and comes back by computing it."""
    page.expect('503')
    r.clear()
    with full_disk(r):
        made = r.opened(about={'title': 'Nowhere'})
        r.say(made, 'Hello.')
        r.show(page)
        row(page, made, "row.residency === 'resident'", 'is in RAM')
        rig.need(r.verb(made, 'evict')['residency'] == 'cold', 'nothing is written')
        row(page, made, "row.residency === 'cold'", 'is cold')
        r.say(made, 'And now?')
        row(page, made, "row.residency === 'resident'", 'was computed again')
        r.verb(made, 'evict')
        row(page, made, "row.residency === 'cold'", 'is cold again')
        choose(page, made, 'Warm up')
        row(page, made, "row.residency === 'resident'", 'was warmed')
        page.close()


# ---- search, tags ----

def test_search(r, page):
    """Words inside of turns are found, the line around them is shown, and Escape clears it."""
    r.clear()
    plain, said, _ = (r.opened(about={'title': title}) for title in ('Of soup', 'Of travels', 'Zanzibar, a plan'))
    r.tell(plain, 'How is soup made?', 'With water and salt.')
    r.tell(said, 'Where did we go?', 'First to the mountains. In the end it was Zanzibar where we stayed.')
    r.show(page)
    wait_titles(page, ['Of travels', 'Of soup', 'Zanzibar, a plan'], 'all are there')
    search = page.role('searchbox', 'Search all that was said')
    page.type('zanzibar', search)
    wait_titles(page, ['Of travels', 'Zanzibar, a plan'], 'both that have it')
    rig.need(page.text('.list-count') == '2 found', page.text('.list-count'))
    rig.need('it was Zanzibar where' in row(page, said)['more'], rows(page))
    # what is typed behind it narrows it; words of one turn
    page.type(' mountains', search)
    wait_titles(page, ['Of travels'], 'that of both words')
    rig.need(page.text('.list-count') == '1 found', page.text('.list-count'))
    # one that is said now is found the next time, and by its reply
    page.press('Escape')
    page.wait("document.querySelector('#list input').value === ''", 'the field is empty')
    wait_titles(page, ['Of travels', 'Of soup', 'Zanzibar, a plan'], 'all are there again')
    page.gone('.list-count')
    rig.need(page.focused() == ('searchbox', 'Search all that was said'), page.focused())
    page.type('nosuchword', search)
    page.wait("document.querySelector('.list-count').innerText === '0 found'", 'nothing is found')
    rig.need(titles(page) == [], titles(page))
    page.press('Escape')
    wait_titles(page, ['Of travels', 'Of soup', 'Zanzibar, a plan'], 'all are there again')
    # down into what was found, and open it
    page.type('salt', search)
    wait_titles(page, ['Of soup'], 'the reply is found')
    page.press('ArrowDown', 'Enter')
    wait_open(page, plain, 2)
    # one that is closed elsewhere is found no more, at once
    page.expect(GONE)
    r.delete(plain)
    no_row(page, plain)
    page.wait("document.querySelector('.list-count').innerText === '0 found'", 'nothing is found any more')


def test_search_fails(r, page):
    """A search that cannot be made is no search that finds nothing."""
    r.clear()
    r.opened(about={'title': 'Zanzibar'})
    front = r.front()
    r.show(page, url=front.url)
    wait_titles(page, ['Zanzibar'], 'it is there')
    page.expect('503')
    front.refuse('search=', 503, 'unavailable', retry=True, times=1)
    page.type('zanzi', page.role('searchbox'))
    page.wait("document.querySelector('#notes').innerText.includes('The service is not available just now.')", 'the error is told')
    rig.need('found' not in page.js("document.querySelector('.list-count').innerText"), 'nothing is said to be found')
    page.type('bar', page.role('searchbox'))
    page.wait("document.querySelector('.list-count').innerText === '1 found'", 'the next search finds it')


def test_tags(r, page):
    r.clear()
    both = r.opened(about={'title': 'Both', 'tags': ['work', 'ideas']})
    r.opened(about={'title': 'Work', 'tags': ['work']})
    r.opened(about={'title': 'None'})
    r.show(page)
    wait_titles(page, ['None', 'Work', 'Both'], 'all are there')
    tag = page.role('combobox', 'Only with the tag')
    options = lambda: page.js("[...a.options].map(option => option.text)", tag)
    page.wait(lambda: options() == ['All tags', 'ideas', 'work'], 'all tags are there')

    def pick(text):
        page.run('''a.value = [...a.options].find(option => option.text === b).value;
                    a.dispatchEvent(new Event('change', {bubbles: true}));''', tag, text)
    pick('work')
    wait_titles(page, ['Work', 'Both'], 'those of the tag')
    pick('ideas')
    wait_titles(page, ['Both'], 'that of the tag')
    # with words as well
    pick('work')
    page.type('both', page.role('searchbox'))
    wait_titles(page, ['Both'], 'that of the tag and the word')
    page.press('Escape')
    wait_titles(page, ['Work', 'Both'], 'those of the tag')
    pick('All tags')
    wait_titles(page, ['None', 'Work', 'Both'], 'all are there')
    # a new tag comes, one that nobody has goes
    r.patch(both, about={'tags': ['dreams']})
    page.wait(lambda: options() == ['All tags', 'dreams', 'work'], 'the tags are those that there are')


# ---- what is done with rows ----

def test_new(r, page):
    """From the button to a conversation that is in the list and at the daemon, with a title from its first message."""
    r.clear()
    first = r.opened(about={'title': 'First'})
    front = r.front()
    front.reply('Fine.')
    r.show(page, first, url=front.url)
    page.role('button', 'New conversation').click()
    page.wait("location.hash === '#/' && document.activeElement.id === 'message'", 'a new one can be begun')
    rig.need([one['id'] for one in r.all()] == [first['id']], 'it is made with its first message only')
    rig.need(not any(one['open'] for one in rows(page)), rows(page))
    page.insert('How are   you\ntoday?')
    page.press('Enter')
    page.wait("/^#\\/c\\/\\d+$/.test(location.hash)", 'it has its address')
    wait_titles(page, ['How are you today?', 'First'], 'it is in the list')
    made = max(one['id'] for one in r.all())
    told = row(page, made, "row.more.startsWith('2 turns') && row.residency === 'resident'", 'has its reply')
    rig.need(told['open'], told)
    rig.need(r.conversation(made)['about']['title'] == 'How are you today?', r.conversation(made))
    rig.need(r.turns(made) == [('user', 'How are   you\ntoday?'), ('assistant', 'Fine.')], r.turns(made))


def test_rename(r, page):
    r.clear()
    made = r.opened(about={'title': 'Before', 'tags': ['kept']})
    r.show(page, made)
    choose(page, made, 'Rename…')
    one = page.role('textbox', 'Title')
    rig.need(one.get_attribute('value') == 'Before', 'what it was called')
    field(page, 'Title', 'Behind <b>it</b>')
    page.press('Enter')
    page.gone('dialog')
    row(page, made, "row.title === 'Behind <b>it</b>'", 'has its new title')
    page.wait("document.title === `${a} – confab` && document.querySelector('h1').innerText === a", 'so has the talk', args=['Behind <b>it</b>'])
    told = r.conversation(made)
    rig.need(told['about'] == {'title': 'Behind <b>it</b>', 'tags': ['kept']} and told['revision'] == made['revision'], told)
    # what is not said is not done
    choose(page, made, 'Rename…')
    field(page, 'Title', 'Never')
    page.press('Escape')
    page.gone('dialog')
    rig.need(r.conversation(made)['about']['title'] == 'Behind <b>it</b>', 'it was taken back')
    rig.need(page.focused() == ('button', 'Actions for Behind <b>it</b>'), page.focused())


def test_settings(r, page):
    """Title, tags and name are saved; a name that is taken is said, and the dialog stays."""
    r.clear()
    r.opened(name='taken')
    made = r.opened(name='mine', about={'title': 'Old', 'tags': ['a']})
    r.show(page, made)
    choose(page, made, 'Settings…')
    field(page, 'Title', 'New title')
    field(page, 'Tags', 'one, #two,one , three four')
    field(page, re.compile('^Name for the command line'), 'taken')
    page.expect('409')
    page.role('button', 'Save').click()
    page.wait("document.querySelector('dialog [role=alert]')?.innerText.includes(a)", 'the error is told in the dialog',
              args=['There is a conversation of this name already. Choose another name.'])
    rig.need(r.conversation(made)['about'] == {'title': 'Old', 'tags': ['a']}, 'nothing is saved by halves')
    field(page, re.compile('^Name for the command line'), 'mine-2')
    page.role('button', 'Save').click()
    page.gone('dialog')
    row(page, made, "row.title === 'New title' && row.more.endsWith('#one · #two · #three four')", 'shows what was saved')
    told = r.conversation('mine-2')
    rig.need(told['id'] == made['id'] and told['about'] == {'title': 'New title', 'tags': ['one', 'two', 'three four']}, told)
    # tags can be taken away, and what is left alone stays
    choose(page, made, 'Settings…')
    field(page, 'Tags', '')
    page.role('button', 'Save').click()
    page.gone('dialog')
    row(page, made, "!row.more.includes('#')", 'has no tags')
    told = r.conversation(made)
    rig.need(told['about'] == {'title': 'New title'} and told['name'] == 'mine-2' and told['overflow'] == 'error', told)


# ---- closing ----

def test_close_undone(r, page):
    r.clear()
    made, other = r.opened(about={'title': 'Mine'}), r.opened(about={'title': 'Other'})
    r.say(made, 'Hello.')
    r.show(page, made)
    choose(page, made, 'Close')
    no_row(page, made)
    page.wait("location.hash === '#/'", 'it is not open any more')
    rig.need(page.text('.note span') == '“Mine” is closed.', page.text('.note span'))
    rig.need(len(r.turns(made)) == 2, 'it is there until the note goes')
    page.role('button', 'Undo').click()
    row(page, made, 'row.open', 'is there again')
    wait_open(page, made, 2)
    page.gone('.note')
    # its row stays, whatever becomes of the page
    page.reload()
    wait_titles(page, ['Mine', 'Other'], 'both are there')
    rig.need(not is_closed(r, made) and not is_closed(r, other), 'both are there')


def test_close(r, page):
    """When the note is gone, so is the conversation."""
    r.clear()
    made, other = r.opened(about={'title': 'Mine'}), r.opened(about={'title': 'Other'})
    r.show(page, other)
    choose(page, made, 'Close')
    no_row(page, made)
    rig.need(not is_closed(r, made), 'it is there until the note goes')
    page.role('button', 'Dismiss').click()
    page.wait(lambda: is_closed(r, made), 'it is closed at the daemon')
    row(page, other, 'row.open', 'is open still')
    wait_titles(page, ['Other'], 'one is left')
    page.gone('.note')


def test_close_by_leaving(r, page):
    """A page that goes away closes what was closed in it."""
    r.clear()
    made, second, other = (r.opened(about={'title': title}) for title in ('First', 'Second', 'Other'))
    r.show(page, other)
    for one in (made, second):
        choose(page, one, 'Close')
        no_row(page, one)
    rig.need(not is_closed(r, made), 'it is there until the page goes')
    page.reload()
    page.wait(lambda: is_closed(r, made) and is_closed(r, second), 'both are closed at the daemon')
    wait_titles(page, ['Other'], 'one is left')
    rig.need([one['id'] for one in r.all()] == [other['id']], r.all())


def test_close_refused(r, page):
    """What could not be closed is in the list again, and why is told."""
    r.clear()
    made = r.opened(about={'title': 'Stays'})
    front = r.front()
    r.show(page, url=front.url)
    row(page, made)
    front.refuse(f'^DELETE .*/conversations/{made["id"]}$', 503, 'unavailable', retry=True, times=1)
    page.expect('503')
    choose(page, made, 'Close')
    no_row(page, made)
    page.role('button', 'Dismiss').click()
    row(page, made)
    page.wait("document.querySelector('#notes').innerText.includes('The service is not available just now.')", 'the error is told')
    rig.need(not is_closed(r, made), 'it is there')


def test_closed_elsewhere(r, page):
    """It leaves the list; if it was open, that is said."""
    r.clear()
    made, other = r.opened(about={'title': 'Open here'}), r.opened(about={'title': 'Just there'})
    r.say(made, 'Hello.')
    r.show(page, made)
    wait_titles(page, ['Open here', 'Just there'], 'both are there')
    r.delete(other)
    wait_titles(page, ['Open here'], 'one is left')
    rig.need(not page.all('.note') and page.url.endswith(f'#/c/{made["id"]}'), 'nobody is disturbed')
    r.delete(made)
    page.wait("document.querySelector('.note')?.innerText.includes('This conversation was closed elsewhere.')", 'that is said')
    no_row(page, made)
    page.wait("location.hash === '#/' && document.title === 'confab' && !document.querySelector('.turn')", 'nothing of it is shown')
    rig.need(page.text('.list-count') == 'No conversations yet.', page.text('.list-count'))
    # the address of one that was closed says so
    page.expect(GONE)
    page.run("location.hash = `#/c/${a}`;", made['id'])
    page.wait("document.querySelector('#talk [role=alert]')?.innerText.includes('This conversation is not there any more.')", 'that is said')


def test_family(r, page):
    """Branches are one row with their number: that of the open one, or else of the one that was used last."""
    page.expect(GONE)
    r.clear()
    trunk = r.opened(about={'title': 'Trunk'})
    r.say(trunk, 'Hello.')
    second, third = r.fork(trunk, about={'title': 'Second'}), r.fork(trunk, at_turn=0, about={'title': 'Third'})
    single = r.opened(about={'title': 'Single'})
    r.show(page)
    wait_titles(page, ['Single', 'Third'], 'a family is one row')
    rig.need('3 branches' in row(page, third)['more'] and 'branch' not in row(page, single)['more'], rows(page))
    r.go(page, trunk)
    wait_titles(page, ['Single', 'Trunk'], 'the open one is shown')
    rig.need(row(page, trunk)['open'] and '3 branches' in row(page, trunk)['more'], rows(page))
    # one more, of a branch, by another client; used last, but not open
    fourth = r.fork(second, about={'title': 'Fourth'})
    row(page, trunk, "row.more.includes('4 branches')", 'has one more branch')
    rig.need(titles(page) == ['Trunk', 'Single'], titles(page))
    # searching shows each by itself
    page.type('hello', page.role('searchbox'))
    page.wait(lambda: sorted(titles(page)) == ['Fourth', 'Second', 'Trunk'], 'each is found by itself')
    rig.need(not any('branch' in one['more'] for one in rows(page)), rows(page))
    page.press('Escape')
    wait_titles(page, ['Trunk', 'Single'], 'the family is one row again')
    # without the open one, and without the one that all came from
    r.delete(trunk)
    row(page, fourth, "row.more.includes('3 branches')", 'stands for the family')
    r.delete(third)
    row(page, fourth, "row.more.includes('2 branches')", 'has one branch less')
    r.delete(fourth)
    row(page, second, "!row.more.includes('branch')", 'is alone')
    wait_titles(page, ['Single', 'Second'], 'two are left')


def test_command(r, page):
    """What the command does is seen without a reload."""
    page.expect(GONE)
    r.clear()
    r.show(page)
    page.wait("document.querySelector('.list-count')?.innerText === 'No conversations yet.'", 'there is nothing')
    began = page.js('performance.timeOrigin')
    r.confab('open', 'from-the-shell')
    wait_titles(page, ['from-the-shell'], 'it appears')
    r.confab('say', 'from-the-shell', 'Hello.', '--max-tokens', '8')
    made = r.conversation('from-the-shell')
    row(page, made, "row.more.startsWith('2 turns') && row.residency === 'resident'", 'has its reply')
    r.confab('update', 'from-the-shell', '--name', 'another-name')
    row(page, made, "row.title === 'another-name'", 'has its new name')
    r.confab('fork', 'another-name', 'a-branch')
    page.wait(lambda: titles(page) == ['a-branch'] and '2 branches' in rows(page)[0]['more'], 'its branch is there')
    r.confab('evict', 'a-branch')
    r.confab('evict', 'another-name')
    page.wait(lambda: rows(page)[0]['residency'] == 'spilled', 'both are on disk')
    for name in ('a-branch', 'another-name'):
        r.confab('close', name)
    page.wait("document.querySelector('.list-count').innerText === 'No conversations yet.'", 'nothing is left')
    rig.need(page.js('performance.timeOrigin') == began, 'the page was loaded once')


def test_models(r, page):
    """With several daemons each has its list, and the addresses of its rows lead to it."""
    r.clear()
    path = f'{r.folder}/e'
    r.start_daemon(model=r.make_model('tiny:llama', '4096'), path=path)
    r.opened(about={'title': 'Of the first'})
    r.confab('open', 'of-the-second', socket=path)
    r.confab('say', 'of-the-second', 'Hello.', '--max-tokens', '4', socket=path)
    r.stop_gateway()
    try:
        r.start_gateway('--daemon', r.daemon_socket, '--daemon', path)
        names = [one['name'] for one in r.ok(r.get('/confab/v1/models'))['models']]
        r.show(page)
        wait_titles(page, ['Of the first'], 'the list of the first')
        page.insert('For the first.', '#message')
        page.run("a.value = b; a.dispatchEvent(new Event('change', {bubbles: true}));", page.role('combobox', 'Model'), names[1])
        wait_titles(page, ['of-the-second'], 'the list of the second')
        page.wait("document.querySelector('#message').value === ''", 'a draft is of the daemon for which it was written')
        page.one('#list li a').click()
        page.wait("document.querySelectorAll('.turn').length === 2", 'its conversation is shown')
        wait_titles(page, ['of-the-second'], 'the list of the second')
    finally:
        page.open('about:blank') # it would ask for what is not there
        r.stop_gateway()
        r.stop_daemon(path)
        r.start_gateway()


# ---- very many ----

# Scrolls through all of it, three views a frame: the most rows that were elements, whether each view was full, and where it ended.
SCROLL = '''
  const scroller = document.querySelector('.list-scroll'), rows = document.querySelector('.list-rows');
  const frame = () => new Promise(requestAnimationFrame);
  let most = 0, holes = 0, views = 0;
  scroller.scrollTop = 0;
  await frame(); await frame();
  for (;;) {
    most = Math.max(most, rows.children.length);
    const box = scroller.getBoundingClientRect();
    for (const y of [box.top + 1, box.top + box.height / 2, box.bottom - 2])
      holes += document.elementFromPoint(box.left + 20, y)?.closest('li') ? 0 : 1;
    views++;
    const before = scroller.scrollTop;
    scroller.scrollTop += 3 * scroller.clientHeight;
    if (scroller.scrollTop === before)
      return {most, holes, views, last: Math.max(...[...rows.children].map(li => Number(li.getAttribute('aria-posinset'))))};
    await frame(); await frame();
  }
'''


def check_many(r, page, n):
    r.show(page)
    page.wait(f'{ROWS}[0]?.of === a', f'all {n} are in the list', args=[n])
    scroll(page, n)
    # they were opened several at a time, so the first one need not be the oldest
    keys(page, n, r.all(limit=1000)[-1]['about']['title'])
    # found by its title: the daemon looks at all of them
    search = page.role('searchbox')
    number = n - 124
    page.type(f'conversation {number}', search)
    page.wait(lambda: f'Conversation {number}' in titles(page) and len(titles(page)) < 4, 'it is found')
    link(page, next(one for one in rows(page) if one['title'] == f'Conversation {number}')).click()
    page.wait("document.querySelector('h1').innerText === a", 'it is open', args=[f'Conversation {number}'])
    search.click()
    page.press('Escape')
    page.wait(f'{ROWS}[0]?.of === a', 'all are there again', args=[n])


def scroll(page, n):
    page.forget()
    told = page.run(SCROLL)
    rig.need(told['most'] < 60 and told['last'] == n and told['holes'] == 0, told)
    longest = page.longest_task()
    if longest > 100:
        # Other programs may have taken the processor: then it is what each view takes of it, all of its tasks together.
        longest = 1000 * max(processor_times(page))
    rig.need(longest <= 100, f'{longest} ms')


def processor_times(page):
    """Seconds that the page's thread is at work for each view, from the top to the bottom."""
    page.cdp('Performance.disable')
    page.cdp('Performance.enable', timeDomain='threadTicks')
    worked = lambda: next(one['value'] for one in page.cdp('Performance.getMetrics')['metrics'] if one['name'] == 'TaskDuration')
    page.run("document.querySelector('.list-scroll').scrollTop = 0;")
    page.frames()
    times, before, more = [], worked(), True
    while more:
        more = page.run('''
          const scroller = document.querySelector('.list-scroll'), before = scroller.scrollTop;
          scroller.scrollTop += 3 * scroller.clientHeight;
          for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
          return scroller.scrollTop > before;''')
        now = worked()
        times.append(now - before)
        before = now
    page.cdp('Performance.disable')
    return times


def keys(page, n, oldest):
    """The row that has the focus, by its place; all of it by keys."""
    focus = lambda: page.js("Number(document.activeElement.closest('#list li')?.getAttribute('aria-posinset') ?? 0)")
    seen = '''(() => { const a = document.activeElement.getBoundingClientRect(), b = document.querySelector('.list-scroll').getBoundingClientRect();
                     return a.top >= b.top - 1 && a.bottom <= b.bottom + 1; })()'''

    def press(key, wanted):
        page.press(key)
        rig.need(focus() == wanted and page.js(seen), (key, focus(), wanted))
    page.role('searchbox').click()
    press('ArrowDown', 1)
    press('ArrowDown', 2)
    press('End', n)
    press('ArrowDown', n)
    press('ArrowUp', n - 1)
    page.press('PageUp')
    step = n - 1 - focus()
    rig.need(5 <= step <= 30, step)
    press('PageDown', n - 1)
    press('PageDown', n)
    press('Home', 1)
    press('PageDown', 1 + step)
    rig.need(page.js("document.querySelectorAll('#list li').length") < 60, 'there are few rows')
    press('End', n)
    title = page.js("document.activeElement.querySelector('.row-title').innerText")
    page.press('Enter')
    page.wait("document.querySelector('h1').innerText === a && document.querySelector('.talk-scroll').getAttribute('aria-busy') === 'false'",
              'the last one is open', args=[title])
    rig.need(title == oldest, (title, oldest))


def test_thousand(r, page):
    r.clear()
    r.many(1000)
    check_many(r, page, 1000)


def test_ten_thousand(r, page):
    rig.only_full()
    r.clear()
    r.many(MOST)
    check_many(r, page, MOST)
    # the first to change is the first of the list, and one that is closed makes place
    last = r.conversation(max(one['id'] for one in r.all(limit=1000)))
    r.patch(last['id'], about={'title': 'Just changed'})
    row(page, last, "row.title === 'Just changed'", 'has its title')
    r.delete(last)
    page.wait(f'{ROWS}[0]?.of === a', 'one is gone', args=[MOST - 1])


rig.run(globals(), daemon=FLAGS)
