// Charts over time or over numbers, by uPlot, in the colours of the scheme.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock, dateTime } from "../format";
import { colour, scheme } from "../state/scheme";
import { useStore } from "../state/store";

export interface Line {
  label: string;
  values: (number | null)[];
  bars?: boolean;
}

interface Properties {
  label: string;
  /** Seconds since 1970 where `time` is set, else any numbers. */
  x: number[];
  lines: Line[];
  time?: boolean;
  height?: number;
  /** Draws a vertical line at this x. */
  mark?: number | null;
  /** Called with the x under a click. */
  onPick?: (x: number) => void;
  /** Called with the first and the last x of a range that was dragged; without it, dragging does nothing lasting. */
  onRange?: (from: number, to: number) => void;
  format?: (value: number) => string;
  formatX?: (value: number) => string;
  /** Limits of the x axis; those of the data if absent. */
  range?: [number, number] | undefined;
}

const DRAG_PIXELS = 6;
const COLOURS = ["accent", "series-2", "series-3", "series-4"];

function axis(extra: Partial<uPlot.Axis>): uPlot.Axis {
  const line = colour("line");
  return { stroke: colour("muted"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: "12px system-ui, sans-serif", ...extra };
}

/** Labels of a time axis: the time of the day, with seconds where the labels are closer than a minute. */
export function timeLabels(splits: readonly number[]): string[] {
  const step = (splits[1] ?? 0) - (splits[0] ?? 0);
  return splits.map((seconds) => {
    const text = step >= 86_400 ? dateTime(seconds * 1000, false).slice(5, 10) : clock(seconds * 1000, false);
    return step >= 60 && step < 86_400 ? text.slice(0, 5) : text;
  });
}

function lineSeries(line: Line, index: number): uPlot.Series {
  const stroke = colour(COLOURS[index % COLOURS.length] ?? "accent");
  const bars = uPlot.paths.bars?.({ size: [0.8, 40], gap: 1 });
  return {
    label: line.label,
    stroke,
    width: 1.5,
    points: { show: line.values.length < 3 },
    ...(line.bars === true && bars !== undefined ? { paths: bars, fill: stroke, points: { show: false } } : {}),
  };
}

function markPlugin(mark: { current: number | null | undefined }): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        if (mark.current === null || mark.current === undefined) return;
        const x = Math.round(plot.valToPos(mark.current, "x", true));
        const { top, height, left, width } = plot.bbox;
        if (x < left || x > left + width) return;
        plot.ctx.save();
        plot.ctx.strokeStyle = colour("accent-strong");
        plot.ctx.lineWidth = 2;
        plot.ctx.beginPath();
        plot.ctx.moveTo(x, top);
        plot.ctx.lineTo(x, top + height);
        plot.ctx.stroke();
        plot.ctx.restore();
      },
    },
  };
}

/** A drag of some pixels selects a range; what is shorter is a click. */
function dragging(range: { current: Properties["onRange"] }): Pick<uPlot.Options, "cursor" | "hooks"> {
  if (range.current === undefined) return { cursor: { y: false, points: { size: 6 } } };
  const onClick = (plot: uPlot, event: Event): void => {
    if (plot.select.width > 0) event.stopImmediatePropagation();
  };
  return {
    cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false, dist: DRAG_PIXELS, click: onClick } },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 0) range.current?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        },
      ],
    },
  };
}

interface Held {
  mark: { current: number | null | undefined };
  range: { current: Properties["onRange"] };
}

function options(properties: Properties, width: number, held: Held): uPlot.Options {
  const { lines, time = false, height = 200, format, formatX, range } = properties;
  return {
    width,
    height,
    legend: { show: lines.length > 1 },
    ...dragging(held.range),
    scales: { x: { time, ...(range === undefined ? {} : { range }) } },
    axes: [
      axis(formatX === undefined ? (time ? { values: (_plot, values) => timeLabels(values), space: 72, size: 30 } : { size: 30 }) : { size: 30, values: (_plot, values) => values.map(formatX) }),
      axis({ size: 56, ...(format === undefined ? {} : { values: (_plot, values) => values.map(format) }) }),
    ],
    series: [{}, ...lines.map(lineSeries)],
    plugins: [markPlugin(held.mark)],
  };
}

export function Chart(properties: Properties): JSX.Element {
  const { x, lines, label, mark, onPick, onRange, height = 200, range } = properties;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marked = useRef(mark);
  const pick = useRef(onPick);
  const ranged = useRef(onRange);
  marked.current = mark;
  ranged.current = onRange;
  pick.current = onPick;
  const currentScheme = useStore(scheme);
  const shape = lines.map((line) => `${line.label}${line.bars === true}`).join();
  const limits = range === undefined ? "" : range.join();

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const made = new uPlot(options(properties, element.clientWidth || 300, { mark: marked, range: ranged }), [x, ...lines.map((line) => line.values)], element);
    plot.current = made;
    const onClick = (event: MouseEvent): void => {
      const left = event.clientX - made.over.getBoundingClientRect().left;
      pick.current?.(made.posToVal(left, "x"));
    };
    made.over.addEventListener("click", onClick);
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [currentScheme, shape, height, limits]);

  useEffect(() => plot.current?.setData([x, ...lines.map((line) => line.values)]), [x, lines]);
  useEffect(() => plot.current?.redraw(false), [mark]);

  return <div class="chart" ref={place} role="img" aria-label={label} style={{ minHeight: `${height}px` }} />;
}
