/** The service's WebSocket protocol (docs/websocket.md): what is asked and answered, without a socket. */

import { OscineError } from "./errors.js";

export const PATH = "/v1/speech";
export const PROTOCOL = "oscine.v1";
/** In one message: a UTF-16 unit has at most three bytes of UTF-8, and a service takes 65,536. */
export const TEXT_UNITS = 16384;

export type Encoding = "opus" | "pcm16" | "pcm_f32" | "mulaw" | "alaw" | "mp3" | "flac" | "aac";
export type Container = "raw" | "ogg" | "wav";
export type Mode = "auto" | "sentence" | "interleaved";

export interface Format {
  /** Default: opus. */
  encoding?: Encoding;
  /** Default: raw. */
  container?: Container;
  /** In Hz, 8000 to 48000. Default: 24000. */
  sampleRate?: number;
  /** In bit/s, where the encoding has a choice. */
  bitrate?: number;
}

/** How a call is to speak. What is left out is up to the service, which tells in `started` what it uses. */
export interface Config {
  voice?: string;
  format?: Format;
  /** auto: the first sentence while it is being written. sentence: whole ones. interleaved: all as they are written. */
  mode?: Mode;
  /** 0 to 2^53 - 1. The same seed, voice, mode and text give the same speech. */
  seed?: number;
  /** Shorten silence around sentences. Default: true. */
  trim?: boolean;
  /** A sentence that looks finished is spoken after so long without more text; 0: never. Default: 250. */
  quietMs?: number;
  /** How to speak, in plain words, for models that follow such. */
  instruction?: string;
  language?: string;
  crossLingual?: boolean;
  /** 0.5 to 2. */
  speed?: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  repetitionWindow?: number;
  repetitionLimit?: number;
  /** Word -> what is read in its place. */
  pronunciations?: Record<string, string>;
  /** A recording to speak after, instead of `voice`: an audio file's bytes. */
  reference?: { audio: Uint8Array; transcript?: string; language?: "en" | "zh" };
  /** Tell when each word sounds. */
  wordTimes?: boolean;
  /** A telephone call to speak into, which has a format of its own: leave `format` out. */
  sink?: string;
}

/** What the service uses; the first event of every call. */
export interface Started {
  type: "started";
  voice: string;
  mode: Mode;
  seed: number;
  format: Required<Format>;
  /** Of Opus: samples at 48 kHz to drop from the start of what is decoded. */
  preSkip: number;
  wordTimes: boolean;
}

/** Samples [startSample, startSample + samples) as frames: Opus packets, or one block of anything else. */
export interface Audio {
  type: "audio";
  /** Counts up from 0. */
  sequence: number;
  startSample: number;
  samples: number;
  frames: Uint8Array[];
}

export interface Word {
  text: string;
  startSample: number;
  endSample: number;
  /** Punctuation and blanks up to the next word. */
  behind: string;
}

export interface Words {
  type: "words";
  words: Word[];
}

/** Where a `sink` was named, in place of `Audio`: so many samples were heard in that telephone call. */
export interface Heard {
  type: "heard";
  samples: number;
}

/** The sentence in which the mark of this name stands has been sent to its end. */
export interface Marked {
  type: "marked";
  name: string;
  endSample: number;
}

/** All text before the flush has been sent. */
export interface Flushed {
  type: "flushed";
  endSample: number;
}

/** All was said; the last event. */
export interface Done {
  type: "done";
  audioSeconds: number;
  segments: number;
  firstPacketSeconds: number | null;
  realTimeFactor: number | null;
  underruns: number;
  underrunSeconds: number;
  starved: number;
  starvedSeconds: number;
  unspokenCharacters: number;
}

/** It was cut short; the last event. Played, where that was reported, else sent. */
export interface Cancelled {
  type: "cancelled";
  heardSamples: number;
}

export type Event = Started | Audio | Heard | Words | Marked | Flushed | Done | Cancelled;

/** What the service holds its clients to; null for no limit. */
export interface Limits {
  contexts: number;
  messageBytes: number;
  textBytes: number;
  waitingCharacters: number;
  idleSeconds: number | null;
  writeSeconds: number | null;
  pauseSeconds: number | null;
}

/** A message of the service. `context` is undefined for an error that ends no call. */
export type Answer =
  | { kind: "event"; context: string; event: Event }
  | { kind: "error"; context: string | undefined; error: OscineError }
  | { kind: "ready"; limits: Limits };

const HEADER_BYTES = 24;
const VERSION = 1;
const PACKETS = 1;

export function start(context: string, config: Config): string {
  const { format, reference, ...rest } = config;
  const asked: Record<string, unknown> = { type: "start", context };
  for (const [name, value] of Object.entries(rest)) asked[snake(name)] = value;
  if (format !== undefined) asked.format = snaked(format);
  if (reference !== undefined) asked.reference = { ...reference, audio: base64(reference.audio) };
  return JSON.stringify(asked);
}

export function ask(type: string, context: string, fields: object = {}): string {
  return JSON.stringify({ type, context, ...fields });
}

/** As many messages as a text needs, none for an empty one. Characters of two units stay whole. */
export function texts(context: string, text: string): string[] {
  const messages = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + TEXT_UNITS, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1;
    messages.push(ask("text", context, { text: text.slice(at, end) }));
    at = end;
  }
  return messages;
}

/** What a service says on one socket, told apart by call. */
export class Answers {
  readonly #contexts = new Map<number, string>();

  /** Undefined for what only a newer service says. Throws OscineError for what cannot be understood. */
  read(message: string | ArrayBuffer | ArrayBufferView): Answer | undefined {
    if (typeof message !== "string") return this.#audio(message);
    const told = camel(JSON.parse(message)) as Record<string, unknown> & { type: string; context?: string };
    const { context } = told;
    switch (told.type) {
      case "ready":
        return { kind: "ready", limits: told.limits as Limits };
      case "error": {
        const { message: words, code, retryAfterMs } = told as unknown as OscineError;
        if (context !== undefined) this.#forget(context);
        return { kind: "error", context, error: new OscineError(words, code, retryAfterMs) };
      }
      case "started":
        this.#contexts.set(told.number as number, context as string);
        return event(told);
      case "words":
      case "heard":
      case "marked":
      case "flushed":
        return event(told);
      case "done":
      case "cancelled":
        this.#forget(context as string);
        return event(told);
      default:
        return undefined;
    }
  }

  #audio(message: ArrayBuffer | ArrayBufferView): Answer | undefined {
    // A view may be a part of a larger buffer.
    const bytes =
      message instanceof ArrayBuffer
        ? new Uint8Array(message)
        : new Uint8Array(message.buffer, message.byteOffset, message.byteLength);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < HEADER_BYTES || view.getUint8(0) !== VERSION) {
      throw new OscineError("the service sends audio that this client does not know: update it", "internal");
    }
    const context = this.#contexts.get(view.getUint32(4));
    if (context === undefined) return undefined;
    const body = bytes.subarray(HEADER_BYTES);
    const audio: Audio = {
      type: "audio",
      sequence: view.getUint32(8),
      startSample: Number(view.getBigUint64(16)),
      samples: view.getUint32(12),
      frames: view.getUint8(1) === PACKETS ? packets(body, view.getUint16(2)) : [body],
    };
    return { kind: "event", context, event: audio };
  }

  #forget(context: string): void {
    for (const [number, name] of this.#contexts) if (name === context) this.#contexts.delete(number);
  }
}

function event(told: Record<string, unknown>): Answer {
  const { context, number: _, ...rest } = told;
  return { kind: "event", context: context as string, event: rest as unknown as Event };
}

function packets(body: Uint8Array, count: number): Uint8Array[] {
  const found = [];
  for (let at = 0; found.length < count; ) {
    const size = ((body[at] ?? 0) << 8) | (body[at + 1] ?? 0);
    found.push(body.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  return found;
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function snaked(fields: object): object {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [snake(name), value]));
}

function camel(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camel);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([name, inner]) => [
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    camel(inner),
  ]);
  return Object.fromEntries(entries);
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  // A call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}
