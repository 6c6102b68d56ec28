"""Code that tests share: import it, as in `from support.makers import a_spec`."""
