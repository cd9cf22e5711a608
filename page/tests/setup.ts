// What jsdom lacks of a browser.

Object.defineProperty(window, "matchMedia", {
  value: () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }),
});

class NoResizeObserver {
  observe(): void {
    return undefined;
  }

  disconnect(): void {
    return undefined;
  }
}

Object.defineProperty(window, "ResizeObserver", { value: NoResizeObserver });
