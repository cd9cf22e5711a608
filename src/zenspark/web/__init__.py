"""HTTP: the page's API and live data, REST and events as zenohd serves them, metrics and health checks."""
