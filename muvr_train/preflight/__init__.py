"""What is checked before anything heavy is imported: settings as typed, their names, their values, run folders."""
