// Query: a selector in, replies with their latency and replier out; put and delete where the node allows it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf, post } from "../api/client";
import type { QueryResult, Reply } from "../api/types";
import { dateTime, duration, plural, shortId } from "../format";
import { Empty, Failure, Field, Panel } from "../parts/basics";
import { ValueView } from "../parts/value";
import { route } from "../state/route";
import { node } from "../state/session";
import { useStore } from "../state/store";

const TARGETS = [
  ["best_matching", "best matching"],
  ["all", "all"],
  ["all_complete", "all complete"],
] as const;
const CONSOLIDATIONS = ["auto", "none", "monotonic", "latest"] as const;
const ENCODINGS = ["text/plain", "application/json", "zenoh/bytes", "application/yaml", "text/json"];
const REPLIES_SHOWN = 500;

interface Form {
  selector: string;
  target: string;
  consolidation: string;
  timeout: string;
  payload: string;
  encoding: string;
}

export function QueryView(): JSX.Element {
  const [form, setForm] = useState<Form>({
    selector: route.value.parameters.get("selector") ?? "**",
    target: "best_matching",
    consolidation: "auto",
    timeout: "5",
    payload: "",
    encoding: "text/plain",
  });
  const [result, setResult] = useState<QueryResult | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<Form>): void => setForm({ ...form, ...change });

  const sendQuery = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      setResult(await post<QueryResult>("query", requestOf(form)));
      setError(null);
    } catch (reason) {
      setError(messageOf(reason));
    }
    setBusy(false);
  };

  return (
    <>
      <Panel title="Query">
        <form onSubmit={(event) => void sendQuery(event)}>
          <div class="toolbar">
            <Field label="Selector" class="grow">
              <input class="mono" required value={form.selector} onInput={(event) => set({ selector: event.currentTarget.value })} placeholder="fleet/**?_time=[now(-1m)..now()]" />
            </Field>
            <Field label="Target">
              <select value={form.target} onChange={(event) => set({ target: event.currentTarget.value })}>
                {TARGETS.map(([value, title]) => (
                  <option key={value} value={value}>
                    {title}
                  </option>
                ))}
              </select>
            </Field>
            <Field label="Timeout (s)" class="narrow">
              <input type="number" min="0.1" max="60" step="0.1" required value={form.timeout} onInput={(event) => set({ timeout: event.currentTarget.value })} />
            </Field>
            <button type="submit" class="primary" disabled={busy}>
              {busy ? "Waiting …" : "Send"}
            </button>
          </div>
          <details class="more">
            <summary>Consolidation and payload</summary>
            <div class="toolbar">
              <Field label="Consolidation">
                <select value={form.consolidation} onChange={(event) => set({ consolidation: event.currentTarget.value })}>
                  {CONSOLIDATIONS.map((name) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              </Field>
              <Field label="Payload" class="grow">
                <input value={form.payload} onInput={(event) => set({ payload: event.currentTarget.value })} />
              </Field>
              <EncodingField value={form.encoding} onChange={(encoding) => set({ encoding })} />
            </div>
          </details>
        </form>
        <Failure error={error} />
      </Panel>
      {result !== null && <Replies result={result} />}
      <Publish />
      <datalist id="encodings">
        {ENCODINGS.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

/** Returns the document of a query; payload and encoding only where there is a payload. */
export function requestOf(form: Form): Record<string, string | number> {
  const payload = form.payload === "" ? {} : { payload: form.payload, encoding: form.encoding };
  return { selector: form.selector.trim(), target: form.target, consolidation: form.consolidation, timeout_ms: Math.round(Number(form.timeout) * 1000), ...payload };
}

function EncodingField({ value, onChange }: { value: string; onChange: (value: string) => void }): JSX.Element {
  return (
    <Field label="Encoding">
      <input list="encodings" value={value} onInput={(event) => onChange(event.currentTarget.value)} />
    </Field>
  );
}

function Replies({ result }: { result: QueryResult }): JSX.Element {
  const summary = `${plural(result.replies.length, "reply", "replies")} in ${duration(result.elapsed_ms / 1000)}${result.timed_out ? ", timed out" : ""}`;
  return (
    <Panel title="Replies" aside={<span class="muted number">{summary}</span>}>
      {result.replies.length === 0 ? (
        <Empty>{result.timed_out ? "No reply came in time." : "No queryable replied: is there a storage or a queryable for this key expression?"}</Empty>
      ) : (
        <ul class="replies" role="status" aria-label={summary}>
          {result.replies.slice(0, REPLIES_SHOWN).map((reply, index) => (
            <ReplyView key={index} reply={reply} />
          ))}
        </ul>
      )}
      {result.replies.length > REPLIES_SHOWN && <p class="muted">the first {REPLIES_SHOWN} are shown</p>}
    </Panel>
  );
}

function ReplyView({ reply }: { reply: Reply }): JSX.Element {
  const short = reply.value.text ?? `${reply.value.size} bytes`;
  return (
    <li>
      <details>
        <summary>
          <span class={`mono reply-key ${reply.ok ? "" : "bad"}`}>{reply.ok ? reply.key : "error"}</span>
          <span class="reply-value">{short.slice(0, 160)}</span>
          <span class="number reply-latency">{duration(reply.latency_ms / 1000)}</span>
          <span class="mono reply-replier" title={reply.replier ?? ""}>
            {shortId(reply.replier)}
          </span>
        </summary>
        <ValueView value={reply.value} />
        <p class="muted">
          {reply.timestamp === null ? "without timestamp" : `timestamp ${dateTime(reply.timestamp)}`}
          {reply.replier !== null && `, from ${reply.replier}`}
        </p>
      </details>
    </li>
  );
}

function Publish(): JSX.Element {
  const about = useStore(node);
  const [key, setKey] = useState("");
  const [payload, setPayload] = useState("");
  const [encoding, setEncoding] = useState("text/plain");
  const [done, setDone] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);

  if (about?.write !== true) {
    return (
      <Panel title="Put and delete">
        <Empty>This page only reads. Start the node with --http-write to publish from here.</Empty>
      </Panel>
    );
  }
  const send = async (what: "put" | "delete"): Promise<void> => {
    try {
      await post(what, what === "put" ? { key, payload, encoding, base64: false } : { key });
      setDone(`${what === "put" ? "Published" : "Deleted"} ${key}.`);
      setError(null);
    } catch (reason) {
      setError(messageOf(reason));
      setDone(null);
    }
  };
  return (
    <Panel title="Put and delete">
      <form onSubmit={(event) => (event.preventDefault(), void send("put"))}>
        <div class="toolbar">
          <Field label="Key" class="grow">
            <input class="mono" required value={key} onInput={(event) => setKey(event.currentTarget.value)} placeholder="demo/hello" />
          </Field>
          <EncodingField value={encoding} onChange={setEncoding} />
        </div>
        <Field label="Value">
          <textarea rows={3} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} />
        </Field>
        <div class="toolbar">
          <button type="submit" class="primary">
            Put
          </button>
          <button type="button" class="danger" disabled={key === ""} onClick={() => void send("delete")}>
            Delete
          </button>
          <span role="status">{done}</span>
        </div>
      </form>
      <Failure error={error} />
    </Panel>
  );
}
