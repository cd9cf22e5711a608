// The result of a SQL query: as a table, and as a chart of its numeric columns.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Json, SqlResult } from "../api/types";
import { bytes, count, duration, plural } from "../format";
import { Empty, Field, Panel, Scroll, Segments } from "./basics";
import { Chart } from "./chart";

const ROWS_AT_ONCE = 200;
const MAX_CELL = 400;
const MAX_HEX = 16;

/** Tells whether the cells of a column are numbers, as far as there are any. */
export function isNumeric(rows: Json[][], index: number): boolean {
  const present = rows.map((row) => row[index]).filter((cell) => cell !== null && cell !== undefined);
  return present.length > 0 && present.every((cell) => typeof cell === "number");
}

/** Returns the cells of a column as seconds since 1970 if all of them are times, else null. */
export function timesOf(rows: Json[][], index: number): number[] | null {
  const times = rows.map((row) => {
    const cell = row[index];
    return typeof cell === "string" && /^\d{4}-\d\d-\d\d/.test(cell) ? Date.parse(cell) / 1000 : NaN;
  });
  return times.length > 0 && times.every((time) => !Number.isNaN(time)) ? times : null;
}

export function cellText(cell: Json | undefined): string {
  if (cell === null || cell === undefined) return "";
  const text = typeof cell === "object" ? (bytesText(cell) ?? JSON.stringify(cell)) : String(cell);
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL)}…` : text;
}

/** Returns what bytes are shown as: their text, or the first of them in hexadecimal and their number; null for other cells. */
function bytesText(cell: Json[] | { [name: string]: Json }): string | null {
  if (Array.isArray(cell)) return null;
  if (typeof cell["text"] === "string" && Object.keys(cell).length === 1) return cell["text"];
  if (typeof cell["base64"] !== "string" || typeof cell["size"] !== "number") return null;
  const first = Array.from(atob(cell["base64"]).slice(0, MAX_HEX), (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  return cell["size"] > MAX_HEX ? `0x${first}… (${bytes(cell["size"])})` : `0x${first}`;
}

export function ResultView({ result }: { result: SqlResult }): JSX.Element {
  const [form, setForm] = useState<"table" | "chart">("table");
  const canChart = result.columns.some((_column, index) => isNumeric(result.rows, index)) && result.rows.length > 1;
  const summary = `${plural(result.rows.length, "row")}${result.truncated ? " (more were cut off)" : ""} in ${duration(result.elapsed_ms / 1000)}`;
  return (
    <Panel
      title="Result"
      aside={
        <>
          <span class="muted number" role="status">
            {summary}
          </span>
          {canChart && (
            <Segments
              label="Form of the result"
              options={[
                ["table", "Table"],
                ["chart", "Chart"],
              ]}
              value={form}
              onChange={setForm}
            />
          )}
        </>
      }
    >
      {result.rows.length === 0 ? <Empty>No rows.</Empty> : form === "chart" && canChart ? <ResultChart result={result} /> : <ResultTable result={result} />}
    </Panel>
  );
}

function ResultTable({ result }: { result: SqlResult }): JSX.Element {
  const [shown, setShown] = useState(ROWS_AT_ONCE);
  const numeric = useMemo(() => result.columns.map((_column, index) => isNumeric(result.rows, index)), [result]);
  return (
    <>
      <Scroll label="Rows of the result">
        <table class="result">
          <thead>
            <tr>
              {result.columns.map((column, index) => (
                <th key={index} class={numeric[index] === true ? "right" : ""} title={column.type}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {result.rows.slice(0, shown).map((row, at) => (
              <tr key={at}>
                {result.columns.map((_column, index) => (
                  <td key={index} class={numeric[index] === true ? "number right" : ""}>
                    {cellText(row[index])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {shown < result.rows.length && (
        <button type="button" onClick={() => setShown(shown + ROWS_AT_ONCE)}>
          Show more rows
        </button>
      )}
    </>
  );
}

function ResultChart({ result }: { result: SqlResult }): JSX.Element {
  const numbers = result.columns.map((column, index) => ({ name: column.name, index })).filter(({ index }) => isNumeric(result.rows, index));
  const [across, setAcross] = useState(() => result.columns.findIndex((_column, index) => timesOf(result.rows, index) !== null));
  const [up, setUp] = useState(numbers.find(({ index }) => index !== across)?.index ?? numbers[0]?.index ?? 0);
  const { x, line, isTime } = useMemo(() => points(result, across, up), [result, across, up]);
  const labels = across >= 0 && !isTime && !isNumeric(result.rows, across) ? result.rows.map((row) => cellText(row[across])) : null;
  const formatX = labels === null ? undefined : (value: number): string => (Number.isInteger(value) ? (labels[value] ?? "").slice(-18) : "");
  return (
    <>
      <div class="toolbar">
        <Field label="Across">
          <select value={String(across)} onChange={(event) => setAcross(Number(event.currentTarget.value))}>
            <option value="-1">row number</option>
            {result.columns.map((column, index) => (
              <option key={index} value={String(index)}>
                {column.name}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Up">
          <select value={String(up)} onChange={(event) => setUp(Number(event.currentTarget.value))}>
            {numbers.map(({ name, index }) => (
              <option key={index} value={String(index)}>
                {name}
              </option>
            ))}
          </select>
        </Field>
      </div>
      <Chart
        key={`${across} ${up}`}
        label={`${line.label} of ${x.length} rows`}
        x={x}
        lines={[line]}
        time={isTime}
        height={280}
        format={count}
        {...(formatX === undefined ? {} : { formatX })}
        {...(line.bars ? { range: [-0.6, x.length - 0.4] as [number, number] } : {})}
      />
    </>
  );
}

/** Returns the points of a chart in the order of x: times, numbers, or the numbers of the rows as bars. */
export function points(result: SqlResult, across: number, up: number): { x: number[]; line: { label: string; values: (number | null)[]; bars: boolean }; isTime: boolean } {
  const times = timesOf(result.rows, across);
  const numeric = across >= 0 && isNumeric(result.rows, across);
  const x = times ?? result.rows.map((row, at) => (numeric ? Number(row[across]) : at));
  const order = x.map((_value, at) => at).sort((a, b) => (x[a] ?? 0) - (x[b] ?? 0));
  const values = order.map((at) => {
    const cell = result.rows[at]?.[up];
    return typeof cell === "number" ? cell : null;
  });
  return { x: order.map((at) => x[at] ?? 0), line: { label: result.columns[up]?.name ?? "", values, bars: times === null && !numeric }, isTime: times !== null };
}
