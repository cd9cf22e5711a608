// Small parts that all views share.

import type { ComponentChildren, JSX } from "preact";

/** A sentence where a view has nothing to show, and why. */
export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

export function Failure({ error }: { error: string | null }): JSX.Element | null {
  return error === null ? null : (
    <p class="failure" role="alert">
      {error}
    </p>
  );
}

interface PanelProperties {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}

export function Panel({ title, aside, children, class: extra = "" }: PanelProperties): JSX.Element {
  return (
    <section class={`panel ${extra}`} aria-label={title}>
      <header class="panel-head">
        <h2>{title}</h2>
        {aside !== undefined && <div class="panel-aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

interface FieldProperties {
  label: string;
  children: ComponentChildren;
  class?: string;
}

/** A control with its label above it. */
export function Field({ label, children, class: extra = "" }: FieldProperties): JSX.Element {
  return (
    <label class={`field ${extra}`}>
      <span>{label}</span>
      {children}
    </label>
  );
}

interface SegmentsProperties<T extends string> {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}

/** A choice of few: buttons in a row, one of them pressed. */
export function Segments<T extends string>({ label, options, value, onChange }: SegmentsProperties<T>): JSX.Element {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button type="button" key={name} aria-pressed={name === value} onClick={() => onChange(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A wide table scrolls in its own box, which the keyboard can reach. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      {children}
    </div>
  );
}
