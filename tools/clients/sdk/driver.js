// SPDX-License-Identifier: MIT
// A client written in JavaScript, told what to do by tools/clients/node_client.py: a line of JSON with the name of a
// function and its argument comes in, a line with its value or its error goes out.
import { createInterface } from 'node:readline';
import { Agent, fetch as undiciFetch } from 'undici';

export const { CONFAB_URL: url, CONFAB_TOKEN: token, CONFAB_UNIX: unix } = process.env;
export const options = JSON.parse(process.env.CONFAB_OPTIONS);
export const SYSTEM = 'You are kind.';
export const TITLE = 'You are a title generator.';
export const MODEL = 'confab-small';
export const HELLO = 'My name is Nora.';
// Tokens of a usual reply, of one with a call or an object of a schema, and of one that is ended before.
export const SHORT = 24;
export const WHOLE = 400;
export const LONG = 15000;
// A function, and its parameters as a schema.
export const WEATHER = { name: 'weather', description: 'The weather now.' };
export const CITY = { type: 'object', properties: { city: { type: 'string' } } };
// Bodies of chat.completions and of Anthropic's messages.
export const hello = { model: MODEL, temperature: 0, max_tokens: SHORT, messages: [{ role: 'user', content: HELLO }] };
export const long = { ...hello, max_tokens: LONG };

// Fields that the next requests get beside those of the client, a request each: grammars that make the model call.
const additions = [];
// The body of the last request.
let lastRequest = null;

const agents = { unix: new Agent({ connect: { socketPath: unix } }) };

async function send(address, init, doFetch) {
  const addition = init?.body ? additions.shift() : null;
  const body = addition ? JSON.stringify({ ...JSON.parse(init.body), ...addition }) : init?.body;
  const headers = new Headers(init?.headers);
  headers.delete('content-length');
  lastRequest = body ?? null;
  return doFetch(address, { ...init, headers, body });
}

// For the option `fetch` that all of them have.
export const tcpFetch = (address, init) => send(address, init, fetch);
export const unixFetch = (address, init) =>
  send(address, init, (a, i) => undiciFetch(a, { ...i, headers: [...i.headers], dispatcher: agents.unix }));

// An error as a check wants it.
export function describe(error) {
  const fields = ['name', 'message', 'status', 'status_code', 'statusCode', 'code', 'type', 'param', 'error'];
  const known = fields.filter((name) => error[name] !== undefined);
  return { kind: error.constructor.name, ...Object.fromEntries(known.map((name) => [name, error[name]])) };
}

// The error of a call that has to fail.
export async function failure(call) {
  try {
    await call();
  } catch (error) {
    return describe(error);
  }
  throw new Error('it did not fail');
}

const common = { lastRequest: () => JSON.parse(lastRequest) };

async function answer(functions, line) {
  const { call, argument, add = [] } = JSON.parse(line);
  additions.splice(0, additions.length, ...add);
  try {
    return { value: await (functions[call] ?? common[call])(argument) };
  } catch (error) {
    return { error: `${error.stack}\n${JSON.stringify(describe(error))}` };
  }
}

export async function serve(functions) {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(functions, line))}\n`);
  }
  process.exit(0);
}
