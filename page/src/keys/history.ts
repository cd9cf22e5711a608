// Numbers of a followed key over the last samples, by JSON path, for sparklines beside them.

import type { Json, Sample } from "../api/types";

const SAMPLES_KEPT = 240;
const PATHS_KEPT = 200;

/** Returns the number that a value is, if it is one: JSON, or text of a plain number. */
export function numberOf(sample: Sample): number | null {
  const { json, text } = sample.value;
  if (typeof json === "number") return json;
  if (text === null || text.length > 40) return null;
  const trimmed = text.trim();
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : null;
}

/** Calls back for each number inside a document, with its path: `pose.x`, `joints[2]`. */
export function eachNumber(json: Json | undefined, visit: (path: string, value: number) => void, path = ""): void {
  if (typeof json === "number") visit(path, json);
  else if (Array.isArray(json)) json.slice(0, 64).forEach((item, index) => eachNumber(item, visit, `${path}[${index}]`));
  else if (json !== null && typeof json === "object") {
    for (const [name, item] of Object.entries(json)) eachNumber(item, visit, path === "" ? name : `${path}.${name}`);
  }
}

export class History {
  private readonly series = new Map<string, number[]>();

  add(sample: Sample): void {
    const plain = numberOf(sample);
    if (plain !== null) this.push("", plain);
    else eachNumber(sample.value.json, (path, value) => this.push(path, value));
  }

  /** Returns the last values of one path; fewer than two are no curve. */
  of(path: string): readonly number[] {
    return this.series.get(path) ?? [];
  }

  private push(path: string, value: number): void {
    let values = this.series.get(path);
    if (values === undefined) {
      if (this.series.size >= PATHS_KEPT) return;
      values = [];
      this.series.set(path, values);
    }
    values.push(value);
    if (values.length > SAMPLES_KEPT) values.shift();
  }
}
