"""Looking at rollouts and credit: diagnostics of a set of rollouts, and the file that credit is written to."""
