/** A connection to one service, for many calls at a time. */

import { OscineError } from "./errors.js";
import { Answers, PATH, PROTOCOL, start, type Config, type Event, type Limits } from "./protocol.js";
import { Speech } from "./speech.js";
import { Voices } from "./voices.js";

export interface Options {
  /** For web pages: a token that a server of yours has minted (`POST /v1/tokens`); never a key. */
  token?: string;
  /** For servers: a key. */
  key?: string;
  /** Where there is no global one, such as `ws`'s. */
  WebSocket?: typeof WebSocket;
}

/** Close codes of a service that stops or is full: the same may be asked again, of another one or later. */
const PASSING = new Map([
  [1001, "unavailable"],
  [1012, "unavailable"],
  [1013, "overloaded"],
]);

export class Oscine {
  /** The voices of the service. */
  readonly voices: Voices;
  readonly #url: string;
  readonly #protocols: string[];
  readonly #WebSocket: typeof WebSocket;
  #connection: Connection | undefined;

  /** url: `ws://host:port` or `wss://host`. Connects with the first call, and again with the next one after a loss. */
  constructor(url: string, options: Options = {}) {
    const address = new URL(url);
    if (address.protocol !== "ws:" && address.protocol !== "wss:") {
      throw new TypeError(`${url} is not ws://HOST:PORT or wss://HOST`);
    }
    if (address.pathname === "/") address.pathname = PATH;
    this.#url = address.href;
    const secret = options.token ?? options.key;
    this.#protocols = secret === undefined ? [PROTOCOL] : [PROTOCOL, `oscine.token.${secret}`];
    const found = options.WebSocket ?? globalThis.WebSocket;
    if (found === undefined) {
      throw new TypeError("no WebSocket here: give one as an option, or use Node 22 (20: --experimental-websocket)");
    }
    this.#WebSocket = found;
    this.voices = new Voices(`${address.protocol === "wss:" ? "https:" : "http:"}//${address.host}`, secret);
  }

  /** What the service holds its clients to, once there is a connection. */
  get limits(): Limits | undefined {
    return this.#connection?.limits;
  }

  /** A new call, to append text to as it is written. Throws OscineError where nobody answers, or refuses. */
  async open(config: Config = {}): Promise<Speech> {
    if (this.#connection === undefined || this.#connection.lost) {
      this.#connection = new Connection(new this.#WebSocket(this.#url, this.#protocols));
    }
    return await this.#connection.open(config);
  }

  /**
   * Speak a text, or pieces of it as they come: the tokens of a language model as it writes them. Yields events to the
   * end; what taking the pieces throws is thrown here. Leaving the loop ends the call.
   */
  async *speak(
    text: string | Iterable<string> | AsyncIterable<string>,
    config: Config = {},
  ): AsyncGenerator<Event, void, void> {
    const speech = await this.open(config);
    let failure: { reason: unknown } | undefined;
    speech.feed(typeof text === "string" ? [text] : text).catch((reason: unknown) => {
      failure = { reason };
      speech.cancel();
      speech.tell(new OscineError("the text broke off", "cancelled"));
    });
    try {
      yield* speech;
    } catch (error) {
      if (failure !== undefined) throw failure.reason;
      throw error;
    }
  }

  /** End all calls, and the connection. */
  close(): void {
    this.#connection?.close(1000, "closed here");
  }
}

class Connection {
  limits: Limits | undefined;
  readonly #socket: WebSocket;
  readonly #answers = new Answers();
  readonly #calls = new Map<string, Speech>();
  readonly #opened: Promise<void>;
  #count = 0;
  #lost: OscineError | undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    this.#opened = new Promise((opened, failed) => {
      const end = (code: number, reason: string): void => {
        this.#lose(lost(code, reason));
        failed(this.#lost);
      };
      socket.onopen = () => opened();
      socket.onclose = ({ code, reason }) => end(code, reason);
      // Node 20 tells of a connection that was refused in no other way.
      socket.onerror = () => {
        if (socket.readyState !== socket.OPEN) end(1006, "");
      };
    });
    socket.onmessage = ({ data }) => {
      try {
        this.#hear(data as string | ArrayBuffer);
      } catch (error) {
        this.#lose(error instanceof OscineError ? error : new OscineError(String(error), "internal"));
        socket.close(4000, "not understood");
      }
    };
  }

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  async open(config: Config): Promise<Speech> {
    await this.#opened;
    if (this.#lost !== undefined) throw this.#lost;
    const context = String((this.#count += 1));
    const send = (message: string): void => {
      if (!this.lost) this.#socket.send(message);
    };
    const speech = new Speech(context, send, () => this.#calls.delete(context));
    this.#calls.set(context, speech);
    send(start(context, config));
    return speech;
  }

  close(code: number, reason: string): void {
    this.#lose(lost(code, reason));
    this.#socket.close(code, reason);
  }

  #hear(message: string | ArrayBuffer): void {
    const answer = this.#answers.read(message);
    if (answer === undefined) return;
    if (answer.kind === "ready") {
      this.limits = answer.limits;
    } else if (answer.kind === "event") {
      this.#calls.get(answer.context)?.tell(answer.event);
    } else if (answer.context !== undefined) {
      this.#calls.get(answer.context)?.tell(answer.error);
    } else {
      // A message that the service could not take; no call ends with it.
      console.warn(`oscine: ${answer.error.message} (${answer.error.code})`);
    }
  }

  #lose(error: OscineError): void {
    this.#lost ??= error;
    for (const speech of [...this.#calls.values()]) speech.tell(this.#lost);
  }
}

function lost(code: number, reason: string): OscineError {
  const why = code === 1006 ? "the connection was lost or refused" : `the connection was closed (${code})`;
  return new OscineError(reason === "" ? why : `${why}: ${reason}`, PASSING.get(code) ?? "connection");
}
