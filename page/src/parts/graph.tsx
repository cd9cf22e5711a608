// The network as a graph, by Cytoscape. Nodes keep their places when others come and go.

import cytoscape from "cytoscape";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Network, NetworkLink, NetworkNode } from "../api/types";
import { shortId } from "../format";
import { colour, scheme } from "../state/scheme";
import { useStore } from "../state/store";

const SHAPES: Record<string, cytoscape.Css.NodeShape> = { router: "round-rectangle", peer: "ellipse", client: "round-diamond" };

/** Returns the elements of the graph: each node once, each pair of linked nodes once. */
export function elements(nodes: NetworkNode[], links: NetworkLink[]): { id: string; data: Record<string, string>; isNode: boolean }[] {
  const known = new Set(nodes.map((node) => node.zid));
  const made = nodes.map((node) => ({
    id: node.zid,
    isNode: true,
    data: { id: node.zid, label: `${node.whatami}\n${shortId(node.zid)}`, role: node.whatami, self: node.self ? "yes" : "no" },
  }));
  const seen = new Set<string>();
  const edges = [];
  for (const link of links) {
    const id = [link.src, link.dst].sort().join(" ");
    if (seen.has(id) || !known.has(link.src) || !known.has(link.dst) || link.src === link.dst) continue;
    seen.add(id);
    edges.push({ id, isNode: false, data: { id, source: link.src, target: link.dst } });
  }
  return [...made, ...edges];
}

function style(): cytoscape.StylesheetJson {
  return [
    {
      selector: "node",
      style: {
        "background-color": colour("graph-node"),
        "border-color": colour("muted"),
        "border-width": 1.5,
        width: 26,
        height: 26,
        label: "data(label)",
        color: colour("text"),
        "font-size": 11,
        "font-family": "system-ui, sans-serif",
        "text-valign": "bottom",
        "text-margin-y": 5,
        "text-wrap": "wrap",
        "text-background-color": colour("background"),
        "text-background-opacity": 0.85,
      },
    },
    ...Object.entries(SHAPES).map(([role, shape]) => ({ selector: `node[role = "${role}"]`, style: { shape } })),
    { selector: 'node[role = "router"]', style: { width: 38, height: 28 } },
    { selector: 'node[self = "yes"]', style: { "background-color": colour("accent"), "border-color": colour("accent-strong"), "border-width": 2.5 } },
    { selector: "edge", style: { width: 1.5, "line-color": colour("muted"), "curve-style": "straight" } },
  ];
}

/** Changes a graph to the wanted elements; returns whether any came or went. */
function update(graph: cytoscape.Core, wanted: ReturnType<typeof elements>): boolean {
  const ids = new Set(wanted.map((element) => element.id));
  const gone = graph.elements().filter((element) => !ids.has(element.id()));
  gone.remove();
  let changed = gone.length > 0;
  for (const element of wanted) {
    const present = graph.getElementById(element.id);
    if (present.nonempty()) {
      present.data(element.data);
      continue;
    }
    graph.add({ group: element.isNode ? "nodes" : "edges", data: element.data });
    changed = true;
  }
  return changed;
}

function arrange(graph: cytoscape.Core): void {
  const small = graph.nodes().length <= 2;
  graph
    .layout(
      small
        ? { name: "circle", animate: false, startAngle: Math.PI, radius: 80 }
        : { name: "cose", animate: false, randomize: false, padding: 40, nodeRepulsion: () => 12_000, idealEdgeLength: () => 80, componentSpacing: 90 },
    )
    .run();
  graph.fit(undefined, 36);
  if (graph.zoom() > 1.4) {
    graph.zoom(1.4);
    graph.center();
  }
}

export function Graph({ network }: { network: Network }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const graph = useRef<cytoscape.Core | null>(null);
  const currentScheme = useStore(scheme);

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const made = cytoscape({ container: element, style: style(), userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true });
    graph.current = made;
    const resized = new ResizeObserver(() => {
      made.resize();
      made.fit(undefined, 36);
      if (made.zoom() > 1.4) {
        made.zoom(1.4);
        made.center();
      }
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      graph.current = null;
    };
  }, []);

  useEffect(() => {
    graph.current?.style(style());
  }, [currentScheme]);

  useEffect(() => {
    const current = graph.current;
    if (current !== null && update(current, elements(network.nodes, network.links))) arrange(current);
  }, [network]);

  const label = `Graph of ${network.nodes.length} nodes; the table below lists the same`;
  return <div class="graph" ref={place} role="img" aria-label={label} />;
}
