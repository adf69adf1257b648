/** The microphone: noticing that somebody speaks, and recording them. */

const MODULE = new URL("./listening.js", import.meta.url);
/** A block is loud if it is so many times the noise, and at least so much of full scale. */
const ABOVE_NOISE = 4;
const LEAST = 0.012;
/** Loud blocks of the last ones, 21 ms each, that are speech: what is shorter is a knock. */
const [LOUD, OF] = [5, 7];

/** Blocks of samples at the context's rate, until it is closed. Throws what the browser says where it may not listen. */
export class Microphone {
  static async open(context, heard, { echo = true } = {}) {
    const media = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: echo, noiseSuppression: echo, autoGainControl: false, channelCount: 1 },
    });
    await context.audioWorklet.addModule(MODULE);
    return new Microphone(context, media, heard);
  }

  #media;
  #source;
  #node;

  constructor(context, media, heard) {
    this.#media = media;
    this.#source = context.createMediaStreamSource(media);
    this.#node = new AudioWorkletNode(context, "oscine-listening", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    this.#node.port.onmessage = ({ data }) => heard(data);
    this.#source.connect(this.#node);
  }

  close() {
    this.#source.disconnect();
    this.#node.port.onmessage = null;
    for (const track of this.#media.getTracks()) track.stop();
  }
}

/** Tells speech from noise by loudness: `hear` is true while somebody speaks. */
export class Ear {
  #noise = LEAST / ABOVE_NOISE;
  #recent = [];

  hear(block) {
    let power = 0;
    for (const sample of block) power += sample * sample;
    const loudness = Math.sqrt(power / block.length);
    const loud = loudness > Math.max(LEAST, ABOVE_NOISE * this.#noise);
    // Noise that grows is learned slowly, silence at once.
    this.#noise = loudness < this.#noise ? loudness : this.#noise + (loudness - this.#noise) * (loud ? 0.002 : 0.05);
    this.#recent = [...this.#recent, loud].slice(-OF);
    return this.#recent.filter(Boolean).length >= LOUD;
  }
}

/** A WAV file of 16 bits. */
export function wav(blocks, rate) {
  const count = blocks.reduce((sum, block) => sum + block.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, words) => [...words].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const block of blocks) {
    for (const sample of block) {
      view.setInt16(at, Math.round(32767 * Math.max(-1, Math.min(1, sample))), true);
      at += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}
