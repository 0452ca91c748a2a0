"""Compile, verify and profile this workspace. Fixed."""
