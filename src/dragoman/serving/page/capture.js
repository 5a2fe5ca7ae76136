/** In the thread of the sound: passes on what the microphone hears, some blocks at a time. */

const SIZE = 2048;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(SIZE);
    this.count = 0;
    this.port.onmessage = () => this.pass({ last: true });
  }

  /** @param {{last: boolean}} state whether nothing follows */
  pass({ last }) {
    this.port.postMessage({ samples: this.samples.slice(0, this.count), last });
    this.count = 0;
    this.over ||= last;
  }

  process([input]) {
    if (this.over) return false;
    const [block] = input;
    // Before the microphone gives anything there is no channel.
    if (!block) return true;
    if (this.count + block.length > SIZE) this.pass({ last: false });
    this.samples.set(block, this.count);
    this.count += block.length;
    return true;
  }
}

registerProcessor("capture", Capture);
