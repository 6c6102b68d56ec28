"""The protocol: messages as bytes, and both ends of delivery and membership.

State machines take bytes and time as arguments; sockets, threads and clocks are elsewhere.
"""
