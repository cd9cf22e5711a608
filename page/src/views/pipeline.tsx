// Pipeline: what becomes of recorded samples: batches, lag, tables, maintenance, gaps, latency, losses.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { Batch, Lake, Pipeline } from "../api/types";
import { bytes, clock, count, duration, plural, rate, shortId } from "../format";
import { Empty, Failure, Panel, Scroll } from "../parts/basics";
import { Chart } from "../parts/chart";
import { useLoad } from "../state/load";
import { node, overview, toMilliseconds } from "../state/session";
import { useStore } from "../state/store";

const REFRESH_MS = 2_000;
const BATCHES_LISTED = 12;

export function PipelineView(): JSX.Element {
  const about = useStore(node);
  const loaded = useLoad((signal) => get<Pipeline>("pipeline", {}, signal), [], REFRESH_MS);
  if (about?.pipeline === false && (loaded.data === null || loaded.data.lakes.length === 0)) {
    return <Empty>No pipeline runs in this node: it forwards and stores nothing in tables. Start one with zenspark up.</Empty>;
  }
  if (loaded.data === null) return loaded.error === null ? <Empty>Loading …</Empty> : <Failure error={loaded.error} />;
  const { lakes, gaps, latency, losses } = loaded.data;
  return (
    <>
      <Failure error={loaded.error} />
      {lakes.map((lake) => (
        <LakeView key={lake.lake} lake={lake} />
      ))}
      <Lag />
      <div class="columns">
        <Panel title="Latency from publication to record">{latency === null || total(latency.counts) === 0 ? <Empty>Not measured: samples have no timestamps.</Empty> : <Latency latency={latency} />}</Panel>
        <Gaps gaps={gaps} />
      </div>
      <Losses losses={losses} />
    </>
  );
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Rows per second of a batch; null for a batch that took no time. */
export function batchRate(batch: Batch): number | null {
  return batch.seconds !== null && batch.seconds > 0 ? batch.rows / batch.seconds : null;
}

function LakeView({ lake }: { lake: Lake }): JSX.Element {
  const batches = useMemo(() => [...lake.batches].sort((a, b) => a.time.localeCompare(b.time)), [lake.batches]);
  return (
    <Panel title={lake.lake} class="lake" aside={<span class={`state ${lake.problem === null ? "good" : "bad"}`}>{lake.state ?? "–"}</span>}>
      <Failure error={lake.problem} />
      <p class="muted number">
        {lake.rows !== null && plural(lake.rows, "row")} {lake.bytes !== null && `· ${bytes(lake.bytes)}`}
      </p>
      <div class="columns">
        <div>
          <h3>Rows of the last batches</h3>
          {batches.length === 0 ? <Empty>No batch was written yet.</Empty> : <Batches batches={batches} />}
        </div>
        <div>
          <h3>Tables</h3>
          {lake.tables.length === 0 ? <Empty>No table was written yet.</Empty> : <LakeTables lake={lake} />}
          <h3>Maintenance</h3>
          {lake.maintenance.length === 0 ? <Empty>No maintenance runs: ingestion has not started.</Empty> : <Maintenance lake={lake} />}
        </div>
      </div>
    </Panel>
  );
}

function Batches({ batches }: { batches: Batch[] }): JSX.Element {
  const x = useMemo(() => batches.map((batch) => toMilliseconds(batch.time) / 1000), [batches]);
  const lines = useMemo(() => [{ label: "rows", values: batches.map((batch) => batch.rows), bars: batches.length < 80 }], [batches]);
  return (
    <>
      <Chart label={`Rows of the last ${batches.length} batches`} x={x} lines={lines} time height={170} format={count} />
      <Scroll label="Last batches">
        <table>
          <thead>
            <tr>
              <th>Written</th>
              <th class="right">Rows</th>
              <th class="right">Took</th>
              <th class="right">Rows/s</th>
              <th class="right">Size</th>
            </tr>
          </thead>
          <tbody>
            {batches
              .slice(-BATCHES_LISTED)
              .reverse()
              .map((batch, index) => (
                <tr key={`${batch.time} ${index}`}>
                  <td class="number">{clock(batch.time, false)}</td>
                  <td class="number right">{count(batch.rows)}</td>
                  <td class="number right">{duration(batch.seconds)}</td>
                  <td class="number right">{rate(batchRate(batch))}</td>
                  <td class="number right">{bytes(batch.bytes)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

function LakeTables({ lake }: { lake: Lake }): JSX.Element {
  return (
    <Scroll label={`Tables of ${lake.lake}`}>
      <table>
        <thead>
          <tr>
            <th>Table</th>
            <th class="right">Rows</th>
            <th class="right">Size</th>
            <th class="right">Files</th>
          </tr>
        </thead>
        <tbody>
          {lake.tables.map((table) => (
            <tr key={table.name}>
              <td class="mono">{table.name}</td>
              <td class="number right">{count(table.rows)}</td>
              <td class="number right">{bytes(table.bytes)}</td>
              <td class="number right">{count(table.files)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Maintenance({ lake }: { lake: Lake }): JSX.Element {
  return (
    <Scroll label={`Maintenance of ${lake.lake}`}>
      <table>
        <thead>
          <tr>
            <th>Task</th>
            <th>Last run</th>
            <th class="right">Took</th>
            <th>Result</th>
            <th>Next</th>
          </tr>
        </thead>
        <tbody>
          {lake.maintenance.map((run) => (
            <tr key={run.task}>
              <td>{run.task}</td>
              <td class="number">{run.time === null ? "not yet" : clock(run.time, false)}</td>
              <td class="number right">{duration(run.seconds)}</td>
              <td class={`break ${run.failed ? "bad" : ""}`}>{run.result ?? "–"}</td>
              <td class="number">{run.next === null ? "running" : clock(run.next, false)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Lag(): JSX.Element {
  const data = useStore(overview);
  const series = data?.series;
  const x = useMemo(() => (series?.t ?? []).map((time) => toMilliseconds(time) / 1000), [series]);
  const lag = useMemo(() => [{ label: "lag", values: series?.lag ?? [] }], [series]);
  const rows = useMemo(() => [{ label: "rows/s", values: series?.rows_ingested ?? [] }], [series]);
  if (series === undefined || series.lag === null) return <></>;
  return (
    <div class="columns">
      <Panel title="Lag" aside={<output class="number">{duration(data?.current.lag_seconds)}</output>}>
        <Chart label="Seconds between receiving and writing, last ten minutes" x={x} lines={lag} time height={150} format={(value) => duration(value)} />
      </Panel>
      <Panel title="Rows written per second" aside={<output class="number">{plural(data?.current.waiting_rows ?? 0, "row")} waiting</output>}>
        <Chart label="Rows written per second, last ten minutes" x={x} lines={rows} time height={150} format={count} />
      </Panel>
    </div>
  );
}

/** Returns the upper bounds of the buckets as text; the last one has none. */
export function bucketLabels(bounds: readonly number[], buckets: number): string[] {
  return Array.from({ length: buckets }, (_unused, index) => {
    const bound = bounds[index];
    return bound === undefined ? `over ${duration((bounds.at(-1) ?? 0) / 1e6)}` : `up to ${duration(bound / 1e6)}`;
  });
}

function Latency({ latency }: { latency: NonNullable<Pipeline["latency"]> }): JSX.Element {
  const largest = Math.max(1, ...latency.counts);
  const labels = bucketLabels(latency.buckets_us, latency.counts.length);
  return (
    <table class="histogram">
      <caption class="hidden">Number of samples by latency</caption>
      <thead class="hidden">
        <tr>
          <th>Latency</th>
          <th>Share</th>
          <th>Samples</th>
        </tr>
      </thead>
      <tbody>
        {latency.counts.map((number, index) => (
          <tr key={labels[index]}>
            <th scope="row" class="number">
              {labels[index]}
            </th>
            <td class="bar-cell">
              <span class="bar" style={{ width: `${(number / largest) * 100}%` }} />
            </td>
            <td class="number right">{count(number)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Gaps({ gaps }: { gaps: Pipeline["gaps"] }): JSX.Element {
  return (
    <Panel title="Gaps and repetitions by source">
      {gaps.length === 0 ? (
        <Empty>No sample is missing and none came twice, as far as publishers number them.</Empty>
      ) : (
        <Scroll label="Gaps by source">
          <table>
            <thead>
              <tr>
                <th>Source</th>
                <th class="right">Missing</th>
                <th class="right">Repeated</th>
              </tr>
            </thead>
            <tbody>
              {gaps.map((gap) => (
                <tr key={gap.source}>
                  <td class="mono" title={gap.source}>
                    {shortId(gap.source)}
                  </td>
                  <td class={`number right ${gap.missing > 0 ? "bad" : ""}`}>{count(gap.missing)}</td>
                  <td class="number right">{count(gap.repeated)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}

function Losses({ losses }: { losses: Pipeline["losses"] }): JSX.Element {
  const entries = Object.entries(losses).filter(([, number]) => number > 0);
  return (
    <Panel title="Losses and errors">
      {entries.length === 0 ? (
        <Empty>Nothing was lost or refused.</Empty>
      ) : (
        <table>
          <tbody>
            {entries.map(([reason, number]) => (
              <tr key={reason}>
                <th scope="row">{reason}</th>
                <td class="number right bad">{count(number)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
