// Replaced by the first pass of this folder.
