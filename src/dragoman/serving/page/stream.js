/** Server-sent events out of the body of any answer: EventSource can only GET. */

/**
 * Read events as they come. An event that is not finished when the stream ends is none.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{name: string, data: any}>} the event's name and its data, which is JSON
 */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let name = "message";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A CR at the end may be the first half of CR LF.
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { name, data: JSON.parse(data.join("\n")) };
          name = "message";
          data = [];
          continue;
        }
        const [, field, content] = /^([^:]*):? ?([^]*)$/.exec(line);
        if (field === "event") name = content;
        if (field === "data") data.push(content);
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
