// Time: the recorded past of one key. A slider chooses an instant; the value of then is shown, numbers as a chart.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { apiPath, get, getOrNull } from "../api/client";
import type { KeyBatch, Past, PastSeries, RecordedKeys, Sample } from "../api/types";
import { clock, count, dateTime, plural } from "../format";
import { fault } from "../keys/keyexpr";
import { Empty, Failure, Field, Panel } from "../parts/basics";
import { Chart } from "../parts/chart";
import { ValueView } from "../parts/value";
import { useLoad, useSettled } from "../state/load";
import { remember, route } from "../state/route";
import { toMilliseconds } from "../state/session";

const RANGES: [string, number][] = [
  ["1 minute", 60],
  ["5 minutes", 300],
  ["15 minutes", 900],
  ["1 hour", 3_600],
  ["6 hours", 21_600],
  ["24 hours", 86_400],
  ["7 days", 604_800],
  ["30 days", 2_592_000],
];
const DEFAULT_SECONDS = 300;
const FINE_SPAN_MS = 10_000;
const SLIDER_STEPS = 1_000;
const SLIDER_DELAY_MS = 80;
const INPUT_DELAY_MS = 300;
const POINTS = 600;
const KEYS_OFFERED = 500;
const SAMPLES_LISTED = 1_000;

export interface Window {
  from: number;
  to: number;
}

/** Returns the window that ends now and is so many seconds long. */
export function windowEndingAt(now: number, seconds: number): Window {
  return { from: now - seconds * 1000, to: now };
}

/** Returns a time of the URL, ISO text or milliseconds since 1970, in milliseconds; null if it is neither. */
export function parseMoment(text: string | null): number | null {
  if (text === null || text === "") return null;
  const found = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Date.parse(text);
  return Number.isNaN(found) ? null : found;
}

/** Returns the window from `from` to `to` in the URL; null if it has neither. */
export function windowOf(parameters: URLSearchParams, now: number): Window | null {
  const from = parseMoment(parameters.get("from"));
  const to = parseMoment(parameters.get("to"));
  if (from === null) return to === null ? null : windowEndingAt(to, DEFAULT_SECONDS);
  return { from, to: to ?? now };
}

/** Returns a time as the value of an input field: local. */
export function inputTime(milliseconds: number, fine: boolean): string {
  return dateTime(milliseconds, fine).replace(" ", "T");
}

/** Tells which samples have marks above the slider, and which the chart is drawn from. */
export function marksText(past: Past, times: number[], series: PastSeries | null, to: number): string {
  const first = times[0];
  if (!past.truncated) return `${plural(past.samples.length, "sample")} from ${dateTime(first, false)} to ${dateTime(times.at(-1), false)}`;
  const sameDay = dateTime(first, false).slice(0, 10) === dateTime(to, false).slice(0, 10);
  const since = sameDay ? clock(first, false) : dateTime(first, false);
  const drawn = series === null || series.truncated || series.v.length === 0 ? "" : `; the chart is drawn from all ${count(series.samples)}`;
  return `The newest ${count(past.samples.length)} are marked (since ${since})${drawn}`;
}

/** Returns the time of the sample before or after an instant, or null at the end of the list. */
export function neighbour(times: number[], at: number, step: -1 | 1): number | null {
  if (step > 0) return times.find((time) => time > at) ?? null;
  return times.findLast((time) => time < at) ?? null;
}

/** Returns the keys that are offered: those seen now, and those recorded, of which a search finds more if there are many. */
function useOfferedKeys(typed: string): string[] {
  const seen = useLoad((signal) => get<KeyBatch>("keys", { key_expr: "**", limit: KEYS_OFFERED }, signal), []);
  const recorded = useLoad((signal) => get<RecordedKeys>("past/keys", { limit: KEYS_OFFERED }, signal), []);
  const searches = typed !== "" && recorded.data?.truncated === true;
  const found = useLoad(searches ? (signal) => get<RecordedKeys>("past/keys", { search: typed, limit: KEYS_OFFERED }, signal) : null, [typed]);
  return useMemo(() => {
    const seenKeys = (seen.data?.rows ?? []).map((row) => row.key);
    return [...new Set([...seenKeys, ...(found.data ?? recorded.data)?.keys ?? []])].sort();
  }, [seen.data, recorded.data, found.data]);
}

export function TimeView(): JSX.Element {
  const given = useMemo(() => windowOf(route.value.parameters, Date.now()), []);
  const [key, setKey] = useState(route.value.parameters.get("key") ?? "");
  // null where the window was chosen by its start and end
  const [seconds, setSeconds] = useState<number | null>(given === null ? DEFAULT_SECONDS : null);
  const [window, setWindow] = useState(() => given ?? windowEndingAt(Date.now(), DEFAULT_SECONDS));
  const [turn, setTurn] = useState(0);
  const settled = useSettled(key.trim(), INPUT_DELAY_MS);
  const shown = useSettled(window, INPUT_DELAY_MS);
  const names = useOfferedKeys(settled);
  const wrong = faultOf(settled, shown);

  useEffect(() => {
    const limits = seconds === null && wrong === null ? { from: iso(shown.from), to: iso(shown.to) } : {};
    remember("time", { ...(settled === "" ? {} : { key: settled }), ...limits });
  }, [settled, shown, seconds]);
  const choose = (length: number | null): void => {
    setSeconds(length);
    if (length !== null) setWindow(windowEndingAt(Date.now(), length));
    setTurn((before) => before + 1);
  };
  const between = (limits: Window): void => {
    setSeconds(null);
    setWindow(limits);
  };
  return (
    <>
      <form class="toolbar" onSubmit={(event) => (event.preventDefault(), choose(seconds))}>
        <Field label="Key" class="grow">
          <input list="known-keys" value={key} placeholder="fleet/r1/battery" onInput={(event) => setKey(event.currentTarget.value)} />
        </Field>
        <datalist id="known-keys">
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <RangeFields seconds={seconds} window={window} onChoose={choose} onBetween={between} />
        <button type="submit">Reload</button>
      </form>
      <Failure error={wrong} />
      {settled === "" ? (
        <Empty>Choose a key to see what it was. {names.length > 0 && `${plural(names.length, "key")} are offered while you type.`}</Empty>
      ) : (
        wrong === null && <PastOfKey key={`${settled} ${shown.to} ${shown.from} ${turn}`} path={settled} window={shown} onRange={between} />
      )}
    </>
  );
}

function faultOf(key: string, window: Window): string | null {
  if (window.from >= window.to) return "expected a start before the end";
  if (key === "") return null;
  return key.includes("*") ? "choose one key: a key expression has many pasts" : fault(key);
}

interface RangeProperties {
  seconds: number | null;
  window: Window;
  onChoose: (seconds: number | null) => void;
  onBetween: (window: Window) => void;
}

/** The time to look at: the last minutes or days, or any, by its start and end. */
function RangeFields({ seconds, window, onChoose, onBetween }: RangeProperties): JSX.Element {
  const fine = window.to - window.from < FINE_SPAN_MS;
  const limit = (name: "from" | "to") => (event: { currentTarget: HTMLInputElement }) => {
    const time = parseMoment(event.currentTarget.value);
    if (time !== null) onBetween({ ...window, [name]: time });
  };
  return (
    <>
      <Field label="Range">
        <select value={String(seconds ?? "")} onChange={(event) => onChoose(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}>
          {RANGES.map(([title, length]) => (
            <option key={length} value={String(length)}>
              last {title}
            </option>
          ))}
          <option value="">from start to end</option>
        </select>
      </Field>
      <Field label="Start">
        <input type="datetime-local" step={fine ? 0.001 : 1} value={inputTime(window.from, fine)} onChange={limit("from")} />
      </Field>
      <Field label="End">
        <input type="datetime-local" step={fine ? 0.001 : 1} value={inputTime(window.to, fine)} onChange={limit("to")} />
      </Field>
    </>
  );
}

interface PastProperties {
  path: string;
  window: Window;
  onRange: (window: Window) => void;
}

function PastOfKey({ path, window, onRange }: PastProperties): JSX.Element {
  const limits = { key: path, from: iso(window.from), to: iso(window.to) };
  const [at, setAt] = useState(window.to);
  const [jsonPath, setJsonPath] = useState<string | null>(null);
  const past = useLoad((signal) => get<Past>("past", { ...limits, limit: SAMPLES_LISTED }, signal), []);
  const series = useLoad((signal) => get<PastSeries>("past/series", { ...limits, path: jsonPath, points: POINTS }, signal), [jsonPath]);
  const times = useMemo(() => sampleTimes(past.data), [past.data]);

  if (past.error !== null) return <Failure error={past.error} />;
  if (past.data === null) return <Empty>Loading …</Empty>;
  if (past.data.samples.length === 0) {
    return <Empty>No storage has a value of this key in this time. Only what a pipeline or a storage with history records has a past.</Empty>;
  }
  return (
    <>
      <Panel title="Instant" aside={<output class="number instant">{dateTime(at)}</output>}>
        <Slider window={window} at={at} times={times} onChange={setAt} />
        <p class="muted">{marksText(past.data, times, series.data, window.to)}</p>
      </Panel>
      <div class="columns wide-left">
        <Panel title="Numbers" aside={<PathChoice series={series.data} onChange={setJsonPath} />}>
          <Failure error={series.error} />
          <SeriesChart series={series.data} window={window} at={at} onPick={setAt} onRange={onRange} />
          {series.data?.truncated === true && <p class="muted">Only the newest {plural(series.data.samples, "sample")}: choose a shorter time for older ones.</p>}
        </Panel>
        <Panel title="Value at this instant">
          <ValueAt path={path} at={at} first={past.data.truncated ? undefined : times[0]} latest={past.data.samples.at(-1) ?? null} to={window.to} />
        </Panel>
      </div>
      <p class="exports">
        Export what is seen as
        {["csv", "json", "parquet"].map((format) => (
          <a key={format} class="button" href={apiPath("export", { ...limits, format })} download>
            {format === "parquet" ? "Parquet" : format.toUpperCase()}
          </a>
        ))}
      </p>
    </>
  );
}

function sampleTimes(past: Past | null): number[] {
  return (past?.samples ?? []).map((sample) => (sample.timestamp === null ? NaN : toMilliseconds(sample.timestamp))).filter((time) => !Number.isNaN(time));
}

interface SliderProperties {
  window: Window;
  at: number;
  times: number[];
  onChange: (at: number) => void;
}

function Slider({ window, at, times, onChange }: SliderProperties): JSX.Element {
  const span = window.to - window.from;
  const before = neighbour(times, at, -1);
  const after = neighbour(times, at, 1);
  return (
    <div class="slider">
      <button type="button" disabled={before === null} onClick={() => before !== null && onChange(before)} aria-label="Sample before">
        ◀
      </button>
      <div class="slider-track">
        <svg class="slider-marks" viewBox={`0 0 ${SLIDER_STEPS} 10`} preserveAspectRatio="none" aria-hidden="true">
          <path d={times.map((time) => `M${Math.round(((time - window.from) / span) * SLIDER_STEPS)} 0v10`).join("")} vector-effect="non-scaling-stroke" />
        </svg>
        <input
          type="range"
          aria-label="Instant"
          aria-valuetext={dateTime(at)}
          min={0}
          max={SLIDER_STEPS}
          value={Math.round(((at - window.from) / span) * SLIDER_STEPS)}
          onInput={(event) => onChange(window.from + (Number(event.currentTarget.value) / SLIDER_STEPS) * span)}
        />
      </div>
      <button type="button" disabled={after === null} onClick={() => after !== null && onChange(after)} aria-label="Sample after">
        ▶
      </button>
    </div>
  );
}

function PathChoice({ series, onChange }: { series: PastSeries | null; onChange: (path: string) => void }): JSX.Element | null {
  if (series === null || series.paths.length < 2) return null;
  return (
    <select aria-label="Numeric field" value={series.path ?? ""} onChange={(event) => onChange(event.currentTarget.value)}>
      {series.paths.map((path) => (
        <option key={path} value={path}>
          {path === "" ? "value" : path}
        </option>
      ))}
    </select>
  );
}

interface SeriesProperties {
  series: PastSeries | null;
  window: Window;
  at: number;
  onPick: (at: number) => void;
  onRange: (window: Window) => void;
}

function SeriesChart({ series, window, at, onPick, onRange }: SeriesProperties): JSX.Element {
  const x = useMemo(() => (series?.t_ms ?? []).map((time) => time / 1000), [series]);
  const lines = useMemo(() => [{ label: series?.path ?? "value", values: series?.v ?? [] }], [series]);
  if (series === null) return <div class="chart" style={{ minHeight: "260px" }} />;
  if (x.length === 0) return <Empty>This key has no numbers to draw.</Empty>;
  const pick = (seconds: number): void => onPick(Math.max(window.from, Math.min(window.to, seconds * 1000)));
  const zoom = (from: number, to: number): void => onRange({ from: Math.floor(from * 1000), to: Math.ceil(to * 1000) });
  const limits: [number, number] = [window.from / 1000, window.to / 1000];
  return <Chart label={`${series.path ?? "value"} over time`} x={x} lines={lines} time height={260} mark={at / 1000} onPick={pick} onRange={zoom} format={count} range={limits} />;
}

interface ValueAtProperties {
  path: string;
  at: number;
  first: number | undefined;
  latest: Sample | null;
  to: number;
}

function ValueAt({ path, at, first, latest, to }: ValueAtProperties): JSX.Element {
  const settled = useSettled(at, SLIDER_DELAY_MS);
  const before = first !== undefined && settled < first;
  const then = useLoad(before || settled >= to ? null : (signal) => getOrNull<Sample>("past/at", { key: path, time: iso(settled) }, signal), [path, settled, before]);
  const sample = settled >= to ? latest : then.data;
  if (before) return <Empty>Before the first sample of this time.</Empty>;
  if (then.error !== null) return <Failure error={then.error} />;
  if (sample === null) return <Empty>{then.busy ? "Loading …" : "There was no value at this instant."}</Empty>;
  return (
    <>
      {sample.kind.toUpperCase() === "DELETE" ? <Empty>The key was deleted.</Empty> : <ValueView value={sample.value} />}
      <dl class="facts">
        <dt>Timestamp</dt>
        <dd class="number">{dateTime(sample.timestamp)}</dd>
      </dl>
    </>
  );
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
