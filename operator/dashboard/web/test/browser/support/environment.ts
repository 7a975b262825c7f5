/** Where the tests find the programs, the cluster and its users. The harness sets these variables. */

import { fileURLToPath } from "node:url";

/** The users of the tests. `admin` has all rights. */
export type UserName = "admin" | "viewer" | "editor" | "platform" | "stranger" | "revoked";

const HELP =
  "Run `cargo test -p trellis-e2e --test dashboard`, which starts a control plane and an operator, or see playwright.config.ts.";

function required(name: string, meaning: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") throw new Error(`${name} is not set: ${meaning}. ${HELP}`);
  return value;
}

export const environment = {
  /** The program `trellis`. */
  get trellis(): string {
    return required("TRELLIS", "the path of the program `trellis`");
  },
  /** The program `kubectl`. */
  get kubectl(): string {
    return required("KUBECTL", "the path of kubectl");
  },
  /** Kubeconfig of a user with all rights. */
  get kubeconfig(): string {
    return required("KUBECONFIG", "the path of the administrator's kubeconfig");
  },
  /** Folder with a kubeconfig for each other user: `viewer.yaml`. */
  get users(): string {
    return required("TRELLIS_USERS", "a folder with the kubeconfigs viewer.yaml, editor.yaml, platform.yaml, stranger.yaml and revoked.yaml");
  },
  /** Folder in which a file stops or starts the operator. Undefined: tests that need it are skipped. */
  get acts(): string | undefined {
    if (process.env["TRELLIS_WITHOUT_ACTS"] === "1") return undefined;
    return required("TRELLIS_ACTS", "a folder for requests to stop and start the operator; TRELLIS_WITHOUT_ACTS=1 skips the tests that need it");
  },
  /** Folder whose files replace those that are compiled into the program, while the page is developed. */
  get assets(): string | undefined {
    return process.env["TRELLIS_ASSETS"];
  },
  /** The browser. Playwright downloads none. */
  get chromium(): string {
    return process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  },
  /** Configuration of fontconfig with DejaVu alone. */
  get fontConfiguration(): string {
    return fileURLToPath(new URL("fonts.conf", import.meta.url));
  },
} as const;

/** Folder of the font that pictures need. Debian's package fonts-dejavu-core has it. */
export const FONT_FOLDER = "/usr/share/fonts/truetype/dejavu";
