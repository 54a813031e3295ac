// SPDX-License-Identifier: MIT
// A Markdown text that may grow, as a tree of blocks (pure). Only the last block and those it is in may change: what is `final` stays.
// Lines decide, so the tree does not depend on how the text was cut. The line that is not complete yet is tried and taken back when more
// comes, and held back as long as its beginning could still become something else.

const DEEPEST = 12;
const HELD_ROW = 300;
const HELD_LINE = 64;
const HELD_BRACKET = 300;
const LONGEST_ADDRESS = 1000;
const LONGEST_MATH = 4000;
const MOST_COLUMNS = 64;
const MOST_ROWS = 250;
const LONGEST_HEALED = 8 * 1024;
const MARKER = /^(?:([-+*])|(\d{1,9})([.)]))(\s+|$)/;
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const STARTS = /^(?:>|#{1,6}(?:\s|$)|`{3,}[^`]*$|~{3,}|\$\$|\\\[)/;
const RULE = /^(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const UNDECIDED = new RegExp(String.raw`^[\s>]*(?:(?:[-+*]|\d{1,9}[.)])\s+)?`
  + String.raw`(?:#{1,6}|[-+*]|\d{1,9}[.)]?|[-*_ ]+|${'`'}{1,2}|~{1,2}|\\|\$\$?|\\\[|\[[ xX]?\]?|[|:\- ]+)?\s*$`);
const CONTAINERS = new Set(['list', 'item', 'quote']);

/**
 * Reads a text piece by piece: push() as it comes, end() when all is there. `root.children` are blocks {kind, final, closed}:
 * text and heading (text, level), code (text, language), math (begin, text, end, whole), table (header, aligns, children of kind row with
 * cells and aligns), rule, and with children quote, list (ordered, start) and item.
 */
export class BlockReader {
  root = block('root', {children: []});
  #rest = '';
  #saved = null;

  push(text) {
    this.#takeBack();
    const all = this.#rest + text;
    let at = 0;
    for (let end = all.indexOf('\n'); end >= 0; end = all.indexOf('\n', at)) {
      this.#line(all.slice(at, end));
      at = end + 1;
    }
    this.#rest = all.slice(at);
    if (this.#rest !== '' && !undecided(this.#rest, deepest(this.root)))
      this.#try();
  }

  end() {
    this.#takeBack();
    if (this.#rest !== '')
      this.#line(this.#rest);
    this.#rest = '';
    this.#close(this.root);
  }

  #try() {
    this.#saved = openPath(this.root).map(node => ({
      node, text: node.text, lines: node.lines, closed: node.closed, whole: node.whole,
      children: node.children?.length, last: node.children?.at(-1),
    }));
    this.#line(this.#rest);
  }

  #takeBack() {
    for (const {node, children, last, ...fields} of this.#saved ?? []) {
      Object.assign(node, fields);
      if (children > 0)
        node.children.splice(children - 1, Infinity, last);
      else if (children === 0)
        node.children.length = 0;
    }
    this.#saved = null;
  }

  #close(node) {
    const last = node.children?.at(-1);
    if (last && !last.closed)
      this.#close(last);
    node.closed = true;
    node.final = !this.#saved;
  }

  #closeLast(box) {
    const last = box.children.at(-1);
    if (last && !last.closed)
      this.#close(last);
  }

  #add(box, node) {
    this.#closeLast(box);
    box.children.push(node);
    if (node.closed)
      node.final = !this.#saved;
    return node;
  }

  #line(raw) {
    let line = raw.replace(/^[ \t]+/, untabbed);
    let box = this.root;
    let depth = 0;
    for (let next = openChild(box); next; next = openChild(box)) {
      const rest = within(next, line);
      if (rest === null)
        break;
      line = rest;
      box = next;
      depth++;
    }
    const last = box.children.at(-1);
    const leaf = last && !last.closed ? last : null;
    if (leaf?.kind === 'code' && leaf.fence)
      return this.#inFence(leaf, line);
    if (leaf?.kind === 'math')
      return this.#inMath(box, leaf, line, depth);
    if (line.trim() === '')
      return this.#blank(leaf);
    if (leaf && CONTAINERS.has(leaf.kind) && !startsBlock(line)) {
      const lazy = deepest(leaf);
      if (lazy.kind === 'text')
        return addLine(lazy, line.trim());
    }
    this.#open(box, line, depth);
  }

  #blank(leaf) {
    if (leaf?.kind === 'code')
      addLine(leaf, '');
    else if (leaf && leaf.kind !== 'list')
      this.#close(leaf);
  }

  #inFence(code, line) {
    const text = line.trim();
    const mark = code.fence[0];
    if (text.length >= code.fence.length && indentOf(line) < 4 && text === mark.repeat(text.length))
      return this.#close(code);
    addLine(code, line.slice(Math.min(indentOf(line), code.indent)));
  }

  #inMath(box, math, line, depth) {
    const end = line.indexOf(math.end);
    if (line.trim() === '' && end < 0)
      return this.#close(math);
    addLine(math, end < 0 ? line : line.slice(0, end));
    if (end < 0)
      return;
    math.whole = true;
    this.#close(math);
    const behind = line.slice(end + math.end.length);
    if (behind.trim() !== '')
      this.#open(box, behind.trim(), depth);
  }

  /** Opens what a line begins in a container, or goes on with the container's text. */
  #open(box, line, depth) {
    for (;;) {
      const last = box.children.at(-1);
      const leaf = last && !last.closed ? last : null;
      const indent = indentOf(line);
      const text = line.slice(indent).trimEnd();
      if (text === '')
        return;
      if (indent >= 4 && leaf?.kind !== 'text')
        return this.#indented(box, leaf, line.slice(4));
      if (indent >= 4 || !this.#table(box, leaf, text) && !this.#leaf(box, text, indent)) {
        const inner = indent >= 4 || depth >= DEEPEST ? null : this.#container(box, leaf, text, indent);
        if (!inner)
          return this.#text(box, leaf, text);
        [box, line] = inner;
        depth++;
        continue;
      }
      return;
    }
  }

  #indented(box, leaf, text) {
    if (leaf?.kind === 'code')
      addLine(leaf, text);
    else
      addLine(this.#add(box, block('code', {language: '', text: '', lines: 0})), text);
  }

  #text(box, leaf, text) {
    if (leaf?.kind === 'text')
      return addLine(leaf, text);
    const node = this.#add(box, block('text', {text: '', lines: 0}));
    const task = box.kind === 'item' && box.children.length === 1 ? /^\[([ xX])\]\s+/.exec(text) : null;
    addLine(node, task ? (task[1] === ' ' ? '\u2610 ' : '\u2611 ') + text.slice(task[0].length) : text);
  }

  #leaf(box, text, indent) {
    const fence = FENCE.exec(text);
    if (fence) {
      const language = (fence[2] ?? fence[4]).trim().split(/[\s{,]/)[0];
      return this.#add(box, block('code', {language, text: '', lines: 0, fence: fence[1] ?? fence[3], indent}));
    }
    const level = /^#{1,6}(?=\s|$)/.exec(text)?.[0].length;
    if (level)
      return this.#add(box, block('heading', {level, text: headingText(text.slice(level)), closed: true}));
    if (RULE.test(text))
      return this.#add(box, block('rule', {closed: true}));
    return this.#math(box, text);
  }

  #math(box, text) {
    const end = text.startsWith('$$') ? '$$' : text.startsWith('\\[') ? '\\]' : null;
    if (!end)
      return null;
    const at = text.indexOf(end, 2);
    if (at >= 0 && at + 2 < text.length)
      return null;
    const math = this.#add(box, block('math', {text: '', lines: 0, begin: text.slice(0, 2), end, whole: at >= 0}));
    addLine(math, at < 0 ? text.slice(2) : text.slice(2, at));
    if (at >= 0)
      this.#close(math);
    return math;
  }

  #table(box, leaf, text) {
    if (leaf?.kind === 'table') {
      if (!text.includes('|') || startsBlock(text))
        return null;
      // The longest tables are several, each with its head: a browser lays out all of a table for each row that comes.
      const {header, aligns} = leaf;
      const table = leaf.children.length < MOST_ROWS ? leaf : this.#add(box, block('table', {header, aligns, children: []}));
      return this.#add(table, block('row', {cells: cellsOf(text), aligns, closed: true}));
    }
    if (leaf?.kind !== 'text' || !/^[|:\-\s]*$/.test(text))
      return null;
    const header = leaf.text.slice(leaf.text.lastIndexOf('\n') + 1);
    const aligns = alignsOf(text);
    const cells = header.includes('|') ? cellsOf(header) : [];
    if (!aligns || aligns.length !== cells.length)
      return null;
    if (leaf.lines === 1)
      box.children.pop();
    else
      leaf.text = leaf.text.slice(0, -header.length - 1);
    return this.#add(box, block('table', {header: cells, aligns, children: []}));
  }

  #container(box, leaf, text, indent) {
    if (text.startsWith('>'))
      return [this.#add(box, block('quote', {children: []})), text.slice(text[1] === ' ' ? 2 : 1)];
    const marker = MARKER.exec(text);
    if (!marker)
      return null;
    const content = text.slice(marker[0].length);
    if (leaf?.kind === 'text' && (content === '' || marker[2] !== undefined && marker[2] !== '1'))
      return null;
    const mark = marker[1] ?? marker[3];
    let list = leaf?.kind === 'list' && leaf.mark === mark ? leaf : null;
    list ??= this.#add(box, block('list', {mark, ordered: marker[1] === undefined, start: Number(marker[2] ?? 1), children: []}));
    const space = content === '' || marker[4].length > 4 ? 1 : marker[4].length;
    const width = marker[0].length - marker[4].length + space;
    const item = this.#add(list, block('item', {indent, offset: indent + width, children: []}));
    return [item, text.slice(width)];
  }
}

function block(kind, fields) {
  return {kind, closed: false, final: false, ...fields};
}

function addLine(node, line) {
  node.text = node.lines > 0 ? `${node.text}\n${line}` : line;
  node.lines++;
}

function untabbed(space) {
  let width = 0;
  for (const c of space)
    width += c === '\t' ? 4 - width % 4 : 1;
  return ' '.repeat(width);
}

function indentOf(line) {
  let n = 0;
  while (line[n] === ' ')
    n++;
  return n;
}

/** The container that may go on in this one: of a list its item. */
function openChild(box) {
  const last = box.children.at(-1);
  if (!last || last.closed || !CONTAINERS.has(last.kind))
    return null;
  return last.kind === 'list' ? last.children.at(-1) : last;
}

function openPath(root) {
  const path = [root];
  for (let node = root.children?.at(-1); node && !node.closed; node = node.children?.at(-1))
    path.push(node);
  return path;
}

function deepest(node) {
  return openPath(node).at(-1);
}

/**
 * What of a line is within a container that goes on, or null. Lists may be indented less than they should in one that is numbered: models
 * write two spaces where Markdown wants three.
 */
function within(node, line) {
  const indent = indentOf(line);
  if (node.kind === 'quote')
    return indent < 4 && line[indent] === '>' ? line.slice(indent + (line[indent + 1] === ' ' ? 2 : 1)).replace(/^\t+/, untabbed) : null;
  if (indent === line.length)
    return '';
  if (indent >= node.offset)
    return line.slice(node.offset);
  return indent >= node.indent + 2 && MARKER.test(line.slice(indent)) ? line.slice(indent) : null;
}

function startsBlock(line) {
  const indent = indentOf(line);
  const text = line.slice(indent);
  return indent < 4 && (STARTS.test(text) || MARKER.test(text) || RULE.test(text.trimEnd()));
}

/** Whether the beginning of a line does not tell yet what the line is. */
function undecided(line, leaf) {
  if (line.length > HELD_LINE)
    return false;
  if (leaf.kind === 'code' && leaf.fence)
    return /^[\s>]*[`~]*\s*$/.test(line);
  if (leaf.kind === 'math')
    return /^[\s>]*[$\\]?$/.test(line);
  if (leaf.kind === 'table' && !line.includes('|') && !startsBlock(line))
    return true;
  return UNDECIDED.test(line);
}

function headingText(text) {
  const words = text.trim();
  let end = words.length;
  while (words[end - 1] === '#')
    end--;
  return end === 0 || /\s/.test(words[end - 1]) ? words.slice(0, end).trimEnd() : words;
}

/** The cells of a row: bars that are escaped or within code do not part them. */
function cellsOf(row) {
  const cells = [];
  let from = row[0] === '|' ? 1 : 0;
  let code = -1;
  for (let i = from; i < row.length; i++) {
    if (row[i] === '\\') {
      i++;
    } else if (row[i] === '`') {
      code = code < 0 && row.indexOf('`', i + 1) > 0 ? i : -1;
    } else if (row[i] === '|' && code < 0) {
      cells.push(row.slice(from, i));
      from = i + 1;
    }
  }
  if (from < row.length)
    cells.push(row.slice(from));
  return cells.map(cell => cell.trim().replaceAll('\\|', '|'));
}

function alignsOf(line) {
  const cells = cellsOf(line);
  if (cells.length === 0 || cells.length > MOST_COLUMNS || !cells.every(cell => /^:?-+:?$/.test(cell)))
    return null;
  return cells.map(cell => cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : cell.startsWith(':') ? 'left' : '');
}

/** What is to be shown of a block of text: without a last line that may still become the head of a table, and healed while it grows. */
export function shownText(node) {
  if (node.final || node.text.length > LONGEST_HEALED)
    return node.text;
  const at = node.text.lastIndexOf('\n') + 1;
  const held = node.text[at] === '|' && node.text.length - at <= HELD_ROW;
  return heal(held ? node.text.slice(0, Math.max(0, at - 1)) : node.text);
}

const CLOSING = {'(': '\\)', '[': '\\]'};

/** The formula that begins at a place of a text: {end, tex, display}, or null. Of "costs $5 and $6" nothing is one. */
export function mathAt(src, at) {
  if (src[at] === '$' && src[at + 1] !== '$')
    return dollarMath(src, at);
  const closing = src[at] === '$' ? '$$' : CLOSING[src[at + 1]];
  if (!closing)
    return null;
  if (src[at + 2] === '$' || at + 2 >= lastEnd(src, closing))
    return null;
  const end = src.indexOf(closing, at + 3);
  return end < 0 || end > at + LONGEST_MATH ? null : {end: end + 2, tex: src.slice(at + 2, end), display: src[at + 1] !== '('};
}

let known = {src: '', ends: {}};

/** Where a mark is for the last time, remembered of one text: many that begin and never end are not looked for again and again. */
function lastEnd(src, mark) {
  if (known.src !== src)
    known = {src, ends: {}};
  return known.ends[mark] ??= src.lastIndexOf(mark);
}

function dollarMath(src, at) {
  if (/[\w$]/.test(src[at - 1] ?? ' ') || /[\s$]/.test(src[at + 1] ?? ' '))
    return null;
  for (let i = at + 1; i < src.length && i < at + LONGEST_MATH && src[i] !== '\n'; i++) {
    if (src[i] === '\\')
      i++;
    else if (src[i] === '$')
      return /\s/.test(src[i - 1]) || /[\w$]/.test(src[i + 1] ?? ' ') ? null : {end: i + 1, tex: src.slice(at + 1, i), display: false};
  }
  return null;
}

/** Whether a formula that has no end yet may begin here: prices are not waited for long. */
function mathOpens(src, at) {
  const rest = src.slice(at + 1, at + HELD_BRACKET + 1);
  if (src[at] === '\\')
    return /^[([]/.test(rest) && rest.length < HELD_BRACKET;
  if (rest === '' || rest === '$')
    return true;
  if (/[\w$]/.test(src[at - 1] ?? ' ') || rest.length > 100 || /^\s/.test(rest))
    return false;
  return !/\n/.test(rest) && !/^[^$]+\$/.test(rest) && !/^[\d.,]+(?:\s.{6}|[\s]?[A-Za-z]{3})/.test(rest);
}

/**
 * A text that is not complete, so that what it becomes does not show as marks first: emphasis and code are closed at its end, links without
 * an end are their words, and marks at the end that may become anything are left out.
 */
export function heal(text) {
  return new Healer(text).result();
}

class Healer {
  #src;
  #at = 0;
  #open = [];
  #brackets = [];
  #left = new Set();
  #tail = '';

  constructor(text) {
    let end = text.length;
    while (end > 0 && '*_~`\\'.includes(text[end - 1]))
      end--;
    this.#src = text.slice(0, end).replace(/&#?\w{0,8}$/, '');
  }

  result() {
    const ordinary = /[^\\$`*_~[\]<]+/y;
    while (this.#at < this.#src.length) {
      ordinary.lastIndex = this.#at;
      if (ordinary.test(this.#src))
        this.#at = ordinary.lastIndex;
      else
        this.#mark(this.#src[this.#at]);
    }
    for (const at of this.#brackets)
      if (this.#src.length - at < HELD_BRACKET)
        this.#leave(at);
    let shown = this.#src;
    if (this.#left.size > 0)
      shown = [...this.#left].sort((a, b) => b - a).reduce((all, at) => all.slice(0, at) + all.slice(at + 1), shown);
    const body = shown.trimEnd();
    const closing = this.#open.reverse().map(({mark, length}) => mark.repeat(length)).join('');
    return body + this.#tail + closing + shown.slice(body.length);
  }

  #mark(c) {
    if (c === '\\' || c === '$')
      this.#math(c);
    else if (c === '`')
      this.#code();
    else if (c === '[')
      this.#brackets.push(this.#at++);
    else if (c === ']')
      this.#bracket();
    else if (c === '<')
      this.#angle();
    else
      this.#emphasis(c);
  }

  #cut(at) {
    this.#src = this.#src.slice(0, at);
    this.#at = at;
  }

  #leave(at) {
    this.#left.add(at);
    if (this.#src[at - 1] === '!')
      this.#left.add(at - 1);
  }

  #math(c) {
    const math = mathAt(this.#src, this.#at);
    if (math)
      this.#at = math.end;
    else if (mathOpens(this.#src, this.#at))
      this.#cut(this.#at);
    else
      this.#at += c === '\\' || this.#src[this.#at + 1] === '$' ? 2 : 1;
  }

  #code() {
    const run = this.#run('`');
    for (let at = this.#at + run; at < this.#src.length;) {
      const next = this.#src.indexOf('`', at);
      if (next < 0)
        break;
      const length = this.#run('`', next);
      at = next + length;
      if (length === run) {
        this.#at = at;
        return;
      }
    }
    if (this.#src.slice(this.#at + run).trim() === '')
      return this.#cut(this.#at);
    this.#tail = '`'.repeat(run);
    this.#at = this.#src.length;
  }

  #run(c, at = this.#at) {
    let n = 1;
    while (this.#src[at + n] === c)
      n++;
    return n;
  }

  #bracket() {
    const opened = this.#brackets.pop();
    const end = opened === undefined ? 0 : linkEnd(this.#src, this.#at + 1);
    if (end < 0) {
      this.#leave(opened);
      this.#cut(this.#at);
    } else {
      this.#at = end || this.#at + 1;
    }
  }

  #angle() {
    if (/^<(?:https?:\/\/|mailto:)[^\s<>]*$/.test(this.#src.slice(this.#at, this.#at + 2000)))
      this.#left.add(this.#at);
    this.#at++;
  }

  #emphasis(c) {
    let length = this.#run(c);
    const before = this.#src[this.#at - 1] ?? ' ';
    const after = this.#src[this.#at + length] ?? ' ';
    this.#at += length;
    const [left, right] = flanks(before, after);
    const closes = right && (c !== '_' || !left || isPunctuation(after));
    const opens = left && (c !== '_' || !right || isPunctuation(before));
    if (c === '~')
      length -= length % 2;
    while (closes && length > 0) {
      const at = this.#open.findLastIndex(({mark}) => mark === c);
      if (at < 0)
        break;
      const used = Math.min(length, this.#open[at].length, 2);
      this.#open.length = at + 1;
      this.#open[at].length -= used;
      length -= used;
      if (this.#open[at].length === 0)
        this.#open.pop();
    }
    if (opens && length > 0)
      this.#open.push({mark: c, length});
  }
}

/** Where the address of a link that begins at a place ends: 0 if none begins there, -1 if it is not complete. */
function linkEnd(src, at) {
  if (at >= src.length)
    return -1;
  if (src[at] !== '(')
    return 0;
  let i = at;
  for (let depth = 0; i < src.length && i < at + LONGEST_ADDRESS && src[i] > ' '; i++) {
    if (src[i] === '\\')
      i++;
    else if (src[i] === '(')
      depth++;
    else if (src[i] === ')' && --depth === 0)
      return i + 1;
  }
  const title = src.slice(i, i + HELD_BRACKET);
  const whole = /^\s+(?:"[^"]*"\s*)?\)/.exec(title);
  return whole ? i + whole[0].length : /^(?:\s+(?:"[^"]*"?)?\s*)?$/.test(title) ? -1 : 0;
}

function isPunctuation(c) {
  return /[\p{P}\p{S}]/u.test(c);
}

function flanks(before, after) {
  const spaces = [/\s/.test(before), /\s/.test(after)];
  const marks = [isPunctuation(before), isPunctuation(after)];
  return [!spaces[1] && (!marks[1] || spaces[0] || marks[0]), !spaces[0] && (!marks[0] || spaces[1] || marks[1])];
}
