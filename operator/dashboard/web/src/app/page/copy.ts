/** Copies text and links to the clipboard. */

import { session } from "../live/store";
import { command } from "../text/shell-quote";
import { showToast } from "./announce";

/** Copies a text and says so. Returns false if the browser does not allow it. */
export async function copyText(text: string, what: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    showToast(`${what} copied`);
    return true;
  } catch {
    showToast("The browser does not allow copying. Select the text and copy it yourself.");
    return false;
  }
}

/** Copies a link to this view. In local mode, ports differ: the link is a command. */
export function copyLink(): void {
  const place = location.pathname + location.search;
  const isLocal = session.peek()?.mode !== "cluster";
  const link = isLocal ? command("trellis", "dashboard", place) : location.origin + place;
  void copyText(link, isLocal ? "Command that opens this view" : "Link");
}
