"""What is right: queries, databases and relevance, one reader per data set, pure Python."""
