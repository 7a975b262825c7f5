/** The commands with which an administrator grants the user one right. */

import { session } from "../app/live/store";
import { command } from "../app/text/shell-quote";
import { Command } from "./Copy";

interface Right {
  /** The name of the new ClusterRole. */
  readonly role: string;
  readonly verbs: string;
  readonly resource: string;
  /** Undefined: the user gets the right in all namespaces. */
  readonly namespace?: string | undefined;
}

export function RoleCommands({ role, verbs, resource, namespace }: Right) {
  const user = session.value?.user ?? "";
  const binding = namespace === undefined ? ["clusterrolebinding"] : ["rolebinding", "-n", namespace];
  return (
    <div class="card-text role-commands">
      <Command label="role" text={command("kubectl", "create", "clusterrole", role, `--verb=${verbs}`, `--resource=${resource}`)} />
      <Command label="binding" text={command("kubectl", "create", ...binding, `${role}-${user}`, `--clusterrole=${role}`, `--user=${user}`)} />
    </div>
  );
}
