// SPDX-License-Identifier: MIT
// The parts of a reply: text, reasoning (folded), calls; and the results of calls.
import {fill, h} from '../js/dom.js';
import {bytes, duration} from '../js/format.js';
import {t} from '../js/i18n.js';
import {CodeView} from './code.js';
import {markHidden, visible} from './safe.js';
import {plainText, TextView} from './text-view.js';

export class PartsView {
  #host;
  #options;
  #parts = new Map();

  /** Draws into `host`. While `streaming`, parts without an end are being written. `onAnswerCall(part)` is offered with calls. */
  constructor(host, {streaming = false, onAnswerCall = null} = {}) {
    this.#host = host;
    this.#options = {streaming, onAnswerCall};
  }

  /** All parts of a turn that is stored, with the figures of its run if they are known. */
  set(parts, run = null) {
    this.#host.replaceChildren();
    this.#parts.clear();
    for (const part of parts)
      this.update({...part, ends: part.ends ?? !this.#options.streaming});
    if (!this.#options.streaming)
      this.end(run);
  }

  /** What a message of a stream tells. */
  add(parts) {
    for (const part of parts)
      this.update(part);
  }

  /** More of one part: its text is what is added. */
  update(part) {
    let view = this.#parts.get(part.index);
    if (!view) {
      for (const earlier of this.#parts.values())
        earlier.end();
      view = new (KINDS[part.kind] ?? TextPart)(part, this.#options);
      this.#parts.set(part.index, view);
      this.#host.append(view.element);
    }
    view.add(part);
    if (part.ends)
      view.end();
  }

  /** The reply is complete, or broke off: nothing is being written any more. */
  end(run = null) {
    this.#options.streaming = false;
    const views = [...this.#parts.values()];
    const length = views.reduce((sum, view) => sum + view.length, 0);
    for (const view of views) {
      view.end();
      view.complete(run?.decode_usec && length > 0 ? run.decode_usec * view.length / length : null);
    }
  }
}

class TextPart {
  element = h('div', {class: 'part-text'});
  length = 0;
  #view = new TextView(this.element);
  #ended = false;
  #begun = false;

  add({text = '', ends}) {
    this.length += text.length;
    if (ends && !this.#begun)
      this.#view.set(text);
    else
      this.#view.append(text);
    this.#begun = true;
    this.#ended = Boolean(ends);
  }

  end() {
    if (!this.#ended)
      this.#view.end();
    this.#ended = true;
  }

  complete() {}
}

/** Reasoning is folded until somebody opens it, and drawn no sooner. */
class ReasoningPart {
  length = 0;
  #text = '';
  #view = null;
  #ended = false;
  #streamed;
  #begun = performance.now();
  #took = null;
  #words = h('span', {}, t('render.thinking'));
  #body = h('div', {class: 'reasoning-text'});

  constructor(part, {streaming}) {
    this.#streamed = streaming;
    this.element = h('details', {class: 'reasoning', on: {toggle: () => this.#show()}}, h('summary', {}, this.#words), this.#body);
    this.element.classList.toggle('thinking', streaming);
  }

  add({text = ''}) {
    this.length += text.length;
    this.#text += text;
    this.#view?.append(text);
  }

  end() {
    if (this.#ended)
      return;
    this.#ended = true;
    this.#view?.end();
    this.element.classList.remove('thinking');
    if (this.#streamed)
      this.#took = (performance.now() - this.#begun) * 1000;
    this.#words.textContent = this.#took ? t('render.thoughtFor', {time: duration(this.#took)}) : t('render.reasoning');
  }

  /** A reply that came at once because it was written before has only the share of its characters to tell how long it took. */
  complete(share) {
    if (share && (this.#took ?? 0) < share / 2)
      this.#words.textContent = t('render.thoughtAbout', {time: duration(share)});
  }

  #show() {
    if (this.#view || !this.element.open)
      return;
    this.#view = new TextView(this.#body);
    if (this.#ended)
      this.#view.set(this.#text);
    else
      this.#view.append(this.#text);
  }
}

class CallPart {
  length = 0;
  #text = '';
  #part = {};
  #options;
  #ended = false;
  #name = h('span', {class: 'call-name', dir: 'auto'});
  #body = h('div');
  #code = new CodeView('json');

  constructor(part, options) {
    this.#options = options;
    this.#body.append(this.#code.element);
    this.element = h('div', {class: 'call', role: 'group'}, h('p', {class: 'call-head'}, t('render.call'), ' ', this.#name), this.#body);
  }

  add({text = '', ...part}) {
    this.length += text.length;
    this.#text += text;
    for (const [key, value] of Object.entries(part))
      if (value !== undefined && value !== null)
        this.#part[key] = value;
    const name = this.#part.name ?? '';
    showName(this.#name, name);
    this.element.setAttribute('aria-label', t('render.callOf', {name: visible(name)}));
    if (!part.ends)
      this.#code.update({text: visible(this.#text), ended: false});
  }

  end() {
    if (this.#ended)
      return;
    this.#ended = true;
    fill(this.#body, dataView(this.#text));
    const {broken} = this.#part;
    if (broken)
      this.#body.append(h('p', {class: 'call-broken', dir: 'auto'}, `${t('render.broken')} ${visible(String(broken))}`));
  }

  complete() {
    if (this.#options.onAnswerCall && !this.#part.broken && this.#part.name && !this.element.querySelector('.call-answer'))
      this.element.append(h('p', {class: 'actions call-answer'}, h('button', {
        type: 'button', on: {click: () => this.#options.onAnswerCall({...this.#part, text: this.#text})},
      }, t('render.answer'))));
  }
}

const KINDS = {text: TextPart, reasoning: ReasoningPart, call: CallPart};

/** What calls gave: [{call_id, name, content}], each folded. */
export function resultsView(results) {
  return h('div', {class: 'results'}, results.map(({call_id: id, name, content = ''}) => {
    const body = h('div');
    const called = h('span', {class: 'call-name', dir: 'auto'});
    showName(called, name || id || '');
    const show = ({target}) => target.open && body.childNodes.length === 0 && body.append(dataView(content));
    return h('details', {class: 'result', on: {toggle: show}},
      h('summary', {}, t('render.result'), ' ', called, ' ', h('span', {class: 'figures'}, bytes(new Blob([content]).size))), body);
  }));
}

function showName(element, name) {
  element.textContent = visible(name);
  markHidden(element);
}

/** Data as JSON if it is an object or a list, else as text. */
function dataView(text) {
  const pretty = prettyJson(text);
  if (pretty === null)
    return h('div', {class: 'call-text'}, plainText(text));
  const view = new CodeView('json');
  view.update({text: visible(pretty), ended: true});
  return view.element;
}

const LONGEST_PRETTY = 100 * 1024;

/** JSON with its lines broken; numbers and texts stay as they are written, which parsing would not keep. Null if it is none. */
export function prettyJson(text) {
  if (text.length > LONGEST_PRETTY || !/^\s*[[{]/.test(text))
    return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[^\s"[\]{},:]+|[[\]{},:]/g)) {
    if (/^[[{]\s*[\]}]$/.test(token))
      out += token[0] + token.at(-1);
    else if ('[{'.includes(token))
      out += token + (depth++, line());
    else if (']}'.includes(token))
      out += (depth--, line()) + token;
    else
      out += token === ',' ? token + line() : token === ':' ? ': ' : token;
  }
  return out;
}
