/** One call: text in, events out. */

import { OscineError } from "./errors.js";
import { ask, texts, type Event } from "./protocol.js";

/**
 * Made by `Oscine.open`. Iterate to the end, `done` or `cancelled`; any other end throws OscineError. What is sent after
 * that changes nothing. Leaving the loop cancels the call.
 */
export class Speech implements AsyncIterable<Event> {
  readonly #context: string;
  readonly #send: (message: string) => void;
  readonly #leave: () => void;
  readonly #told: (Event | OscineError)[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  /** @internal */
  constructor(context: string, send: (message: string) => void, leave: () => void) {
    this.#context = context;
    this.#send = send;
    this.#leave = leave;
  }

  /** Nothing more comes, and nothing is taken. */
  get ended(): boolean {
    return this.#ended;
  }

  /** More text, as it came: single characters, half words, paragraphs. */
  append(text: string): void {
    for (const message of texts(this.#context, text)) this.#ask(message);
  }

  /** Speak what has come without waiting for more; answered by `flushed`. */
  flush(): void {
    this.#ask(ask("flush", this.#context));
  }

  /** Name this place in the text; answered by `marked`. */
  mark(name: string): void {
    this.#ask(ask("mark", this.#context, { name }));
  }

  /**
   * Tell how far the player has come, a few times a second; the same number again: it is paused. Without these the
   * service works on as fast as it can.
   */
  played(samples: number): void {
    this.#ask(ask("played", this.#context, { samples: Math.max(0, Math.floor(samples)) }));
  }

  /** Stop for a listener who interrupts; answered by `cancelled`. */
  cancel(): void {
    this.#ask(ask("cancel", this.#context));
  }

  /** No more text follows. */
  end(): void {
    this.#ask(ask("end", this.#context));
  }

  /** Append pieces as they come, and end. */
  async feed(pieces: Iterable<string> | AsyncIterable<string>): Promise<void> {
    for await (const piece of pieces) {
      if (this.#ended) return;
      this.append(piece);
    }
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, void> {
    try {
      for (;;) {
        const told = await this.#next();
        if (told instanceof OscineError) {
          this.#told.unshift(told);
          throw told;
        }
        yield told;
        if (told.type === "done" || told.type === "cancelled") return;
      }
    } finally {
      if (!this.#ended) {
        this.cancel();
        this.tell(new OscineError("the call was left", "cancelled"));
      }
    }
  }

  /** @internal */
  tell(told: Event | OscineError): void {
    if (this.#ended) return;
    if (told instanceof OscineError || told.type === "done" || told.type === "cancelled") {
      this.#ended = true;
      this.#leave();
    }
    this.#told.push(told);
    this.#wake?.();
  }

  async #next(): Promise<Event | OscineError> {
    for (;;) {
      const told = this.#told.shift();
      if (told !== undefined) return told;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  #ask(message: string): void {
    if (!this.#ended) this.#send(message);
  }
}
