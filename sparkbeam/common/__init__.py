"""Tools that all rooms share: checks of arguments, texts for people, files, connections."""
