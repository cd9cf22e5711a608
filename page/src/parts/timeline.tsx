// Sessions and liveliness tokens as bars from their beginning to their end.

import type { JSX } from "preact";
import type { NetworkEvent } from "../api/types";
import { clock, shortId } from "../format";
import { toMilliseconds } from "../state/session";

const WINDOW_MS = 600_000;
const LANES = 40;

export interface Bar {
  from: number;
  /** Null while it lasts. */
  to: number | null;
}

export interface Lane {
  id: string;
  label: string;
  kind: "session" | "token";
  bars: Bar[];
}

/** Folds events, in any order, into one lane for each session and each token. */
export function lanesOf(events: readonly NetworkEvent[]): Lane[] {
  const lanes = new Map<string, Lane>();
  const inOrder = [...events].sort((a, b) => toMilliseconds(a.time) - toMilliseconds(b.time));
  for (const event of inOrder) {
    const begins = event.event === "opened" || event.event === "token";
    if (!begins && event.event !== "closed" && event.event !== "token_removed") continue;
    const kind = event.event.startsWith("token") ? "token" : "session";
    const name = kind === "token" ? event.key : event.zid;
    if (name === null) continue;
    const id = `${kind} ${name}`;
    const lane = lanes.get(id) ?? { id, kind, label: kind === "token" ? name : `${event.whatami ?? "node"} ${shortId(name)}`, bars: [] };
    lanes.set(id, lane);
    extendLane(lane, toMilliseconds(event.time), begins);
  }
  return [...lanes.values()];
}

function extendLane(lane: Lane, time: number, begins: boolean): void {
  const last = lane.bars.at(-1);
  const isOpen = last !== undefined && last.to === null;
  if (begins && !isOpen) lane.bars.push({ from: time, to: null });
  else if (!begins && isOpen) last.to = time;
  else if (!begins && last === undefined) lane.bars.push({ from: -Infinity, to: time });
}

export function Timeline({ events, now }: { events: readonly NetworkEvent[]; now: number }): JSX.Element {
  const first = Math.min(now - 60_000, ...events.map((event) => toMilliseconds(event.time)));
  const from = Math.max(first, now - WINDOW_MS);
  const lanes = lanesOf(events)
    .filter((lane) => lane.bars.some((bar) => bar.to === null || bar.to > from))
    .slice(-LANES);
  const percent = (time: number): number => Math.max(0, Math.min(100, ((time - from) / (now - from)) * 100));
  return (
    <div class="timeline" role="img" aria-label={`Sessions and tokens since ${clock(from, false)}: the list below tells the same`}>
      {lanes.map((lane) => (
        <div key={lane.id} class="lane">
          <span class="lane-name" title={lane.label}>
            {lane.label}
          </span>
          <span class="lane-track">
            {lane.bars.map((bar) => (
              <span
                key={bar.from}
                class={`bar ${lane.kind} ${bar.to === null ? "lasting" : "ended"}`}
                style={{ left: `${percent(bar.from)}%`, width: `${Math.max(0.4, percent(bar.to ?? now) - percent(bar.from))}%` }}
              />
            ))}
          </span>
        </div>
      ))}
      <div class="lane axis">
        <span class="lane-name" />
        <span class="lane-track number">
          <span>{clock(from, false)}</span>
          <span>{clock(now, false)}</span>
        </span>
      </div>
    </div>
  );
}
