"""The built-in corpus: a look-alike of MUVR that the project plans, renders and annotates itself."""
