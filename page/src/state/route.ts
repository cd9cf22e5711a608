// The view and its parameters are in the fragment of the URL: #/keys?search=fleet. Links and reloads keep them.

import { Store } from "./store";

export const VIEWS = ["overview", "keys", "time", "network", "query", "sql", "pipeline"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  parameters: URLSearchParams;
}

export function parseRoute(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const view = VIEWS.find((name) => name === path) ?? "overview";
  return { view, parameters: new URLSearchParams(search) };
}

export function routeTo(view: View, parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams(parameters).toString();
  return `#/${view}${search === "" ? "" : `?${search}`}`;
}

export const route = new Store<Route>(parseRoute(location.hash));

/** Counts the navigations, so that a link to the present view shows it anew, with its parameters. */
let navigations = 0;

export function navigation(): number {
  return navigations;
}

export function startRouting(): void {
  addEventListener("hashchange", () => {
    navigations += 1;
    route.set(parseRoute(location.hash));
  });
}

/** Writes the parameters of a view into the URL, without a new entry in the history of the browser. */
export function remember(view: View, parameters: Record<string, string>): void {
  if (parseRoute(location.hash).view === view) history.replaceState(null, "", routeTo(view, parameters));
}
