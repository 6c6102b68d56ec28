"""Commands to a learner at work: their words, the record of those that were done, their effects."""
