// The frame of the page: navigation, the state of the connection, and the view of the route.

import type { ComponentType, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { live } from "./api/live";
import { messageOf } from "./api/client";
import { shortId } from "./format";
import { Icon } from "./parts/icons";
import { Empty, Failure } from "./parts/basics";
import { navigation, route, routeTo, VIEWS, type View } from "./state/route";
import { scheme, toggleScheme } from "./state/scheme";
import { loginNeeded, node } from "./state/session";
import { useStore } from "./state/store";
import { KeysView } from "./views/keys";
import { LoginView } from "./views/login";
import { OverviewView } from "./views/overview";
import { PipelineView } from "./views/pipeline";
import { QueryView } from "./views/query";
import { TimeView } from "./views/time";

export const TITLES: Record<View, string> = {
  overview: "Overview",
  keys: "Keys",
  time: "Time",
  network: "Network",
  query: "Query",
  sql: "SQL",
  pipeline: "Pipeline",
};

const BANNER_DELAY_MS = 1_500;

const NetworkView = later(async () => (await import("./views/network")).NetworkView);
const SqlView = later(async () => (await import("./views/sql")).SqlView);

const SHOWN: Record<View, ComponentType> = {
  overview: OverviewView,
  keys: KeysView,
  time: TimeView,
  network: NetworkView,
  query: QueryView,
  sql: SqlView,
  pipeline: PipelineView,
};

/** Wraps a view whose code is loaded when it is first shown. */
function later(load: () => Promise<ComponentType>): ComponentType {
  let loaded: ComponentType | null = null;
  return function Later(): JSX.Element {
    const [view, setView] = useState<{ Component: ComponentType } | null>(loaded === null ? null : { Component: loaded });
    const [error, setError] = useState<string | null>(null);
    useEffect(() => {
      if (loaded !== null) {
        const component = loaded;
        setView((before) => before ?? { Component: component }); // it came between this component's first render and now
        return;
      }
      load().then(
        (component) => {
          loaded = component;
          setView({ Component: component });
        },
        (reason: unknown) => setError(messageOf(reason)),
      );
    }, []);
    if (view !== null) return <view.Component />;
    return error === null ? <Empty>Loading …</Empty> : <Failure error={error} />;
  };
}

export function App(): JSX.Element {
  const { view } = useStore(route);
  const needsLogin = useStore(loginNeeded);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  useEffect(() => {
    document.title = `${TITLES[view]} · zenspark`;
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [view]);

  const View = SHOWN[view];
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skipTo(event, main.current)}>
        Skip to content
      </a>
      <Navigation current={view} />
      <div class="body">
        <TopBar view={view} />
        <ConnectionBanner />
        <main id="main" ref={main} tabIndex={-1}>
          {needsLogin === null ? <Empty>Loading …</Empty> : needsLogin ? <LoginView /> : <View key={navigation()} />}
        </main>
      </div>
    </>
  );
}

function skipTo(event: Event, target: HTMLElement | null): void {
  event.preventDefault();
  target?.focus();
}

function Navigation({ current }: { current: View }): JSX.Element {
  return (
    <nav class="navigation" aria-label="Views">
      <p class="brand">
        <img src="/_app/favicon.svg" alt="" width="24" height="24" />
        zenspark
      </p>
      <ul>
        {VIEWS.map((view) => (
          <li key={view}>
            <a href={routeTo(view)} aria-current={view === current ? "page" : undefined}>
              <Icon name={view} />
              <span>{TITLES[view]}</span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function TopBar({ view }: { view: View }): JSX.Element {
  const about = useStore(node);
  const needsLogin = useStore(loginNeeded);
  const connection = useStore(live.connection);
  const currentScheme = useStore(scheme);
  const other = currentScheme === "dark" ? "light" : "dark";
  return (
    <header class="topbar">
      <h1>{TITLES[view]}</h1>
      <p class="about">
        <span class={`lamp ${connection}`} aria-hidden="true" />
        {about === null ? (
          needsLogin === true ? "not logged in" : "connecting"
        ) : (
          <span title={about.zid}>
            {about.whatami} <span class="mono">{shortId(about.zid)}</span>
          </span>
        )}
      </p>
      <button type="button" class="quiet square" onClick={toggleScheme} aria-label={`Use the ${other} colour scheme`}>
        <Icon name={other === "dark" ? "moon" : "sun"} />
      </button>
    </header>
  );
}

/** Shown once the connection is missing for longer than a moment: a reload of the page does not flash it. */
function ConnectionBanner(): JSX.Element {
  const connection = useStore(live.connection);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (connection === "connected" || connection === "closed") {
      setShown(false);
      return undefined;
    }
    const timer = setTimeout(() => setShown(true), connection === "lost" ? 0 : BANNER_DELAY_MS);
    return () => clearTimeout(timer);
  }, [connection]);
  return (
    <div role="status">
      {shown && connection !== "connected" && connection !== "closed" && (
        <p class="banner">
          <strong>Not connected</strong> to the node: what is shown is no longer updated. Trying again.
          <button type="button" onClick={() => live.retry()}>
            Try now
          </button>
        </p>
      )}
    </div>
  );
}
