"""What every role shares: the data, the wire, delivery, and the manners of a process."""
