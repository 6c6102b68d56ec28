"""The write-ahead log of received messages."""
