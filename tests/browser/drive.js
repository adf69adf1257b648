// A Playback outside of any audio graph, driven by a plan: [what, how much] each. Samples go and come as base64.
async (input, plan) => {
  const { Patience, Playback } = await import("/player/worklet.js");
  const bytes = Uint8Array.from(atob(input), (letter) => letter.charCodeAt(0));
  const samples = new Float32Array(bytes.buffer);
  const patience = new Patience();
  const playback = new Playback(patience);
  const out = [];
  let at = 0;
  for (const [what, amount] of plan) {
    if (what === "push") {
      playback.push(samples.slice(at, at + amount));
      at += amount;
    } else if (what === "render") {
      for (let block = 0; block < amount; block += 1) {
        const space = new Float32Array(128);
        playback.render(space);
        out.push(space);
      }
    } else if (what === "pause") {
      playback.paused = amount;
    } else {
      playback[what]();
    }
  }
  const whole = new Uint8Array(512 * out.length);
  out.forEach((space, number) => whole.set(new Uint8Array(space.buffer), 512 * number));
  let text = "";
  for (let from = 0; from < whole.length; from += 8192) text += String.fromCharCode(...whole.subarray(from, from + 8192));
  const { position, underruns, inserted, state, buffered } = playback;
  return { out: btoa(text), position, underruns, inserted, state, buffered, patience: patience.samples };
}
