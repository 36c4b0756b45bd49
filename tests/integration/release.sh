#!/usr/bin/env bash
# release.sh BUILD SOURCE [COMMIT]: build the proxy of the newest release from
# its tag, and run it in a cluster with the proxy of BUILD. Every byte that
# moves between the two proxies must be correct, and both proxies must count the
# same number of bytes. With COMMIT, use the proxy of this commit instead. If
# there is no tag of a release, skip the test.
set -uo pipefail
build=$1 source=$2
commit=${3:-$(git -C "$source" describe --tags --abbrev=0 --match 'v[0-9]*' \
	2>/dev/null)}
if [ -z "$commit" ]; then
	echo "SKIPPED: there is no release, or its tag is missing"
	exit 77
fi
. "$(dirname "$0")/../support/workdir.sh"
mkdir "$dir/source"
if ! { git -C "$source" archive "$commit" | tar -x -C "$dir/source" &&
	cmake -S "$dir/source" -B "$dir/build" -G Ninja -DBUILD_TESTING=OFF &&
	cmake --build "$dir/build" --target mpib-proxy; } >"$dir/log" 2>&1; then
	tail -n 30 "$dir/log"
	echo "the proxy of $commit does not build"
	exit 1
fi
MPIB_TEST_OTHER=$dir/build "$(dirname "$0")/traffic.sh" "$build" release \
	--iters 2 --warmup 1 --pattern alltoall --ranks-per-node 2 --max 4M \
	--factor 8
