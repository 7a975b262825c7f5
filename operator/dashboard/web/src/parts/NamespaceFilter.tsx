import { useId } from "preact/hooks";

import { scope, session } from "../app/live/store";
import { ownNamespaces } from "../app/page/namespace-scope";
import { setQuery } from "../app/page/route";
import { countOf } from "../app/text/format";
import { Select } from "./Select";

/** The namespace: one of those with jobs, or, without the right to all of them, one of those that the user may list. */
export function NamespaceFilter(props: {
  readonly value: string | undefined;
  readonly namespaces: readonly string[];
}) {
  const id = useId();
  const set = (namespace: string | undefined): void => setQuery({ namespace }, { step: true });
  if (session.value?.may.allJobs !== false) {
    return (
      <Select
        label="Namespace"
        value={props.value}
        all="All namespaces"
        options={props.namespaces.map((name) => [name, name])}
        onChange={set}
      />
    );
  }
  return (
    <>
      <input
        type="text"
        class="field"
        aria-label="Namespace"
        placeholder="Namespace"
        list={id}
        maxLength={63}
        value={scope.value ?? ""}
        onChange={(event) => set(event.currentTarget.value.trim() || undefined)}
      />
      <datalist id={id}>
        {ownNamespaces.value.map(({ name, jobs }) => (
          <option key={name} value={name} label={`${name}: ${countOf(jobs, "job")}`} />
        ))}
      </datalist>
    </>
  );
}
