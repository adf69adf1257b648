/** What is read out of a binary message of the service: docs/websocket.md, "Binary messages". */

const HEADER_BYTES = 24;
const VERSION = 1;
const PACKETS = 1;

/** The frames of a message: Opus packets, or one block of anything else. Throws for what no service has sent. */
export function read(message) {
  const view = new DataView(message);
  if (message.byteLength < HEADER_BYTES || view.getUint8(0) !== VERSION) {
    throw new Error("the service sends sound that this player does not know: load the page again");
  }
  return {
    number: view.getUint32(4),
    samples: view.getUint32(12),
    start: Number(view.getBigUint64(16)),
    frames: view.getUint8(1) === PACKETS ? packets(view) : [new Uint8Array(message, HEADER_BYTES)],
  };
}

function packets(view) {
  const found = [];
  for (let at = HEADER_BYTES; at < view.byteLength; ) {
    const length = view.getUint16(at);
    if (at + 2 + length > view.byteLength) throw new Error("a message of sound was cut off");
    found.push(new Uint8Array(view.buffer, view.byteOffset + at + 2, length));
    at += 2 + length;
  }
  return found;
}
