// SPDX-License-Identifier: MIT
// Mathematics: a formula is its source until KaTeX is there, and stays so where KaTeX cannot read it.
import {h} from '../js/dom.js';
import {mathAt} from './blocks.js';
import {later, libs, load} from './libs.js';

const OPTIONS = {
  throwOnError: true, trust: false, strict: 'ignore', maxSize: 20, maxExpand: 200, output: 'htmlAndMathml', errorColor: 'var(--error)',
};
const AT_ONCE_MS = 20;
const waiting = new Set();
const sources = new WeakMap();
const wide = new ResizeObserver(entries => {
  for (const {target} of entries)
    if (target.scrollWidth > target.clientWidth)
      target.tabIndex = 0;
    else
      target.removeAttribute('tabindex');
});

/** An element with a formula, of its source with its marks; as it is until settleMath() is called on something it is in. */
export function mathView(source) {
  const display = mathAt(source, 0)?.display ?? false;
  const view = h('span', {class: display ? 'math math-display' : 'math', dir: 'ltr'}, h('code', {}, source));
  sources.set(view, source);
  return view;
}

/** Whether two elements are of the same formula. */
export function sameMath(a, b) {
  return sources.has(a) && sources.get(a) === sources.get(b);
}

export function isMath(node) {
  return sources.has(node);
}

/** Draws the formulas in an element (or it itself), now or when KaTeX is there. */
export function settleMath(root) {
  const found = [...root.querySelectorAll('.math'), ...sources.has(root) ? [root] : []].filter(view => !view.dataset.drawn);
  if (found.length === 0)
    return;
  const until = performance.now() + AT_ONCE_MS;
  while (libs.katex && found.length > 0 && performance.now() < until)
    draw(found.shift());
  if (found.length === 0)
    return;
  found.forEach(view => waiting.add(view));
  load('katex').then(() => later(drawWaiting));
}

function drawWaiting(until) {
  for (const view of waiting) {
    waiting.delete(view);
    if (libs.katex)
      draw(view);
    if (performance.now() > until)
      break;
  }
  return waiting.size > 0;
}

function draw(view) {
  const source = sources.get(view);
  const math = mathAt(source, 0);
  view.dataset.drawn = 'true';
  try {
    view.replaceChildren(drawn(math.tex, math.display));
  } catch {
    view.classList.add('math-source');
  }
  if (math?.display)
    wide.observe(view);
}

/** KaTeX writes some styles as attributes, which the page's policy refuses: these are set as properties when the elements are there. */
function drawn(tex, display) {
  const tree = libs.katex.__renderToDomTree(tex, {...OPTIONS, displayMode: display});
  const styles = [];
  walk(tree, node => {
    if (node.attributes?.style) {
      node.attributes['data-style'] = styles.push(node.attributes.style) - 1;
      delete node.attributes.style;
    }
  });
  const element = tree.toNode();
  for (const styled of styles.length > 0 ? element.querySelectorAll('[data-style]') : []) {
    styled.style.cssText = styles[styled.dataset.style];
    styled.removeAttribute('data-style');
  }
  return element;
}

function walk(node, fn) {
  fn(node);
  for (const child of node.children ?? [])
    walk(child, fn);
}
