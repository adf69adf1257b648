/** Words that light up as they are spoken. */

export class Words {
  #place;
  #words = [];
  #next = 0;
  #lit;

  constructor(place) {
    this.#place = place;
  }

  clear() {
    this.#place.replaceChildren();
    this.#words = [];
    this.#next = 0;
    this.#lit = undefined;
  }

  add(words) {
    for (const { text, start_sample: start, end_sample: end, behind } of words) {
      const span = document.createElement("span");
      span.textContent = text;
      this.#place.append(span, behind);
      this.#words.push({ span, start, end });
    }
  }

  /** sample: what sounds now, at the format's rate. */
  light(sample) {
    while (this.#next < this.#words.length && this.#words[this.#next].start <= sample) {
      this.#lit?.span.classList.remove("now");
      this.#lit = this.#words[this.#next];
      this.#lit.span.classList.add("said", "now");
      this.#next += 1;
    }
    if (this.#lit !== undefined && sample >= this.#lit.end) this.#lit.span.classList.remove("now");
  }
}
