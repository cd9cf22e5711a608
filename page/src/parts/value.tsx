// A value by its encoding: JSON as a tree, numbers with a curve, text, images; the bytes beside it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Value } from "../api/types";
import type { History } from "../keys/history";
import { bytes } from "../format";
import { Segments } from "./basics";
import { JsonTree } from "./json_tree";
import { Sparkline } from "./sparkline";

const MAX_TEXT = 20_000;
const BYTES_PER_ROW = 16;

/** Returns what a value is shown as. */
export function kindOf(value: Value): "image" | "number" | "json" | "text" | "binary" {
  if (isImage(value) && value.base64 !== null) return "image";
  if (typeof value.json === "number" || (value.text !== null && isNumeric(value.text))) return "number";
  if (value.json !== null && value.json !== undefined) return "json";
  return value.text === null ? "binary" : "text";
}

/** Returns the rows of a hexadecimal listing: offset, bytes, and the characters that can be printed. */
export function hexRows(hex: string): { offset: string; bytes: string; text: string }[] {
  const pairs = hex.match(/../g) ?? [];
  const rows = [];
  for (let at = 0; at < pairs.length; at += BYTES_PER_ROW) {
    const row = pairs.slice(at, at + BYTES_PER_ROW);
    const text = row.map((pair) => printable(parseInt(pair, 16))).join("");
    rows.push({ offset: at.toString(16).padStart(4, "0"), bytes: row.join(" "), text });
  }
  return rows;
}

interface Properties {
  value: Value;
  history?: History | null;
}

export function ValueView({ value, history = null }: Properties): JSX.Element {
  const [form, setForm] = useState<"value" | "hex">("value");
  return (
    <div class="value">
      <div class="value-head">
        <span class="chip">{value.encoding}</span>
        <span class="muted number">{bytes(value.size)}</span>
        <Segments
          label="Form of the value"
          options={[
            ["value", "Value"],
            ["hex", "Bytes"],
          ]}
          value={form}
          onChange={setForm}
        />
      </div>
      {form === "hex" ? <Hex value={value} /> : <Decoded value={value} history={history} />}
    </div>
  );
}

function Decoded({ value, history }: { value: Value; history: History | null }): JSX.Element {
  switch (kindOf(value)) {
    case "image":
      return <img class="value-image" src={`data:${mediaType(value)};base64,${value.base64 ?? ""}`} alt={`Picture of ${bytes(value.size)}`} />;
    case "number":
      return <BigNumber text={value.text ?? JSON.stringify(value.json)} history={history} />;
    case "json":
      return (
        <div class="value-json">
          <JsonTree value={value.json ?? null} history={history} />
        </div>
      );
    case "text":
      return <pre class="value-text">{clip(value.text ?? "")}</pre>;
    case "binary":
      return value.size === 0 ? <p class="muted">empty</p> : <Hex value={value} />;
  }
}

function BigNumber({ text, history }: { text: string; history: History | null }): JSX.Element {
  const values = history?.of("") ?? [];
  return (
    <div class="big-number">
      <output class="number">{text}</output>
      {values.length > 1 && <Sparkline values={values} label={`last ${values.length} values, from ${Math.min(...values)} to ${Math.max(...values)}`} filled />}
    </div>
  );
}

function Hex({ value }: { value: Value }): JSX.Element {
  const shown = value.hex.length / 2;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Bytes of the value">
      <pre class="hex">
        {hexRows(value.hex).map((row) => (
          <span key={row.offset} class="hex-row">
            <span class="hex-offset">{row.offset}</span>
            <span class="hex-bytes">{row.bytes}</span>
            <span class="hex-text">{row.text}</span>
            {"\n"}
          </span>
        ))}
      </pre>
      {shown < value.size && (
        <p class="muted">
          the first {shown} of {value.size} bytes
        </p>
      )}
    </div>
  );
}

function isImage(value: Value): boolean {
  return /^image\/(png|jpeg|gif|webp|bmp|avif|svg\+xml)/.test(value.encoding);
}

function mediaType(value: Value): string {
  return value.encoding.split(";")[0] ?? value.encoding;
}

function isNumeric(text: string): boolean {
  return text.length <= 40 && /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text);
}

function printable(byte: number): string {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·";
}

function clip(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}\n… ${text.length - MAX_TEXT} more characters`;
}
