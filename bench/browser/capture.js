/** On the audio thread: all that comes by, in seconds of samples; the rest when it is asked for. */

class Capture extends AudioWorkletProcessor {
  #second = new Float32Array(sampleRate);
  #filled = 0;

  constructor() {
    super();
    this.port.onmessage = () => {
      this.port.postMessage({ samples: this.#second.slice(0, this.#filled), last: true });
      this.#filled = 0;
    };
  }

  process([[heard]]) {
    const block = heard ?? new Float32Array(128);
    const fits = Math.min(block.length, this.#second.length - this.#filled);
    this.#second.set(block.subarray(0, fits), this.#filled);
    this.#filled += fits;
    if (this.#filled === this.#second.length) {
      this.port.postMessage({ samples: this.#second });
      this.#second.set(block.subarray(fits));
      this.#filled = block.length - fits;
    }
    return true;
  }
}

registerProcessor("capture", Capture);
