/** On the audio thread: what a microphone hears, in blocks of 21 ms. */

const BLOCK = 1024;

class Listening extends AudioWorkletProcessor {
  #block = new Float32Array(BLOCK);
  #filled = 0;

  process([[heard]]) {
    if (heard === undefined) return true;
    this.#block.set(heard, this.#filled);
    this.#filled += heard.length;
    if (this.#filled === BLOCK) {
      this.port.postMessage(this.#block, [this.#block.buffer]);
      this.#block = new Float32Array(BLOCK);
      this.#filled = 0;
    }
    return true;
  }
}

registerProcessor("oscine-listening", Listening);
