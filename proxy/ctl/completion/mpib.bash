# Completion for mpib-agent, mpib-perf, mpib-proxy and mpib-top: their options, as
# --help has them.
complete -F _longopt mpib-agent mpib-perf mpib-proxy mpib-top
