/** Files that the user chooses or drops. */

import { joinFiles, mayFit } from "../../app/plan/draft";
import { draft, replaceDraft, reportFailure, tooLarge } from "../../app/plan/planner";
import { RequestError } from "../../app/server/request";
import { cleanLine, cutText } from "../../app/text/clean";
import { countOf } from "../../app/text/format";

const NAME_LENGTH = 80;

/** True if files are dragged, and not text. */
export function hasFiles(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes("Files") ?? false;
}

/** Puts the text of files into the text area. */
export async function loadFiles(list: FileList | null | undefined): Promise<void> {
  const files = [...(list ?? [])];
  const [first] = files;
  if (!first) return;
  const name = cleanLine(cutText(first.name, NAME_LENGTH).text);
  if (!mayFit(files.reduce((sum, file) => sum + file.size, 0))) {
    reportFailure(tooLarge(files.length === 1 ? name : "the text of these files"));
    return;
  }
  try {
    const texts = await Promise.all(files.map(readText));
    const by = files.length === 1 ? name : countOf(files.length, "file");
    replaceDraft({ text: joinFiles(texts), namespace: draft.peek().namespace }, by);
  } catch {
    reportFailure(new RequestError("invalid", `${name} is no text file in UTF-8`));
  }
}

async function readText(file: File): Promise<string> {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  if (text.includes("\0")) throw new TypeError("binary file");
  return text;
}
