// The official JavaScript client (npm openai) against a running server.
//
//     node openai_client.mjs BASE_URL [--key KEY] [--scripted]
//
// The same checks as openai_client.py, shorter. Exit code 0 when everything held.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

// NODE_PATH is honoured by require only.
const require = createRequire(import.meta.url);
const { OpenAI } = require("openai");
const { VERSION } = require("openai/version");

const args = process.argv.slice(2);
const scripted = args.includes("--scripted");
const key = args.includes("--key") ? args[args.indexOf("--key") + 1] : "none";
const client = new OpenAI({ baseURL: args[0].replace(/\/$/, "") + "/v1", apiKey: key, maxRetries: 0, timeout: 120_000 });
const { data: [{ id: model }] } = await client.models.list();

const ask = (content, more) => ({ model, temperature: 0, max_tokens: 40, messages: [{ role: "user", content }], ...more });

async function bothWays(content, more = {}) {
  const whole = await client.chat.completions.create(ask(content, { logprobs: true, ...more }));
  const stream = await client.chat.completions.create(
    ask(content, { logprobs: true, stream: true, stream_options: { include_usage: true }, ...more }));
  let text = "", reasoning = "", finish, usage, tokens = 0;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      text += choice.delta.content ?? "";
      reasoning += choice.delta.reasoning_content ?? "";
      finish = choice.finish_reason ?? finish;
      tokens += choice.logprobs?.content.length ?? 0;
    }
  }
  const choice = whole.choices[0];
  assert.equal(text, choice.message.content ?? "");
  assert.equal(reasoning, choice.message.reasoning_content ?? "");
  assert.equal(finish, choice.finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(tokens, whole.usage.completion_tokens);
  return whole;
}

async function refused(promise, status, param) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.status, status);
    assert.equal(error.param, param);
    return true;
  });
}

await bothWays("Count to ten. 🦀");
for (let limit = 1; limit < 9; limit++) await bothWays("Count to ten.", { max_tokens: limit });
await refused(client.chat.completions.create(ask("x", { n: 2 })), 400, "n");
await refused(client.chat.completions.create(ask("x", { top_kk: 2 })), 400, "top_kk");
await refused(client.chat.completions.create({ ...ask("x"), model: "another" }), 404, "model");
const text = await client.completions.create({ model, prompt: "The river", max_tokens: 16, temperature: 0, logprobs: 1 });
let pieces = "";
for await (const chunk of await client.completions.create(
  { model, prompt: "The river", max_tokens: 16, temperature: 0, stream: true })) pieces += chunk.choices[0]?.text ?? "";
assert.equal(pieces, text.choices[0].text);

if (scripted) {
  assert.equal((await bothWays("say a 🦀 and 𠜎")).choices[0].message.content, "a 🦀 and 𠜎");
  const tools = [{ type: "function", function: { name: "add", parameters: { type: "object", properties: {} } } }];
  const call = 'say <tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>';
  const whole = await client.chat.completions.create(ask(call, { tools, max_tokens: 100 }));
  assert.equal(whole.choices[0].finish_reason, "tool_calls");
  const final = await client.chat.completions.stream(ask(call, { tools, max_tokens: 100 })).finalChatCompletion();
  assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), { a: 3 });
  const next = ask("", { tools });
  next.messages = [{ role: "user", content: call }, whole.choices[0].message,
    { role: "tool", tool_call_id: whole.choices[0].message.tool_calls[0].id, content: "3" },
    { role: "user", content: "say thanks" }];
  assert.equal((await client.chat.completions.create(next)).choices[0].message.content, "thanks");
}
console.log(`openai ${VERSION} (JavaScript): everything held for ${model}`);
