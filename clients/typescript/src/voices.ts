/** The voices of a service, over HTTP. */

import { OscineError } from "./errors.js";

export interface Voice {
  name: string;
  language: string;
  description: string;
  /** model: it came with the model. own: may be deleted. shared: everybody's. */
  origin: "model" | "own" | "shared";
  /** Of its reference; not told of the model's. */
  seconds?: number;
  /** Unix time in seconds; 0 for the model's. */
  created_at: number;
  transcribed: boolean;
}

export interface NewVoice {
  /** Exactly what is said in the recording: a better likeness. */
  transcript?: string;
  language?: "en" | "zh";
  description?: string;
  /** Take the place of your voice of this name. */
  replace?: boolean;
}

/** Every method throws OscineError for what is refused. */
export class Voices {
  readonly #url: string;
  readonly #headers: Record<string, string>;

  /** @internal */
  constructor(service: string, secret: string | undefined) {
    this.#url = `${service}/v1/audio/voices`;
    this.#headers = secret === undefined ? {} : { Authorization: `Bearer ${secret}` };
  }

  /** All that the caller may name, the default first. */
  async list(): Promise<Voice[]> {
    return ((await this.#ask("GET", "")) as { voices: Voice[] }).voices;
  }

  async get(name: string): Promise<Voice> {
    return (await this.#ask("GET", `/${encodeURIComponent(name)}`)) as Voice;
  }

  /** Make a voice of an audio file: 3 to 10 s of somebody who agreed to it. */
  async create(name: string, recording: Blob, more: NewVoice = {}): Promise<Voice> {
    const form = new FormData();
    form.set("name", name);
    for (const [field, value] of Object.entries(more)) form.set(field, String(value));
    form.set("audio_sample", recording, "recording");
    return (await this.#ask("POST", "", form)) as Voice;
  }

  async delete(name: string): Promise<void> {
    await this.#ask("DELETE", `/${encodeURIComponent(name)}`);
  }

  async #ask(method: string, path: string, body: FormData | null = null): Promise<unknown> {
    const response = await fetch(this.#url + path, { method, body, headers: this.#headers }).catch((cause: unknown) => {
      throw new OscineError(`the service cannot be reached: ${String(cause)}`, "connection");
    });
    const told = (await response.json().catch(() => ({}))) as { error?: { message: string; code: string } };
    if (response.ok) return told;
    const hint = response.headers.get("retry-after-ms");
    const { message, code } = told.error ?? { message: `the service answered ${response.status}`, code: "internal" };
    throw new OscineError(message, code, hint === null ? undefined : Number(hint));
  }
}
