/** What is drawn live: the waveform around what sounds, and the level of the buffer. */

const RATE = 48000;
/** Of one height of the waveform, in samples. */
const PEAK = 480;
const SECONDS = 6;
/** Where the present is, from the left. */
const PRESENT = 0.6;
const HISTORY_S = 30;

function prepared(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = devicePixelRatio;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const brush = canvas.getContext("2d");
  brush.setTransform(scale, 0, 0, scale, 0, 0);
  brush.clearRect(0, 0, width, height);
  return { brush, width, height };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

/** Heights of 10 ms each as they are decoded, and samples at which deliveries join. */
export class Wave {
  #canvas;
  #peaks = [];
  #joins = [];

  constructor(canvas) {
    this.#canvas = canvas;
  }

  clear() {
    this.#peaks = [];
    this.#joins = [];
  }

  add(peaks) {
    this.#peaks.push(...peaks);
  }

  join(sample) {
    this.#joins.push(sample);
  }

  get joins() {
    return this.#joins.length;
  }

  /** position: the sample that sounds. */
  draw(position) {
    const { brush, width, height } = prepared(this.#canvas);
    const each = width / ((SECONDS * RATE) / PEAK);
    const present = PRESENT * width;
    const first = Math.floor(position / PEAK - present / each);
    const [played, ahead] = [colour("--strong"), colour("--ahead")];
    const middle = height / 2;
    for (let index = Math.max(0, first); index < this.#peaks.length; index += 1) {
      const x = present + (index - position / PEAK) * each;
      if (x > width) break;
      const tall = Math.max(1, this.#peaks[index] * (height - 8));
      brush.fillStyle = x <= present ? played : ahead;
      brush.fillRect(x, middle - tall / 2, Math.max(1, each * 0.7), tall);
    }
    brush.fillStyle = colour("--join");
    for (const join of this.#joins) {
      const x = present + ((join - position) / PEAK) * each;
      if (x >= 0 && x <= width) {
        brush.fillRect(x, 0, 1, 7);
        brush.fillRect(x, height - 7, 1, 7);
      }
    }
    brush.fillStyle = colour("--ink");
    brush.fillRect(present, 0, 1, height);
  }
}

/** Seconds in the buffer, over the last half minute. */
export class Level {
  #canvas;
  #points = [];

  constructor(canvas) {
    this.#canvas = canvas;
  }

  add(at, seconds) {
    this.#points.push([at, seconds]);
    while (this.#points[0][0] < at - HISTORY_S) this.#points.shift();
  }

  draw() {
    const { brush, width, height } = prepared(this.#canvas);
    const last = this.#points.at(-1)?.[0] ?? 0;
    const most = Math.max(1, ...this.#points.map(([, seconds]) => seconds));
    brush.strokeStyle = colour("--strong");
    brush.lineWidth = 1.5;
    brush.beginPath();
    for (const [at, seconds] of this.#points) {
      brush.lineTo(width * (1 - (last - at) / HISTORY_S), height - 2 - (seconds / most) * (height - 16));
    }
    brush.stroke();
    brush.fillStyle = colour("--faint");
    brush.font = "11px system-ui, sans-serif";
    brush.fillText(`${most.toFixed(1)} s`, 4, 12);
  }
}
