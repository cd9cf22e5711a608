"""The event loop: polling, timers, and running callbacks of users on its thread."""
