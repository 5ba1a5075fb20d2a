"""How compiled functions run: arguments are bound, passes run on a CPU or GPU, parts are combined."""
