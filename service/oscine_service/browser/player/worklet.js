/**
 * What runs on the audio thread: streams of samples at 48 kHz, one behind the other, into the speakers' graph.
 *
 * `Ring`, `Patience` and `Playback` know no audio API and no clock, so that they can be driven anywhere. This file
 * imports nothing, because what an AudioWorklet imports is not seen by bundlers.
 *
 * No sample of a stream is ever changed, dropped or repeated, except the last ones of a stream that is stopped. Where
 * sound does not come in time, something is put in: the last milliseconds backwards and fading away, silence, and the
 * coming milliseconds backwards and fading in. So the sound neither breaks off nor jumps.
 */

export const RATE = 48000;
/** Samples of a fade: 8 ms. */
export const FADE = 384;
/** Samples that must be there before a stream sounds, or goes on after a gap: 40 ms. */
export const FLOOR = 1920;
/** Below this a sample is as good as silence: nothing has to be faded. */
const QUIET = 0.002;

/** Samples in the order they came. Grows rather than lose any; the last `FADE` ones taken can still be looked at. */
export class Ring {
  #samples = new Float32Array(1 << 17);
  #head = 0;
  #taken = 0;
  length = 0;

  push(samples) {
    while (this.length + samples.length + FADE > this.#samples.length) this.#grow();
    const capacity = this.#samples.length;
    const tail = (this.#head + this.length) % capacity;
    const fits = Math.min(samples.length, capacity - tail);
    this.#samples.set(samples.subarray(0, fits), tail);
    this.#samples.set(samples.subarray(fits), 0);
    this.length += samples.length;
  }

  /** The next `count` samples into `out` from `at`; there must be as many. */
  take(out, at, count) {
    const fits = Math.min(count, this.#samples.length - this.#head);
    out.set(this.#samples.subarray(this.#head, this.#head + fits), at);
    out.set(this.#samples.subarray(0, count - fits), at + fits);
    this.#head = (this.#head + count) % this.#samples.length;
    this.length -= count;
    this.#taken = Math.min(FADE, this.#taken + count);
  }

  /** A sample that is still to come: 0 is the next. */
  ahead(index) {
    return this.#samples[(this.#head + index) % this.#samples.length];
  }

  /** A sample that was taken: 0 is the last; 0 where there was none. */
  behind(index) {
    if (index >= this.#taken) return 0;
    return this.#samples[(this.#head - 1 - index + this.#samples.length) % this.#samples.length];
  }

  #grow() {
    const from = this.#samples;
    const grown = new Float32Array(2 * from.length);
    // What was taken stays in front of what is to come.
    for (let index = -this.#taken; index < this.length; index += 1) {
      grown[index + FADE] = from[(this.#head + index + from.length) % from.length];
    }
    this.#samples = grown;
    this.#head = FADE;
  }
}

/**
 * How long a new stream waits behind its first sample: a little at first, longer on a link that let the sound run dry,
 * and less again with every ten seconds that it did not, until it is nothing.
 */
export class Patience {
  static FIRST = 0.048 * RATE;
  static MOST = 0.4 * RATE;
  samples = Patience.FIRST;
  #clean = 0;

  /** The sound came so many samples too late. */
  late(samples) {
    this.samples = Math.min(Patience.MOST, Math.max(this.samples, samples) + FADE);
    this.#clean = 0;
  }

  /** So many were played without a gap. */
  clean(samples) {
    this.#clean += samples;
    if (this.#clean < 10 * RATE) return;
    this.#clean = 0;
    this.samples = this.samples < FADE ? 0 : Math.round(0.8 * this.samples);
  }
}

/** 1 at the first of `length` samples, 0 behind the last. */
function fading(index, length) {
  return 0.5 + 0.5 * Math.cos((Math.PI * (index + 1)) / (length + 1));
}

/**
 * One stream. `waiting` for samples, `entering` with a fade, `playing`, `leaving` with one, and then waiting again;
 * `stopping` over its own samples; `ended`.
 */
export class Playback {
  state = "waiting";
  /** Samples of the stream that went out. */
  position = 0;
  /** How often the sound ran dry in the middle of it, and how many samples of something else that put in. */
  underruns = 0;
  inserted = 0;
  paused = false;
  #ring = new Ring();
  #patience;
  #complete = false;
  #begun = false;
  #waited = 0;
  #step = 0;
  #length = 0;

  constructor(patience = new Patience()) {
    this.#patience = patience;
  }

  get buffered() {
    return this.#ring.length;
  }

  push(samples) {
    if (!this.#complete && this.state !== "ended") this.#ring.push(samples);
  }

  /** Nothing follows. */
  end() {
    this.#complete = true;
  }

  /** Fade out now, and end. */
  stop() {
    this.#complete = true;
    if (this.state === "waiting") this.state = "ended";
    else if (this.state === "entering") this.state = "retreating";
    else if (this.state === "leaving") this.state = "stopped";
    else if (this.state === "playing") this.#fade("stopping", Math.min(FADE, this.#ring.length));
  }

  /** Fills `out` from `at`; returns where it stopped: before the end of `out` where the stream has ended. */
  render(out, at = 0) {
    while (at < out.length && this.state !== "ended") at = this[`_${this.state}`](out, at);
    return at;
  }

  _waiting(out, at) {
    const there = this.#ring.length;
    if (this.#complete && there === 0) {
      this.state = "ended";
      return at;
    }
    const patient = this.#begun || this.#waited >= this.#patience.samples;
    if (!this.paused && there > 0 && (this.#complete || (there >= FLOOR && patient))) {
      if (this.#begun && this.#waited > 0) this.#patience.late(this.#waited);
      this.#waited = 0;
      this.#begun = true;
      if (Math.abs(this.#ring.ahead(0)) <= QUIET) this.state = "playing";
      else this.#fade("entering", Math.min(FADE, there));
      return at;
    }
    out.fill(0, at);
    if (this.#begun && !this.paused) this.inserted += out.length - at;
    // Of a stream that has not begun, the time since its first sample; of one that has, the time that it was dry.
    if (!this.paused && (this.#begun || there > 0)) this.#waited += out.length - at;
    return out.length;
  }

  _entering(out, at) {
    const from = this.#length - 1 - this.#step;
    return this.#insert(out, at, (index) => this.#ring.ahead(from - index), from, "playing");
  }

  _playing(out, at) {
    const count = Math.min(out.length - at, this.#ring.length);
    if (count > 0 && !this.paused) {
      this.#ring.take(out, at, count);
      this.position += count;
      this.#patience.clean(count);
      return at + count;
    }
    if (!this.paused && !this.#complete) this.underruns += 1;
    if (Math.abs(this.#ring.behind(0)) <= QUIET) this.#dry();
    else this.#fade("leaving", FADE);
    return at;
  }

  _leaving(out, at) {
    const from = this.#step;
    return this.#insert(out, at, (index) => this.#ring.behind(from + index), from, "dry");
  }

  /** As entering, back to where that came from. */
  _retreating(out, at) {
    const back = this.#length - this.#step;
    const count = Math.min(out.length - at, this.#step);
    for (let index = 0; index < count; index += 1) {
      out[at + index] = this.#ring.ahead(back + index) * fading(back + index, this.#length);
    }
    this.inserted += count;
    this.#step -= count;
    if (this.#step === 0) this.state = "ended";
    return at + count;
  }

  /** As leaving, and nothing behind it. */
  _stopped(out, at) {
    const from = this.#step;
    return this.#insert(out, at, (index) => this.#ring.behind(from + index), from, "ended");
  }

  _stopping(out, at) {
    const count = Math.min(out.length - at, this.#length - this.#step);
    this.#ring.take(out, at, count);
    for (let index = 0; index < count; index += 1) out[at + index] *= fading(this.#step + index, this.#length);
    this.position += count;
    this.#step += count;
    if (this.#step === this.#length) this.state = "ended";
    return at + count;
  }

  #fade(state, length) {
    this.state = state;
    this.#length = length;
    this.#step = 0;
  }

  #dry() {
    this.state = this.#complete && this.#ring.length === 0 ? "ended" : "waiting";
  }

  /** Samples that are none of the stream, faded by how far they are from it. */
  #insert(out, at, sample, from, next) {
    const count = Math.min(out.length - at, this.#length - this.#step);
    const towards = next === "playing" ? -1 : 1;
    for (let index = 0; index < count; index += 1) {
      out[at + index] = sample(index) * fading(from + towards * index, this.#length);
    }
    this.inserted += count;
    this.#step += count;
    if (this.#step === this.#length) {
      if (next === "dry") this.#dry();
      else this.state = next;
    }
    return at + count;
  }
}

/** Every so many blocks of 128 samples it is told where the sound is: 21 ms. */
const TOLD_EVERY = 8;

/**
 * Streams in the order they were opened. Takes {open}, {id, samples}, {id, end} from the worker's port and {stop},
 * {pause}, {port}, {close} from its own; tells both of {begun}, {status} and {ended}.
 */
class Speakers extends (globalThis.AudioWorkletProcessor ?? Object) {
  #streams = new Map();
  /** Those that were stopped before they came here. */
  #stopped = new Set();
  #patience = new Patience();
  #worker;
  #paused = false;
  #blocks = 0;
  #closed = false;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#told(data);
  }

  process(_inputs, [[out]]) {
    let at = 0;
    for (const [id, playback] of this.#streams) {
      const { position } = playback;
      at = playback.render(out, at);
      if (position === 0 && playback.position > 0) this.#tell({ begun: id, at: this.#now() });
      if (playback.state === "ended") this.#ended(id, playback);
      if (at === out.length) break;
    }
    this.#blocks = (this.#blocks + 1) % TOLD_EVERY;
    if (this.#blocks === 0) this.#status();
    return !this.#closed;
  }

  #told(message) {
    if (message.port !== undefined) {
      this.#worker = message.port;
      this.#worker.onmessage = ({ data }) => this.#fed(data);
    } else if (message.stop !== undefined) {
      this.#stop(message.stop);
    } else if (message.pause !== undefined) {
      this.#paused = message.pause;
      for (const playback of this.#streams.values()) playback.paused = message.pause;
    } else if (message.close) {
      this.#closed = true;
    }
  }

  #fed({ open, id, samples, end }) {
    if (open !== undefined && this.#stopped.delete(open)) {
      this.#tell({ ended: open, position: 0, underruns: 0, inserted: 0, at: this.#now() });
    } else if (open !== undefined) {
      const playback = new Playback(this.#patience);
      playback.paused = this.#paused;
      this.#streams.set(open, playback);
    }
    const playback = this.#streams.get(id);
    if (playback === undefined) return; // it was stopped
    if (samples !== undefined) playback.push(samples);
    if (end) playback.end();
  }

  /** The one that sounds fades out; those behind it end where they are. */
  #stop(id) {
    const [first] = this.#streams.keys();
    const playback = this.#streams.get(id);
    if (playback === undefined) {
      this.#stopped.add(id);
      return;
    }
    playback.stop();
    if (id !== first || playback.state === "ended") this.#ended(id, playback);
  }

  #ended(id, { position, underruns, inserted }) {
    this.#streams.delete(id);
    this.#tell({ ended: id, position, underruns, inserted, at: this.#now() });
  }

  #status() {
    const [first] = this.#streams;
    if (first === undefined) return;
    const [id, { position, buffered, underruns, inserted, state }] = first;
    const patience = this.#patience.samples;
    this.#tell({ status: id, position, buffered, underruns, inserted, state, patience, at: this.#now() });
  }

  #now() {
    return globalThis.currentTime;
  }

  #tell(message) {
    this.port.postMessage(message);
    this.#worker?.postMessage(message);
  }
}

globalThis.registerProcessor?.("oscine-speakers", Speakers);
