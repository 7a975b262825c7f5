/** The commands with which an administrator grants the user one right. */

import { session } from "../app/live/store";
import { command } from "../app/text/shell-quote";
import { Command } from "./Copy";

export function RoleCommands({ role, verbs, resource }: { readonly role: string; readonly verbs: string; readonly resource: string }) {
  const user = session.value?.user ?? "";
  return (
    <div class="card-text role-commands">
      <Command label="role" text={command("kubectl", "create", "clusterrole", role, `--verb=${verbs}`, `--resource=${resource}`)} />
      <Command label="binding" text={command("kubectl", "create", "clusterrolebinding", `${role}-${user}`, `--clusterrole=${role}`, `--user=${user}`)} />
    </div>
  );
}
