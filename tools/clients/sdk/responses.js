// SPDX-License-Identifier: MIT
// openai-node: a chat by responses, whole or with the stream helper. `history`: the whole of it is sent each time;
// `previous`: the new message, and the id of the response in front of it; `conversation`: the new message alone.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  CITY, failure, HELLO, LONG, MODEL, options, serve, SHORT, SYSTEM, tcpFetch, TITLE, token, url, WEATHER, WHOLE,
} from './driver.js';

const { way = 'create', place = 'history' } = options;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, fetch: tcpFetch });
const system = { role: 'system', content: SYSTEM };
const settings = { model: MODEL, temperature: 0, max_output_tokens: SHORT };
const hello = { ...settings, input: HELLO };
const long = { ...settings, max_output_tokens: LONG, input: 'Count.' };

// A turn of the chat: what was said, and the response to it.
const turns = [];
const first = [{ type: 'message', ...system }];
const conversation = place === 'conversation' && await client.conversations.create({ items: first });

// Collects the events of a stream; the helper has checked their order.
async function stream(body) {
  const runner = client.responses.stream(body);
  const events = [];
  runner.on('event', (event) => events.push(event));
  const response = await runner.finalResponse();
  const gap = events.findIndex((event, i) => event.sequence_number !== i);
  if (gap >= 0) {
    throw new Error(`event ${gap} has the number ${events[gap].sequence_number}`);
  }
  return response;
}

const ways = { create: (body) => client.responses.create(body), stream };

const places = {
  history(message) {
    const said = turns.flatMap((turn) => [turn.message, ...turn.response.output]);
    return { input: [system, ...said, message] };
  },
  previous: (message) =>
    (turns.length ? { input: [message], previous_response_id: turns.at(-1).response.id } : { input: [system, message] }),
  conversation: (message) => ({ input: [message], conversation: conversation.id }),
};

async function say(text) {
  const message = { role: 'user', content: text };
  const body = { ...settings, ...places[place](message), include: ['message.output_text.logprobs'] };
  const response = await ways[way](body);
  turns.push({ message, response });
  const { usage, output } = response;
  return {
    text: response.output_text,
    n_prompt: usage.input_tokens,
    n_cached: usage.input_tokens_details.cached_tokens,
    n_generated: usage.output_tokens,
    logprobs: output.flatMap((item) => item.content.flatMap((part) => part.logprobs.map((token) => token.logprob))),
  };
}

// What the tool was called with, and the text in the end.
async function callTools() {
  const tools = [{ type: 'function', ...WEATHER, parameters: CITY }];
  const calls = [];
  let body = { ...hello, max_output_tokens: WHOLE, tools };
  for (;;) {
    const response = await ways[way](body);
    const wanted = response.output.filter((item) => item.type === 'function_call');
    if (!wanted.length) {
      return { calls, text: response.output_text };
    }
    calls.push(...wanted.map((item) => JSON.parse(item.arguments).city));
    const input = wanted.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'cold' }));
    body = { ...body, input, previous_response_id: response.id };
  }
}

// Ends a stream at its first text.
async function abort() {
  const runner = client.responses.stream(long);
  runner.on('response.output_text.delta', () => runner.abort());
  return failure(() => runner.done());
}

const numbers = async (events) => {
  const seen = [];
  for await (const event of events) {
    seen.push([event.type, event.sequence_number]);
  }
  return seen;
};

// A response that goes on without its client: it is read again from its middle, ended, and taken back.
async function background() {
  const started = await client.responses.create({ ...long, background: true });
  const { id } = started;
  const running = await client.responses.retrieve(id);
  const cancelled = await client.responses.cancel(id);
  const told = await numbers(await client.responses.retrieve(id, { stream: true }));
  const rest = await numbers(await client.responses.retrieve(id, { stream: true, starting_after: 2 }));
  await client.responses.delete(id);
  const gone = await failure(() => client.responses.retrieve(id));
  return { states: [started.status, running.status, cancelled.status], told, rest, gone };
}

// What is kept of a response and of a conversation.
async function keep() {
  const made = await client.conversations.create({ metadata: { a: 'b' }, items: first });
  const response = await client.responses.create({ ...hello, conversation: made.id });
  const { data: input } = await client.responses.inputItems.list(response.id);
  const again = await client.responses.retrieve(response.id);
  const items = [];
  for await (const item of client.conversations.items.list(made.id, { order: 'asc', limit: 1 })) {
    items.push(item);
  }
  const item = await client.conversations.items.retrieve(items[0].id, { conversation_id: made.id });
  const { metadata } = await client.conversations.update(made.id, { metadata: { a: 'c' } });
  const { deleted } = await client.conversations.delete(made.id);
  const gone = await failure(() => client.conversations.retrieve(made.id));
  return {
    text: response.output_text,
    again: again.output_text,
    n_input: input.length,
    roles: items.map(({ role }) => role),
    first: item.role,
    metadata,
    deleted,
    gone,
  };
}

await serve({
  say,
  edit([turn, text]) {
    turns.splice(turn);
    return say(text);
  },
  title: (text) => ways[way]({ ...settings, instructions: TITLE, input: text, store: false }),
  callTools,
  async parse() {
    const schema = z.object({ name: z.enum(['Nora', 'Olga']), is_here: z.boolean() });
    const body = { ...hello, max_output_tokens: WHOLE, text: { format: zodTextFormat(schema, 'person') } };
    return (await client.responses.parse(body)).output_parsed;
  },
  async count() {
    const { input_tokens } = await client.responses.inputTokens.count({ model: hello.model, input: hello.input });
    return { input_tokens, told: (await client.responses.create(hello)).usage.input_tokens };
  },
  background,
  keep,
  abort,
  endless: () => client.responses.create(long),
  hello: async (maxRetries) => (await client.responses.create(hello, { maxRetries })).output_text,
  failHello: () => failure(() => client.responses.create(hello, { maxRetries: 0 })),
  refused: (fields) => Promise.all([
    failure(() => client.responses.create({ ...hello, ...fields }, { maxRetries: 0 })),
    failure(() => client.responses.stream({ ...hello, ...fields }, { maxRetries: 0 }).done()),
  ]),
});
