/** Text streams in, speech streams out: a client of the Oscine service for browsers, Node, Deno and Bun. */

export { Oscine, type Options } from "./client.js";
export { OscineError } from "./errors.js";
export type {
  Audio,
  Cancelled,
  Config,
  Container,
  Done,
  Encoding,
  Event,
  Flushed,
  Format,
  Heard,
  Limits,
  Marked,
  Mode,
  Started,
  Word,
  Words,
} from "./protocol.js";
export { Speech } from "./speech.js";
export { Voices, type NewVoice, type Voice } from "./voices.js";
