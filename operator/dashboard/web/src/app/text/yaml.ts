/** Writes an object as YAML, for people to read and copy. Pure. */

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

/** Writes YAML. Text that YAML could read as something else is quoted as in JSON. */
export function writeYaml(value: Json): string {
  return `${block(value, 0, "").replace(/^\n/, "")}\n`;
}

function block(value: Json, indent: number, lead: string): string {
  const pad = "  ".repeat(indent);
  if (Array.isArray(value)) {
    if (value.length === 0) return `${lead}[]`;
    const items = (value as readonly Json[]).map((item) => `${pad}- ${inItem(item, indent + 1)}`);
    return `\n${items.join("\n")}`;
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter((entry) => entry[1] !== undefined);
    if (entries.length === 0) return `${lead}{}`;
    const lines = entries.map(([key, own]) => `${pad}${scalar(key)}:${field(own as Json, indent)}`);
    return `\n${lines.join("\n")}`;
  }
  if (typeof value === "string" && canBeBlock(value)) return `${lead}${literal(value, pad)}`;
  return `${lead}${scalar(value)}`;
}

/** A list stands below its key without a further indentation, as kubectl writes it. */
function field(value: Json, indent: number): string {
  return block(value, Array.isArray(value) ? indent : indent + 1, " ");
}

function inItem(value: Json, indent: number): string {
  return block(value, indent, "").replace(/^\n */, "");
}

/** Lines of plain text stay lines. */
function canBeBlock(text: string): boolean {
  return /^[\x21-\x7e][\x20-\x7e]*\n[\x20-\x7e\n]*$/.test(text) && !/\n\n+$/.test(text) && !/ \n| $/.test(text);
}

function literal(text: string, pad: string): string {
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  const lines = body.split("\n").map((line) => (line === "" ? "" : `${pad}${line}`));
  return `|${text.endsWith("\n") ? "" : "-"}\n${lines.join("\n")}`;
}

const PLAIN = /^[A-Za-z_/.][A-Za-z0-9_./@:-]*(?: [A-Za-z0-9_./@:(),-]+)*$/;
const AMOUNT = /^\d+(?:m|k|M|G|T|Ki|Mi|Gi|Ti|Pi)$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "."]);

function scalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  return AMOUNT.test(value) || isPlain(value) ? value : quoteText(value);
}

function isPlain(text: string): boolean {
  const isSpecial = WORDS.has(text.toLowerCase()) || /^\.(inf|nan|\d|\.*$)/i.test(text) || /:(?: |$)/.test(text);
  return PLAIN.test(text) && !isSpecial;
}

/** Characters that a reader would not see, or that turn the direction of writing. */
const UNSEEN = /[\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function quoteText(text: string): string {
  const escape = (character: string): string =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(UNSEEN, escape);
}
