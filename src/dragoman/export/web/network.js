/** The two graphs, run by ONNX Runtime: encoder once, decoder step by step with its caches. */

/**
 * @typedef {{rows: number, feeds: Record<string, object>}} State what the decoder is given besides tokens
 */

export class Network {
  /**
   * @param {object} ort the module of onnxruntime-web
   * @param {object} encoder session
   * @param {object} decoder session
   * @param {{layers: number, heads: number, key_width: number, value_width: number}} shape of the decoder
   */
  constructor(ort, encoder, decoder, shape) {
    Object.assign(this, { ort, encoder, decoder, shape });
  }

  /** @param {number[]} ids a source with its end @returns {Promise<State>} */
  async start(ids) {
    const { layers, heads, key_width: keys, value_width: values } = this.shape;
    const ints = this.ids(ids, [1, ids.length]);
    const mask = this.ids(ids.map(() => 1), [1, ids.length]);
    const [memory] = Object.values(await this.encoder.run({ input_ids: ints, attention_mask: mask }));
    const feeds = { encoder_hidden_states: memory, encoder_attention_mask: mask, use_cache_branch: this.flag(false) };
    for (let layer = 0; layer < layers; layer += 1) {
      for (const part of ["decoder.key", "decoder.value", "encoder.key", "encoder.value"]) {
        const dims = [1, heads, 0, part.endsWith("key") ? keys : values];
        feeds[`past_key_values.${layer}.${part}`] = new this.ort.Tensor("float32", new Float32Array(0), dims);
      }
    }
    return { rows: 1, feeds };
  }

  /** Logits after one more token of each row; the state goes on. @returns {Promise<Float32Array[]>} */
  async step(state, tokens) {
    const given = { input_ids: this.ids(tokens, [tokens.length, 1]), ...state.feeds };
    const { logits, ...present } = await this.decoder.run(given);
    for (const [name, one] of Object.entries(present)) state.feeds[name.replace("present", "past_key_values")] = one;
    state.feeds.use_cache_branch = this.flag(true);
    const vocab = logits.dims.at(-1);
    return tokens.map((_, row) => logits.data.slice(row * vocab, (row + 1) * vocab));
  }

  /** Let rows of the state be those at these places. */
  reorder(state, places) {
    if (places.length === state.rows && places.every((place, at) => place === at)) return;
    for (const [name, one] of Object.entries(state.feeds)) {
      if (name === "use_cache_branch") continue;
      const size = one.data.length / state.rows;
      const data = new one.data.constructor(size * places.length);
      places.forEach((place, at) => data.set(one.data.subarray(place * size, (place + 1) * size), at * size));
      state.feeds[name] = new this.ort.Tensor(one.type, data, [places.length, ...one.dims.slice(1)]);
    }
    state.rows = places.length;
  }

  ids(values, dims) {
    return new this.ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);
  }

  flag(value) {
    return new this.ort.Tensor("bool", [value], [1]);
  }
}
