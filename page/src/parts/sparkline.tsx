// A small curve without axes, drawn as SVG; its label gives the range to screen readers.

import type { JSX } from "preact";

const WIDTH = 100;
const HEIGHT = 24;
const MAX_POINTS = 150;

/** Reduces a series to at most `limit` points: the largest of each group, so that peaks stay. */
export function reduce(values: readonly (number | null)[], limit: number): (number | null)[] {
  const group = Math.ceil(values.length / limit);
  if (group <= 1) return [...values];
  const reduced: (number | null)[] = [];
  for (let from = 0; from < values.length; from += group) {
    const present = values.slice(from, from + group).filter((value) => value !== null);
    reduced.push(present.length === 0 ? null : Math.max(...present));
  }
  return reduced;
}

/** Returns the path of a curve through a box of 100 by 24, and of the area below it, with gaps where a value is absent.
 *
 * A series that does not change is a line in the middle, or at the bottom if the axis begins `from` its value.
 */
export function curve(values: readonly (number | null)[], from: number | null = null): { line: string; area: string } {
  const present = values.filter((value) => value !== null);
  if (present.length < 2) return { line: "", area: "" };
  const low = from ?? Math.min(...present);
  const high = Math.max(...present, low);
  const step = WIDTH / (values.length - 1);
  const height = (value: number): number => (high === low ? (from === null ? HEIGHT / 2 : HEIGHT - 1.5) : HEIGHT - 1.5 - ((value - low) / (high - low)) * (HEIGHT - 3));
  const path = { line: "", area: "" };
  let run: string[] = [];
  let first = 0;
  values.forEach((value, index) => {
    if (value === null) return;
    if (run.length === 0) first = index;
    run.push(`${(index * step).toFixed(1)} ${height(value).toFixed(1)}`);
    if (values[index + 1] !== null && index < values.length - 1) return;
    path.line += `M${run.join("L")}`;
    path.area += `M${(first * step).toFixed(1)} ${HEIGHT}L${run.join("L")}L${(index * step).toFixed(1)} ${HEIGHT}Z`;
    run = [];
  });
  return path;
}

interface Properties {
  values: readonly (number | null)[];
  label: string;
  /** The lowest value of the axis; the lowest of the series if null. */
  from?: number | null;
  filled?: boolean;
}

export function Sparkline({ values, label, from = null, filled = false }: Properties): JSX.Element {
  const { line, area } = curve(reduce(values, MAX_POINTS), from);
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {filled && area !== "" && <path class="area" d={area} />}
      {line !== "" && <path class="line" d={line} vector-effect="non-scaling-stroke" />}
    </svg>
  );
}
