import { render } from "preact";
import { expect, test, vi } from "vitest";
import { Store, useStore } from "../src/state/store";

function mount(store: Store<string[]>): HTMLElement {
  const root = document.createElement("div");
  const Shown = () => <p>{useStore(store).join(" ")}</p>;
  render(<Shown />, root);
  return root;
}

test("a value that changes before the component has subscribed is shown", async () => {
  const store = new Store<string[]>([]);
  const root = mount(store);
  store.set(["late"]);
  await vi.waitFor(() => expect(root.textContent).toBe("late"));
});

test("a value that is changed in place before the component has subscribed is shown", async () => {
  const store = new Store<string[]>([]);
  const root = mount(store);
  store.value.push("late");
  store.changed();
  await vi.waitFor(() => expect(root.textContent).toBe("late"));
});

test("later changes are shown", async () => {
  const store = new Store<string[]>([]);
  const root = mount(store);
  await new Promise((resolve) => setTimeout(resolve, 200));
  store.set(["later"]);
  await vi.waitFor(() => expect(root.textContent).toBe("later"));
});
