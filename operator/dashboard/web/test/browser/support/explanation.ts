/** The text of `trellis explain`, split into its sections. */

import { trellisAs, trellisJson } from "./cluster";
import type { UserName } from "./environment";
import { inOneLine } from "./views";

/** The part of `trellis explain -o json` that tests read. */
export interface ExplainAnswer {
  readonly explanation?: { readonly message: string; readonly reason?: string };
}

/** Runs `trellis explain -o json`. */
export function explainJson(namespace: string, name: string): Promise<ExplainAnswer> {
  return trellisJson<ExplainAnswer>("explain", "-n", namespace, name);
}

/** Runs `trellis explain`, and returns each section as one line under its heading. Lines are wrapped in the text. */
export async function explainSections(user: UserName, namespace: string, name: string): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await trellisAs(user, "explain", "-n", namespace, name);
  const sections = stdout.split(/\n\n/).map((section) => {
    const [heading = "", ...lines] = section.split("\n");
    return [heading.trim(), inOneLine(lines.join(" "))] as const;
  });
  return new Map(sections);
}
