// Overview: the figures of the node at a glance, ten minutes of each, and what is wrong.

import type { JSX } from "preact";
import type { Current, Endpoint, NodeInfo, Numbers, Overview } from "../api/types";
import { age, scaled, scaledBytes, scaledSeconds } from "../format";
import { Empty, Failure, Panel, Scroll } from "../parts/basics";
import { Sparkline } from "../parts/sparkline";
import { node, overview, overviewError } from "../state/session";
import { useClock, useStore } from "../state/store";

/** Seconds of lag from which the pipeline counts as behind. */
export const LAG_LIMIT_SECONDS = 30;

export interface Tile {
  label: string;
  figure: [string, string] | null;
  series?: Numbers | null;
  alarm?: boolean;
}

function optional(value: number | null | undefined, text: (value: number) => [string, string]): [string, string] | null {
  return value === null || value === undefined ? null : text(value);
}

function tiles({ current, series }: Overview): Tile[] {
  return [
    { label: "Messages per second", figure: optional(current.messages_rate, (value) => scaled(round(value))), series: series.messages },
    { label: "Bytes per second", figure: optional(current.bytes_rate, scaledBytes), series: series.bytes },
    { label: "Keys", figure: optional(current.keys, scaled) },
    { label: "Sessions", figure: optional(current.sessions, scaled), series: series.sessions, alarm: current.sessions === 0 },
    ...pipelineTiles(current, series),
  ];
}

function pipelineTiles(current: Current, series: Overview["series"]): Tile[] {
  if (current.ingested === null && current.recorded === null) return [];
  return [
    { label: "Rows recorded", figure: optional(current.recorded, scaled) },
    { label: "Rows in tables", figure: optional(current.ingested, scaled), series: series.rows_ingested },
    { label: "Rows waiting", figure: optional(current.waiting_rows, scaled), series: series.waiting },
    lagTile(current, series.lag),
    { label: "Disk", figure: optional(current.disk_bytes, scaledBytes) },
    { label: "Lost", figure: optional(current.lost, scaled), alarm: (current.lost ?? 0) > 0 },
    { label: "Quarantined", figure: optional(current.quarantined, scaled), alarm: (current.quarantined ?? 0) > 0 },
  ];
}

/** Returns the tile of the lag: rows wait while Spark starts, which is no fault. */
export function lagTile(current: Current, series: Numbers | null): Tile {
  if (current.starting) return { label: "Lag", figure: ["starting", "Spark"], series, alarm: false };
  const alarm = (current.lag_seconds ?? 0) > LAG_LIMIT_SECONDS;
  return { label: "Lag", figure: optional(current.lag_seconds, scaledSeconds), series, alarm };
}

function round(value: number): number {
  return value < 100 ? Math.round(value * 10) / 10 : Math.round(value);
}

export function OverviewView(): JSX.Element {
  const data = useStore(overview);
  const error = useStore(overviewError);
  const about = useStore(node);
  if (data === null) return error === null ? <Empty>Loading …</Empty> : <Failure error={error} />;
  return (
    <>
      <Problems problems={data.problems} />
      <div class="tiles">
        {tiles(data).map((tile) => (
          <TileView key={tile.label} tile={tile} />
        ))}
      </div>
      {data.current.ingested === null && data.current.recorded === null && (
        <Empty>This node records nothing: no pipeline runs in it. Start one with zenspark up.</Empty>
      )}
      {about !== null && <About about={about} />}
    </>
  );
}

function Problems({ problems }: { problems: string[] }): JSX.Element {
  return (
    <div role="status">
      {problems.length > 0 && (
        <ul class="problems">
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function TileView({ tile }: { tile: Tile }): JSX.Element {
  const [figure, unit] = tile.figure ?? ["–", ""];
  const series = tile.series ?? null;
  return (
    <section class={`tile ${tile.alarm === true ? "alarm" : ""}`} aria-label={tile.label}>
      <h2>{tile.label}</h2>
      <p class="figure">
        <output>{figure}</output> <span>{unit}</span>
      </p>
      {series !== null && <Sparkline values={series} from={0} filled label={`${tile.label}, last ten minutes`} />}
    </section>
  );
}

function About({ about }: { about: NodeInfo }): JSX.Element {
  const now = useClock(1000);
  const { configured } = about.endpoints;
  return (
    <div class="columns">
      <Panel title="Node">
        <dl class="facts">
          <dt>Id</dt>
          <dd class="mono">{about.zid}</dd>
          <dt>Role</dt>
          <dd>{about.whatami}</dd>
          <dt>Version</dt>
          <dd>
            {about.version} <span class="muted">{about.build}</span>
          </dd>
          <dt>Running for</dt>
          <dd>{age(now - Date.parse(about.started_at))}</dd>
          <dt>Listens on</dt>
          <dd class="mono">{about.locators.length === 0 ? "–" : about.locators.map((locator) => <div key={locator}>{locator}</div>)}</dd>
          <dt>Publishing</dt>
          <dd>{about.write ? "allowed from this page" : "not from this page (--http-write)"}</dd>
        </dl>
      </Panel>
      <Panel title="Endpoints to connect to">
        {configured.length === 0 ? <Empty>None is configured: other nodes connect to this one.</Empty> : <Endpoints endpoints={configured} />}
      </Panel>
    </div>
  );
}

function Endpoints({ endpoints }: { endpoints: Endpoint[] }): JSX.Element {
  return (
    <Scroll label="Endpoints">
      <table>
        <thead>
          <tr>
            <th>Endpoint</th>
            <th>State</th>
          </tr>
        </thead>
        <tbody>
          {endpoints.map((endpoint) => (
            <tr key={endpoint.endpoint}>
              <td class="mono">{endpoint.endpoint}</td>
              <td>
                <span class={`state ${endpoint.connected ? "good" : "bad"}`}>{endpoint.connected ? "connected" : "not connected"}</span>
                {!endpoint.connected && endpoint.error !== null && <div class="muted">{endpoint.error}</div>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

