// SPDX-License-Identifier: MIT
// openai-node: a chat by chat.completions, whole or with the stream helper.
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  CITY, failure, hello, long, MODEL, options, serve, SHORT, SYSTEM, tcpFetch, TITLE, token, unixFetch, url, WEATHER,
  WHOLE,
} from './driver.js';

const { way = 'create', unix = false } = options;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: unix ? 'none' : token, fetch: unix ? unixFetch : tcpFetch });
const messages = [{ role: 'system', content: SYSTEM }];
const settings = { model: MODEL, temperature: 0, max_tokens: SHORT, logprobs: true };

const ways = {
  create: () => client.chat.completions.create({ ...settings, messages }),
  stream: () => client.chat.completions.stream({ ...settings, messages, stream_options: { include_usage: true } })
    .finalChatCompletion(),
};

async function say(text) {
  messages.push({ role: 'user', content: text });
  const { choices: [choice], usage } = await ways[way]();
  messages.push(choice.message);
  return {
    text: choice.message.content,
    n_prompt: usage.prompt_tokens,
    n_cached: usage.prompt_tokens_details.cached_tokens,
    n_generated: usage.completion_tokens,
    logprobs: choice.logprobs.content.map((token) => token.logprob),
  };
}

const Person = z.object({ name: z.enum(['Nora', 'Olga']), is_here: z.boolean() });

// What its tool was called with, and the text in the end.
async function callTools(stream) {
  const calls = [];
  const weather = {
    ...WEATHER,
    parameters: CITY,
    parse: JSON.parse,
    function({ city }) {
      calls.push(city);
      return 'cold';
    },
  };
  const tools = [{ type: 'function', function: weather }];
  const runner = client.chat.completions.runTools({ ...hello, max_tokens: WHOLE, stream, tools });
  return { calls, text: await runner.finalContent() };
}

// Ends a stream at its first text.
async function abort() {
  const runner = client.chat.completions.stream(long);
  runner.on('content', () => runner.abort());
  return failure(() => runner.done());
}

async function complete(prompt) {
  const body = { model: MODEL, prompt, max_tokens: 12, temperature: 0, logprobs: 1 };
  const whole = await client.completions.create(body);
  let text = '';
  for await (const { choices: [choice] } of await client.completions.create({ ...body, stream: true })) {
    text += choice?.text ?? '';
  }
  return { whole, text };
}

await serve({
  say,
  edit([turn, text]) {
    messages.splice(1 + 2 * turn);
    return say(text);
  },
  async title(text) {
    const said = [{ role: 'system', content: TITLE }, { role: 'user', content: text }];
    await client.chat.completions.create({ ...hello, max_tokens: 8, messages: said });
  },
  async models() {
    const { data } = await client.models.list();
    return Promise.all(data.map(async ({ id }) => (await client.models.retrieve(id)).id));
  },
  callTools,
  async parse() {
    const response_format = zodResponseFormat(Person, 'person');
    const reply = await client.chat.completions.parse({ ...hello, max_tokens: WHOLE, response_format });
    return reply.choices[0].message.parsed;
  },
  complete,
  async choices() {
    const said = [{ role: 'user', content: 'Tell me a word.' }];
    const sampling = { n: 3, seed: 5, temperature: 1.5 };
    const { choices } = await client.chat.completions.create({ ...hello, ...sampling, messages: said });
    return choices.map(({ message }) => message.content);
  },
  abort,
  endless: () => client.chat.completions.create(long),
  hello: async (maxRetries) => (await client.chat.completions.create(hello, { maxRetries })).choices[0].message.content,
  failHello: () => failure(() => client.chat.completions.create(hello, { maxRetries: 0 })),
  // Fields that make a request wrong, in both ways.
  refused: (fields) => Promise.all([
    failure(() => client.chat.completions.create({ ...hello, ...fields }, { maxRetries: 0 })),
    failure(() => client.chat.completions.stream({ ...hello, ...fields }, { maxRetries: 0 }).done()),
  ]),
  embed: () => failure(() => client.embeddings.create({ model: MODEL, input: 'x' })),
});
