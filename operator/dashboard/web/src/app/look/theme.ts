/** Light or dark: as the system says, or as the user has chosen. */

import { computed, effect, signal } from "@preact/signals";

/** What the user has chosen. */
export type ThemeChoice = "system" | "light" | "dark";

const STORAGE_KEY = "trellis-theme";

const prefersDark = signal(false);

/** The user's choice. */
export const themeChoice = signal<ThemeChoice>("system");

/** The theme on the screen. A canvas redraws when it changes. */
export const theme = computed<"light" | "dark">(() => {
  if (themeChoice.value !== "system") return themeChoice.value;
  return prefersDark.value ? "dark" : "light";
});

/** Starts to apply the theme to the document. */
export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  prefersDark.value = dark.matches;
  dark.addEventListener("change", () => {
    prefersDark.value = dark.matches;
  });
  themeChoice.value = readChoice();
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
  });
}

/** Takes the next choice: system, light, dark. */
export function cycleTheme(): void {
  const next = { system: "light", light: "dark", dark: "system" } as const;
  themeChoice.value = next[themeChoice.peek()];
  try {
    localStorage.setItem(STORAGE_KEY, themeChoice.peek());
  } catch {
    // The choice then lasts as long as the page.
  }
}

function readChoice(): ThemeChoice {
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}
