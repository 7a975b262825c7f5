/** Makes text of the cluster safe to show: anybody with the right to create a job can write it. Pure. */

/** Control characters, and marks that turn the direction of writing (CVE-2021-42574). */
const UNSAFE =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Escape sequences of terminals, such as colours. */
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Returns text with its lines, without control characters. */
export function cleanLines(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/\t/g, " ").replace(ESCAPES, "").replace(UNSAFE, "");
}

/** Returns text in one line, without control characters. */
export function cleanLine(text: string): string {
  return cleanLines(text).replace(/\s+/g, " ").trim();
}

/** Returns the beginning of a text. It never cuts a character in two. */
export function cutText(text: string, length: number): { readonly text: string; readonly isCut: boolean } {
  if (text.length <= length) return { text, isCut: false };
  const last = text.charCodeAt(length - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return { text: text.slice(0, isHalf ? length - 1 : length), isCut: true };
}
