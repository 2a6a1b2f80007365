"""What in the documentation is written by a program: embedded example files, and the sequence picture."""
