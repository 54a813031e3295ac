// SPDX-License-Identifier: MIT
// ollama-js: a chat, whole or streamed. Clients of Ollama send no key, so this one comes by the Unix socket.
import { Ollama } from 'ollama';
import {
  CITY, failure, HELLO, LONG, MODEL, options, serve, SHORT, SYSTEM, TITLE, unixFetch, WEATHER, WHOLE,
} from './driver.js';

const { stream = false } = options;
const client = new Ollama({ host: 'http://localhost', fetch: unixFetch });
const messages = [{ role: 'system', content: SYSTEM }];

async function chat(body) {
  const reply = await client.chat({ model: MODEL, stream, ...body });
  if (!stream) {
    return reply;
  }
  const whole = { message: { role: 'assistant', content: '' }, logprobs: [] };
  for await (const { message, logprobs = [], ...part } of reply) {
    whole.message.content += message.content;
    whole.logprobs.push(...logprobs);
    Object.assign(whole, part);
  }
  return whole;
}

async function say(text) {
  messages.push({ role: 'user', content: text });
  const reply = await chat({ messages, logprobs: true, options: { temperature: 0, num_predict: SHORT } });
  messages.push(reply.message);
  return {
    text: reply.message.content,
    n_prompt: reply.prompt_eval_count,
    n_generated: reply.eval_count,
    logprobs: reply.logprobs.map((token) => token.logprob),
  };
}

const hello = { messages: [{ role: 'user', content: HELLO }], options: { temperature: 0, num_predict: SHORT } };
const long = { ...hello, options: { num_predict: LONG } };

// What the tool was called with, and the text in the end.
async function callTools() {
  const calls = [];
  const input = [...hello.messages];
  const tools = [{ type: 'function', function: { ...WEATHER, parameters: CITY } }];
  for (;;) {
    const { message } = await client.chat({ model: MODEL, messages: input, tools });
    input.push(message);
    if (!message.tool_calls?.length) {
      return { calls, text: message.content };
    }
    for (const call of message.tool_calls) {
      calls.push(call.function.arguments.city);
      input.push({ role: 'tool', content: 'cold', tool_name: call.function.name });
    }
  }
}

// Ends a stream at its first text.
async function abort() {
  return failure(async () => {
    const reply = await client.chat({ ...long, model: MODEL, stream: true });
    for await (const part of reply) {
      if (part.message.content) {
        reply.abort();
      }
    }
  });
}

// Texts that go on by the tokens of `context`, and what the prompts and replies had.
async function generate(texts) {
  const said = [];
  let context;
  for (const prompt of texts) {
    const reply = await client.generate({ model: MODEL, prompt, context, options: hello.options });
    said.push({ text: reply.response, n_context: reply.context.length });
    ({ context } = reply);
  }
  return said;
}

await serve({
  say,
  edit([turn, text]) {
    messages.splice(1 + 2 * turn);
    return say(text);
  },
  title: (text) => chat({
    messages: [{ role: 'system', content: TITLE }, { role: 'user', content: text }],
    options: { num_predict: 8 },
  }),
  async models() {
    const { models: known } = await client.list();
    const { models: loaded } = await client.ps();
    const { version } = await client.version();
    const { capabilities } = await client.show({ model: known[0].name });
    const names = (models) => models.map(({ name }) => name);
    return { known: names(known), loaded: names(loaded), version, capabilities };
  },
  callTools,
  async parse() {
    const properties = { name: { enum: ['Nora', 'Olga'] }, is_here: { type: 'boolean' } };
    const format = { type: 'object', properties, required: ['name', 'is_here'] };
    return JSON.parse((await chat({ ...hello, options: { num_predict: WHOLE }, format })).message.content);
  },
  generate,
  abort,
  endless: () => client.chat({ ...long, model: MODEL }),
  hello: async () => (await chat(hello)).message.content,
  failHello: () => failure(() => chat(hello)),
  refused: (fields) => failure(() => chat({ ...hello, ...fields })),
  embed: () => failure(() => client.embed({ model: MODEL, input: 'x' })),
});
