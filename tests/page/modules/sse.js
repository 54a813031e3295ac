// SPDX-License-Identifier: MIT
// Server-sent events, however the bytes of a stream are cut.

const STREAM = ': lives\n\nid: 1\nevent: accepted\ndata: {"a":1}\n\nid: 1-5\nevent: delta\ndata: {"text":"gr\u00fcn \ud83c\udf89"}\n\n' +
  'data: one\ndata:two\ndata:  three\ndata\n\n: between\nid: 1-end\nevent: done\ndata: {}\n\n';
const EVENTS = [
  {comment: 'lives'},
  {id: '1', event: 'accepted', data: '{"a":1}'},
  {id: '1-5', event: 'delta', data: '{"text":"gr\u00fcn \ud83c\udf89"}'},
  {id: '1-5', event: 'message', data: 'one\ntwo\n three\n'},
  {comment: 'between'},
  {id: '1-end', event: 'done', data: '{}'},
];

const told = events => JSON.stringify(events);

function read(SseParser, pieces) {
  const parser = new SseParser();
  return pieces.flatMap(piece => [...parser.push(piece)]);
}

export async function test_whole({load, need}) {
  const {SseParser} = await load('js/sse.js');
  const events = read(SseParser, [STREAM]);
  need(told(events) === told(EVENTS), told(events));
  const returned = read(SseParser, [STREAM.replaceAll('\n', '\r\n')]);
  need(told(returned) === told(EVENTS), `CR LF: ${told(returned)}`);
}

export async function test_cut_anywhere({load, need}) {
  const {SseParser} = await load('js/sse.js');
  for (const text of [STREAM, STREAM.replaceAll('\n', '\r\n')])
    for (let i = 0; i <= text.length; i++)
      need(told(read(SseParser, [text.slice(0, i), text.slice(i)])) === told(EVENTS), `cut at ${i}`);
  need(told(read(SseParser, [...STREAM])) === told(EVENTS), 'one by one');
}

export async function test_bytes_cut_anywhere({load, need}) {
  const {SseParser} = await load('js/sse.js');
  const bytes = new TextEncoder().encode(STREAM);
  for (let i = 0; i <= bytes.length; i++) {
    const decoder = new TextDecoder();
    const pieces = [bytes.slice(0, i), bytes.slice(i)].map(piece => decoder.decode(piece, {stream: true}));
    need(told(read(SseParser, pieces)) === told(EVENTS), `cut at byte ${i}`);
  }
}

export async function test_what_is_not_complete_is_not_told({load, need}) {
  const {SseParser} = await load('js/sse.js');
  const parser = new SseParser();
  need([...parser.push('id: 7\ndata: {"a"')].length === 0, 'half a line');
  need([...parser.push(':1}\n')].length === 0, 'a line, but no end');
  need(told([...parser.push('\n')]) === told([{id: '7', event: 'message', data: '{"a":1}'}]), 'the end');
  need([...parser.push('\n\nevent: nothing\n\n')].length === 0, 'an event without data is none');
  need(told([...parser.push('data: x\n\n')]) === told([{id: '7', event: 'message', data: 'x'}]), 'its name is not the next one\'s; the id stays');
  need(told([...parser.push('unknown: 1\nretry: 5\ndata: y\n\n')]) === told([{id: '7', event: 'message', data: 'y'}]), 'fields that nobody knows');
}

export async function test_much({load, need}) {
  const {SseParser} = await load('js/sse.js');
  const parser = new SseParser();
  const line = `data: ${'x'.repeat(1000)}\n\n`;
  const begin = performance.now();
  let n = 0;
  for (let i = 0; i < 100; i++)
    n += [...parser.push(line.repeat(100))].length;
  console.log(`sse: 10,000 events of 1 KB in ${(performance.now() - begin).toFixed(0)} ms`);
  need(n === 10000, `${n} events`);
  for (let i = 0; i < 1000; i++)
    n += [...parser.push(i === 0 ? 'data: ' : 'y'.repeat(1000))].length;
  const [last] = parser.push('\n\n');
  need(n === 10000 && last.data.length === 999000, 'a line of a megabyte, in pieces');
}
