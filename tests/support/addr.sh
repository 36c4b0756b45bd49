# shellcheck shell=bash
# Sourced: $net, the first three bytes of addresses for one test alone. Tests
# run side by side, and a proxy listens at the address of its rail. addr.h is the
# same for programs.
net=127.$((128 + $$ / 250 % 100)).$(($$ % 250))
