#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""everyone.py: the page for all who use it: with a screen reader, in forced colours, with other sizes of text, languages and directions,
on narrow and wide screens. axe-core looks at each state; what it cannot see is looked at here. Keys are keyboard.py's."""
import re
import sys

sys.dont_write_bytecode = True
import rig
from acts import flat, grows, hears, listen, rest, send, sentences, settles, turns, within, words
from rig import need
from states import each_state, rich, show_all_parts, show_compare, show_editing, show_note, show_strip, show_tree

ARABIC, HEBREW = 'مرحبا بالعالم، كيف حالك؟', 'שלום עולם, מה שלומך?'

TARGETS = '''
  return [...document.querySelectorAll('button, a[href], select, summary, input:not([type="checkbox"], [type="file"]), textarea')].filter(one => {
    if (!one.checkVisibility({visibilityProperty: true}) || one.closest('.prose p, .prose li, .prose td, .skip'))
      return false;
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.width < 24 || box.height < 24);
  }).map(one => `${one.outerHTML.slice(0, 100)}: ${one.getBoundingClientRect().width} x ${one.getBoundingClientRect().height}`);
'''


def test_axe(r, page):
    """No violations in each state: wide in light and dark, narrow where it differs (all with --full). What can be pressed is 24 px wide and high at least."""
    page.expect('404')

    def look(name):
        for size in ((1280, 800), (320, 640)):
            page.size(*size)
            rest(page)
            for theme in ('light', 'dark'):
                # narrow, with the colours of wide, most states have nothing of their own
                if size[0] == 1280 or rig.FULL or (theme == 'light' and name in ('conversation', 'tree', 'settings')):
                    page.theme(theme)
                    rest(page)
                    r.axe(page, **({} if theme == 'light' else {'runOnly': ['color-contrast']}))
            small = page.run(TARGETS)
            need(not small, small[:6])
        page.size(1280, 800)
        page.theme('light')
    each_state(r, page, look)


def test_axe_drawer(r, page):
    made, _ = rich(r)
    page.size(320, 640)
    r.show(page, made)
    page.role('button', 'Show conversations').click()
    page.wait("getComputedStyle(document.querySelector('#list')).visibility === 'visible'", 'the drawer is open')
    page.wait("document.getAnimations().length === 0", 'it has come to rest')
    for theme in ('light', 'dark'):
        page.theme(theme)
        rest(page)
        r.axe(page)


def test_axe_while_written(r, page):
    made, _ = rich(r)
    front = r.front()
    r.show(page, made, url=front.url)
    front.rate = 3000
    front.reply(sentences(60), max_tokens=20000)
    send(page, 'Go on.')
    grows(page, 10)
    r.axe(page)
    page.click('#stop')
    front.rate = None
    settles(page)


# ---- screen readers ----

REGION = '''
  window.__told = [];
  new MutationObserver(records => {
    for (const record of records)
      for (const node of record.addedNodes)
        window.__told.push(node.textContent);
  }).observe(document.getElementById('announcements'), {childList: true, subtree: true});
'''


def test_live_region(r, page):
    """A reply is announced in whole sentences, all of them and in their order, and is busy while it grows."""
    text = 'The first sentence is here. Is this the second one? It is! "And a fourth," she said. The fifth costs 3.50 and goes on to its end.' \
        '\n\nA last one'
    made, front = r.opened(), r.front()
    r.show(page, made, url=front.url)
    page.run(REGION)
    front.rate = 4000
    front.reply(text)
    send(page, 'Tell me.')
    grows(page, 5)
    page.wait("document.querySelector('.turn[aria-busy=\"true\"]')", 'it is busy')
    front.rate = None
    settles(page)
    told = page.js('window.__told')
    need(flat(' '.join(told)) == flat(text), told)
    need(all(re.search(r'[.!?]["\')]*$', one.strip()) for one in told[:-1]), told)
    need(3 <= len(told) <= 7, told)
    n = r.conversation(made, turns=1)['turns'][-1]['run']['n_generated']
    need(n > 8 * len(told), (n, told))
    need(page.js("document.querySelector('.turn:last-child').getAttribute('aria-busy')") == 'false', 'it is over')
    need(page.js("['announcements', 'notes'].every(id => document.getElementById(id).ariaLive === 'polite')"), 'the regions are polite')


def test_names_and_landmarks(r, page):
    made, _ = rich(r)
    r.show(page, made)
    for role in ('navigation', 'main', 'contentinfo'):
        need(len(page.roles(role)) == 1, f'{role}: {len(page.roles(role))}')
    need(page.js("document.querySelectorAll('h1').length") == 1, 'one heading of the first level')
    levels = page.js("[...document.querySelectorAll('#talk :is(h1, h2, h3, h4, h5, h6)')].map(one => Number(one.localName[1]))")
    need(all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels)
    unnamed = page.js("[...document.querySelectorAll('button, a[href], input, select, textarea')].filter(one => one.checkVisibility() && "
                      "!(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title)).map(one => one.outerHTML.slice(0, 100))")
    need(not unnamed, unnamed)
    for article in page.roles('article'):
        need(article.accessible_name in ('You', 'Reply', 'Results'), article.accessible_name)
    shapes = {one.accessible_name for one in page.roles('image')}
    need(shapes and shapes <= {words(page, f'residency.{kind}') for kind in ('resident', 'partial', 'spilled', 'cold')}, shapes)


def test_reduced_motion(r, page):
    made, _ = rich(r)
    front = r.front()
    page.reduced_motion()
    r.show(page, made, url=front.url)
    show_tree(page)
    page.run('''
      window.__moving = new Set();
      const look = () => {
        for (const one of document.getAnimations())
          window.__moving.add(`${one.animationName ?? one.transitionProperty} of ${one.effect.target.className}`);
        requestAnimationFrame(look);
      };
      look();
    ''')
    front.rate = 20000
    front.reply('<think>\n' + sentences(4) + '\n</think>\n\nA reply.', max_tokens=20000)
    send(page, 'Think.')
    settles(page)
    page.role('button', 'Actions for this conversation').click()
    page.press('Escape')
    page.size(320, 640)
    page.role('button', 'Close').click()
    page.role('button', 'Show conversations').click()
    page.wait("getComputedStyle(document.querySelector('#list')).visibility === 'visible'", 'the drawer is open')
    page.press('Escape')
    page.frames(5)
    need(not page.js('[...window.__moving]'), page.js('[...window.__moving]'))
    need(page.js("getComputedStyle(document.querySelector('.talk-scroll')).scrollBehavior") == 'auto', 'nothing scrolls smoothly')


def picture(page, css):
    """A PNG of an element, with a little around it."""
    box = page.js('(b => [b.x, b.y, b.width, b.height])(document.querySelector(a).getBoundingClientRect())', css)
    clip = {'x': box[0] - 2, 'y': box[1] - 2, 'width': box[2] + 4, 'height': box[3] + 4, 'scale': 4}
    return page.cdp('Page.captureScreenshot', format='png', clip=clip)['data']


def test_forced_colors(r, page):
    """Where memory is, is a shape: four of them, that differ without colours."""
    made, _ = rich(r)
    page.media(forced_colors='active')
    for theme in ('light', 'dark'):
        page.theme(theme)
        r.show(page, made)
        disc = '.talk-head .residency'
        page.one(disc)
        page.run("const disc = document.querySelector(a), copy = disc.cloneNode(true); disc.replaceWith(copy); "
                 "copy.id = 'shape'; copy.style.margin = '0';", disc)
        shapes = {}
        for kind in ('resident', 'partial', 'spilled', 'cold', None):
            page.run("const disc = document.getElementById('shape'); disc.style.visibility = a ? 'visible' : 'hidden'; "
                     "disc.dataset.residency = a;", kind)
            page.frames(2)
            shapes[kind] = picture(page, '#shape')
        need(len(set(shapes.values())) == 5, f'shapes that look the same in {theme}')
        page.open('about:blank')


# ---- sizes ----

SIZES = [(320, 640), (375, 812), (640, 400), (720, 800), (1024, 768), (1280, 800), (1600, 900), (2560, 1440), (3840, 2160)]


def frame_is_fine(page, what=''):
    within(page)
    bad = page.run('''
      const bad = [];
      const box = document.querySelector('.composer')?.getBoundingClientRect();
      if (!box || box.height === 0 || !document.querySelector('.composer').checkVisibility({visibilityProperty: true}))
        return bad;
      if (box.bottom > innerHeight + 1 || box.left < -1 || box.right > innerWidth + 1)
        bad.push(`the composer is not in view: ${JSON.stringify(box)}`);
      for (const one of document.querySelectorAll('.composer textarea, .composer button')) {
        const at = one.getBoundingClientRect();
        if (at.width === 0)
          continue;
        for (const share of [0.1, 0.5, 0.9]) {
          const top = document.elementFromPoint(at.x + at.width * share, at.y + at.height / 2);
          if (top !== one && !one.contains(top))
            bad.push(`${one.id || one.textContent} is covered by ${top?.outerHTML.slice(0, 80)}`);
        }
      }
      for (const id of ['list', 'talk', 'strip', 'panel'])
        for (const other of ['list', 'talk', 'strip', 'panel']) {
          if (id >= other)
            continue;
          const [a, b] = [id, other].map(one => document.getElementById(one)).map(one => [one.getBoundingClientRect(), getComputedStyle(one)]);
          if ([a, b].some(([at, style]) => at.width === 0 || style.position === 'fixed' || style.visibility === 'hidden'))
            continue;
          if (a[0].right > b[0].left + 1 && b[0].right > a[0].left + 1 && a[0].bottom > b[0].top + 1 && b[0].bottom > a[0].top + 1)
            bad.push(`${id} and ${other} overlap`);
        }
      return bad;
    ''')
    need(not bad, (what, bad))


def test_sizes(r, page):
    """From 320 to 3840 px: nothing scrolls to the side, nothing lies above the message, and text keeps its measure."""
    made, child = rich(r)
    r.show(page, made)
    page.wait("document.querySelector('.katex')", 'it is drawn')
    show_all_parts(page)
    for panel in (False, True):
        if panel:
            page.size(1280, 800)
            show_tree(page)
        for width, height in SIZES:
            page.size(width, height)
            rest(page)
            frame_is_fine(page, (width, height, panel))
            measure = page.js("document.querySelector('.turn').getBoundingClientRect().width / "
                              "parseFloat(getComputedStyle(document.documentElement).fontSize)")
            need(measure <= 46.5, f'{measure} rem at {width}')
    page.click('.panel-head button')
    r.go(page, child)
    show_compare(page)
    for width, height in SIZES:
        page.size(width, height)
        page.frames(3)
        within(page)
        need(page.js("document.querySelector('.compare-side .turn').getBoundingClientRect().width") <= 46.5 * 16, f'the measure at {width}')
    page.press('Escape')
    # notes
    page.size(1280, 800)
    show_note(page)
    for width, height in ((320, 640), (640, 400), (1280, 800), (3840, 2160)):
        page.size(width, height)
        rest(page)
        need(page.all('.note'), 'the note is there')
        frame_is_fine(page, 'a note')
    # a draft of many lines
    page.run("const m = document.querySelector('#message'); m.value = 'line\\n'.repeat(60); m.dispatchEvent(new Event('input'));")
    for width, height in ((320, 480), (1280, 800)):
        page.size(width, height)
        rest(page)
        frame_is_fine(page, 'many lines')
        need(page.js("document.querySelector('.talk-scroll').clientHeight") > 100, 'there is room for the talk')


def test_zoom(r, page):
    """200 % and 400 %: all of it can be reached without scrolling to the side."""
    page.expect('404')
    for width, height, scale in ((640, 400, 2), (320, 256, 4)):
        page.size(width, height, scale)

        def look(_):
            within(page, 'body')
            wide = page.run("return [...document.querySelectorAll('dialog, .menu, #strip-panel, .note, #panel:not([hidden])')].filter("
                            "one => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth + 1 || "
                            "one.getBoundingClientRect().bottom > innerHeight + 1).map(one => one.outerHTML.slice(0, 100));")
            need(not wide, wide)
        each_state(r, page, look, ['conversation', 'settings', 'menu', 'tree', 'strip', 'editing'] if scale == 2 else
                   ['conversation', 'settings', 'menu'])


def test_text_spacing(r, page):
    """WCAG 1.4.12: with wider lines, letters, words and paragraphs nothing is cut off."""
    page.expect('404')

    def look(name):
        page.run('''
          const sheet = new CSSStyleSheet();
          sheet.replaceSync('* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important } '
            + 'p { margin-bottom: 2em !important }');
          document.adoptedStyleSheets = [sheet];
        ''')
        for size in ((1280, 800), (320, 640)):
            page.size(*size)
            page.frames(3)
            within(page)
            cut = page.run('''
              return [...document.querySelectorAll('button, h1, h2, h3, label, p, dt, dd, summary, .note span, .row-when')].filter(one => {
                const style = getComputedStyle(one);
                return one.checkVisibility({visibilityProperty: true}) && !one.closest('.unseen, .strip-bar, .math, .growing, .tree-row')
                    && style.textOverflow !== 'ellipsis' && style.overflowX !== 'auto'
                  && style.display !== 'inline' && (one.scrollWidth > one.clientWidth + 2 || one.scrollHeight > one.clientHeight + 2);
              }).map(one => `${one.outerHTML.slice(0, 90)}: ${one.scrollWidth} of ${one.clientWidth}, ${one.scrollHeight} of ${one.clientHeight}`);
            ''')
            need(not cut, (size, cut[:6]))
        page.size(1280, 800)
        need(name, 'a state')
    each_state(r, page, look, ['conversation', 'tree', 'settings', 'strip', 'editing', 'menu', 'list'])


# ---- languages and directions ----

def test_right_to_left(r, page):
    """Arabic and Hebrew have their direction, and what is code, mathematics or a figure keeps its own."""
    r.clear()
    made = r.opened(about={'title': ARABIC})
    r.tell(made, ARABIC, f'{HEBREW}\n\n- {ARABIC}\n- {HEBREW}\n\n```c\nint x = 1;\n```\n\n$$a = b$$\n\nEnglish, with {HEBREW} in it.')
    r.show(page, made)
    page.wait("document.querySelector('.katex')", 'it is drawn')
    told = page.run('''
      const at = css => document.querySelector(css);
      // which side the words are at, and their direction
      const side = one => {
        const range = document.createRange();
        range.selectNodeContents(document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode());
        const text = range.getBoundingClientRect(), box = one.getBoundingClientRect();
        return [getComputedStyle(one).direction, box.right - text.right < text.left - box.left ? 'right' : 'left'];
      };
      const prose = '.turn[data-role="assistant"] .prose';
      return {message: side(at('.turn[data-role="user"] .plain')), hebrew: side(at(`${prose} > p`)), item: side(at(`${prose} li`)),
        code: [getComputedStyle(at('pre')).direction, getComputedStyle(at('pre')).textAlign], math: getComputedStyle(at('.math-block')).direction,
        english: side([...document.querySelectorAll(`${prose} > p`)].at(-1)),
            figures: getComputedStyle(at('.turn-foot') ?? at('.turn-head')).direction,
        row: getComputedStyle(at('#list .row-title')).direction, title: getComputedStyle(at('.talk-title')).direction};
    ''')
    need(told['message'] == ['rtl', 'right'] and told['hebrew'] == ['rtl', 'right'] and told['item'] == ['rtl', 'right'], told)
    need(told['code'][0] == 'ltr' and told['code'][1] in ('left', 'start') and told['math'] == 'ltr' and told['english'] == ['ltr', 'left'], told)
    need(told['row'] == 'rtl' and told['title'] == 'rtl' and told['figures'] == 'ltr', told)
    page.insert(HEBREW, '#message')
    need(page.js("getComputedStyle(document.querySelector('#message')).direction") == 'rtl', 'what is written, too')
    page.size(320, 640)
    within(page)


def test_mirrored(r, page):
    """The frame of a language that is written from right to left."""
    made, _ = rich(r)
    r.show(page, made)
    page.run("document.documentElement.dir = 'rtl';")
    show_tree(page)
    for width, height in ((1280, 800), (1000, 700), (320, 640)):
        page.size(width, height)
        rest(page)
        frame_is_fine(page, (width, height))
    page.size(1280, 800)
    page.frames(2)
    left = page.js("['list', 'talk', 'panel'].map(id => document.getElementById(id).getBoundingClientRect().left)")
    need(left == sorted(left, reverse=True), left)
    need(page.js("getComputedStyle(document.querySelector('pre')).direction") == 'ltr', 'code is not mirrored')
    page.click('.panel-head button')
    page.size(320, 640)
    page.role('button', 'Show conversations').click()
    page.wait("document.getAnimations().length === 0 && getComputedStyle(document.querySelector('#list')).visibility === 'visible'",
        'the drawer is open')
    box = page.js("(b => [b.left, b.right, innerWidth])(document.querySelector('#list').getBoundingClientRect())")
    need(box[1] == box[2] and box[0] > 0, box)


def test_german(r, page):
    """All of the page is in German: its words, its figures, its language."""
    made, child = rich(r)
    page.expect('404')
    page.language('de-DE')
    r.show(page, made)
    need(page.js('document.documentElement.lang') == 'de', page.js('document.documentElement.lang'))
    english, german = page.run('''
      const [en, de] = await Promise.all(['en', 'de'].map(async tag => (await import(new URL(`page/js/words-${tag}.js`, document.baseURI))).default));
      const flat = words => Object.values(words).flatMap(one => typeof one === 'object' ? flat(one) : [one]);
      return [flat(en), flat(de)];
    ''')
    # words without values, which are not the same in German
    foreign = {one for one in english if '{' not in one and one not in german and re.search(r'[A-Za-z]{2}', one)}
    need(len(foreign) > 150, len(foreign))
    visible = '''
      const found = new Set();
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walk.nextNode())
        if (!walk.currentNode.parentElement.closest('.turn-body .prose, noscript'))
          found.add(walk.currentNode.data.trim());
      for (const one of document.querySelectorAll('*'))
        for (const name of ['aria-label', 'title', 'place' + 'holder', 'alt'])
          if (one.hasAttribute(name))
            found.add(one.getAttribute(name).trim());
      return [...found];
    '''

    def check(what):
        page.frames(2)
        there = [one for one in page.run(visible) if one in foreign]
        need(not there, (what, there))
    check('conversation')
    show_tree(page)
    check('tree')
    page.click('.panel-head button')
    r.go(page, child)
    page.run("document.querySelector('.turn:last-child .turn-actions button:last-child').click();")
    check('menu of a turn')
    page.role('menuitem', 'Mit dem anderen Zweig vergleichen').click()
    page.wait("document.querySelectorAll('.compare .compare-side .turn').length >= 2", 'both branches are there')
    check('compare')
    page.press('Escape')
    for key in ('?', ',', 'a'):
        page.run('document.activeElement.blur();')
        page.press(key)
        page.role('dialog')
        check(f'the dialog of {key}')
        page.press('Escape')
        page.gone('dialog')
    page.run("document.querySelector('.talk-head [aria-haspopup]').click();")
    check('menu')
    page.press('Escape')
    page.run("document.querySelectorAll('.talk-head [aria-haspopup]')[1].click();")
    check('menu of the page')
    page.press('Escape')
    show_strip(page)
    check('strip')
    page.press('Escape')
    show_editing(page)
    check('editing')
    page.run("location.hash = '#/c/999999';")
    page.one('.start .error')
    check('error')
    page.run("location.hash = '#/';")
    page.wait("document.querySelector('.start .new-fields')", 'the beginning is shown')
    check('list')
    # 2.048 and not 2,048
    r.go(page, made)
    need(re.search(r'\d\.\d{3}', page.text('.talk-figures')), page.text('.talk-figures'))


def test_text_is_enough(r, page):
    """Errors and states have words, not colours alone."""
    page.expect('ERR_', 'Failed to load')
    made, front = r.opened(), r.front()
    listen(page)
    r.show(page, made, url=front.url)
    front.down()
    page.one('.connection')
    need(len(page.text('.connection')) > 40, page.text('.connection'))
    front.up()
    hears(page, words(page, 'connection.back'), 'it is back')
    need(turns(page) == [], 'nothing else happens')


rig.run(globals(), model=('tiny:llama', '65536'), daemon=('--pool-size', '256M'))
