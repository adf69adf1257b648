/** A WebSocket to the service, in the player's worker: calls by number, their sound into streams of the same number. */

import { read } from "./wire.js";

/** Between two reports of what was heard. */
const REPORT_MS = 250;
/** Before the first try to connect again, and the longest wait between two. */
const AGAIN_MS = 250;
const MOST_AGAIN_MS = 5000;
const RATE = 48000;
/** Close codes after which trying again by itself is no use: the page must be told. */
const FINAL = new Set([1008]);

/**
 * Connects, and again when the connection is lost, for as long as it is not closed; calls that ran then have ended.
 * streams: `open(id, format)`, `push(id, frames, samples)`, `end(id)`. tell: takes {type: "link" | "event" | "failed"}.
 */
export class Link {
  #url;
  #protocols;
  #streams;
  #tell;
  #socket;
  #timer;
  #ready = false;
  #closed = false;
  #again = AGAIN_MS;
  /** Why nothing is spoken any more, once it is closed. */
  #why = { code: "connection", message: "the connection was closed here" };
  /** What is sent as soon as there is a connection. */
  #waiting = [];
  /** By id: what is known of a running call. */
  #calls = new Map();
  #numbers = new Map();

  constructor(url, protocols, streams, tell) {
    this.#url = url;
    this.#protocols = protocols;
    this.#streams = streams;
    this.#tell = tell;
    this.#timer = setInterval(() => this.#report(), REPORT_MS);
    this.#connect();
  }

  start(id, fields) {
    if (this.#closed) {
      this.#tell({ type: "failed", id, ...this.#why });
      return;
    }
    this.#calls.set(id, { position: 0, rate: RATE, cancelled: false, over: false, expected: 0 });
    this.#send({ type: "start", context: String(id), ...fields });
  }

  send(id, message) {
    const call = this.#calls.get(id);
    if (call !== undefined && !call.cancelled && !call.over) this.#send({ ...message, context: String(id) });
  }

  /** position: of what was heard, in samples at 48 kHz; what is known of it if undefined. */
  cancel(id, position) {
    const call = this.#calls.get(id);
    if (call === undefined || call.cancelled || call.over) return;
    call.position = position ?? call.position;
    this.#send({ type: "played", context: String(id), samples: this.#heard(call) });
    this.#send({ type: "cancel", context: String(id) });
    call.cancelled = true;
  }

  /** The audio thread has come so far. ended: and does not go further. */
  played(id, position, ended) {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    call.position = position;
    // Whoever stopped the sound wants no more of it.
    if (ended) this.cancel(id, position);
    if (ended && call.over) this.#calls.delete(id);
  }

  close() {
    if (this.#closed) return;
    this.#lose(this.#why);
    this.#closed = true;
    clearInterval(this.#timer);
    this.#socket?.close(1000);
  }

  #connect() {
    let socket;
    try {
      socket = this.#socket = new WebSocket(this.#url, this.#protocols);
    } catch (error) {
      this.#refuse("connection", `the address or the token cannot be used: ${error.message}`);
      return;
    }
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      for (const message of this.#waiting.splice(0)) socket.send(message);
    };
    socket.onmessage = ({ data }) => {
      try {
        if (typeof data === "string") this.#told(JSON.parse(data));
        else this.#sounds(read(data));
      } catch (error) {
        this.#lose({ code: "internal", message: error.message });
        socket.close(4000, "not understood");
      }
    };
    socket.onclose = ({ code, reason }) => this.#lost(code, reason);
  }

  #lost(code, reason) {
    const served = this.#ready;
    this.#ready = false;
    if (this.#closed) return;
    const why = reason || (served ? "the connection was lost" : "nobody answers at this address");
    if (FINAL.has(code)) {
      this.#refuse("unauthenticated", why);
      return;
    }
    this.#lose({ code: "connection", message: why });
    this.#tell({ type: "link", state: "connecting", message: why });
    setTimeout(() => this.#closed || this.#connect(), this.#again);
    this.#again = Math.min(MOST_AGAIN_MS, 2 * this.#again);
  }

  /** For good: the page is told why, and so is every call. */
  #refuse(code, message) {
    this.#why = { code, message };
    this.#tell({ type: "link", state: "refused", message });
    this.close();
  }

  /** Every call ends; what came of it is played. */
  #lose(error) {
    this.#waiting.length = 0;
    this.#numbers.clear();
    for (const [id, call] of this.#calls) if (!call.over) this.#end(id, call, { type: "failed", ...error });
  }

  #told(event) {
    if (event.type === "ready") {
      this.#ready = true;
      this.#again = AGAIN_MS;
      this.#tell({ type: "link", state: "ready", limits: event.limits });
      return;
    }
    const id = Number(event.context);
    const call = this.#calls.get(id);
    if (event.context === undefined || call === undefined) return; // of a call that was given up
    if (event.type === "started") {
      const { encoding, sample_rate: sampleRate } = event.format;
      call.rate = sampleRate;
      this.#numbers.set(event.number, id);
      call.number = event.number;
      this.#streams.open(id, { encoding, sampleRate, preSkip: event.pre_skip });
    }
    if (event.type === "error") {
      const { code, message, retry_after_ms: retryAfterMs } = event;
      this.#end(id, call, { type: "failed", code, message, retryAfterMs });
    } else {
      if (event.type === "done" || event.type === "cancelled") this.#end(id, call);
      this.#tell({ type: "event", id, event });
    }
  }

  #sounds({ number, samples, start, frames }) {
    const id = this.#numbers.get(number);
    const call = this.#calls.get(id);
    if (call === undefined || call.cancelled) return;
    if (start !== call.expected) throw new Error("a piece of the sound is missing");
    call.expected += samples;
    this.#streams.push(id, frames, samples);
  }

  #end(id, call, told) {
    call.over = true;
    this.#numbers.delete(call.number);
    if (call.cancelled || call.number === undefined) this.#calls.delete(id);
    if (call.number !== undefined) this.#streams.end(id);
    if (told !== undefined) this.#tell({ ...told, id });
  }

  #report() {
    if (!this.#ready) return;
    for (const [id, call] of this.#calls) {
      const samples = this.#heard(call);
      if (call.number === undefined || call.cancelled || call.over) continue;
      // The same again while the sound is paused: it says that somebody is there.
      this.#send({ type: "played", context: String(id), samples });
    }
  }

  #heard({ position, rate }) {
    return Math.floor((position * rate) / RATE);
  }

  #send(message) {
    const text = JSON.stringify(message);
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text);
    else this.#waiting.push(text);
  }
}
