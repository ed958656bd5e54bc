"""What is asked of the operating system alone: locks that end with their holder, renames, forks."""
