/** The namespace of a user who may not list jobs of all namespaces. */

import { signal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";

import type { NamespacesAnswer, VisibleNamespace } from "../../wire/namespaces";
import { usePolled } from "../live/poll";
import { scope, session } from "../live/store";
import { query } from "./route";

/** Time between two reads. Rights change seldom. */
const EVERY_MS = 60_000;

/** The namespaces that such a user may list. Empty: none are known. */
export const ownNamespaces = signal<readonly VisibleNamespace[]>([]);

/** Lists the namespace that the URL names, or that fits best, if the user may not list all of them. */
export function useNamespaceScope(): void {
  useOwnNamespaces();
  useSignalEffect(() => {
    const current = session.value;
    if (!current) return;
    scope.value = current.may.allJobs
      ? undefined
      : query.value.get("namespace") || chooseNamespace(ownNamespaces.value, current.namespace);
  });
}

/** Keeps the namespaces of such a user current while a view is mounted. */
export function useOwnNamespaces(): void {
  const path = session.value?.may.allJobs === false ? "/api/namespaces" : undefined;
  const { answer } = usePolled<NamespacesAnswer>(path, EVERY_MS, undefined);
  useEffect(() => {
    if (answer !== undefined) ownNamespaces.value = answer.namespaces;
  }, [answer]);
}

/** Returns the preferred namespace if the user may list it, else the one with the most jobs. */
export function chooseNamespace(own: readonly VisibleNamespace[], preferred: string): string {
  if (own.some(({ name }) => name === preferred)) return preferred;
  const [first] = own.toSorted((one, other) => other.jobs - one.jobs || one.name.localeCompare(other.name));
  return first?.name ?? preferred;
}
