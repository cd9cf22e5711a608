// The login, shown when the node responds with 401: a token, or a user and a password.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf, post } from "../api/client";
import type { LoginMethod } from "../api/types";
import { Failure, Field, Panel, Segments } from "../parts/basics";
import { connect, loginMethods } from "../state/session";
import { useStore } from "../state/store";

const TITLES: Record<LoginMethod, string> = { token: "Token", password: "User and password" };

export function LoginView(): JSX.Element {
  const methods = useStore(loginMethods);
  const [chosen, setChosen] = useState<LoginMethod | null>(null);
  const [token, setToken] = useState("");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<string | null>(null);
  const method = chosen ?? methods[0] ?? "token";

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await post("login", method === "token" ? { token } : { user, password });
      setError(null);
      await connect();
    } catch (reason) {
      setError(messageOf(reason));
    }
  };

  return (
    <Panel title="Login" class="login">
      <p>This node shows its page to those who log in.</p>
      {methods.length > 1 && <Segments label="Way to log in" options={methods.map((name) => [name, TITLES[name]] as const)} value={method} onChange={setChosen} />}
      <form onSubmit={(event) => void submit(event)}>
        {method === "token" ? (
          <Field label="Token">
            <input type="password" autocomplete="current-password" required value={token} onInput={(event) => setToken(event.currentTarget.value)} />
          </Field>
        ) : (
          <>
            <Field label="User">
              <input autocomplete="username" required value={user} onInput={(event) => setUser(event.currentTarget.value)} />
            </Field>
            <Field label="Password">
              <input type="password" autocomplete="current-password" required value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
            </Field>
          </>
        )}
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
      <Failure error={error} />
    </Panel>
  );
}
