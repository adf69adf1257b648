/** What measurements and tests do inside the browser: play, and send what reached the graph to the other side. */

import { Player } from "/player/player.js";

/** Names of what was sent are the other side's. */
class Recorder {
  #name;
  #node;
  #sending = Promise.resolve();
  #done;
  #fail;

  static async open(player, name) {
    await player.context.audioWorklet.addModule("/bench/capture.js");
    return new Recorder(player, name);
  }

  constructor(player, name) {
    this.#name = name;
    this.#node = new AudioWorkletNode(player.context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    player.output.connect(this.#node);
    this.finished = new Promise((done, fail) => {
      this.#done = done;
      this.#fail = fail;
    });
    this.finished.catch(() => {}); // told to whoever stops it
    this.#node.port.onmessage = ({ data }) => {
      this.#sending = this.#sending.then(() => send(this.#name, data.samples));
      this.#sending.catch(this.#fail);
      if (data.last) this.#sending.then(this.#done, this.#fail);
    };
  }

  async stop() {
    this.#node.port.postMessage("stop");
    await this.finished;
  }
}

async function send(name, samples) {
  await fetch(`/bench/captured/${name}`, { method: "POST", body: samples });
}

/** A player with a link that is ready. */
export async function ready(url) {
  const player = new Player();
  await player.unlock();
  const link = player.connect(url);
  if (link.state !== "ready") await new Promise((wake) => link.addEventListener("state", wake, { once: true }));
  return { player, link };
}

/** One call to its end, recorded as `name`; fields: of `start`. */
export async function played(name, fields, url) {
  const { player, link } = await ready(url);
  const recorder = await Recorder.open(player, name);
  const call = link.speak("Play it.", fields);
  let buffered = [Infinity, 0];
  call.addEventListener("status", ({ detail }) => {
    buffered = [Math.min(buffered[0], detail.buffered), Math.max(buffered[1], detail.buffered)];
  });
  const end = await call.finished;
  await new Promise((wake) => setTimeout(wake, 100));
  await recorder.stop();
  const { started } = call;
  await player.close();
  return { ...end, started, hidden: document.hidden };
}

/** Milliseconds from the text to the first sound of calls one after the other, in the browser's own time. */
export async function first(calls, seed) {
  const { player, link } = await ready();
  const found = [];
  for (let number = 0; number < calls; number += 1) {
    const call = link.open({ seed: seed + number });
    const begun = new Promise((wake) => call.addEventListener("begun", wake, { once: true }));
    await new Promise((wake) => call.addEventListener("event", wake, { once: true }));
    await new Promise((wake) => setTimeout(wake, 50));
    const asked = performance.now();
    const came = new Promise((wake) => call.addEventListener("came", () => wake(performance.now() - asked), { once: true }));
    call.append("Play it.");
    call.end();
    await begun;
    const latency = 1000 * (player.context.outputLatency || player.context.baseLatency);
    found.push({ sound: performance.now() - asked + latency, packet: await came, latency });
    await call.finished;
  }
  await player.close();
  return found;
}

/** A call that is interrupted after so many milliseconds of sound; recorded as `name`. */
export async function interrupted(name, fields, after) {
  const { player, link } = await ready();
  const recorder = await Recorder.open(player, name);
  const call = link.speak("Play it.", fields);
  const cancelled = new Promise((wake) => {
    call.addEventListener("event", ({ detail }) => detail.type === "cancelled" && wake(detail));
  });
  await new Promise((wake) => call.addEventListener("begun", wake, { once: true }));
  await new Promise((wake) => setTimeout(wake, after));
  const asked = player.context.currentTime;
  const heard = await call.interrupt();
  const silent = player.context.currentTime;
  const told = await cancelled;
  await new Promise((wake) => setTimeout(wake, 300));
  await recorder.stop();
  const { started } = call;
  await player.close();
  return { asked, silent, heard, told, started };
}

Object.assign(globalThis, { stage: { ready, played, first, interrupted, Recorder, Player } });
