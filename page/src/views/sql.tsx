// SQL: queries to the recorded tables, their results as table and chart, and queries to keep.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, messageOf, post } from "../api/client";
import type { SqlResult, Table } from "../api/types";
import { bytes, plural } from "../format";
import { Empty, Failure, Panel } from "../parts/basics";
import { Editor } from "../parts/editor";
import { ResultView } from "../parts/result";
import { useLoad } from "../state/load";
import { deleteSavedQuery, readSavedQueries, saveQuery, type SavedQuery } from "../state/saved";
import { node } from "../state/session";
import { useStore } from "../state/store";

const ROW_LIMIT = 1_000;

const EXAMPLES: SavedQuery[] = [
  { name: "Rows of each key", query: "select key, count(*) as rows\nfrom samples\ngroup by key\norder by rows desc\nlimit 50" },
  { name: "Rows per second", query: "select date_trunc('second', received_at) as second, count(*) as rows\nfrom samples\ngroup by 1\norder by 1 desc\nlimit 300" },
];

let lastText = EXAMPLES[0]?.query ?? "";

export function SqlView(): JSX.Element {
  const about = useStore(node);
  if (about === null) return <Empty>Loading …</Empty>;
  if (!about.sql) return <Empty>This node has no tables to query: they are made by zenspark up, which records into a lake.</Empty>;
  return <SqlQueries />;
}

function SqlQueries(): JSX.Element {
  const [text, setText] = useState(lastText);
  const [result, setResult] = useState<SqlResult | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  const loaded = useLoad(async (signal) => (await get<{ tables: Table[] }>("tables", {}, signal)).tables, []);
  const tables = loaded.data ?? NO_TABLES;

  const change = (next: string): void => {
    lastText = next;
    setText(next);
  };
  const run = async (query: string): Promise<void> => {
    setBusy(true);
    try {
      setResult(await post<SqlResult>("sql", { query, limit: ROW_LIMIT }));
      setError(null);
      setTurn((before) => before + 1);
    } catch (reason) {
      setError(messageOf(reason));
    }
    setBusy(false);
  };

  return (
    <div class="columns wide-left sql">
      <div>
        <Panel title="Query">
          <Editor text={text} tables={tables} onChange={change} onRun={() => void run(lastText)} />
          <div class="toolbar">
            <button type="button" class="primary" disabled={busy || text.trim() === ""} onClick={() => void run(text)}>
              {busy ? "Running …" : "Run"}
            </button>
            <span class="muted hint">Ctrl-Enter runs, Ctrl-Space completes</span>
          </div>
          <Failure error={error} />
        </Panel>
        {result !== null && <ResultView key={turn} result={result} />}
      </div>
      <div>
        <Saved text={text} onOpen={change} />
        <Tables tables={tables} error={loaded.error} />
      </div>
    </div>
  );
}

const NO_TABLES: Table[] = [];

function Saved({ text, onOpen }: { text: string; onOpen: (query: string) => void }): JSX.Element {
  const [queries, setQueries] = useState(readSavedQueries);
  const [name, setName] = useState("");
  const save = (event: Event): void => {
    event.preventDefault();
    setQueries(saveQuery({ name: name.trim(), query: text }));
    setName("");
  };
  return (
    <Panel title="Saved queries">
      <ul class="queries">
        {queries.map((saved) => (
          <li key={saved.name}>
            <button type="button" class="link" onClick={() => onOpen(saved.query)}>
              {saved.name}
            </button>
            <button type="button" class="quiet" aria-label={`Delete ${saved.name}`} onClick={() => setQueries(deleteSavedQuery(saved.name))}>
              ✕
            </button>
          </li>
        ))}
        {EXAMPLES.map((saved) => (
          <li key={`example ${saved.name}`}>
            <button type="button" class="link" onClick={() => onOpen(saved.query)}>
              {saved.name}
            </button>
            <span class="muted">example</span>
          </li>
        ))}
      </ul>
      <form class="toolbar" onSubmit={save}>
        <input class="grow" aria-label="Name of the query" placeholder="name of this query" required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        <button type="submit" disabled={text.trim() === ""}>
          Save
        </button>
      </form>
    </Panel>
  );
}

function Tables({ tables, error }: { tables: Table[]; error: string | null }): JSX.Element {
  return (
    <Panel title="Tables">
      <Failure error={error} />
      {tables.map((table) => (
        <details key={table.name} class="table-columns">
          <summary>
            <span class="mono">{table.name}</span>
            <span class="muted number">
              {[table.rows === null ? "" : plural(table.rows, "row"), table.bytes === null ? "" : bytes(table.bytes)].filter(Boolean).join(" · ")}
            </span>
          </summary>
          <ul>
            {table.columns.map((column) => (
              <li key={column.name}>
                <span class="mono">{column.name}</span> <span class="muted">{column.type}</span>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </Panel>
  );
}
