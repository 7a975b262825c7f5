/** Keyboard shortcuts of the page and of the views that are mounted. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** A shortcut. `keys` is one key, or two keys in a row: `g q`. */
export interface Shortcut {
  readonly keys: string;
  readonly label: string;
  /** Absent: the browser or a component handles the key, and only the help needs the entry. */
  readonly run?: (event: KeyboardEvent) => void;
}

/** A list of shortcuts with a heading of the help. */
export interface ShortcutGroup {
  readonly heading: string;
  readonly shortcuts: readonly Shortcut[];
}

/** All shortcuts that work now. The last group wins. */
export const shortcutGroups = signal<readonly ShortcutGroup[]>([]);

/** Time within which the second key must follow. */
const SEQUENCE_MS = 1_200;

/** Adds shortcuts. Returns the function that removes them. */
export function addShortcuts(group: ShortcutGroup): () => void {
  shortcutGroups.value = [...shortcutGroups.peek(), group];
  return () => {
    shortcutGroups.value = shortcutGroups.peek().filter((other) => other !== group);
  };
}

/** Adds shortcuts while a component is mounted. The functions may change with each render. */
export function useShortcuts(heading: string, shortcuts: readonly Shortcut[]): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  const names = shortcuts.map((shortcut) => `${shortcut.keys} ${shortcut.label}`).join("\n");
  useEffect(() => {
    const own = latest.current.map((shortcut, place) => ({
      ...shortcut,
      ...(shortcut.run && { run: (event: KeyboardEvent) => latest.current[place]?.run?.(event) }),
    }));
    return addShortcuts({ heading, shortcuts: own });
  }, [heading, names]);
}

/** Starts to listen to the keyboard. */
export function startKeys(): void {
  let first: { readonly key: string; readonly at: number } | undefined;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || isInDialog()) return;
    const isSecond = first !== undefined && event.timeStamp - first.at < SEQUENCE_MS;
    const pressed = isSecond && first ? `${first.key} ${event.key}` : event.key;
    const shortcut = findShortcut(pressed) ?? findShortcut(event.key);
    first = undefined;
    if (shortcut?.run) {
      event.preventDefault();
      shortcut.run(event);
    } else if (beginsSequence(event.key)) {
      first = { key: event.key, at: event.timeStamp };
    }
  });
}

function findShortcut(keys: string): Shortcut | undefined {
  const all = shortcutGroups.peek().flatMap((group) => group.shortcuts);
  return all.findLast((shortcut) => shortcut.run && shortcut.keys === keys);
}

function beginsSequence(key: string): boolean {
  const all = shortcutGroups.peek().flatMap((group) => group.shortcuts);
  return all.some((shortcut) => shortcut.keys.startsWith(`${key} `));
}

/** True while keys are text. */
function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLSelectElement) return true;
  if (target instanceof HTMLTextAreaElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type);
}

function isInDialog(): boolean {
  return document.querySelector("dialog[open]") !== null;
}
