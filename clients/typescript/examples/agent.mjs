// A language model's tokens, spoken while it writes them, into a WAV file.
//
//     node --experimental-websocket examples/agent.mjs --chat http://localhost:11434/v1 --model qwen3 "Tell me about the moon."
//     some-model "Tell me about the moon." | node --experimental-websocket examples/agent.mjs
//
// The first asks any service with OpenAI's chat completions (its key in OPENAI_API_KEY), the second reads standard input as
// it comes. Node 22 needs no option.

import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { Oscine } from "../dist/index.js";

async function* fromChat(url, model, question) {
  const key = process.env.OPENAI_API_KEY;
  const response = await fetch(`${url.replace(/\/$/, "")}/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: question }] }),
  });
  if (!response.ok) throw new Error(`the chat service answered ${response.status}: ${await response.text()}`);
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (data && data !== "[DONE]") for (const { delta } of JSON.parse(data).choices) yield delta.content ?? "";
    }
  }
}

async function* shown(tokens) {
  for await (const token of tokens) {
    process.stdout.write(token);
    yield token;
  }
}

function wav(sound, rate) {
  const head = Buffer.alloc(44);
  head.write("RIFF");
  head.writeUInt32LE(36 + sound.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(2 * rate, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(sound.length, 40);
  return Buffer.concat([head, sound]);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: "string", default: "ws://localhost:8080" },
    key: { type: "string", default: process.env.OSCINE_KEY },
    voice: { type: "string" },
    chat: { type: "string" },
    model: { type: "string", default: "gpt-4o-mini" },
    output: { type: "string", short: "o", default: "speech.wav" },
  },
});
const tokens = values.chat
  ? fromChat(values.chat, values.model, positionals.join(" "))
  : process.stdin.setEncoding("utf8");

const client = new Oscine(values.server, values.key ? { key: values.key } : {});
const config = { format: { encoding: "pcm16" }, ...(values.voice ? { voice: values.voice } : {}) };
const began = performance.now();
const sound = [];
let rate = 0;
let first;
try {
  for await (const event of client.speak(shown(tokens), config)) {
    if (event.type === "started") rate = event.format.sampleRate;
    if (event.type === "audio") {
      first ??= (performance.now() - began) / 1000;
      sound.push(...event.frames);
    }
    if (event.type === "done") {
      console.error(`\n\n${event.audioSeconds.toFixed(1)} s of speech, the first after ${first?.toFixed(2)} s`);
    }
  }
  await writeFile(values.output, wav(Buffer.concat(sound), rate));
} catch (error) {
  console.error(`\n${error.message}`);
  process.exitCode = 1;
} finally {
  client.close();
}
