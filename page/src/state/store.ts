// Values that change, and components that show them. Changes are shown once per frame, however many there were.

import { useEffect, useReducer } from "preact/hooks";

export class Store<T> {
  private readonly listeners = new Set<() => void>();
  private changes = 0;

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  /** Number of changes so far, also of those made in place. */
  get version(): number {
    return this.changes;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    this.changed();
  }

  /** Tells the listeners that the value was changed in place. */
  changed(): void {
    this.changes += 1;
    this.listeners.forEach((listener) => listener());
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Wraps a function so that it runs at most once per frame. */
export function oncePerFrame(run: () => void): () => void {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      run();
    });
  };
}

/** Returns the value of a store and renders the component again, at most once per frame, when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const rendered = store.version;
  useEffect(() => {
    if (store.version !== rendered) render(undefined); // it changed before this effect ran, which is after a frame
    return store.subscribe(oncePerFrame(() => render(undefined)));
  }, [store]);
  return store.value;
}

/** Renders the component again every `milliseconds`, for ages that grow by themselves. */
export function useClock(milliseconds: number): number {
  const [, render] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => render(undefined), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return Date.now();
}
