# Completion for mpib-agent, mpib-perf, mpib-proxy and mpib-top: the options
# that --help lists.
complete -F _longopt mpib-agent mpib-perf mpib-proxy mpib-top
