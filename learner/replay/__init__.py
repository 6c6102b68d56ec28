"""The replay: a store of rows, the rows' meaning, and a sampler."""
