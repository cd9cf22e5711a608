"""The event loop: polling, timers, busy polling, read coalescing, and callbacks of users run on its thread."""
