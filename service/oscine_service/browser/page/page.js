/** The page: what is typed, pressed and spoken becomes calls of the player, and what comes of them is shown. */

import { Player } from "../player/player.js";
import { written } from "./agent.js";
import { Level, Wave } from "./drawing.js";
import { Ear, Microphone, wav } from "./microphone.js";
import { Words } from "./words.js";

const RATE = 48000;
/** A message that comes so long after the one before begins another delivery. */
const DELIVERY_MS = 40;
const LONGEST_RECORDING_S = 15;
/** Bytes of a recording that a service takes. */
const MOST_RECORDING = 8 << 20;
const OWN = "\u0000own";

const at = (id) => document.getElementById(id);
const show = (id, text) => (at(id).textContent = text);
const milliseconds = (value) => `${Math.round(value)} ms`;

const player = new Player();
const wave = new Wave(at("wave"));
const level = new Level(at("level"));
const words = new Words(at("words"));
let link;
let call;
/** Counts what was asked to be said, or to be silent: what is overtaken before it began is not said. */
let asked = 0;
let typing = new AbortController();
let sound = { position: 0, at: 0, moving: false };
let recording;
let reference;
let ear;

function connect() {
  link?.close();
  link = player.connect(undefined, { token: token() });
  const shown = () => {
    const { state, message } = link;
    at("link").className = state;
    show("link", { ready: "ready", connecting: `connecting${message && `: ${message}`}`, refused: message }[state]);
    if (state === "refused") document.querySelector("details").open = true;
    if (state === "ready") list().catch(() => {}); // whoever speaks is told what is wrong
  };
  link.addEventListener("state", shown);
  shown();
}

/** The key, or token, if there is one. */
function token() {
  return at("key").value.trim() || undefined;
}

/** What `act` throws is shown. */
function telling(act) {
  return () => act().catch((error) => complain(error.message));
}

/** What the service answers at the path of its voices. Throws words of its own. */
async function voices(options = {}) {
  const headers = token() === undefined ? {} : { Authorization: `Bearer ${token()}` };
  const response = await fetch("/v1/audio/voices", { ...options, headers }).catch(() => {
    throw new Error("The service does not answer: try again in a moment.");
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

async function list() {
  const chosen = at("voice").value;
  const { voices: found } = await voices();
  const options = found.map(({ name, language, description }) => {
    const about = [language, description].filter(Boolean).join(", ");
    return new Option(about ? `${name} (${about})` : name, name);
  });
  if (reference !== undefined) options.push(new Option("your recording", OWN));
  if (options.length > 0) at("voice").replaceChildren(...options);
  if ([...at("voice").options].some(({ value }) => value === chosen)) at("voice").value = chosen;
}

async function speak() {
  const unlocking = player.unlock(); // while the click counts
  const text = at("text").value;
  if (!text.trim()) return complain("There is nothing to say: type or paste a text.");
  if (call !== undefined) await interrupt();
  const number = (asked += 1);
  complain("");
  words.clear();
  wave.clear();
  for (const id of ["first-packet", "first-sound", "buffer", "underruns", "heard"]) show(id, "–");
  await unlocking;
  const fields = { word_times: true, ...(await voice()) };
  if (number !== asked) return;
  typing = new AbortController();
  const pieces = at("agent").checked ? written(text, Number(at("rate").value) || 15, typing.signal) : text;
  const began = performance.now();
  const mine = (call = link.speak(pieces, fields));
  at("stop").disabled = false;
  watch(mine, began);
  animate();
  try {
    await mine.finished;
  } catch (error) {
    complain(error.message);
    await new Promise((wake) => (mine.ended || mine.started === undefined ? wake() : mine.addEventListener("ended", wake)));
  } finally {
    if (call === mine) {
      call = undefined;
      at("stop").disabled = true;
      sound.moving = false;
    }
  }
}

async function voice() {
  const name = at("voice").value;
  if (name !== OWN) return name === "" ? {} : { voice: name };
  const bytes = new Uint8Array(await reference.arrayBuffer());
  let text = "";
  for (let from = 0; from < bytes.length; from += 8192) text += String.fromCharCode(...bytes.subarray(from, from + 8192));
  const transcript = at("transcript").value.trim();
  return { reference: { audio: btoa(text), ...(transcript && { transcript }) } };
}

function watch(mine, began) {
  let came = 0;
  let last = -Infinity;
  const on = (type, act) => mine.addEventListener(type, ({ detail }) => call === mine && act(detail));
  on("came", ({ samples }) => {
    const now = performance.now();
    if (came === 0) show("first-packet", milliseconds(now - began));
    if (samples > 0 && now - last > DELIVERY_MS) wave.join((came * RATE) / mine.started.format.sample_rate);
    last = now;
    came += samples;
  });
  on("shape", ({ peaks }) => wave.add(peaks));
  on("begun", () => show("first-sound", milliseconds(performance.now() - began + 1000 * latency())));
  on("event", (event) => event.type === "words" && words.add(event.words));
  on("status", ({ position, buffered, underruns, state, at: time }) => {
    sound = { position, at: time, moving: state === "playing" };
    level.add(time, buffered / RATE);
    show("buffer", `${(buffered / RATE).toFixed(2)} s`);
    show("underruns", String(underruns));
  });
  on("ended", ({ position, underruns }) => {
    sound = { position, at: player.context.currentTime, moving: false };
    show("heard", `${(position / RATE).toFixed(2)} s`);
    show("underruns", String(underruns));
  });
}

/** Seconds between the graph and the ear, as far as the browser knows. */
function latency() {
  return player.context.outputLatency || player.context.baseLatency || 0;
}

async function interrupt() {
  asked += 1;
  typing.abort();
  if (call === undefined) return;
  const { seconds } = await call.interrupt();
  show("heard", `${seconds.toFixed(2)} s`);
}

function complain(words) {
  show("message", words);
}

let drawing = false;

/** Draws while there is something new to see: for as long as a call is heard, and once more. */
function animate() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function draw() {
  drawing = false;
  const since = sound.moving ? (player.context.currentTime - sound.at - latency()) * RATE : 0;
  const position = Math.max(0, sound.position + since);
  wave.draw(position);
  level.draw();
  const rate = call?.started?.format.sample_rate;
  if (rate !== undefined) words.light((position * rate) / RATE);
  if (call !== undefined) animate();
}

async function barge() {
  ear?.close();
  ear = undefined;
  if (!at("barge").checked) return;
  try {
    await player.unlock();
    const hearing = new Ear();
    ear = await Microphone.open(player.context, (block) => {
      if (hearing.hear(block) && call?.begun && !call.ended) interrupt();
    });
  } catch (error) {
    at("barge").checked = false;
    complain(`The microphone cannot be used: ${error.message}`);
  }
}

async function record() {
  if (recording !== undefined) {
    const { microphone, blocks } = recording;
    recording = undefined;
    microphone.close();
    at("record").setAttribute("aria-pressed", "false");
    show("record", "Record again");
    take(wav(blocks, player.context.sampleRate));
    return;
  }
  try {
    await player.unlock();
    const blocks = [];
    const microphone = await Microphone.open(
      player.context,
      (block) => {
        blocks.push(block);
        const seconds = (blocks.length * block.length) / player.context.sampleRate;
        show("record", `Stop, ${seconds.toFixed(0)} s`);
        if (seconds >= LONGEST_RECORDING_S && recording !== undefined) record();
      },
      { echo: false },
    );
    recording = { microphone, blocks };
    at("record").setAttribute("aria-pressed", "true");
  } catch (error) {
    complain(`The microphone cannot be used: ${error.message}`);
  }
}

/** A recording or a file is the voice from now on. */
function take(blob) {
  if (blob.size > MOST_RECORDING) {
    return complain(`This has ${(blob.size / (1 << 20)).toFixed(1)} MiB; cut it to ten seconds, and at most 8 MiB.`);
  }
  reference = blob;
  URL.revokeObjectURL(at("sample").src);
  at("sample").src = URL.createObjectURL(blob);
  at("own").hidden = false;
  if (![...at("voice").options].some(({ value }) => value === OWN)) at("voice").add(new Option("your recording", OWN));
  at("voice").value = OWN;
}

async function keep() {
  const name = at("name").value.trim();
  if (!name) return complain("Give the voice a name to keep it under.");
  const form = new FormData();
  form.set("name", name);
  const transcript = at("transcript").value.trim();
  if (transcript) form.set("transcript", transcript);
  form.set("audio_sample", reference, "recording");
  await voices({ method: "POST", body: form });
  complain("");
  await list();
  at("voice").value = name;
}

at("speak").onclick = telling(speak);
at("stop").onclick = interrupt;
at("barge").onchange = barge;
at("record").onclick = record;
at("keep").onclick = telling(keep);
at("file").onchange = ({ target }) => target.files.length > 0 && take(target.files[0]);
at("key").onchange = connect;
document.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) telling(speak)();
  else if (event.key === "Escape") interrupt();
  else return;
  event.preventDefault();
};
new ResizeObserver(animate).observe(at("wave"));
matchMedia("(prefers-color-scheme: dark)").onchange = animate;
connect();
animate();
