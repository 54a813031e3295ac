// SPDX-License-Identifier: MIT
// The AI SDK (ai) with two of its providers: a chat by generateText or streamText.
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  failure, HELLO, LONG, MODEL, options, serve, SHORT, SYSTEM, tcpFetch, TITLE, token, url, WEATHER, WHOLE,
} from './driver.js';

const { provider = 'openai', way = 'generateText' } = options;
const settings = { baseURL: `${url}/v1`, apiKey: token, fetch: tcpFetch };
const compatible = createOpenAICompatible({ ...settings, name: 'confab', includeUsage: true });
const providers = { openai: createOpenAI(settings), compatible };
const family = provider === 'compatible' ? 'compatible' : 'openai';
// The default of the OpenAI provider is responses: earlier replies are sent as references to their ids.
const makers = {
  openai: (name) => providers.openai.chat(name),
  responses: (name) => providers.openai(name),
  compatible,
};
const model = makers[provider](MODEL);
const ways = { generateText, streamText };
const messages = [];

async function ask(wanted) {
  let failed = null; // what a stream failed of: its promises tell that there is no output
  const result = ways[way]({
    model,
    temperature: 0,
    maxOutputTokens: SHORT,
    maxRetries: 0,
    onError({ error }) {
      failed = error;
    },
    providerOptions: family === 'openai' ? { openai: { logprobs: true } } : {},
    ...wanted,
  });
  const whole = await result;
  await Promise.resolve(whole.text).catch((error) => {
    throw failed ?? error;
  });
  return {
    text: await whole.text,
    usage: await whole.usage,
    response: await whole.response,
    metadata: await whole.providerMetadata,
    finish: await whole.finishReason,
  };
}

async function say(text) {
  messages.push({ role: 'user', content: text });
  const { text: answer, usage, response, metadata } = await ask({ system: SYSTEM, messages });
  messages.push(...response.messages);
  return {
    text: answer,
    n_prompt: usage.inputTokens,
    n_cached: usage.inputTokenDetails.cacheReadTokens,
    n_generated: usage.outputTokens,
    logprobs: metadata?.openai?.logprobs?.flat().map((token) => token.logprob),
  };
}

const hello = { prompt: HELLO };

// What the tool was called with, and the text of the last step.
async function callTools() {
  const calls = [];
  const weather = tool({
    description: WEATHER.description,
    inputSchema: z.object({ city: z.string() }),
    execute({ city }) {
      calls.push(city);
      return 'cold';
    },
  });
  const steps = { tools: { weather }, stopWhen: stepCountIs(3), providerOptions: {} };
  const { text } = await ask({ ...hello, maxOutputTokens: WHOLE, ...steps });
  return { calls, text };
}

// Ends a stream at its first text.
async function abort() {
  const controller = new AbortController();
  const result = streamText({ model, ...hello, maxOutputTokens: LONG, abortSignal: controller.signal, onError() {} });
  const kinds = [];
  for await (const part of result.fullStream) {
    kinds.push(part.type);
    if (part.type === 'text-delta') {
      controller.abort();
    }
  }
  return { kind: kinds.at(-1) };
}

await serve({
  say,
  edit([turn, text]) {
    messages.splice(2 * turn);
    return say(text);
  },
  title: (text) => ask({ system: TITLE, prompt: text, maxOutputTokens: 8 }),
  callTools,
  async parse() {
    const schema = z.object({ name: z.enum(['Nora', 'Olga']), is_here: z.boolean() });
    const strict = createOpenAICompatible({ ...settings, name: 'confab', supportsStructuredOutputs: true });
    const taker = family === 'openai' ? model : strict(MODEL);
    return (await generateObject({ model: taker, ...hello, maxOutputTokens: WHOLE, schema, maxRetries: 0 })).object;
  },
  abort,
  endless: () => ask({ ...hello, maxOutputTokens: LONG }),
  hello: async (maxRetries) => (await ask({ ...hello, maxRetries })).text,
  failHello: () => failure(() => ask(hello)),
  refused: ({ model: name = MODEL, ...fields }) =>
    failure(() => ask({ ...hello, model: makers[provider](name), ...fields })),
  embed: () => failure(() => embed({
    model: providers[family].embeddingModel(MODEL),
    value: 'x',
    maxRetries: 0,
  })),
});
