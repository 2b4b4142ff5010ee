# bash reads this file when a user first completes a command line of penstock. The program prints its own completion, so that the two
# always agree.
eval "$(penstock completion bash 2>/dev/null)"
