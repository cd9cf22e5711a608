// The colour scheme: that of the system until the user chooses another.

import { read, write } from "./saved";
import { Store } from "./store";

export type Scheme = "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(): Scheme | null {
  const saved = read("scheme");
  return saved === "light" || saved === "dark" ? saved : null;
}

function effective(): Scheme {
  return chosen() ?? (system.matches ? "dark" : "light");
}

export const scheme = new Store<Scheme>(effective());

export function toggleScheme(): void {
  const next = scheme.value === "dark" ? "light" : "dark";
  write("scheme", next === (system.matches ? "dark" : "light") ? null : next);
  document.documentElement.dataset["scheme"] = next;
  scheme.set(next);
}

export function startScheme(): void {
  document.documentElement.dataset["scheme"] = scheme.value;
  system.addEventListener("change", () => {
    scheme.set(effective());
    document.documentElement.dataset["scheme"] = scheme.value;
  });
}

/** Returns the value of a colour variable of the style sheet, for what is drawn on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
