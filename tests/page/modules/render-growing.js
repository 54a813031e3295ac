// SPDX-License-Identifier: MIT
// A text that grows ends as the same text that came at once, and what was laid out stays where it is meanwhile.

const SAMPLE = String.raw`# The *first* heading

A paragraph with **bold**, *emphasis*, ***both***, ~~struck~~, ${'`'}code${'`'} and ${'``'}co${'`'}de${'``'}; a [link](https://example.invalid/a_(b) "title"), an
![image](https://example.invalid/i.png) and https://auto.example.invalid/path_x?y=1. It costs $5, and $6 more, but $e^{i\pi}=-1$ and \(a_1^2\) are formulas.
snake_case_names and 2 * 3 * 4, AT&amp;T, 1 < 2, [not a link] and an * alone.

- one
- two with **bold
  over lines** and more
  - nested one
  - nested two

    with a paragraph

  back in two
- three

  ${'```'}python
  def f(x):
      """doc

      string"""
      return x  # comment
  ${'```'}
- [ ] open
- [x] done

1. first
2. second
   1. inner
   2. inner again
  - indented too little
3. third

> A quote of *some*
lazy lines
>
> - with a list
> - of two

| Name | Value | ${'`'}a|b${'`'} |
|:-----|------:|:---:|
| one | 1 | **b** |
| two | 22 | a long cell with very many words in it, so many that it has to be wrapped more than once at any width |
| three \| four | 3 |

Text before | a table
--- | ---
x | y

$$
\int_0^\infty e^{-x^2}\,dx
  = \frac{\sqrt{\pi}}{2}
$$

\[ \sum_{k=1}^n k = \frac{n(n+1)}{2} \]

A formula $$x = 1$$ within.

${'```'}js
const a = {b: [1, 2, 3]};
/* a comment
   over lines */
function f() { return ${'`'}x${'`'}; }
${'```'}

${'~~~'}
no language ${'```'}
${'~~~'}

    indented code

    goes on

***

## Second heading ##

### Third

* stars
* again

+ plus

Last paragraph with a "quote" -- dashes... and \*escaped\* marks, trailing spaces${"  "}
and a line. <b>Not HTML</b> <https://example.invalid/> &copy; 😀👩‍💻 done.

שלום **עולם** ABC.

Unclosed **bold and ${'`'}code at the end`;

function random(seed) {
  let state = seed;
  return n => {
    state = state * 1103515245 + 12345 & 0x7fffffff;
    return (state >> 8) % n;
  };
}

async function whole(load, text, width) {
  const {TextView} = await load('render/text-view.js');
  const host = document.createElement('div');
  host.style.width = width;
  document.body.append(host);
  const view = new TextView(host);
  if (text !== null) {
    view.set(text);
    await settle(view, load);
  }
  return {host, view};
}

async function settle(view, load) {
  const libs = await load('render/libs.js');
  await Promise.all([libs.load('hljs'), libs.load('katex')]);
  for (let i = 0; i < 3; i++) {
    await view.drawn();
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
  await document.fonts.ready;
}

/** Grows a text; returns what moved though it was final, and how far the whole came up at most. */
async function grow({host, view}, text, next) {
  const fixed = new Map();
  const moved = [];
  let height = 0;
  let shrunk = {by: 0};
  for (let at = 0; at < text.length;) {
    const n = 1 + next(7);
    view.append(text.slice(at, at + n));
    at += n;
    await view.drawn();
    const top = host.getBoundingClientRect().top;
    const now = host.getBoundingClientRect().height;
    if (height - now > shrunk.by)
      shrunk = {by: height - now, behind: text.slice(Math.max(0, at - 40), at)};
    height = Math.max(height, now);
    for (const child of [...host.children].slice(0, -1)) {
      const box = child.getBoundingClientRect();
      const place = `${(box.top - top).toFixed(1)} ${box.height.toFixed(1)}`;
      if (fixed.has(child) && fixed.get(child) !== place)
        moved.push(`${child.localName} ${child.textContent.slice(0, 30)}: ${fixed.get(child)}, ${place} at ${JSON.stringify(text.slice(at - 20, at))}`);
      fixed.set(child, place);
    }
  }
  view.end();
  return {moved, shrunk};
}

async function growing(width, seed, {load, need}) {
  const expected = await whole(load, SAMPLE, width);
  const grown = await whole(load, null, width);
  const {moved, shrunk} = await grow(grown, SAMPLE, random(seed));
  await settle(grown.view, load);
  need(moved.length === 0, `what is final stays: ${moved.join('; ')}`);
  need(shrunk.by <= 28, `nothing comes up by more than a line: ${JSON.stringify(shrunk)}`);
  need(grown.host.innerHTML === expected.host.innerHTML, `the end is the same: ${difference(grown.host.innerHTML, expected.host.innerHTML)}`);
  need(grown.view.text === SAMPLE, 'the text is kept');
  grown.host.remove();
  expected.host.remove();
}

function difference(a, b) {
  let at = 0;
  while (at < a.length && a[at] === b[at])
    at++;
  return `${JSON.stringify(a.slice(Math.max(0, at - 60), at + 60))} instead of ${JSON.stringify(b.slice(Math.max(0, at - 60), at + 60))}`;
}

export const test_growing_wide = tools => growing('700px', 1, tools);
export const test_growing_narrow = tools => growing('290px', 2, tools);

/** Without looking at places, at many more cuts. */
export async function test_growing_by_any_cuts({load, need}) {
  const {BlockReader} = await load('render/blocks.js');
  const told = root => JSON.stringify(root, (key, value) => key === 'indent' ? undefined : value);
  const expected = new BlockReader();
  expected.push(SAMPLE);
  expected.end();
  for (let seed = 1; seed < 200; seed++) {
    const next = random(seed);
    const reader = new BlockReader();
    for (let at = 0; at < SAMPLE.length;) {
      const n = 1 + next(9);
      reader.push(SAMPLE.slice(at, at + n));
      at += n;
    }
    reader.end();
    need(told(reader.root) === told(expected.root), `the blocks are the same with seed ${seed}`);
  }
}

export async function test_marks_are_healed({load, need}) {
  const {heal} = await load('render/blocks.js');
  const cases = {
    'a **b': 'a **b**', 'a **b *c': 'a **b *c***', 'a *': 'a ', 'a ``b': 'a ``b``', '`': '', 'a ~~b': 'a ~~b~~', 'a [te': 'a te', 'a [te](https://x': 'a te',
    '![al](h': 'al', '[x] b': '[x] b', 'x $y+': 'x ', 'costs $5 and more': 'costs $5 and more', '\\(x': '', '**a `b': '**a `b`**', 'snake_ca': 'snake_ca',
    'a **b ': 'a **b** ', '[a](https://b.invalid) c': '[a](https://b.invalid) c', '2 * 3': '2 * 3', '**a** b': '**a** b',
  };
  for (const [text, healed] of Object.entries(cases))
    need(heal(text) === healed, `${JSON.stringify(text)} is ${JSON.stringify(heal(text))}`);
  const start = performance.now();
  for (const mark of ['*', '_', '`', '[', '$', '~', '\\(', '](', '*a ', '_a_', '`a``', '<https://', '&', '$a '])
    heal(mark.repeat(20000));
  need(performance.now() - start < 4000, `long runs of marks do not stop the page: ${Math.round(performance.now() - start)} ms`);
}

/** Marks in the middle of being written are never seen. */
export async function test_marks_are_not_seen({load, need}) {
  const {libs, ready} = await load('render/libs.js');
  await ready;
  const grown = await whole(load, null, '700px');
  if (!libs.markdownit || !libs.purify)
    return;
  const text = 'A **bold word** and `some code` and [a link](https://example.invalid/long/path) and *more*.\n\n- item **b**\n\n| a | b |\n|---|---|\n| c | d |\n';
  for (const c of text) {
    grown.view.append(c);
    await grown.view.drawn();
    need(!/[*`|[\]()]|https|---/.test(grown.host.textContent), `marks are seen: ${grown.host.textContent}`);
  }
  grown.host.remove();
}

/** Of a long list only its end is drawn again. */
export async function test_only_the_end_is_drawn({load, need}) {
  const grown = await whole(load, Array.from({length: 200}, (_, i) => `- item ${i} with **words**\n`).join(''), '700px');
  grown.view.append('- one');
  await grown.view.drawn();
  const items = [...grown.host.querySelectorAll('li')];
  const first = items[0].firstElementChild.firstChild;
  let changes = 0;
  const observer = new MutationObserver(records => {
    changes += records.length;
  });
  observer.observe(grown.host, {childList: true, subtree: true, characterData: true, attributes: true});
  for (let i = 0; i < 20; i++) {
    grown.view.append(` word${i}`);
    await grown.view.drawn();
  }
  observer.disconnect();
  need(changes <= 40, `20 words make ${changes} changes`);
  need(grown.host.querySelectorAll('li').length === 201 && items[0].firstElementChild.firstChild === first, 'what is final is not touched');
  grown.host.remove();
}
