#!/usr/bin/env bash
# programs.sh BUILD SOURCE: check that every program answers --help and
# --version: the installed programs, the programs of bench/ and of the GPU
# tests, and every script that people run. For invalid arguments the program
# prints one line, "program: what failed: why (remedy)", and exits with the
# status that the manual page gives. No proxy is needed.
set -uo pipefail
build=$1 source=$2
. "$(dirname "$0")/../support/workdir.sh"
failed=0
unset MPIB_RUN_DIR MPIB_AGENT_DIR
version=$(sed -n 's/^project(mpib VERSION \([^ ]*\) .*/\1/p' \
	"$source/CMakeLists.txt")

fail() {
	echo "$*"
	failed=1
}

# says PATTERN PROGRAM ARGUMENT...: check that the program succeeds, prints the
# pattern and prints no error.
says() {
	local pattern=$1 rc
	shift
	"$@" >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	[ "$rc" -eq 0 ] || fail "$*: status $rc: $(<"$dir/err")"
	[ ! -s "$dir/err" ] || fail "$*: complains: $(<"$dir/err")"
	grep -qE -- "$pattern" "$dir/out" || fail "$*: prints no $pattern"
	[ -z "$(awk 'length > 80' "$dir/out")" ] || fail "$*: over 80 columns"
}

# refuses STATUS PROGRAM ARGUMENT...
refuses() {
	local want=$1 name rc err
	shift
	name=$(basename "$1")
	timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
	rc=$? err=$(<"$dir/err")
	[ "$rc" -eq "$want" ] || fail "$*: status $rc, not $want: $err"
	[ ! -s "$dir/out" ] || fail "$*: says on stdout: $(<"$dir/out")"
	[[ $err =~ ^$name:\ [^$'\n']+:\ [^$'\n']+\ \([^$'\n']+\)$ ]] ||
		fail "$*: not one line with what, why and remedy: $err"
}

proxy=$build/proxy/mpib-proxy ctl=$build/proxy/mpibctl
monitor=$build/proxy/mpib-top agent=$build/proxy/mpib-agent
perf=$build/bench/mpib-perf plugin=$build/plugin/libnccl-net-mpib.so
scripts=(bench/budget bench/cluster bench/compare bench/demo bench/nccl
	bench/busy bench/recovery bench/shares
	tests/run tests/soak tests/gpu/run)

# The list above must contain every program.
for program in "$source"/bench/* tests/run; do
	name=${program#"$source/"}
	[ -f "$program" ] && [ -x "$program" ] || continue
	[[ " ${scripts[*]} " == *" $name "* ]] || fail "$name is not tried here"
done
installed=$(sed -n 's/^install(TARGETS \(mpib[a-z-]*\).*/\1/p' \
	"$source"/{proxy,proxy/*,bench}/CMakeLists.txt | sort | tr '\n' ' ')
[ "$installed" = "mpib-agent mpib-perf mpib-proxy mpib-top mpibctl " ] ||
	fail "installed and not tested here: $installed"

for program in "$proxy" "$ctl" "$monitor" "$agent" "$perf"; do
	name=$(basename "$program") bad=2
	[ "$name" = mpib-proxy ] && bad=78
	says '^[Uu]sage: ' "$program" --help
	says "^$name $version\$" "$program" --version
	refuses "$bad" "$program" --nonsense
	refuses "$bad" "$program" --help=1
	# If one of several combined option letters is wrong, the error must
	# name this letter or the whole word, and no other argument.
	for word in -zq -hz=1; do
		[ "$word" = -zq ] || [[ $name =~ ^mpib-proxy|^mpib-agent ]] || continue
		refuses "$bad" "$program" "$word"
		grep -qE -- "[ \"]${word}[ \"]|: -z " "$dir/err" ||
			fail "$name $word: $(<"$dir/err")"
	done
done
for program in "$build"/bench/bench-*; do
	says '^Usage: ' "$program" --help
	says "^$(basename "$program") $version\$" "$program" --version
	refuses 2 "$program" --nonsense
done
example=$build/docs/example/mpib-send
says '^Usage: ' "$example" --help
refuses 2 "$example"
refuses 2 "$example" --nonsense
refuses 2 "$example" sent
refuses 2 "$example" send receive
example=$build/docs/example/mpib-vqp
says '^Usage: ' "$example" --help
refuses 2 "$example"
refuses 2 "$example" --nonsense
refuses 2 "$example" soft0 -1
refuses 2 "$example" soft0 1 8 1 100 100

for script in "${scripts[@]}"; do
	says '^ +(bench|tests)/' "$source/$script" --help
	says "^$(basename "$script") $version\$" "$source/$script" --version
	refuses 2 "$source/$script" --nonsense
done
for script in cluster compare shares; do
	refuses 2 "$source/bench/$script" --reps
done
for option in --plugin --socket --peer; do
	refuses 2 "$source/bench/compare" $option "$dir/none.so"
done
refuses 2 "$source/bench/budget" --peer "$dir/none.so"
refuses 2 "$source/bench/demo" now
refuses 2 "$source/bench/cluster" 1001
refuses 2 "$source/tests/run" "("
refuses 2 "$source/tests/run" all ""
refuses 2 "$source/bench/cluster" --seconds 0
refuses 2 "$source/bench/recovery" --times 0
refuses 2 "$source/tests/gpu/run" word
refuses 2 "$source/tests/gpu/run" --max
refuses 2 "$source/tests/gpu/run" --max 1M
refuses 2 "$source/tests/gpu/run" --gpus 0
refuses 2 "$source/tests/soak" none
refuses 2 "$source/tests/soak" 1 nonsense

# A program must fail if it cannot write its output.
for option in "--sout soft --check-config" --help --version; do
	# shellcheck disable=SC2086 # words
	"$proxy" $option >/dev/full 2>"$dir/err"
	[ $? -eq 1 ] && grep -q '^mpib-proxy: standard output: No space' \
		"$dir/err" || fail "$proxy $option: a full disk: $(<"$dir/err")"
done

refuses 78 "$proxy" --sup-bw
refuses 78 "$proxy" --sup-bw 1025
refuses 78 "$proxy" word
refuses 78 "$proxy" --config "$dir/none"
printf '[sup]\nbandwidth = 1\n' >"$dir/conf"
refuses 78 "$proxy" --config "$dir/conf"
# A log line must start with its level if it goes to the journal, but not if it
# goes to a file.
JOURNAL_STREAM=1:1 "$proxy" --config "$dir/conf" 2>"$dir/err"
{ [ -s "$dir/err" ] && ! grep -q '^<3>' "$dir/err"; } ||
	fail "a level for a file: $(<"$dir/err")"
JOURNAL_STREAM=$(stat -c %d:%i "$dir/err") "$proxy" --config "$dir/conf" \
	2>"$dir/err"
{ [ -s "$dir/err" ] && ! grep -vq '^<3>' "$dir/err"; } ||
	fail "no level for the journal: $(<"$dir/err")"
refuses 78 "$proxy" --config /dev/null --sout tape:0
refuses 78 "$proxy" --config /dev/null --run-dir "$dir" --sout soft:127.999.0.1
refuses 78 "$proxy" --config /dev/null --run-dir "$dir/run" --sout soft:192.0.2.77
# With --check-config, the proxy must refuse every setting that it refuses at
# its start.
for option in "--metrics-listen nonsense" "--peer-addr fe80::1" \
	"--peer-key-file $dir/none" "--peer-key-file $dir"; do
	for check in "" --check-config; do
		# shellcheck disable=SC2086 # words
		refuses 78 "$proxy" --config /dev/null --run-dir "$dir/run" \
			--sout soft:127.0.0.1 $option $check
	done
done
refuses 1 "$proxy" --config /dev/null --run-dir "$dir/conf/run" \
	--sout soft:127.0.0.1

refuses 2 "$ctl" rails -o
refuses 2 "$ctl" nonsense
refuses 2 "$ctl" rails drain
refuses 3 "$ctl" -s "$dir/none" rails

refuses 2 "$monitor" --tab
refuses 2 "$monitor" --tab cables
for number in 0 ' 1' ' -1' -1 1x 4294967297 99999999999999999999; do
	refuses 2 "$monitor" --delay "$number$number"
done
refuses 2 "$monitor" word
refuses 2 "$monitor"

refuses 2 "$agent"
refuses 2 "$agent" --dir
refuses 2 "$agent" static -1
for rule in 'static 1025' static 'static x' 'static 5x' 'drain up' drain \
	'adaptive sup' 'steady 1' nonsense; do
	# shellcheck disable=SC2086 # words
	refuses 2 "$agent" $rule
	grep -qF "mpib-agent: $rule: " "$dir/err" || fail "$rule: $(<"$dir/err")"
done
refuses 1 "$agent" --dir "$dir/conf/agent" adaptive
# Each of these lines must be refused with its number, a text and a remedy.
while IFS='|' read -r line text; do
	printf '\n# x\n%s\n' "$line" >"$dir/rules"
	"$agent" --config "$dir/rules" --check-config >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] && grep -qF "rules:3: $text" "$dir/err" &&
		grep -qF '(' "$dir/err" || fail "$line: $(<"$dir/err")"
done <<EOF
rul static 1|unknown word "rul"
rule|rule: not a rule
rule static 1025|static 1025: not a rule
rule peer 10.0.0 static 1|peer 10.0.0: expected
rule peer|peer : expected
rule network 10.0.0.1/8 static 1|network 10.0.0.1/8: expected
speed up 400|speed: expected sout or sup
speed sup 0|speed: expected sout or sup
sick x|sick: expected
congested up x 1|congested: expected
rule from 2030-01-31 drain sup|from 2030-01-31: expected
rule from 2030-02-31T20:00:00Z drain sup|from 2030-02-31T20:00:00Z: expected
rule from 2030-01-31T20:00:00Z to 2030-01-31T20:00:00Z drain sup|to 2030-01-31T20:00:00Z: expected
hold 0|hold 0: expected seconds
rule 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3|the line has too many words
$(printf '#%0600d' 1)|the line is too long
EOF
mkfifo "$dir/pipe"
refuses 2 "$agent" --config "$dir/pipe" --check-config
printf '%s\n' 'rule peer 10.0.0.1 static 0' 'rule static 1024' >"$dir/rules"
"$agent" --config "$dir/rules" --check-config 2>"$dir/err" ||
	fail "valid rules: $(<"$dir/err")"

refuses 2 "$perf" --plugin
refuses 2 "$perf" --plugin "$dir/none.so"
refuses 2 "$perf" --plugin "$plugin" --nodes "$dir/none" --ranks-per-node 2
for option in '--min 1X' '--factor 1' '--abi 7' '--pattern star' '--order x' \
	'--memory x' '--nodes ,' '--env x' '--timeout 0' 'word' \
	'--ranks-per-node 1' '--pattern pingpong --ranks-per-node 3' \
	"--json $dir/none/at/all" '--env 7:a=b' '--min 2 --max 1' '--chunk 2G --max 2G' \
	'--pattern ring --chunk 5' '--pattern ring --random-sizes 1' \
	'--pattern ring --group 2' '--steady 1 --random-sizes 1' \
	'--steady 1 --pattern ring' '--early-completion --group 2' \
	'--early-completion --pattern ring'; do
	# shellcheck disable=SC2086
	refuses 2 "$perf" --plugin "$plugin" $option
done
for option in '--max=' '--max= ' '--max=4 ' '--max= 4' --max=+4 --max=-4 --max=4KB \
	'--max=4K ' --max=K --max=0x10 --max=4.5 --max=4k4 --max=4@ '--max=4`' \
	--max=1e3 '--max=4 K' --max=16E --max=2048G --max=18446744073709551616 \
	--max=18014398509481984K --max=17179869184G --max=99999999999999999999G \
	--iters=-1 --iters=4294967296 '--warmup=1 ' --channels=0 \
	--channels=4294967297 '--inflight= 1' --seed=18446744073709551616 \
	'--steady=1 s' '--steady= 1s' --steady=0x10s --steady=nans --steady=infs \
	--steady=-1s --timeout=1e9 --timeout=5x --check=2 '--check=1 ' \
	--env=4294967296:A=b '--env=0 :A=b' --env=:A=b --env==b --json=/; do
	refuses 2 "$perf" --plugin "$plugin" "$option"
done
# The default maximum is 64M, or 1M with --random-sizes. A given maximum
# replaces it, in any order: 2G is more than one isend may have.
for option in '--min 65M' '--random-sizes 9 --min 2M' '--random-sizes 9 --max 2G' \
	'--max 2G --random-sizes 9'; do
	# shellcheck disable=SC2086 # words
	refuses 2 "$perf" --plugin "$plugin" $option
done
for option in '--check 0' '-c 0' '--group 2' --early-completion '--random-sizes 9'; do
	# shellcheck disable=SC2086 # words
	refuses 2 "$perf" check a b --plugin "$plugin" $option
done
# Ranks of a launcher with an invalid number, and without the host of rank 0.
RANK=2 WORLD_SIZE=2 MASTER_ADDR=a refuses 2 "$perf" --plugin "$plugin"
RANK=-1 WORLD_SIZE=2 MASTER_ADDR=a refuses 2 "$perf" --plugin "$plugin"
RANK=x WORLD_SIZE=2 MASTER_ADDR=a refuses 2 "$perf" --plugin "$plugin"
RANK=1 WORLD_SIZE=99999999999999999999 MASTER_ADDR=a \
	refuses 2 "$perf" --plugin "$plugin"
RANK=1 WORLD_SIZE=257 MASTER_ADDR=a refuses 2 "$perf" --plugin "$plugin"
RANK=1 WORLD_SIZE=2 refuses 2 "$perf" --plugin "$plugin"
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
	refuses 2 "$perf" --plugin "$plugin"
exit "$failed"
