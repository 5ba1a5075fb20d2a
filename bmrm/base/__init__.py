"""Helpers without mathematics that every package uses: arrays, files, signals, tables and units."""
