// Against a real service: its address in OSCINE_URL, a recording's path in OSCINE_RECORDING.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Oscine, OscineError } from "../dist/index.js";
import { Answers, texts } from "../dist/protocol.js";

const URL = process.env.OSCINE_URL;
const PCM = { format: { encoding: "pcm16" }, mode: "sentence", seed: 1 };
const LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. ".repeat(8);

async function collect(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

/** All that a call that was spoken to its end must hold; returns its audio. */
function check(events) {
  assert.equal(events[0].type, "started");
  assert.equal(events.at(-1).type, "done");
  let end = 0;
  let number = 0;
  const sound = [];
  for (const event of events.filter(({ type }) => type === "audio")) {
    assert.deepEqual([event.sequence, event.startSample], [number, end]);
    number += 1;
    end += event.samples;
    sound.push(...event.frames);
  }
  assert.ok(end > 0);
  assert.ok(Math.abs(events.at(-1).audioSeconds - end / events[0].format.sampleRate) < 1e-6);
  return Buffer.concat(sound);
}

/** To the rounding that depends on what else is computed beside it. */
function alike(heard, expected) {
  assert.equal(heard.length, expected.length);
  for (let at = 0; at < heard.length; at += 2) {
    assert.ok(Math.abs(heard.readInt16LE(at) - expected.readInt16LE(at)) <= 2);
  }
}

async function* characters(text) {
  yield* text;
}

async function refused(events, code, words) {
  await assert.rejects(collect(events), (error) => {
    assert.ok(error instanceof OscineError);
    assert.equal(error.code, code);
    assert.match(error.message, words);
    return true;
  });
}

test("speaks the same however the text is given", async () => {
  const client = new Oscine(URL);
  const text = "One sentence. And another one.";
  const whole = check(await collect(client.speak(text, PCM)));
  alike(check(await collect(client.speak([...text], PCM))), whole);
  alike(check(await collect(client.speak(characters(text), PCM))), whole);
  assert.ok(client.limits.textBytes >= 65536);
  client.close();
});

test("the config and every verb arrive", async () => {
  const client = new Oscine(URL);
  const speech = await client.open({ format: { bitrate: 24000 }, mode: "interleaved", seed: 7, quietMs: 0 });
  speech.append("The first half, ");
  speech.append("and the second.");
  speech.mark("here");
  speech.flush();
  const seen = [];
  for await (const event of speech) {
    seen.push(event);
    if (event.type === "flushed") speech.end();
  }
  const { format, mode, seed, preSkip } = seen[0];
  assert.deepEqual(format, { encoding: "opus", container: "raw", sampleRate: 24000, bitrate: 24000 });
  assert.deepEqual([mode, seed], ["interleaved", 7]);
  assert.ok(preSkip > 0);
  assert.equal(seen.find(({ type }) => type === "marked").name, "here");
  const audio = seen.filter(({ type }) => type === "audio");
  assert.ok(audio.every(({ frames }) => frames.every(({ length }) => length > 0 && length < 200)));
  check(seen);
  client.close();
});

test("many calls share a connection, and end each by itself", async () => {
  const client = new Oscine(URL);
  const [interrupted, failed] = [await client.open(PCM), await client.open({ voice: "nobody" })];
  interrupted.append(LONG);
  const beside = collect(client.speak("So we stay at home.", PCM));
  const seen = [];
  for await (const event of interrupted) {
    seen.push(event);
    if (event.type === "audio" && event.sequence === 0) {
      interrupted.played(100);
      interrupted.cancel();
    }
  }
  assert.deepEqual(seen.at(-1), { type: "cancelled", heardSamples: 100 });
  await refused(failed, "unknown_voice", /nobody/);
  await refused(failed, "unknown_voice", /nobody/);
  const heard = check(await beside);
  for await (const event of client.speak(LONG, PCM)) if (event.type === "audio") break;
  alike(check(await collect(client.speak("So we stay at home.", PCM))), heard);
  client.close();
});

test("refusals have codes, hints and words", async () => {
  const client = new Oscine(URL);
  await refused(client.speak("Hm.", { format: { sampleRate: 1 } }), "invalid_input", /sample_rate/);
  await refused(client.speak("…"), "invalid_input", /nothing to speak/);
  const calls = await Promise.all([1, 2, 3, 4].map(() => client.open(PCM)));
  for (const call of calls) {
    call.append(LONG);
    assert.equal((await call[Symbol.asyncIterator]().next()).value.type, "started");
  }
  await assert.rejects(collect(client.speak("Hm.", PCM)), ({ code, retryAfterMs }) => code === "overloaded" && retryAfterMs > 0);
  client.close();
  await refused(calls[0], "connection", /closed/);
  await refused(new Oscine("ws://127.0.0.1:1").speak("Hm."), "connection", /lost or refused/);
  assert.throws(() => new Oscine("http://127.0.0.1"), TypeError);
  // The next call connects again.
  check(await collect(client.speak("Hm.", PCM)));
  client.close();
});

test("text that breaks off is thrown where it is listened to", async () => {
  async function* broken() {
    yield "So far, ";
    throw new RangeError("no more");
  }
  const client = new Oscine(URL);
  await assert.rejects(collect(client.speak(broken(), PCM)), RangeError);
  client.close();
});

test("voices are made, listed and deleted", async () => {
  const { voices } = new Oscine(URL);
  const recording = new Blob([await readFile(process.env.OSCINE_RECORDING)]);
  const made = await voices.create("anna", recording, { description: "hers" });
  assert.deepEqual([made.origin, made.description], ["own", "hers"]);
  assert.deepEqual(await voices.get("anna"), made);
  await assert.rejects(voices.create("anna", recording), ({ code }) => code === "voice_exists");
  assert.equal((await voices.list()).at(-1).name, "anna");
  await voices.delete("anna");
  await assert.rejects(voices.delete("anna"), ({ code }) => code === "unknown_voice");
});

test("audio is read from a part of a larger buffer", () => {
  const answers = new Answers();
  answers.read(JSON.stringify({ type: "started", context: "a", number: 9, format: {} }));
  const pool = Buffer.alloc(100, 0xff);
  const message = pool.subarray(10, 10 + 24 + 7);
  message.set([1, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 3, 192, 0, 0, 0, 1, 0, 0, 0, 5, 0, 2, 7, 8, 0, 1, 6]);
  const { context, event } = answers.read(message);
  assert.equal(context, "a");
  assert.deepEqual([event.sequence, event.samples, event.startSample], [3, 960, 2 ** 32 + 5]);
  assert.deepEqual(event.frames.map((frame) => [...frame]), [[7, 8], [6]]);
  answers.read(JSON.stringify({ type: "error", context: "a", code: "idle", message: "too quiet" }));
  assert.equal(answers.read(message), undefined, "a call that failed is forgotten");
});

test("long text is cut between characters", () => {
  const text = "a".repeat(16383) + "\u{1F600}".repeat(20000);
  const pieces = texts("c", text).map((message) => JSON.parse(message).text);
  assert.equal(pieces.join(""), text);
  assert.ok(pieces.every((piece) => piece.isWellFormed() && Buffer.byteLength(piece) <= 65536));
});
