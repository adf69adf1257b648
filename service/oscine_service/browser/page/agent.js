/** A text as a language model would write it: pieces of a few characters, some of them half words. */

/** Four characters of most scripts, one of those that say more with each. */
const TOKEN = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\s?[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,4}|\s+/gu;

export function tokens(text) {
  return text.match(TOKEN) ?? [];
}

/** rate: tokens a second. shown: is told how much of the text is written. Ends early when `signal` is aborted. */
export async function* written(text, rate, signal, shown = () => {}) {
  const began = performance.now();
  let characters = 0;
  for (const [number, token] of tokens(text).entries()) {
    const due = began + (1000 * number) / rate;
    const early = due - performance.now();
    if (early > 0) await new Promise((wake) => setTimeout(wake, early));
    if (signal.aborted) return;
    characters += token.length;
    shown(characters);
    yield token;
  }
}
