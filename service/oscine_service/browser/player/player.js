/**
 * Plays speech as it comes: docs/browser.md. One import, nothing to build, nothing it depends on.
 *
 *     const player = new Player();
 *     button.onclick = async () => {
 *       await player.unlock();
 *       const link = player.connect("ws://localhost:8080/v1/speech");
 *       const call = link.speak("Good morning.");
 *       await call.finished;
 *     };
 *
 * A worker holds the socket and the decoder, an AudioWorklet the samples; what the page does meanwhile is not heard.
 */

const RATE = 48000;
const PROTOCOL = "oscine.v1";
/** In one message: a UTF-16 unit has at most three bytes of UTF-8, and a service takes 65,536. */
const TEXT_UNITS = 16384;

/** Why something was not spoken, or not to its end. `code` is one of docs/websocket.md, or "connection", or "codec". */
export class PlayerError extends Error {
  name = "PlayerError";

  constructor(message, code, retryAfterMs) {
    super(message);
    this.code = code;
    /** When the same may be asked again, in milliseconds, where that is of use. */
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * One stream of sound through the speakers. Events (`CustomEvent`s whose `detail` is meant):
 *
 * - `begun` {at}: its first sample is on its way to the speakers, at this time of the audio context
 * - `status` {position, buffered, underruns, inserted, state, patience, at}: about fifty times a second, in samples at
 *   48 kHz. position: what was played. buffered: what is there to play. underruns: how often it ran dry, and inserted:
 *   samples of anything else that this put in
 * - `came` {samples}: a message of sound, in samples of its format
 * - `shape` {peaks, samples}: decoded; the greatest sample of each 10 ms
 * - `ended` {position, underruns, inserted}
 */
export class Stream extends EventTarget {
  /** Resolves with {position, underruns, inserted} when it was heard to its end, or stopped; rejects with a PlayerError. */
  finished;
  /** Samples at 48 kHz that were played. */
  position = 0;
  begun = false;
  ended = false;
  #player;
  #resolve;
  #reject;

  /** @internal */
  constructor(player, id) {
    super();
    this.id = id;
    this.#player = player;
    this.finished = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.finished.catch(() => {}); // who does not wait for it need not handle it
  }

  /** Frames as the service sends them: Opus packets, or blocks of plain samples. samples: of the format, that they hold. */
  push(frames, samples) {
    this.#player._ask({ type: "push", id: this.id, frames, samples });
  }

  /** No more follows. */
  end() {
    this.#player._ask({ type: "end", id: this.id });
  }

  /** Fade out at once. Resolves, as `finished` does, with how much was played. */
  async stop() {
    this.#player._stop(this.id);
    return await this.finished;
  }

  /** @internal */
  _told(type, detail) {
    if (this.ended && type !== "event") return;
    if (detail.position !== undefined) this.position = detail.position;
    if (type === "begun") this.begun = true;
    if (type === "ended") this.ended = true;
    this.dispatchEvent(new CustomEvent(type, { detail }));
    if (type === "ended") this.#resolve(detail);
  }

  /** @internal */
  _failed(error) {
    this.#reject(error);
    this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }
}

/**
 * A call of the service, spoken as its sound comes. Events of `Stream`, and `event`: whatever the service tells of it
 * (docs/websocket.md): `started`, `words`, `marked`, `flushed`, `done`, `cancelled`.
 *
 * `finished` rejects with a PlayerError where the service refuses, or is lost; what came before is played all the same.
 */
export class Call extends Stream {
  /** What the service speaks in, once it has told. */
  started;
  /** @internal The service says no more of it. */
  over = false;
  #send;
  #cancel;

  /** @internal */
  constructor(player, id, send, cancel) {
    super(player, id);
    this.#send = send;
    this.#cancel = cancel;
    this.addEventListener("event", ({ detail }) => {
      if (detail.type === "started") this.started = detail;
      if (detail.type === "done" || detail.type === "cancelled") this.over = true;
    });
  }

  /** Text as it is written, cut anywhere. */
  append(text) {
    for (let at = 0; at < text.length; ) {
      let end = Math.min(at + TEXT_UNITS, text.length);
      const last = text.charCodeAt(end - 1);
      if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1;
      this.#send({ type: "text", text: text.slice(at, end) });
      at = end;
    }
  }

  /** Speak what is there without waiting for more. */
  flush() {
    this.#send({ type: "flush" });
  }

  /** Name this place in the text. */
  mark(name) {
    this.#send({ type: "mark", name });
  }

  /** No more text follows. */
  end() {
    this.#send({ type: "end" });
  }

  /** The listener interrupts: silence within milliseconds. Resolves with {position, seconds}: what was heard. */
  async interrupt() {
    this.#cancel(this);
    const { position } = await this.finished.catch(() => this);
    return { position, seconds: position / RATE };
  }
}

/** A connection for any number of calls, made again when it is lost. Event `state`: {state, message}, as the fields. */
export class Link extends EventTarget {
  /** "connecting"; "ready"; "refused", for good: `message` says why. */
  state = "connecting";
  message = "";
  /** What the service holds its clients to. */
  limits;
  #player;
  #number;

  /** @internal */
  constructor(player, number) {
    super();
    this.#player = player;
    this.#number = number;
  }

  /** A new call; fields: of `start`, but its format. It is heard behind those that were begun before. */
  open(fields = {}) {
    return this.#player._call(this.#number, fields);
  }

  /** Speak a text, or pieces of it as they come: an iterable, asynchronous or not. */
  speak(text, fields = {}) {
    const call = this.open(fields);
    const feed = async () => {
      for await (const piece of typeof text === "string" ? [text] : text) {
        if (call.ended) return;
        call.append(piece);
      }
      call.end();
    };
    feed().catch((error) => {
      call._failed(error);
      call.interrupt();
    });
    return call;
  }

  close() {
    this.#player._ask({ type: "close", link: this.#number });
  }

  /** @internal */
  _told({ state, message = "", limits }) {
    Object.assign(this, { state, message, limits: limits ?? this.limits });
    this.dispatchEvent(new CustomEvent("state", { detail: { state, message } }));
  }
}

export class Player {
  /** The graph that it plays into, at 48 kHz. */
  context;
  #ready;
  #worker;
  #node;
  #gain;
  #streams = new Map();
  #links = new Map();
  #count = 0;

  /** destination: the node to play into, of a context at 48 kHz; the speakers by default. */
  constructor({ destination } = {}) {
    this.context = destination?.context ?? new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    if (this.context.sampleRate !== RATE) {
      throw new PlayerError(`the audio context has ${this.context.sampleRate} Hz: make one with 48000`, "codec");
    }
    this.#gain = new GainNode(this.context);
    this.#gain.connect(destination ?? this.context.destination);
    this.#worker = worker(new URL("./worker.js", import.meta.url));
    this.#worker.onmessage = ({ data }) => this.#worked(data);
    this.#worker.onerror = ({ message }) => this.#broken(message);
    this.#ready = this.#start();
    this.#ready.catch(() => {}); // told to whoever unlocks
  }

  /** What to ask the service for: Opus where this browser decodes it, else plain samples. */
  static get format() {
    return globalThis.AudioDecoder === undefined
      ? { encoding: "pcm16", sampleRate: RATE }
      : { encoding: "opus", sampleRate: 24000 };
  }

  /** Where the sound comes out, for whoever wants to look at it as well. */
  get output() {
    return this.#gain;
  }

  /** 0 to 1. */
  get volume() {
    return this.#gain.gain.value;
  }

  set volume(value) {
    this.#gain.gain.setTargetAtTime(value, this.context.currentTime, 0.01);
  }

  /** False while the browser waits for somebody to touch the page: `unlock` then. */
  get running() {
    return this.context.state === "running";
  }

  /** Call it in the handler of a click or a key, before anything else there is waited for. */
  async unlock() {
    await Promise.all([this.context.resume(), this.#ready]);
  }

  /** Fade out all that sounds or waits to, at once. */
  stop() {
    for (const stream of [...this.#streams.values()]) {
      if (stream instanceof Call) stream.interrupt();
      else stream.stop();
    }
  }

  /** Stop the sound where it is, with a fade, and go on from there. The service is told that somebody is still there. */
  pause() {
    this.#node?.port.postMessage({ pause: true });
  }

  resume() {
    this.#node?.port.postMessage({ pause: false });
  }

  /** A stream to push frames into. format: {encoding, sampleRate, preSkip}, as the service's `started` tells. */
  open({ encoding, sampleRate, preSkip = 0 }) {
    const stream = new Stream(this, (this.#count += 1));
    this.#streams.set(stream.id, stream);
    this._ask({ type: "open", id: stream.id, format: { encoding, sampleRate, preSkip } });
    return stream;
  }

  /**
   * Play a call of the TypeScript client, which must have been asked for `Player.format`; tells it what is heard. Resolves
   * as `Stream.finished`. heard: is given each of its events.
   */
  async play(speech, heard = () => {}) {
    let stream;
    let reports;
    try {
      for await (const event of speech) {
        heard(event);
        if (stream?.ended) break; // it was stopped, and leaving ends the call
        if (event.type === "started") {
          const { encoding, sampleRate } = event.format;
          stream = this.open({ encoding, sampleRate, preSkip: event.preSkip });
          const report = () => speech.played?.(Math.floor((stream.position * sampleRate) / RATE));
          reports = setInterval(report, 250);
          stream.addEventListener("ended", () => {
            report();
            speech.cancel?.(); // it was stopped, or there is nothing left to cancel
          });
        } else if (event.type === "audio") {
          stream.push(event.frames, event.samples);
        }
      }
    } finally {
      clearInterval(reports);
      stream?.end(); // what had come is heard, whatever ended it
    }
    return await stream?.finished;
  }

  /** A connection to a service. url: ws:// or wss://, by default where this module comes from. */
  connect(url = new URL("/v1/speech", import.meta.url), { token } = {}) {
    const address = new URL(url, import.meta.url);
    address.protocol = address.protocol.replace("http", "ws");
    const number = (this.#count += 1);
    const link = new Link(this, number);
    this.#links.set(number, link);
    const protocols = token === undefined ? [PROTOCOL] : [PROTOCOL, `oscine.token.${token}`];
    this._ask({ type: "connect", link: number, url: address.href, protocols });
    return link;
  }

  /** Let go of everything. */
  async close() {
    this.#worker.terminate();
    this.#node?.port.postMessage({ close: true });
    this.#gain.disconnect();
    await this.context.close();
  }

  async #start() {
    await this.context.audioWorklet.addModule(new URL("./worklet.js", import.meta.url));
    this.#node = new AudioWorkletNode(this.context, "oscine-speakers", { numberOfInputs: 0, outputChannelCount: [1] });
    this.#node.port.onmessage = ({ data }) => this.#sounded(data);
    this.#node.connect(this.#gain);
    const { port1, port2 } = new MessageChannel();
    this.#node.port.postMessage({ port: port1 }, [port1]);
    this.#worker.postMessage({ type: "speakers", port: port2 }, [port2]);
  }

  /** @internal Messages keep their order, and wait for the audio thread. */
  _ask(message) {
    this.#ready.then(() => this.#worker.postMessage(message));
  }

  /** @internal */
  _call(link, fields) {
    const id = (this.#count += 1);
    const send = (message) => this._ask({ type: "send", link, id, message });
    const call = new Call(this, id, send, () => this.#interrupt(link, call));
    this.#streams.set(id, call);
    const { encoding, sampleRate } = Player.format;
    this._ask({ type: "start", link, id, fields: { format: { encoding, sample_rate: sampleRate }, ...fields } });
    return call;
  }

  #interrupt(link, call) {
    if (call.ended) return;
    // Without a running graph nobody answers from there, and nothing sounds.
    if (call.started === undefined || !this.running) {
      this._ask({ type: "cancel", link, id: call.id });
      if (call.started !== undefined) this._stop(call.id);
      this.#sounded({ ended: call.id, position: call.position, underruns: 0, inserted: 0 });
    } else {
      this._stop(call.id);
    }
  }

  /** @internal */
  _stop(id) {
    if (this.#node !== undefined) this.#node.port.postMessage({ stop: id });
    else this.#ready.then(() => this.#node.port.postMessage({ stop: id }));
  }

  /** From the audio thread. */
  #sounded(message) {
    const type = ["begun", "status", "ended"].find((name) => message[name] !== undefined);
    const id = message[type];
    this.#streams.get(id)?._told(type, message);
    this.#leave(id);
  }

  /** The worker could not be loaded, or met a fault. */
  #broken(message = "it could not be loaded") {
    for (const stream of this.#streams.values()) {
      stream._failed(new PlayerError(`the player's worker does not work: ${message}`, "internal"));
    }
  }

  /** From the worker. */
  #worked(message) {
    const { type, id } = message;
    if (type === "link") {
      this.#links.get(message.link)?._told(message);
      return;
    }
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    if (type === "failed") {
      stream.over = true;
      stream._failed(new PlayerError(message.message, message.code, message.retryAfterMs));
      // Nothing is heard of a call that never began.
      if (stream instanceof Call && stream.started === undefined) stream.ended = true;
    } else if (type === "event") {
      stream._told("event", message.event);
    } else {
      stream._told(type, message);
    }
    this.#leave(id);
  }

  /** Forget a stream of which nothing more is told. */
  #leave(id) {
    const stream = this.#streams.get(id);
    if (stream?.ended && (stream.over || !(stream instanceof Call))) this.#streams.delete(id);
  }
}

/** A page on another origin may import this module, but not start a worker of it: a line of its own does. */
function worker(url) {
  if (url.origin === globalThis.location?.origin) return new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  const line = new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" });
  const address = URL.createObjectURL(line);
  return new Worker(address, { type: "module" });
}
