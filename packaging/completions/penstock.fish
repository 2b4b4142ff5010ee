# The program prints its own completion, so that the two always agree.
penstock completion fish 2>/dev/null | source
