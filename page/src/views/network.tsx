// Network: nodes and links as a graph that updates, who declares what, sessions and tokens over time.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api/client";
import { live } from "../api/live";
import type { Declaration, Network, NetworkEvent, NetworkNode, NetworkSession } from "../api/types";
import { age, clock, plural, shortId } from "../format";
import { Empty, Failure, Panel, Scroll } from "../parts/basics";
import { Graph } from "../parts/graph";
import { Timeline } from "../parts/timeline";
import { useLoad } from "../state/load";
import { useClock } from "../state/store";

const EVENTS_SHOWN = 100;
const DECLARATIONS_SHOWN = 300;
const REFRESH_MS = 5_000;

const EVENT_TEXT: Record<string, string> = {
  opened: "session opened",
  closed: "session closed",
  token: "token appeared",
  token_removed: "token disappeared",
  declared: "declared",
  undeclared: "undeclared",
};

export function NetworkView(): JSX.Element {
  const loaded = useLoad((signal) => get<Network>("network", {}, signal), [], REFRESH_MS);
  const [pushed, setPushed] = useState<Network | null>(null);
  useEffect(() => {
    const stop = live.listen((batch) => {
      if (batch.network !== undefined) setPushed(batch.network);
    });
    const unwant = live.want({ network: true });
    return () => {
      unwant();
      stop();
    };
  }, []);
  useEffect(() => setPushed(null), [loaded.data]);

  const network = pushed ?? loaded.data;
  if (network === null) return loaded.error === null ? <Empty>Loading …</Empty> : <Failure error={loaded.error} />;
  return (
    <>
      <Panel title="Nodes and links" aside={<span class="muted">{plural(network.nodes.length, "node")}</span>}>
        <Graph network={network} />
        <p class="legend">
          <span class="shape router" /> router <span class="shape peer" /> peer <span class="shape client" /> client <span class="shape self" /> this node
        </p>
        <Nodes nodes={network.nodes} sessions={network.sessions} />
      </Panel>
      <div class="columns">
        <Declarations declarations={network.declarations} total={network.declarations_total} />
        <Events events={network.events} />
      </div>
    </>
  );
}

function Nodes({ nodes, sessions }: { nodes: NetworkNode[]; sessions: NetworkSession[] }): JSX.Element {
  const now = useClock(1000);
  const since = new Map(sessions.map((session) => [session.zid, session.since]));
  return (
    <Scroll label="Nodes">
      <table>
        <thead>
          <tr>
            <th>Node</th>
            <th>Role</th>
            <th>Session</th>
            <th>Locators</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.zid}>
              <td class="mono" title={node.zid}>
                {shortId(node.zid)}
              </td>
              <td>{node.whatami}</td>
              <td class="number">{sessionText(node, since, now)}</td>
              <td class="mono">{node.locators.join(", ") || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function sessionText(node: NetworkNode, since: Map<string, string>, now: number): string {
  if (node.self) return "this node";
  const opened = since.get(node.zid);
  return opened === undefined ? "through others" : `for ${age(now - Date.parse(opened))}`;
}

function Declarations({ declarations, total }: { declarations: Declaration[]; total: number }): JSX.Element {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const kinds = useMemo(() => [...new Set(declarations.map((declaration) => declaration.kind))].sort(), [declarations]);
  const shown = declarations.filter((declaration) => (kind === "" || declaration.kind === kind) && declaration.key.includes(text));
  return (
    <Panel title="Declarations" aside={<span class="muted">{plural(shown.length, "declaration")}</span>}>
      <div class="toolbar">
        <select aria-label="Kind of declaration" value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="">all kinds</option>
          {kinds.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <input type="search" class="grow" aria-label="Part of the key" placeholder="part of the key" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      {shown.length === 0 ? (
        <Empty>Nothing is declared.</Empty>
      ) : (
        <div class="scroll tall" tabIndex={0} role="region" aria-label="Declared keys">
          <table>
            <thead>
              <tr>
                <th>Kind</th>
                <th>Key expression</th>
                <th>Nodes</th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, DECLARATIONS_SHOWN).map((declaration) => (
                <tr key={`${declaration.kind} ${declaration.key}`}>
                  <td>{declaration.kind}</td>
                  <td class="mono break">{declaration.key}</td>
                  <td class="mono">{declaration.nodes.map(shortId).join(" ")}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {shown.length > DECLARATIONS_SHOWN && <p class="muted">the first {DECLARATIONS_SHOWN} are shown</p>}
        </div>
      )}
      {total > declarations.length && <p class="muted">The node knows {plural(total, "declaration")}; the first {declarations.length} of them are searched here.</p>}
    </Panel>
  );
}

function Events({ events }: { events: NetworkEvent[] }): JSX.Element {
  const now = useClock(1000);
  const newest = useMemo(() => [...events].sort((a, b) => b.time.localeCompare(a.time)).slice(0, EVENTS_SHOWN), [events]);
  return (
    <Panel title="Sessions and tokens over time">
      {events.length === 0 ? (
        <Empty>No session was opened and no token appeared since this page's node watches.</Empty>
      ) : (
        <>
          <Timeline events={events} now={now} />
          <div class="scroll tall" tabIndex={0} role="region" aria-label="Events">
            <table>
              <thead>
                <tr>
                  <th>Time</th>
                  <th>Event</th>
                  <th>Node or key</th>
                </tr>
              </thead>
              <tbody>
                {newest.map((event, index) => (
                  <tr key={`${event.time} ${index}`}>
                    <td class="number">{clock(event.time, false)}</td>
                    <td>{EVENT_TEXT[event.event] ?? event.event}</td>
                    <td class="mono break">{event.key ?? `${event.whatami ?? ""} ${shortId(event.zid)}`}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Panel>
  );
}
