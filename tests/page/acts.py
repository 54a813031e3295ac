# SPDX-License-Identifier: MIT
"""What several of these tests do in a page and read from it."""
import re

import rig
from rig import need

# Runs in each document from its beginning. __said has every sentence that the page showed or announced; with a text, __bad tells what was wrong
# with the reply as it grew: it is always a beginning of the text, and never gets shorter.
SAID = '''
(() => {
  const said = window.__said = [], bad = window.__bad = [];
  const wanted = %s;
  const places = '.talk-state, .connection, #announcements > *, #notes > *, .error, .unanswered';
  const flat = text => text.replace(/\\s+/g, ' ').trim();
  let reply = null, last = '';
  const look = () => {
    for (const one of document.querySelectorAll(places)) {
      const text = flat(one.textContent);
      if (text && !said.includes(text))
        said.push(text);
    }
    const growing = wanted && document.querySelector('.talk-scroll .turn[aria-busy="true"] .turn-body');
    if (!growing)
      return;
    const text = flat(growing.textContent);
    if (growing !== reply)
      last = '';
    reply = growing;
    if (!wanted.startsWith(text))
      bad.push(`not a beginning: ${text.slice(-80)}`);
    if (!text.startsWith(last))
      bad.push(`what was there changed: ${last.slice(-40)} became ${text.slice(-40)}`);
    last = text;
  };
  new MutationObserver(look).observe(document, {subtree: true, childList: true, characterData: true});
})();
'''

TURNS = '''[...document.querySelectorAll('.talk-scroll .turn')].map(turn => ({role: turn.dataset.role, turn: turn.dataset.turn ?? null,
  busy: turn.getAttribute('aria-busy') === 'true', text: turn.querySelector('.turn-body').textContent}))'''


def flat(text):
    return re.sub(r'\s+', ' ', text or '').strip()


def sentences(n, first=1):
    """A text that tells where something is missing or twice."""
    return ' '.join(f'I remember {i}. What would you like to talk about?' for i in range(first, first + n))


def listen(page, wanted=None):
    """Keeps what the page says from its next load on."""
    page.cdp('Page.addScriptToEvaluateOnNewDocument', source=SAID % rig.gateway_rig.json.dumps(wanted and flat(wanted)))


def said(page):
    return page.js('window.__said')


def hears(page, words, what):
    """Waits until the page has said these words."""
    page.wait('window.__said.some(one => one.includes(a))', f'the page says: {what} ({words})', args=[flat(words)])


def words(page, key, **values):
    """Of the page, in English."""
    text = page.run('''
      const [{flat}, {default: en}] = await Promise.all(['i18n', 'words-en'].map(name => import(new URL(`page/js/${name}.js`, document.baseURI))));
      return flat(en)[a] ?? null;''', key)
    need(isinstance(text, str), f'there are no words {key}')
    for name, value in values.items():
        text = text.replace('{%s}' % name, str(value))
    return text


def turns(page):
    return [{**one, 'text': flat(one['text'])} for one in page.js(TURNS)]


def write(page, text):
    """Puts a text into the field for messages."""
    page.run("document.querySelector('#message').focus(); document.querySelector('#message').select();")
    page.insert(text)
    page.wait("document.querySelector('#message').value === a", 'the text is in the field', args=[text])


def send(page, text):
    write(page, text)
    page.press('Enter')


def draft(page):
    return page.js("document.querySelector('#message').value")


def grows(page, characters=1):
    """Waits until so much of a reply is there and it is still being written."""
    page.wait(f"document.querySelector('.turn[aria-busy=\"true\"] .turn-body')?.textContent.length >= {characters}", 'a reply is being written')


def settles(page):
    """Waits until no reply is being written, and all of it is stored and drawn."""
    page.wait("document.querySelector('#stop').hidden && !document.querySelector('.turn[aria-busy=\"true\"], .turn:not([data-turn])')",
              'the reply is over and stored')
    page.wait(rig.DRAWN, 'all is drawn')


def same(r, page, conversation, said_once=()):
    """The page shows what the daemon has; these messages are there once."""
    settles(page)
    expected = [(role, flat(text)) for role, text in r.turns(conversation)]
    page.wait(lambda: [(one['role'], one['text']) for one in turns(page)] == expected, f'the page shows {str(expected)[:2000]}')
    for message in said_once:
        found = [text for role, text in expected if role == 'user' and text == flat(message)]
        need(len(found) == 1, f'"{message}" is there {len(found)} times: {expected}')
    bad = page.js('window.__bad ?? []')
    need(not bad, bad[:5])
    return expected


# Elements that stick out of #talk to the side, and are not cut off or scrolled by something within it.
OUTSIDE = '''
  const talk = document.querySelector(a).getBoundingClientRect();
  const found = [];
  for (const one of document.querySelectorAll(`${a} *`)) {
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || !one.checkVisibility({visibilityProperty: true}) || one.closest('.unseen, svg, .katex-mathml')
        || (box.left >= talk.left - 1 && box.right <= talk.right + 1))
      continue;
    let cut = one.parentElement;
    while (cut && cut.matches(`${a} *`) && getComputedStyle(cut).overflowX === 'visible')
      cut = cut.parentElement;
    const limit = cut?.matches(`${a} *`) ? cut.getBoundingClientRect() : null;
    if (!limit || limit.left < talk.left - 1 || limit.right > talk.right + 1)
      found.push(`${one.outerHTML.slice(0, 120)} at ${box.left}..${box.right} of ${talk.left}..${talk.right}`);
  }
  return found.slice(0, 5);
'''


def rest(page):
    """Nothing moves any more."""
    page.frames(2)
    page.wait('document.getAnimations().length === 0', 'it has come to rest')


def within(page, place='#talk'):
    """Nothing makes the page scroll to the side or leaves its column."""
    width = page.js('[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth, document.documentElement.scrollLeft]')
    need(width[0] <= width[2] and width[1] <= width[2] and width[3] == 0, f'the page scrolls to the side: {width}')
    outside = page.run(OUTSIDE, place)
    need(not outside, f'outside of {place}: {outside}')
