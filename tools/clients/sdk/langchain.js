// SPDX-License-Identifier: MIT
// LangChain's ChatOpenAI: a chat by invoke or stream.
import { HumanMessage, SystemMessage } from '@langchain/core/messages';
import { concat } from '@langchain/core/utils/stream';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import {
  failure, HELLO, LONG, MODEL, options, serve, SHORT, SYSTEM, tcpFetch, TITLE, token, url, WEATHER, WHOLE,
} from './driver.js';

const { way = 'invoke', responses = false } = options;
const settings = {
  model: MODEL,
  apiKey: token,
  temperature: 0,
  maxRetries: 0,
  useResponsesApi: responses,
  configuration: { baseURL: `${url}/v1`, fetch: tcpFetch },
};
const messages = [new SystemMessage(SYSTEM)];

const ways = {
  invoke: (model, input, more) => model.invoke(input, more),
  async stream(model, input, more) {
    let whole = null;
    for await (const chunk of await model.stream(input, more)) {
      whole = whole ? concat(whole, chunk) : chunk;
    }
    return whole;
  },
};

async function say(text) {
  messages.push(new HumanMessage(text));
  const more = responses ? { include: ['message.output_text.logprobs'] } : {};
  const reply = await ways[way](new ChatOpenAI({ ...settings, maxTokens: SHORT, logprobs: true }), messages, more);
  messages.push(reply);
  const { output, logprobs } = reply.response_metadata;
  const told = responses ? output.flatMap((item) => item.content.flatMap((part) => part.logprobs)) : logprobs.content;
  return {
    text: reply.text,
    n_prompt: reply.usage_metadata.input_tokens,
    n_cached: reply.usage_metadata.input_token_details.cache_read,
    n_generated: reply.usage_metadata.output_tokens,
    logprobs: told.map((token) => token.logprob),
  };
}

const hello = [new HumanMessage(HELLO)];
const make = (fields) => new ChatOpenAI({ ...settings, maxTokens: SHORT, ...fields });

// What the tool was called with, and the text in the end.
async function callTools() {
  const calls = [];
  const weather = tool(({ city }) => {
    calls.push(city);
    return 'cold';
  }, { ...WEATHER, schema: z.object({ city: z.string() }) });
  const model = make({ maxTokens: WHOLE }).bindTools([weather]);
  const input = [...hello];
  for (;;) {
    const reply = await ways[way](model, input);
    input.push(reply);
    if (!reply.tool_calls?.length) {
      return { calls, text: reply.text };
    }
    for (const call of reply.tool_calls) {
      input.push(await weather.invoke(call));
    }
  }
}

// Ends a stream at its first text.
async function abort() {
  const controller = new AbortController();
  return failure(async () => {
    for await (const chunk of await make({ maxTokens: LONG }).stream(hello, { signal: controller.signal })) {
      if (chunk.text) {
        controller.abort();
      }
    }
  });
}

await serve({
  say,
  edit([turn, text]) {
    messages.splice(1 + 2 * turn);
    return say(text);
  },
  title: (text) => ways[way](make({ maxTokens: 8 }), [new SystemMessage(TITLE), new HumanMessage(text)]),
  callTools,
  parse() {
    const schema = z.object({ name: z.enum(['Nora', 'Olga']), is_here: z.boolean() });
    return make({ maxTokens: WHOLE }).withStructuredOutput(schema, { method: 'jsonSchema' }).invoke(hello);
  },
  abort,
  endless: () => make({ maxTokens: LONG }).invoke(hello),
  hello: async (maxRetries) => (await ways[way](make({ maxRetries }), hello)).text,
  failHello: () => failure(() => ways[way](make({}), hello)),
  refused: ({ words, ...fields }) => failure(() => ways[way](make(fields), words ? [new HumanMessage(words)] : hello)),
  embed: () => failure(() => new OpenAIEmbeddings({ ...settings }).embedQuery('x')),
});
