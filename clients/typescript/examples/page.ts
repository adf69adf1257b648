// In a browser: text as it is written, through the speakers, and an interruption that tells what was heard.

import { Oscine } from "oscine-client";
import { Player } from "oscine-client/player";

const player = new Player();

/** Call it from a click. Resolves with the seconds that were heard. */
export async function say(url: string, text: AsyncIterable<string>, stop: AbortSignal): Promise<number> {
  await player.unlock();
  const client = new Oscine(url);
  const speech = await client.open({ format: Player.format });
  stop.addEventListener("abort", () => player.stop());
  void speech.feed(text);
  const heard = await player.play(speech);
  client.close();
  return (heard?.position ?? 0) / 48000;
}
