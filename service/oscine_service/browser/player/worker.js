/**
 * The worker behind a player: holds the sockets and the decoders, and feeds the audio thread, so that nothing a page does
 * on its own thread is heard. What it is told and tells is between it and player.js.
 */

import { decoding } from "./decoding.js";
import { Link } from "./link.js";

/** What is not seen yet as a shape is 10 ms long. */
const PEAK = 480;

const decoders = new Map();
const links = new Map();
let speakers;

/** Samples of one stream as the heights of 10 ms each, for who draws them. */
class Shape {
  #rest = 0;
  #peak = 0;

  take(samples) {
    const found = [];
    for (const sample of samples) {
      this.#peak = Math.max(this.#peak, Math.abs(sample));
      this.#rest += 1;
      if (this.#rest < PEAK) continue;
      found.push(this.#peak);
      this.#rest = this.#peak = 0;
    }
    return found;
  }
}

/** A stream from its format to its last sample: decoded, and on its way to the speakers. */
const streams = {
  open(id, format) {
    const shape = new Shape();
    const emit = (samples) => {
      const peaks = shape.take(samples);
      const { length } = samples;
      speakers.postMessage({ id, samples }, [samples.buffer]);
      postMessage({ type: "shape", id, peaks, samples: length });
    };
    const fail = (error) => {
      streams.end(id);
      postMessage({ type: "failed", id, code: "codec", message: `the sound cannot be decoded: ${error.message}` });
    };
    speakers.postMessage({ open: id });
    try {
      decoders.set(id, decoding(format, emit, fail));
    } catch (error) {
      fail(error);
    }
  },

  push(id, frames, samples) {
    decoders.get(id)?.push(frames, samples);
    postMessage({ type: "came", id, samples });
  },

  async end(id) {
    const decoder = decoders.get(id);
    decoders.delete(id);
    await decoder?.finish().catch(() => decoder.close()); // it failed before, which was told
    speakers.postMessage({ id, end: true });
  },

  drop(id) {
    decoders.get(id)?.close();
    decoders.delete(id);
  },
};

/** From the audio thread. */
function played(message) {
  const id = message.status ?? message.ended;
  for (const link of links.values()) link.played(id, message.position, message.ended !== undefined);
  if (message.ended !== undefined) streams.drop(id);
}

const asked = {
  speakers({ port }) {
    speakers = port;
    speakers.onmessage = ({ data }) => played(data);
  },
  open: ({ id, format }) => streams.open(id, format),
  push: ({ id, frames, samples }) => streams.push(id, frames, samples),
  end: ({ id }) => streams.end(id),
  connect: ({ link, url, protocols }) => links.set(link, new Link(url, protocols, streams, (told) => postMessage({ ...told, link }))),
  start: ({ link, id, fields }) => links.get(link).start(id, fields),
  send: ({ link, id, message }) => links.get(link).send(id, message),
  cancel: ({ link, id, position }) => links.get(link).cancel(id, position),
  close: ({ link }) => links.get(link).close(),
};

onmessage = ({ data }) => asked[data.type](data);
