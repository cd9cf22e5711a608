// A JSON document as a tree that opens and closes, with a curve beside each number that changes.

import type { JSX } from "preact";
import type { Json } from "../api/types";
import type { History } from "../keys/history";
import { Sparkline } from "./sparkline";

const MAX_ITEMS = 200;
const OPEN_DEPTH = 3;

interface Properties {
  value: Json;
  name?: string | null;
  path?: string;
  depth?: number;
  history?: History | null;
}

export function JsonTree({ value, name = null, path = "", depth = 0, history = null }: Properties): JSX.Element {
  if (value === null || typeof value !== "object") return <Leaf value={value} name={name} path={path} history={history} />;
  const isArray = Array.isArray(value);
  const items: [string, Json][] = isArray ? value.map((item, index) => [String(index), item]) : Object.entries(value);
  const summary = isArray ? `[${items.length}]` : `{${items.length}}`;
  return (
    <details class="json" open={depth < OPEN_DEPTH && items.length <= 50}>
      <summary>
        {name !== null && <span class="json-name">{name}</span>}
        <span class="json-size">{summary}</span>
      </summary>
      <div class="json-items">
        {items.slice(0, MAX_ITEMS).map(([key, item]) => (
          <JsonTree
            key={key}
            value={item}
            name={key}
            path={isArray ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`}
            depth={depth + 1}
            history={history}
          />
        ))}
        {items.length > MAX_ITEMS && <p class="muted">and {items.length - MAX_ITEMS} more</p>}
      </div>
    </details>
  );
}

interface LeafProperties {
  value: null | boolean | number | string;
  name: string | null;
  path: string;
  history: History | null;
}

function Leaf({ value, name, path, history }: LeafProperties): JSX.Element {
  const values = history?.of(path) ?? [];
  return (
    <div class="json-leaf">
      {name !== null && <span class="json-name">{name}</span>}
      <span class={`json-value json-${value === null ? "null" : typeof value}`}>{typeof value === "string" ? `"${value}"` : String(value)}</span>
      {typeof value === "number" && values.length > 1 && <Sparkline values={values} label={`${path}, last ${values.length} values`} />}
    </div>
  );
}
