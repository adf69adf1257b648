/** Types of player.js, for those who have a compiler. */

export class PlayerError extends Error {
  readonly code: string;
  readonly retryAfterMs: number | undefined;
}

/** Samples at 48 kHz. */
export interface Heard {
  position: number;
  underruns: number;
  inserted: number;
}

export interface Status extends Heard {
  buffered: number;
  patience: number;
  state: "waiting" | "entering" | "playing" | "leaving" | "stopping" | "retreating" | "stopped" | "ended";
  at: number;
}

export interface StreamFormat {
  encoding: string;
  sampleRate: number;
  preSkip?: number;
}

/** Events: begun, status, came, shape, ended, failed; each a CustomEvent. */
export class Stream extends EventTarget {
  readonly id: number;
  readonly finished: Promise<Heard>;
  readonly position: number;
  readonly begun: boolean;
  readonly ended: boolean;
  push(frames: Uint8Array[], samples: number): void;
  end(): void;
  stop(): Promise<Heard>;
}

/** Events of Stream, and event: what the service tells, as docs/websocket.md has it. */
export class Call extends Stream {
  readonly started: Record<string, unknown> | undefined;
  append(text: string): void;
  flush(): void;
  mark(name: string): void;
  interrupt(): Promise<{ position: number; seconds: number }>;
}

/** Event: state. */
export class Link extends EventTarget {
  readonly state: "connecting" | "ready" | "refused";
  readonly message: string;
  readonly limits: Record<string, number | null> | undefined;
  open(fields?: Record<string, unknown>): Call;
  speak(text: string | Iterable<string> | AsyncIterable<string>, fields?: Record<string, unknown>): Call;
  close(): void;
}

/** What `play` plays: events of a call of oscine-client; it is told what was heard, if it wants to know. */
export interface Playable<Event> extends AsyncIterable<Event> {
  played?(samples: number): void;
  cancel?(): void;
}

export class Player {
  constructor(options?: { destination?: AudioNode });
  static readonly format: { encoding: "opus" | "pcm16"; sampleRate: number };
  readonly context: AudioContext;
  readonly output: AudioNode;
  readonly running: boolean;
  volume: number;
  unlock(): Promise<void>;
  stop(): void;
  pause(): void;
  resume(): void;
  open(format: StreamFormat): Stream;
  play<Event extends { type: string }>(speech: Playable<Event>, heard?: (event: Event) => void): Promise<Heard | undefined>;
  connect(url?: string | URL, options?: { token?: string }): Link;
  close(): Promise<void>;
}
