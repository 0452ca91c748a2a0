"""Collection of reference operators from the installed libraries, by introspection."""
