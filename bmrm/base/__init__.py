"""What every part of the package needs, without the mathematics: arrays, files, signals, tables and units."""
