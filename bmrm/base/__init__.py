"""What every part of the package needs, and no mathematics: arrays, files, signals, tables and units."""
