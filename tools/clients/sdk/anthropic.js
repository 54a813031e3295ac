// SPDX-License-Identifier: MIT
// Anthropic's SDK: a chat by messages.create, with its stream helper, or by threads: these send the whole history when they
// are told that the server does not hold it.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import {
  CITY, failure, hello, long, MODEL, options, serve, SHORT, SYSTEM, tcpFetch, TITLE, token, url, WEATHER, WHOLE,
} from './driver.js';

const { way = 'create' } = options;
const client = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0, fetch: tcpFetch });
const messages = [];

const settings = { model: MODEL, temperature: 0, max_tokens: SHORT, system: SYSTEM };

const ways = {
  create: (body) => client.messages.create(body),
  stream: (body) => client.messages.stream(body).finalMessage(),
  thread: (body) => client.beta.messages.thread(body).send(),
};

let thread = null;

// The next reply of the chat: a thread has the history itself.
async function next(message) {
  if (way === 'thread') {
    thread ??= client.beta.messages.thread({ ...settings, messages });
    return thread.send(message);
  }
  return ways[way]({ ...settings, messages: [...messages, message] });
}

async function say(text) {
  const message = { role: 'user', content: text };
  const reply = await next(message);
  messages.push(message, { role: reply.role, content: reply.content });
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens } = reply.usage;
  return {
    text: reply.content.map((block) => block.text).join(''),
    n_prompt: input_tokens + cache_read_input_tokens + cache_creation_input_tokens,
    n_cached: cache_read_input_tokens,
    n_generated: output_tokens,
  };
}


// What the tool was called with, and the text in the end.
async function callTools() {
  const calls = [];
  const weather = betaTool({
    ...WEATHER,
    inputSchema: CITY,
    run({ city }) {
      calls.push(city);
      return 'cold';
    },
  });
  const stream = way === 'stream';
  const runner = client.beta.messages.toolRunner({ ...hello, max_tokens: WHOLE, tools: [weather], stream });
  const { content } = await runner.runUntilDone();
  return { calls, text: content.map((block) => block.text).join('') };
}

// Ends a stream at its first text.
async function abort() {
  const stream = client.messages.stream(long);
  stream.on('text', () => stream.abort());
  return failure(() => stream.done());
}

await serve({
  say,
  edit([turn, text]) {
    messages.splice(2 * turn);
    thread = null;
    return say(text);
  },
  title: (text) => ways[way]({ ...hello, max_tokens: 8, system: TITLE, messages: [{ role: 'user', content: text }] }),
  async models() {
    const { data } = await client.models.list();
    return Promise.all(data.map(async ({ id }) => (await client.models.retrieve(id)).id));
  },
  count: async () => (await client.messages.countTokens({ model: hello.model, messages: hello.messages })).input_tokens,
  helloUsage: async () => (await client.messages.create(hello)).usage,
  callTools,
  abort,
  endless: () => client.messages.create(long, { timeout: 600000 }),
  hello: async (maxRetries) => (await client.messages.create(hello, { maxRetries })).content[0].text,
  failHello: () => failure(() => client.messages.create(hello)),
  refused: (fields) => Promise.all([
    failure(() => ways.create({ ...hello, ...fields })),
    failure(() => ways.stream({ ...hello, ...fields })),
  ]),
});
