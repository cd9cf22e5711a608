"""Interceptors: access control, downsampling, low-pass filter and QoS overwrite, on messages received from or sent to
a neighbour.
"""
