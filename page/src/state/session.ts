// What the whole page shares: the node, the login, the overview of the last ten minutes.

import { get, messageOf, whenUnauthorized } from "../api/client";
import { live } from "../api/live";
import type { Batches, Current, Login, LoginMethod, NodeInfo, Overview, Series } from "../api/types";
import { Store } from "./store";

export const node = new Store<NodeInfo | null>(null);
/** Whether a login is needed first; null until it is known. */
export const loginNeeded = new Store<boolean | null>(null);
export const loginMethods = new Store<LoginMethod[]>([]);
export const overview = new Store<Overview | null>(null);
export const overviewError = new Store<string | null>(null);

const SECONDS_SHOWN = 600;

const SERIES_OF_CURRENT: [keyof Omit<Series, "t">, keyof Omit<Current, "starting">][] = [
  ["messages", "messages_rate"],
  ["bytes", "bytes_rate"],
  ["sessions", "sessions"],
  ["waiting", "waiting_rows"],
  ["lag", "lag_seconds"],
];

/** Returns a time of the interface, ISO text or number of milliseconds, as milliseconds since 1970. */
export function toMilliseconds(time: number | string): number {
  if (typeof time === "string") return Date.parse(time);
  return time < 1e11 ? time * 1000 : time;
}

/** Appends the newest figures to the series of an overview, unless it has them, and drops those older than ten minutes. */
export function extend(before: Overview, latest: Current & { t: number | string; problems?: string[] }): Overview {
  const last = before.series.t.at(-1);
  if (last !== undefined && toMilliseconds(latest.t) <= toMilliseconds(last)) return before;
  const series = { ...before.series, t: [...before.series.t, latest.t].slice(-SECONDS_SHOWN) };
  for (const [name, field] of SERIES_OF_CURRENT) {
    const old = before.series[name];
    if (old !== null) series[name] = [...old, latest[field]].slice(-SECONDS_SHOWN);
  }
  if (before.series.rows_ingested !== null) {
    const rate = ingestRate(before, latest);
    series.rows_ingested = [...before.series.rows_ingested, rate].slice(-SECONDS_SHOWN);
  }
  return { ...before, series, current: { ...before.current, ...latest }, problems: latest.problems ?? before.problems };
}

function ingestRate(before: Overview, latest: Current & { t: number | string }): number | null {
  const last = before.series.t.at(-1);
  if (last === undefined || latest.ingested === null || before.current.ingested === null) return null;
  const seconds = (toMilliseconds(latest.t) - toMilliseconds(last)) / 1000;
  return seconds <= 0 ? null : (latest.ingested - before.current.ingested) / seconds;
}

export async function loadNode(): Promise<void> {
  try {
    node.set(await get<NodeInfo>("node"));
  } catch {
    // A login form or the banner of the connection is shown already.
  }
}

export async function loadOverview(): Promise<void> {
  try {
    overview.set(await get<Overview>("overview"));
    overviewError.set(null);
  } catch (error) {
    overviewError.set(messageOf(error));
  }
}

function onBatch(batch: Batches): void {
  if (batch.overview !== undefined && overview.value !== null) overview.set(extend(overview.value, batch.overview));
}

/** Queries the node whether this page has to log in; where it does not respond, nothing changes. */
export async function checkLogin(): Promise<void> {
  try {
    const login = await get<Login>("login");
    loginMethods.set(login.methods);
    if (login.is_needed) live.stop();
    loginNeeded.set(login.is_needed);
  } catch {
    loginNeeded.set(loginNeeded.value ?? false); // the banner of the connection tells it
  }
}

/** Connects the page to its node: before the first login, and after each. */
export async function connect(): Promise<void> {
  await checkLogin();
  if (loginNeeded.value === true) return;
  live.retry();
  await Promise.all([loadNode(), loadOverview()]);
}

/** Starts the session of the page; the login of an earlier one may have ended with the node. */
export function startSession(): void {
  whenUnauthorized(() => {
    if (loginNeeded.value === false) void checkLogin();
  });
  live.listen(onBatch);
  live.want({ overview: true });
  live.whenLost(() => void checkLogin());
  live.whenOpened((again) => {
    if (again || node.value === null) void loadNode();
    if (again || overview.value === null) void loadOverview();
  });
  void connect();
}
