// One key, followed: its value as it changes, where it comes from, and its last samples.

import type { JSX } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { getOrNull, isAbort, messageOf } from "../api/client";
import { live } from "../api/live";
import type { Sample } from "../api/types";
import { bytes, clock, dateTime, shortId } from "../format";
import { History } from "../keys/history";
import { routeTo } from "../state/route";
import { oncePerFrame } from "../state/store";
import { Empty, Failure, Segments } from "./basics";
import { ValueView } from "./value";

const SAMPLES_SHOWN = 100;

interface Properties {
  path: string;
  paused: boolean;
  onClose: () => void;
}

interface Followed {
  latest: Sample | null;
  recent: Sample[];
  skipped: number;
  history: History;
}

function useFollowed(path: string, paused: boolean): { followed: Followed; error: string | null } {
  const followed = useRef<Followed>({ latest: null, recent: [], skipped: 0, history: new History() });
  const [error, setError] = useState<string | null>(null);
  const [, render] = useReducer((count: number) => count + 1, 0);

  useEffect(() => {
    const abort = new AbortController();
    getOrNull<Sample>("value", { key: path }, abort.signal).then(
      (sample) => {
        if (sample !== null) followed.current.latest ??= sample;
        render(undefined);
      },
      (reason: unknown) => {
        if (!isAbort(reason)) setError(messageOf(reason));
      },
    );
    return () => abort.abort();
  }, [path]);

  useEffect(() => {
    if (paused) return undefined;
    const show = oncePerFrame(() => render(undefined));
    const stop = live.listen((batch) => {
      const samples = (batch.samples ?? []).filter((sample) => sample.key === path);
      followed.current.skipped += batch.skipped ?? 0;
      if (samples.length === 0) return;
      for (const sample of samples) followed.current.history.add(sample);
      followed.current.latest = samples.at(-1) ?? null;
      followed.current.recent = [...followed.current.recent, ...samples].slice(-SAMPLES_SHOWN);
      show();
    });
    const unwant = live.want({ follow: path });
    return () => {
      unwant();
      stop();
    };
  }, [path, paused]);
  return { followed: followed.current, error };
}

export function KeyDetail({ path, paused, onClose }: Properties): JSX.Element {
  const { followed, error } = useFollowed(path, paused);
  const [part, setPart] = useState<"value" | "recent">("value");
  const sample = followed.latest;
  return (
    <section class="key-detail panel" aria-label={`Value of ${path}`}>
      <header class="panel-head">
        <h2 class="mono">{path}</h2>
        <button type="button" class="quiet" onClick={onClose} aria-label="Close the value">
          Close
        </button>
      </header>
      <div class="toolbar">
        <Segments
          label="Part"
          options={[
            ["value", "Now"],
            ["recent", "Recent"],
          ]}
          value={part}
          onChange={setPart}
        />
        <a class="button" href={routeTo("time", { key: path })}>
          Past
        </a>
      </div>
      <Failure error={error} />
      {part === "recent" ? <Recent followed={followed} /> : sample === null ? <Empty>Waiting for the next value of this key.</Empty> : <Now sample={sample} history={followed.history} />}
    </section>
  );
}

function Now({ sample, history }: { sample: Sample; history: History }): JSX.Element {
  return (
    <>
      {sample.kind.toUpperCase() === "DELETE" ? <Empty>The key was deleted.</Empty> : <ValueView value={sample.value} history={history} />}
      <dl class="facts">
        <dt>Published by</dt>
        <dd class="mono" title={sample.source ?? ""}>
          {shortId(sample.source)}
        </dd>
        <dt>Timestamp</dt>
        <dd class="number">{dateTime(sample.timestamp)}</dd>
        <dt>Received</dt>
        <dd class="number">{dateTime(sample.received_at)}</dd>
      </dl>
    </>
  );
}

function Recent({ followed }: { followed: Followed }): JSX.Element {
  if (followed.recent.length === 0) return <Empty>Nothing was received since this key was opened.</Empty>;
  return (
    <>
      {followed.skipped > 0 && <p class="muted">{followed.skipped} samples came too fast to be shown one by one.</p>}
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Recent samples">
        <table>
          <thead>
            <tr>
              <th>Received</th>
              <th class="right">Size</th>
              <th>Value</th>
            </tr>
          </thead>
          <tbody>
            {[...followed.recent].reverse().map((sample, index) => (
              <tr key={followed.recent.length - index}>
                <td class="number">{clock(sample.received_at ?? sample.timestamp)}</td>
                <td class="number right">{bytes(sample.value.size)}</td>
                <td class="clip">{sample.kind.toUpperCase() === "DELETE" ? <em>deleted</em> : (sample.value.text ?? sample.value.hex.slice(0, 64)).slice(0, 200)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
