/** Checks once, before all tests, that programs, users and the font exist. */

import { access, constants } from "node:fs/promises";

import { FONT_FOLDER, type UserName, environment } from "./environment";

const USERS: readonly UserName[] = ["viewer", "editor", "platform", "stranger", "revoked"];

export default async function checkEnvironment(): Promise<void> {
  const programs = [environment.trellis, environment.kubectl, environment.chromium];
  for (const program of programs) await mustHave(program, "it is no program that can be started", constants.X_OK);
  const kubeconfigs = [environment.kubeconfig, ...USERS.map((user) => `${environment.users}/${user}.yaml`)];
  for (const kubeconfig of kubeconfigs) await mustHave(kubeconfig, "a kubeconfig is missing", constants.R_OK);
  await mustHave(`${FONT_FOLDER}/DejaVuSans.ttf`, "install the package fonts-dejavu-core", constants.R_OK);
  // Fails with its own message.
  void environment.acts;
}

async function mustHave(path: string, problem: string, mode: number): Promise<void> {
  try {
    await access(path, mode);
  } catch {
    throw new Error(`${path}: ${problem}`);
  }
}
