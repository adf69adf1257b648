/**
 * Frames of one stream into samples at 48 kHz, which `emit` is given in order: just those that the service counts. What
 * the encoder put in front (`preSkip`) and behind is left out.
 */

export const RATE = 48000;
/** Of one packet, in microseconds. */
const PACKET_US = 20000;

/** format: {encoding, sampleRate, preSkip}. Throws RangeError for what this cannot decode. */
export function decoding(format, emit, fail) {
  const { encoding, sampleRate } = format;
  if (encoding === "opus" && globalThis.AudioDecoder !== undefined) return new OpusDecoding(format, emit, fail);
  if (encoding === "pcm16" && sampleRate === RATE) return new PcmDecoding(emit);
  throw new RangeError(`${encoding} at ${sampleRate} Hz cannot be played here: ask the service for Player.format`);
}

class OpusDecoding {
  #decoder;
  #emit;
  #skip;
  #ratio;
  /** Samples at 48 kHz that frames so far have promised, and of those, what was emitted. */
  #promised = 0;
  #emitted = 0;
  /** Decoded before the service has counted it: the sound of a message may end in the packets of the next. */
  #early = [];
  #time = 0;

  constructor({ sampleRate, preSkip }, emit, fail) {
    this.#emit = emit;
    this.#skip = preSkip;
    this.#ratio = RATE / sampleRate;
    this.#decoder = new AudioDecoder({ output: (data) => this.#decoded(data), error: fail });
    this.#decoder.configure({ codec: "opus", sampleRate: RATE, numberOfChannels: 1 });
  }

  push(frames, samples) {
    this.#promised += samples * this.#ratio;
    for (const data of frames) {
      this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: this.#time, duration: PACKET_US, data }));
      this.#time += PACKET_US;
    }
    const early = this.#early;
    this.#early = [];
    for (const each of early) this.#pass(each);
  }

  /** Resolves when everything was emitted. */
  async finish() {
    await this.#decoder.flush();
    this.close();
  }

  close() {
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }

  #decoded(data) {
    const samples = new Float32Array(data.numberOfFrames);
    data.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
    data.close();
    const skipped = Math.min(this.#skip, samples.length);
    this.#skip -= skipped;
    this.#pass(samples.subarray(skipped));
  }

  #pass(samples) {
    const room = Math.max(0, Math.min(samples.length, this.#promised - this.#emitted));
    if (room > 0) this.#emit(samples.slice(0, room));
    this.#emitted += room;
    if (room < samples.length) this.#early.push(samples.subarray(room));
  }
}

class PcmDecoding {
  #emit;

  constructor(emit) {
    this.#emit = emit;
  }

  push(frames) {
    for (const frame of frames) {
      // A frame may be a part of a larger buffer, at any byte of it.
      const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
      const samples = new Float32Array(frame.byteLength >> 1);
      for (let index = 0; index < samples.length; index += 1) samples[index] = view.getInt16(2 * index, true) / 32768;
      if (samples.length > 0) this.#emit(samples);
    }
  }

  async finish() {}

  close() {}
}
