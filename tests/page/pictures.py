#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pictures.py: the pictures of the page: made of a real conversation with branches, looked at for what should be on them and for text that is cut,
and put into page-pictures/ of the build folder. With --write DIR behind the other arguments they go to DIR as well, with few colours (pngquant)."""
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True
WRITE = None
if '--write' in sys.argv:
    at = sys.argv.index('--write')
    WRITE = sys.argv[at + 1]
    del sys.argv[at:at + 2]

import browser as browsers # pylint: disable=wrong-import-position
import rig # pylint: disable=wrong-import-position
from rig import need # pylint: disable=wrong-import-position

# As on a desk: with a mouse.
browsers.FLAGS += ('--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4',)
PICTURES = os.path.join(rig.BUILD, 'page-pictures')
MOST, MOST_ALL = 120_000, 500_000 # bytes of a picture, of all
HOUR, DAY = 3600, 86400

RULES = '''There are two ways. They differ in **who closes the file**:

| | `create` | `copytruncate` |
|---|---|---|
| Who switches | the service, on a signal | logrotate copies, then cuts |
| Lines lost | none | those between copy and cut |
| It takes | a handler of `SIGHUP` | nothing |

If the service opens its log again on `SIGHUP`, take the first one:

```sh
/var/log/events.log {
    daily
    rotate 14
    compress
    delaycompress
    create 0640 events adm
    postrotate
        systemctl kill -s HUP events
    endscript
}
```

`delaycompress` leaves the newest old file alone for a day.'''
PIPE = """Then give it no file at all: let it write to a pipe, and let the reader rotate. Nobody has to tell the service anything, and no line is lost.

`rotatelogs` of Apache does that, and so does `multilog`."""
CUT = """Then `copytruncate` is what is left. Nobody has to tell the service anything, but the lines between copy and cut are lost.

At 2 GB a day that is some hundred lines each night."""
JOURNAL = 'Let it write to standard output: the journal has `SystemMaxUse=`, and loses nothing.'
OLDER = (
    ('Names for the backup server', 40 * DAY, ['home'], 'Suggest five names for a backup server.', 'Attic, Cellar, Granary, Larder, Magpie.'),
    ('Proofread an announcement', 9 * DAY, [], 'Proofread: "We has moved to a new office."', '“We have moved to a new office.”'),
    ('TLS 1.2 and TLS 1.3', 2 * DAY, ['work'], 'What changed from TLS 1.2 to 1.3, in one sentence?',
     'One round trip less, fewer ciphers, and forward secrecy always.'),
    ('Bread of 80 % water', 20 * HOUR, ['home'], 'How long does bread with 80 % of water bake?', 'About 40 minutes at 230 °C, the first 20 of them with steam.'),
    ('Why this trace?', 5 * HOUR, ['work'], 'Why does this happen? segfault at 0', 'A null pointer was read: look at what the caller passes.'),
)

# Text that does not fit where it stands. What a turn says is one line of the tree, whatever its length.
CUT_TEXT = '''[...document.querySelectorAll('body *')].filter(one => one.checkVisibility({opacityProperty: true, visibilityProperty: true}) &&
  [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && !one.closest('.unseen, .tree-text, .skip, option') &&
  getComputedStyle(one).overflow !== 'visible' && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 2))
  .map(one => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`)'''


def written(r, conversation, message, reply):
    """A message, and exactly this reply, which the model writes."""
    r.begin_scripted(conversation, message, reply)
    r.idle(conversation)


def fork(r, of, at, title, *said):
    made = r.fork(of, at, about={'title': title})
    for message, reply in said:
        written(r, made, message, reply)
    return made


def again(r, of, at, title, reply):
    """Another reply to a message."""
    made = r.fork(of, at, about={'title': title})
    r.say(made, None, nothing=True, gbnf=rig.forward.grammar(reply), max_tokens=200)
    return made


def restart(r, *flags):
    r.stop_daemon()
    r.start_daemon(*flags)


def age(r, ages):
    """Conversations that were changed so many seconds ago."""
    r.stop_daemon()
    with contextlib.closing(sqlite3.connect(f'{r.daemon_socket}.state/register.db')) as db:
        for conversation, seconds in ages:
            then = int((time.time() - seconds) * 1e6)
            db.execute('UPDATE conversation SET updated_usec = ?, created_usec = ? WHERE id = ?', (then, then, conversation['id']))
            db.execute('UPDATE turn SET created_usec = ? WHERE conversation = ?', (then, conversation['id']))
        db.commit()
    r.start_daemon()


def scene(r):
    """A conversation with five branches: in RAM, on disk, and computed again when it is needed; and older ones."""
    # memory that was kept in another way is of no use any more
    restart(r, '--kv-type', 'f32')
    top = r.opened(about={'title': 'Rotating logs', 'tags': ['work']})
    cold = fork(r, top, 0, 'The same for rsyslog', ('Our log goes to rsyslog. How do I rotate that?', 'rsyslog opens its files again on `SIGHUP`: a rule is there.'))
    r.verb(cold, 'evict')
    restart(r)
    older = []
    for title, seconds, tags, message, reply in OLDER:
        older.append((r.opened(about={'title': title, 'tags': tags}), seconds))
        written(r, older[-1][0], message, reply)
    written(r, top, 'The log of our service grows by 2 GB a day. What can I do?',
            'Rotate it: once a day it is renamed and a new one begins; old ones are compressed, and go after two weeks. `logrotate` does that.')
    written(r, top, 'How do I do that without losing lines?', RULES)
    r.verb(top, 'evict')
    shorter = again(r, top, 3, 'A shorter answer', 'Use `create`, and a `postrotate` that sends `SIGHUP`.')
    pipe = fork(r, top, 4, 'Through a pipe', ('And if it cannot open its file again?', PIPE))
    cut = again(r, pipe, 5, 'With copytruncate', CUT)
    journal = again(r, pipe, 5, 'With journald', JOURNAL)
    written(r, pipe, 'What if the reader dies?', 'The service gets `SIGPIPE`. Let systemd restart both: `BindsTo=` joins them.')
    written(r, cut, 'Can I make that time shorter?', 'Rotate more often: a smaller file is copied sooner.')
    age(r, older)
    for one in cut, journal, shorter, cold, top:
        r.patch(one, about={'metadata': {'shown': True}}) # that is the order of their last change
    r.verb(top, 'warm')
    r.verb(shorter, 'warm')
    for one in pipe, cut, journal, cold:
        r.verb(one, 'evict')
    found = {one['about']['title']: one['residency'] for one in r.all() if one['id'] in {o['id'] for o in (top, shorter, pipe, cut, journal, cold)}}
    need(sorted(found.values()) == ['cold', 'resident', 'resident', 'spilled', 'spilled', 'spilled'], found)
    return {'top': top, 'shorter': shorter, 'pipe': pipe, 'cut': cut, 'journal': journal, 'cold': cold}


class Scene:
    """Made once, for all pictures."""
    parts = None

    @classmethod
    def of(cls, r):
        cls.parts = cls.parts or scene(r)
        return cls.parts


def picture(r, page, name):
    """What is to be seen now, as a file; no text of it is cut."""
    page.wait("document.querySelector('.strip-segment[data-kind=\"conversation\"]') && document.fonts.status === 'loaded'", 'all is there')
    page.cdp('Input.dispatchMouseEvent', type='mouseMoved', x=1, y=1)
    page.run("document.querySelectorAll('#notes .note').forEach(one => one.remove()); if (!document.activeElement.closest('.tree')) document.activeElement.blur();")
    page.wait('document.getAnimations().every(one => one.playState !== "running")', 'nothing moves')
    page.frames(4)
    cut = page.js(CUT_TEXT)
    need(not cut, f'{name}: text is cut: {cut}')
    need(page.js('document.documentElement.scrollWidth <= innerWidth'), f'{name} scrolls sideways')
    os.makedirs(PICTURES, exist_ok=True)
    path = os.path.join(PICTURES, f'{name}.png')
    page.screenshot(path)
    if shutil.which('pngquant'):
        subprocess.run(['pngquant', '--force', '--skip-if-larger', '--strip', '--speed', '1', '--quality', '80-100', '--output', path, path], check=False)
    size = os.path.getsize(path)
    print(f'{name}.png: {size:,} bytes', flush=True)
    if shutil.which('pngquant'):
        need(size <= MOST, f'{name} has {size} bytes')
    if WRITE:
        need(shutil.which('pngquant'), '--write takes pngquant')
        os.makedirs(WRITE, exist_ok=True)
        shutil.copyfile(path, os.path.join(WRITE, f'{name}.png'))
        need(sum(os.path.getsize(os.path.join(WRITE, one)) for one in os.listdir(WRITE)) <= MOST_ALL, 'all of them together')


def talk(r, page, **how):
    """The conversation, at its end."""
    top = Scene.of(r)['top']
    r.show(page, top, **how)
    page.wait("document.querySelectorAll('#list li').length === 6 && document.querySelector('.turn[data-turn=\"3\"] .turn-memory')", 'the conversation')
    if r.libs()['markdown-it'] and r.libs()['dompurify']:
        page.wait("document.querySelector('.turn[data-turn=\"3\"] table') && document.querySelector('.turn[data-turn=\"3\"] figure.code')", 'table and code')
    page.wait("document.querySelector('.turn[data-turn=\"3\"] .turn-memory').innerText.includes('from RAM')", 'the line of its memory')
    page.run("document.querySelector('.talk-scroll').scrollTop = 1e6;")


def tree(page):
    page.click('#tree-button')
    page.wait("document.querySelector('[role=\"tree\"]')?.getAttribute('aria-busy') === 'false' && "
              "document.querySelectorAll('[data-kind=\"tip\"]').length === 6", 'the tree')


def test_start(r, page):
    Scene.of(r)
    r.show(page)
    page.wait("document.querySelectorAll('#list li').length === 6 && document.querySelector('#message')", 'list and message')
    need(page.roles('textbox', 'Message') and page.roles('button', 'Send'), 'what to write in')
    picture(r, page, 'start')


def test_light(r, page):
    page.size(1280, 860)
    talk(r, page)
    picture(r, page, 'light')


def test_dark(r, page):
    page.theme('dark')
    page.size(1280, 860)
    talk(r, page)
    dark = page.js("getComputedStyle(document.body).color.match(/\\d+/g).map(Number)")
    need(min(dark) > 150, dark)
    picture(r, page, 'dark')


def test_phone(r, page):
    page.size(390, 844, 2, touch=True)
    talk(r, page)
    need(page.js("document.querySelector('#list').getBoundingClientRect().right <= 0"), 'the list is put away')
    picture(r, page, 'phone')


def test_tree(r, page):
    page.size(1280, 860)
    talk(r, page)
    tree(page)
    discs = page.js("[...document.querySelectorAll('[data-kind=\"tip\"] .residency')].map(one => one.dataset.residency).sort()")
    need(discs == ['cold', 'resident', 'resident', 'spilled', 'spilled', 'spilled'], discs)
    shades = set(page.js("[...document.querySelectorAll('.tree-line')].map(one => one.dataset.residency)"))
    need(shades == {'cold', 'resident', 'spilled'}, shades)
    picture(r, page, 'tree')
    whole = page.js("(one => [one.scrollHeight, one.clientHeight])(document.querySelector('.tree-scroll'))")
    need(whole[0] <= whole[1] + 1, f'all of it is in view: {whole}')


def test_compare(r, page):
    page.size(1280, 640)
    parts = Scene.of(r)
    r.show(page, parts['pipe'])
    tree(page)
    page.run("document.querySelector(`[data-key=\"tip:${a}\"] .tree-compare`).click();", parts['cut']['id'])
    page.wait("document.querySelector('.compare')?.getAttribute('aria-busy') === 'false'", 'both branches')
    need(page.js("[...document.querySelectorAll('.compare-side')].filter(one => one.getBoundingClientRect().width > 0).length") == 2, 'side by side')
    need(page.js("document.querySelectorAll('.compare mark').length") > 0, 'what differs is marked')
    picture(r, page, 'compare')


def test_memory(r, page):
    page.size(1280, 860)
    talk(r, page)
    page.click('.strip-bar')
    page.wait("document.querySelectorAll('.strip-table tbody tr').length >= 10", 'the table')
    picture(r, page, 'memory')


rig.run(globals())
