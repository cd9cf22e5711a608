"""Interceptors: access control, downsampling, low-pass filter and QoS overwrite between the router and its faces."""
