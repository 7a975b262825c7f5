/** The namespace of a user who may not list jobs of all namespaces. */

import { useSignalEffect } from "@preact/signals";

import { scope, session } from "../live/store";
import { query } from "./route";

const STORAGE_KEY = "trellis-namespaces";
const MAX_REMEMBERED = 12;

/** Lists the namespace that the URL names, if the user may not list all of them. */
export function useNamespaceScope(): void {
  useSignalEffect(() => {
    const current = session.value;
    if (!current) return;
    if (current.may.allJobs) {
      scope.value = undefined;
      return;
    }
    const namespace = query.value.get("namespace") || current.namespace;
    scope.value = namespace;
    remember(namespace);
  });
}

/** Returns the namespaces that the user has typed before: the server cannot list them for this user. */
export function rememberedNamespaces(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}

function remember(namespace: string): void {
  const others = rememberedNamespaces().filter((name) => name !== namespace);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([namespace, ...others].slice(0, MAX_REMEMBERED)));
  } catch {
    // Nothing is remembered then.
  }
}
