/** Splits a byte stream into JSON values, one a line. */

/** A parser of NDJSON. Chunks may end anywhere, also within a character. */
export class LineParser {
  private readonly decoder = new TextDecoder();
  private rest = "";

  /** Returns the values whose lines are complete with this chunk. */
  push(chunk: Uint8Array): unknown[] {
    const text = this.decoder.decode(chunk, { stream: true });
    // A long line may come in many chunks: it is joined once, at its end.
    if (!text.includes("\n")) {
      this.rest += text;
      return [];
    }
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    const values: unknown[] = [];
    for (const line of lines) if (line.trim() !== "") values.push(JSON.parse(line));
    return values;
  }
}
