# shellcheck shell=bash
# Sourced: sets $net, the first three bytes of addresses that no other test
# uses. Tests run at the same time, and a proxy listens at the address of its
# rail. addr.h does the same for programs.
net=127.$((128 + $$ / 250 % 100)).$(($$ % 250))
