"""What every role shares: the data, the wire, delivery, and the manners of a process."""

FARFLUNG = True  # this is ours: the roles look, since another package of the name may be found first
