// Loading of documents by components: the last response stays while a newer one is on its way.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../api/client";
import { live } from "../api/live";

export interface Loaded<T> {
  data: T | null;
  error: string | null;
  busy: boolean;
  reload: () => void;
}

type Loader<T> = (signal: AbortSignal) => Promise<T>;

/** Loads when `inputs` change, after each reconnection, and every `everyMs` milliseconds if given. */
export function useLoad<T>(load: Loader<T> | null, inputs: unknown[], everyMs: number | null = null): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: string | null; busy: boolean }>({
    data: null,
    error: null,
    busy: load !== null,
  });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const reload = useCallback(() => setTurn((before) => before + 1), []);

  useEffect(() => {
    const loader = latest.current;
    if (loader === null) {
      setState({ data: null, error: null, busy: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    loader(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setState({ data, error: null, busy: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted && !isAbort(error)) setState((before) => ({ ...before, error: messageOf(error), busy: false }));
      },
    );
    return () => abort.abort();
  }, [...inputs, turn, load === null]);

  useEffect(() => {
    if (everyMs === null) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden && live.connection.value === "connected") reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  useEffect(() => live.whenOpened((again) => (again ? reload() : undefined)), []);
  return { ...state, reload };
}

/** Returns a value as it was when it last stood still for `milliseconds`. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
